"""Renders docs/metrics.md from the rows of the series and the metrics that a node declares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition.table import rows

if TYPE_CHECKING:
    from moldau.metrics import Metric

_HEAD: Final = """\
# Metrics and health

```
moldau broker start --metrics 9404
curl localhost:9404/metrics
```

`--metrics [HOST:]PORT`, or the setting `moldau.metrics.listener`, works for brokers, controllers
and nodes that are both. A host with [shards](operations.md#use-all-cores-of-a-host) has this one
address: each series has the label `shard`, `/readyz` waits for all shards and names each, and
`/healthz` is 503 if one is stuck, and not if one ended and is started again. It is served while
shards start, end and restart.

| path | 200 | 503 |
|-|-|-|
| `/metrics` | the series below, in Prometheus' text format | |
| `/history` | what the node did in the last 15 minutes, for the charts of the console | it starts |
| `/healthz` | the process works | the node has failed: start it again |
| `/readyz` | clients are served; the controller's quorum has a leader | it starts or stops |

For Prometheus:

```yaml
scrape_configs:
  - job_name: moldau
    static_configs:
      - targets: ["localhost:9404"]
```

[Streams apps](streams-metrics.md), [Connect workers](connect-metrics.md) and [the
registry](registry.md#metrics) have such pages too. `docker/monitoring/` has a Grafana board and
alert rules for each of them, and a configuration of Prometheus, as files. Boards made
for Strimzi or kafka_exporter find their names here too: the third column says whose they are. Each
node writes what it leads or coordinates, so a sum over all nodes is that of the cluster. Lag is
written where the coordinator of the group has a replica of the partition: everywhere in a cluster
of three nodes with three replicas, not everywhere in a larger one. The page of a host with shards
has the lags of all groups and partitions that are on this host, whichever shards have them.

Burrow reads no group here, nor any of Kafka 4: it decodes `__consumer_offsets` itself, and does not
know the versions of records that are in it since. `kafka_consumergroup_lag` has the lag instead.

## The last 15 minutes

A broker takes a sample each 15 s and keeps those of 15 minutes: bytes and records a second and
failed requests, of the node and of each topic, and the lag of groups and topics. `/history` answers
with JSON: the node's numbers, those of `?topic=NAME`, or the lag of `?group=NAME`. The
[console](console.md#over-time) draws them. A topic without traffic and lag costs nothing; 10,000
busy ones take 10 MB, and then the past is 7 minutes long. A lag that this node does not know is
`null`. A look costs the node a tenth of a millisecond.

## Pushed by OTLP

```
moldau broker start --otlp http://localhost:4318
OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 moldau broker start
```

The same series go to an OpenTelemetry collector, or to what else takes OTLP by http/protobuf, each
minute (`OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds). `/v1/metrics` is added to the address. The
other variables of OpenTelemetry count too: `OTEL_EXPORTER_OTLP_HEADERS` (a key of a service),
`_TIMEOUT`, `_COMPRESSION=gzip`, `_CERTIFICATE`, each also with `METRICS_` for metrics alone, and
`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`. A receiver that is gone costs one log line, and
one when it is back; nothing is kept for it, because counters say the whole count each time. A node
that is stopped pushes its last values. Series below that begin with `moldau_` have dots in their
OTLP names, of which a collector's Prometheus exporter makes these names.

A registry [inside a broker](registry.md#inside-brokers) is pushed with it. `--otlp` is there for
[Streams apps](streams-metrics.md#pushed-by-otlp), [Connect workers](connect-metrics.md) and
[registries](registry.md#metrics) of their own too. Spans of records: [traces.md](traces.md).

## What clients push

```
kafka-client-metrics.sh --bootstrap-server localhost:9092 --alter --name all \\
    --metrics org.apache.kafka. --interval 60000
```

Java's clients and librdkafka push their own metrics to a broker that subscribes to them (KIP-714),
while this node passes them on: with `--metrics` or `--otlp`. They stand on the page, and in
what is pushed on, as `kafka_client_...` with the labels `client_id` and `client_instance_id`:
`org.apache.kafka.producer.record.send.total` is `kafka_client_producer_record_send_total`. A
client has at most 1,000 series and all together 20,000 on a node; a client that is silent for three
intervals is forgotten. moldau's own client does not push: it counts in its process.

## Remote storage

With [tiered storage](tiered.md) a broker also writes Kafka's `Remote...` series, for each topic and
in sum. `moldau_tiered_copy_oldest_seconds` is the age of the oldest copy under way: an alert on it
finds a store that hangs, and one on `..._remotecopylagbytes` finds a backlog. Left out are
`RemoteLogSizeComputationTime`, since the size is kept and never computed, and the idle parts of
Kafka's thread pools: there are none here, `moldau_tiered_reads_waiting` and
`moldau_tiered_copies_running` say how busy they would be.

## What to know

The page shows the names of topics and groups, so its address belongs in a private network.
A scrape is gathered in slices of about a millisecond, between which clients are served.

This page is made of the rows that the program writes; `python -m tests.broker.exposition.renew`
makes it anew.
"""


def render(declared: Iterable[Metric]) -> str:
    """Return the whole page. `declared` are the metrics of a node's registry."""
    lines = [
        _HEAD,
        "## With the names of other boards",
        "",
        "| name | labels | of | meaning |",
        "|-|-|-|-|",
    ]
    for row in rows():
        labels = ", ".join(f"`{each}`" for each in row.labels)
        lines.append(f"| `{row.name}` | {labels} | {row.origin} | {row.doc} |")
    lines += ["", "## Our own", "", "| name | kind | meaning |", "|-|-|-|"]
    for metric in declared:
        lines.append(f"| `{metric.prometheus_name}` | {metric.kind.value} | {metric.doc} |")
    return "\n".join((*lines, ""))
