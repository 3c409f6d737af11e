"""docs/streams-metrics.md, made of what a worker declares; `python -m
tests.streams.worker.metrics_page` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.streams.worker.metrics import WorkerMetrics

PAGE = Path(__file__).parents[3] / "docs" / "streams-metrics.md"

_HEAD = """\
# Metrics and health of Streams apps

```
moldau streams run wc:app --bootstrap localhost:9092 --metrics 9405 --workers 2
curl localhost:9405/metrics
```

`--metrics [HOST:]PORT`, or the setting `moldau.metrics.listener`: each of several workers has the
next port. Without a host only programs of the same machine are answered. `--http-config FILE`
protects the page with TLS, passwords, tokens or certificates
([security.md](security.md#http-connects-rest-api-streams-queries-metrics-console-registry)); a
supervisor's questions need no login. `--listen`, which answers queries of the stores, has the same
three pages.

| path | 200 | 503 |
|-|-|-|
| `/metrics` | the series below, in Prometheus' text format | the worker starts |
| `/healthz` | the process answers | |
| `/readyz` | it is in its group, and all its tasks run | the text says which tasks do not |

A worker that the group has no task for is ready. A worker that fails ends its process, so
`/healthz` then answers nothing.

`docker/monitoring/` has a Grafana board (`grafana-streams.json`), alert rules
(`alerts-streams.yml`) and a configuration of Prometheus (`prometheus.yml`) as files. Spans of
records: [traces.md](traces.md).

## Pushed by OTLP

```
moldau streams run wc:app --bootstrap localhost:9092 --otlp http://localhost:4318
export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
moldau streams run wc:app --bootstrap localhost:9092
```

The same series go to an OpenTelemetry collector or another receiver of OTLP by http/protobuf, with
the [variables and names that brokers have](metrics.md#pushed-by-otlp). The setting
`moldau.metrics.otlp.endpoint` is `--otlp` for `app.run()` too. `service.name` is the app, and
`service.instance.id` the worker, so each of several workers pushes its own series. A worker
that is stopped pushes its last values. Variables that cannot be followed, such as one that asks for
gRPC, cost a line of the log.

## Series

This table is made of what the program declares; `python -m tests.streams.worker.metrics_page` makes
it anew.

| name | kind | labels | |
|-|-|-|-|
"""


def render() -> str:
    """The whole page."""
    nothing: Any = None
    rows = []
    for name, kind, labels, doc in WorkerMetrics(
        {}, nothing, nothing, nothing
    ).registry.described():
        shown = ", ".join(f"`{each}`" for each in labels)
        rows.append(f"| `{name}` | {kind.value} | {shown} | {doc} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(render())
