"""docs/connect-settings.md and docs/connect-metrics.md, made of what the program declares; `python
-m tests.connect.worker.pages` writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from moldau.connect.rest.exposition import documented
from moldau.connect.worker.kafka_settings import IGNORED, REFUSED
from moldau.connect.worker.kafka_settings_table import EVERY_WORKER, OF_A_GROUP, OF_REST, SettingRow

DOCS = Path(__file__).parents[3] / "docs"
SETTINGS = DOCS / "connect-settings.md"
METRICS = DOCS / "connect-metrics.md"

_SETTINGS_HEAD = """\
# Settings of a Connect worker

They have Kafka Connect's names, so a `worker.properties` of Java's works. Give them to `moldau
connect start` and `moldau connect run` with `--config FILE` or `--set NAME=VALUE`; the later one
wins. A name that nothing reads is a warning with the nearest known one.

Names that begin with `producer.`, `consumer.` or `admin.` are [settings of the
clients](client-settings.md) of connectors, of which a connector may override some
(`producer.override.` and so on, in its own config). `security.protocol`, `sasl.*`, `ssl.*` and the
settings of connections without a prefix go to all clients of the worker
([security.md](security.md)). What a connector itself takes is in the
[reference of plugins](connect-reference.md).

This page is made of the rows that the program reads; `python -m tests.connect.worker.pages` makes
it anew. Names in *italics* are not Kafka's.
"""
_METRICS_HEAD = """\
# Metrics of Connect workers

A worker serves `/metrics` for Prometheus at the address of its REST API, and says at `/health`
whether it works (KIP-1017):

```
moldau connect start --bootstrap localhost:9092 --listen 127.0.0.1:8083
curl localhost:8083/metrics
```

`/healthz` and `/readyz` are for a supervisor, without a login: the process answers; the worker is
in its group and takes requests (503 before).

The series have Kafka Connect's names as Strimzi's rules join them: `put-batch-avg-time-ms` of the
group `sink-task-metrics` is `kafka_connect_sink_task_put_batch_avg_time_ms`.
A worker writes those of its own tasks, so a sum over all workers is that of the cluster.
`docker/monitoring/` has a Grafana board (`grafana-connect.json`), alert rules
(`alerts-connect.yml`) and a configuration of Prometheus (`prometheus.yml`) as files. Spans of
records: [traces.md](traces.md).

## Pushed by OTLP

```
moldau connect start --bootstrap localhost:9092 --otlp http://localhost:4318
export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
moldau connect start --bootstrap localhost:9092
```

The same series go to an OpenTelemetry collector or another receiver of OTLP by http/protobuf, with
the [variables that brokers have](metrics.md#pushed-by-otlp), from `moldau connect run` too. The
setting `moldau.metrics.otlp.endpoint` is `--otlp` in a file. `service.name` is `moldau-connect`;
`service.instance.id` is the worker's address, or of a standalone worker an id that its state
directory keeps. A worker that is stopped pushes its last values. Counters without
`_total` at the end of their names are pushed as gauges, as a collector would rename them.

## Series

This table is made of what the program declares; `python -m tests.connect.worker.pages` makes it
anew.

| name | kind | labels | |
|-|-|-|-|
"""


def settings() -> str:
    """The page of the settings."""
    parts = [
        _SETTINGS_HEAD,
        _table("Every worker", EVERY_WORKER),
        _table("Workers of a group (`moldau connect start`)", OF_A_GROUP),
        _table("The REST API", OF_REST),
        "\n## Without an effect\n\nThese settings of Kafka's are a warning.\n\n",
        "| name | why |\n|-|-|\n",
        *(f"| `{name}` | {reason} |\n" for name, reason in sorted(IGNORED.items())),
        "\n## Refused\n\nThese take only what a worker can serve.\n\n| name | instead |\n|-|-|\n",
        *(f"| `{name}` | {allowed.otherwise} |\n" for name, allowed in sorted(REFUSED.items())),
    ]
    return "".join(parts)


def _table(title: str, rows: Iterable[SettingRow]) -> str:
    lines = [f"\n## {title}\n\n| name | default | |\n|-|-|-|\n"]
    for row in rows:
        name = f"*`{row.name}`*" if row.is_ours else f"`{row.name}`"
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| {name} | {default} | {row.doc} |\n")
    return "".join(lines)


def metrics() -> str:
    """The page of the metrics."""
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{each}`' for each in labels)} | {doc} |\n"
        for name, kind, labels, doc in documented()
    ]
    return _METRICS_HEAD + "".join(rows)


if __name__ == "__main__":
    SETTINGS.write_text(settings())
    METRICS.write_text(metrics())
