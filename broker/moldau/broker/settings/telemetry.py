"""Metrics of this node and of clients."""

from __future__ import annotations

from moldau.config import (
    INT,
    LIST,
    LONG,
    STRING,
    Importance,
    Setting,
    UpdateMode,
    at_least,
    list_of,
    one_of_ignoring_case,
)

metric_reporters = Setting(
    "metric.reporters",
    LIST,
    ("org.apache.kafka.common.metrics.JmxReporter",),
    "Plugins that publish metrics.",
    check=list_of(),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.LOW,
)
moldau_metrics_listener = Setting(
    "moldau.metrics.listener",
    STRING,
    None,
    "HOST:PORT where the process serves /metrics for Prometheus, /healthz and /readyz; also "
    "`--metrics`. It shows the names of topics and groups. Kafka has no such setting.",
)
moldau_metrics_otlp_endpoint = Setting(
    "moldau.metrics.otlp.endpoint",
    STRING,
    None,
    "http://HOST:PORT of an OTLP receiver (http/protobuf) to push the metrics to; also `--otlp`, "
    "and the variable OTEL_EXPORTER_OTLP_ENDPOINT. Kafka has no such setting.",
)
moldau_metrics_http_config = Setting(
    "moldau.metrics.http.config",
    STRING,
    None,
    "A file of settings that protect `moldau.metrics.listener`: TLS (`ssl.keystore.location`), "
    "client certificates (`ssl.client.auth`), passwords (`http.users.file`), bearer tokens "
    "(`http.tokens.file`). Kafka has no such setting.",
)
metrics_num_samples = Setting(
    "metrics.num.samples",
    INT,
    2,
    "Over how many samples a metric is computed.",
    check=at_least(1),
    importance=Importance.LOW,
)
metrics_sample_window_ms = Setting(
    "metrics.sample.window.ms",
    LONG,
    30_000,
    "How long one sample of a metric is gathered.",
    check=at_least(1),
    importance=Importance.LOW,
)
metrics_recording_level = Setting(
    "metrics.recording.level",
    STRING,
    "INFO",
    "How much is measured: INFO, DEBUG or TRACE.",
    check=one_of_ignoring_case("INFO", "DEBUG", "TRACE"),
    importance=Importance.LOW,
)
kafka_metrics_reporters = Setting(
    "kafka.metrics.reporters",
    LIST,
    (),
    "Classes of Kafka's older metrics library that publish metrics.",
    check=list_of(),
    importance=Importance.LOW,
)
kafka_metrics_polling_interval_secs = Setting(
    "kafka.metrics.polling.interval.secs",
    INT,
    10,
    "How often those older reporters publish.",
    check=at_least(1),
    importance=Importance.LOW,
)
telemetry_max_bytes = Setting(
    "telemetry.max.bytes",
    INT,
    1_048_576,
    "The largest report of metrics that a client may push.",
    check=at_least(1),
    importance=Importance.LOW,
)
