"""`/metrics`: Kafka Connect's metrics by their own names, in Prometheus' text format. No IO.

Group and name are joined: `kafka_connect_task_error_metrics_total_retries`.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.herder.operations import Operations, type_of

Sample = tuple[str, dict[str, str], float]

_ERRORS = ("total-", "deadletterqueue-", "last-error-")


def render(operations: Operations) -> str:
    """Return the metrics of one worker."""
    samples = [*_of_worker(operations), *_of_connectors(operations), *_of_tasks(operations)]
    lines: list[str] = []
    for name in dict.fromkeys(sample[0] for sample in samples):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# TYPE {name} {kind}")
        lines += [
            f"{name}{_labels(labels)} {value:g}" for each, labels, value in samples if each == name
        ]
    return "\n".join(lines) + "\n"


def metric_name(group: str, name: str) -> str:
    """Return the Prometheus name of a metric."""
    return f"kafka_connect_{group}_{name}".replace("-", "_").replace(".", "_")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


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
        history = herder.histories.get(task)
        restarts = 0 if history is None else history.total
        name = metric_name("connector-task-metrics", "restart-total")
        found.append((name, labels, float(restarts)))
    return found


def _group(name: str) -> str:
    if name.startswith(_ERRORS):
        return "task-error-metrics"
    return "source-task-metrics" if name.startswith("source-") else "sink-task-metrics"
