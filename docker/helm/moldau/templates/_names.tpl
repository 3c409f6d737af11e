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

{{- define "moldau.inner" -}}
{{- $name := include "moldau.name" . -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.brokers.replicas) -}}
{{- $servers = append $servers (printf "%s-broker-%d.%s-broker:%d" $name $i $name (ternary 9192 9092 $.Values.security.enabled)) -}}
{{- end -}}
{{- join "," $servers -}}
{{- end -}}

{{- /* The names in the certificate of the nodes. */ -}}
{{- define "moldau.hosts" -}}
{{- $name := include "moldau.name" . -}}
{{- $hosts := list "localhost" -}}
{{- $namespace := .Release.Namespace -}}
{{- range $host := list (printf "%s-bootstrap" $name) -}}
{{- $hosts = concat $hosts (list $host (printf "%s.%s" $host $namespace) (printf "%s.%s.svc" $host $namespace) (printf "%s.%s.svc.cluster.local" $host $namespace)) -}}
{{- end -}}
{{- range $part, $own := dict "broker" .Values.brokers "controller" .Values.controllers -}}
{{- range $i := until (int $own.replicas) -}}
{{- $hosts = append $hosts (printf "%s-%s-%d.%s-%s" $name $part $i $name $part) -}}
{{- end -}}
{{- $hosts = append $hosts (printf "*.%s-%s.%s.svc.cluster.local" $name $part $namespace) -}}
{{- end -}}
{{- if .Values.external.enabled -}}{{- $hosts = concat $hosts .Values.external.hosts -}}{{- end -}}
{{- join "," (uniq $hosts) -}}
{{- end -}}

{{- /* The text of a setting. Helm reads numbers as floats, and would write 604800000 as 6.048e+08. */ -}}
{{- define "moldau.setting" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- define "moldau.security" -}}
runAsNonRoot: true
runAsUser: 1000
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
