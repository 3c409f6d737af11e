{{- define "moldau.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end -}}

{{- define "moldau.clusterId" -}}
{{- $made := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 16 | b64enc | trimSuffix "==" -}}
{{- .Values.clusterId | default ($made | replace "+" "-" | replace "/" "_") -}}
{{- end -}}

{{- define "moldau.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "moldau.labels" -}}
app.kubernetes.io/name: moldau
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "moldau.voters" -}}
{{- $name := include "moldau.name" . -}}
{{- $count := int .Values.controllers.replicas -}}
{{- $part := "controller" -}}
{{- $first := 100 -}}
{{- if eq $count 0 -}}
{{- $count = int .Values.brokers.replicas -}}{{- $part = "broker" -}}{{- $first = 0 -}}
{{- end -}}
{{- $voters := list -}}
{{- range $i := until $count -}}
{{- $voters = append $voters (printf "%d@%s-%s-%d.%s-%s:9093" (add $first $i) $name $part $i $name $part) -}}
{{- end -}}
{{- join "," $voters -}}
{{- end -}}

{{- define "moldau.bootstrap" -}}{{ include "moldau.name" . }}-bootstrap:9092{{- end -}}

{{- define "moldau.security" -}}
runAsNonRoot: true
runAsUser: 1000
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end -}}
