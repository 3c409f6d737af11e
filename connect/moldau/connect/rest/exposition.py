"""Kafka Connect's metrics by their own names, for `/metrics` and OTLP. No IO.

Group and name are joined as Strimzi's rules do, so that boards find them:
`connect-worker-metrics` and `task-count` are `kafka_connect_worker_task_count`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from moldau.connect.herder.operations import Operations, type_of
from moldau.metrics import Metric, MetricKind, Point

DOCS: Final = {
    "connector-count": "Connectors that run on this worker.",
    "task-count": "Tasks that run on this worker.",
    "epoch": "The generation of the group of workers.",
    "status": "1, with the state as a label.",
    "restart-total": "How often the worker has started the failed task again.",
    "sink-record-read-total": "Records read from topics.",
    "sink-record-send-total": "Records passed to the sink.",
    "put-batch-total": "Batches passed to the sink.",
    "put-batch-max-time-ms": "The longest put of the last minute, in milliseconds.",
    "put-batch-avg-time-ms": "The mean time of a put in the last minute, in milliseconds.",
    "poll-batch-max-time-ms": "The longest poll of the last minute that had records.",
    "poll-batch-avg-time-ms": "The mean time of a poll with records in the last minute.",
    "offset-commit-completion-total": "Commits of offsets.",
    "offset-commit-failure-total": "Commits of offsets that failed.",
    "partition-count": "Partitions that the task reads.",
    "sink-record-lag": "Records that are not yet written and committed.",
    "sink-record-unread": "Records that are not read yet.",
    "sink-record-lag-max": "Records that are not read yet, of the partition that has most.",
    "sink-record-missed-total": "Records that were deleted before the task read them.",
    "source-record-poll-total": "Records that the source has returned.",
    "source-record-write-total": "Records written to topics.",
    "source-record-active-count": "Records that are not acknowledged yet.",
    "source-offset-commit-completion-total": "Commits of source offsets.",
    "source-offset-commit-failure-total": "Commits of source offsets that failed.",
    "total-record-failures": "Failures of records.",
    "total-record-errors": "Failures that retries did not cure.",
    "total-records-skipped": "Records left out because of errors.",
    "total-retries": "Retries of operations on records.",
    "total-errors-logged": "Errors written to the log.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter topic.",
    "deadletterqueue-produce-failures": "Records that did not reach the dead letter topic.",
    "last-error-timestamp": "When the last error happened, in milliseconds since 1970.",
}
"""The meanings of metrics by Kafka's names; one that a plugin adds has its name as the meaning."""

Sample = tuple[str, dict[str, str], float]

_ERRORS = ("total-", "deadletterqueue-", "last-error-")


def read_metrics(operations: Operations) -> tuple[Metric, ...]:
    """Return the present metrics of one worker."""
    return metrics_of(
        [*_of_worker(operations), *_of_connectors(operations), *_of_tasks(operations)]
    )


def metrics_of(samples: Sequence[Sample]) -> tuple[Metric, ...]:
    """Return the metrics of samples, those of one name together."""
    points: dict[str, list[Point]] = {}
    for name, labels, value in samples:
        points.setdefault(name, []).append(Point(tuple(labels.items()), value))
    meanings = {name.replace("-", "_"): text for name, text in DOCS.items()}
    return tuple(
        Metric(name, name, _meaning(name, meanings), "", _kind(name), tuple(found))
        for name, found in points.items()
    )


_OF_WORKER: Final = {
    "connector-count": "connect-worker-metrics",
    "task-count": "connect-worker-metrics",
    "epoch": "connect-worker-rebalance-metrics",
}
_CONNECTOR: Final[tuple[str, ...]] = ("connector", "connector_class", "connector_type", "status")
_TASK: Final[tuple[str, ...]] = ("connector", "task")


def documented() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield the name, kind, labels and meaning of each series of a worker."""
    for name, text in DOCS.items():
        if name == "status":
            yield metric_name("connector-metrics", name), "gauge", _CONNECTOR, text
        group, labels = _declared(name)
        full = metric_name(group, name)
        yield full, _kind(full).value, labels, text


def _declared(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the group and the labels of a metric of the worker or of its tasks."""
    if name in _OF_WORKER:
        return _OF_WORKER[name], ()
    if name in ("status", "restart-total"):
        return "connector-task-metrics", (*_TASK, "status") if name == "status" else _TASK
    return _group(name), _TASK


def _kind(name: str) -> MetricKind:
    is_error = "_task_error_" in name and not name.endswith("_timestamp")
    is_counter = is_error or name.endswith("_total")
    return MetricKind.COUNTER if is_counter else MetricKind.GAUGE


def metric_name(group: str, name: str) -> str:
    """Return the Prometheus name of a metric."""
    group = group.removesuffix("-metrics").removeprefix("connect-")
    return f"kafka_connect_{group}_{name}".replace("-", "_").replace(".", "_")


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    """Return the documentation of the longest known name that this one ends with."""
    ends = (known for known in meanings if name.endswith(f"_{known}"))
    known = max(ends, key=len, default=None)
    return name if known is None else meanings[known]


def _of_worker(operations: Operations) -> list[Sample]:
    herder = operations.herder
    tasks = herder.running_tasks()
    group = "connect-worker-metrics"
    return [
        (metric_name(group, "connector-count"), {}, float(herder.connector_count)),
        (metric_name(group, "task-count"), {}, float(len(tasks))),
        (
            metric_name("connect-worker-rebalance-metrics", "epoch"),
            {},
            float(herder.membership.generation),
        ),
    ]


def _of_connectors(operations: Operations) -> list[Sample]:
    found: list[Sample] = []
    for name, status in sorted(operations.herder.statuses.image.connectors.items()):
        entry = operations.herder.configs.image.get(name)
        config = {} if entry is None or entry.config is None else entry.config
        labels = {
            "connector": name,
            "connector_class": config.get("connector.class", ""),
            "connector_type": type_of(config),
            "status": status.state.value.lower(),
        }
        found.append((metric_name("connector-metrics", "status"), labels, 1.0))
    return found


def _of_tasks(operations: Operations) -> list[Sample]:
    herder = operations.herder
    found: list[Sample] = []
    for task in herder.running_tasks():
        labels = {"connector": task.connector, "task": str(task.task)}
        status = herder.statuses.image.tasks.get(task)
        if status is not None:
            state = {**labels, "status": status.state.value.lower()}
            found.append((metric_name("connector-task-metrics", "status"), state, 1.0))
        for name, value in herder.worker.metrics(task).items():
            found.append((metric_name(_group(name), name), labels, value))
        history = herder.core.histories.get(task)
        restarts = 0 if history is None else history.restarts.total
        name = metric_name("connector-task-metrics", "restart-total")
        found.append((name, labels, float(restarts)))
    return found


def _group(name: str) -> str:
    if name.startswith(_ERRORS):
        return "task-error-metrics"
    return "source-task-metrics" if name.startswith(("source-", "poll-")) else "sink-task-metrics"
