"""Metrics of this node and of clients."""

from __future__ import annotations

from moldau.config import (
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    Setting,
    at_least,
    list_of,
    one_of_ignoring_case,
)

# fmt: off
metric_reporters = Setting(
    "metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), check=list_of(),
    dynamic=CLUSTER_WIDE, importance=LOW,
    doc="Plugins that publish metrics.")
moldau_metrics_listener = Setting("moldau.metrics.listener", STRING, None,
    doc="HOST:PORT where the process serves /metrics for Prometheus, /healthz and /readyz; also "
    "`--metrics`. It shows the names of topics and groups. Kafka has no such setting.")
moldau_metrics_otlp_endpoint = Setting("moldau.metrics.otlp.endpoint", STRING, None,
    doc="http://HOST:PORT of an OTLP receiver (http/protobuf) to push the metrics to; also "
    "`--otlp`, and the variable OTEL_EXPORTER_OTLP_ENDPOINT. Kafka has no such setting.")
moldau_metrics_http_config = Setting("moldau.metrics.http.config", STRING, None,
    doc="A file of settings that protect `moldau.metrics.listener`: TLS (`ssl.keystore.location`), "
    "client certificates (`ssl.client.auth`), passwords (`http.users.file`), bearer tokens "
    "(`http.tokens.file`). Kafka has no such setting.")
metrics_num_samples = Setting("metrics.num.samples", INT, 2, check=at_least(1), importance=LOW,
    doc="Over how many samples a metric is computed.")
metrics_sample_window_ms = Setting(
    "metrics.sample.window.ms", LONG, 30_000, check=at_least(1), importance=LOW,
    doc="How long one sample of a metric is gathered.")
metrics_recording_level = Setting(
    "metrics.recording.level", STRING, "INFO", check=one_of_ignoring_case("INFO", "DEBUG", "TRACE"),
    importance=LOW,
    doc="How much is measured: INFO, DEBUG or TRACE.")
kafka_metrics_reporters = Setting(
    "kafka.metrics.reporters", LIST, (), check=list_of(), importance=LOW,
    doc="Classes of Kafka's older metrics library that publish metrics.")
kafka_metrics_polling_interval_secs = Setting(
    "kafka.metrics.polling.interval.secs", INT, 10, check=at_least(1), importance=LOW,
    doc="How often those older reporters publish.")
telemetry_max_bytes = Setting(
    "telemetry.max.bytes", INT, 1_048_576, check=at_least(1), importance=LOW,
    doc="The largest report of metrics that a client may push.")
