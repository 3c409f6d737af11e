"""The metrics of a worker: for each task, similar to those of Kafka Streams, for Prometheus.

| here | Kafka Streams |
|-|-|
| moldau.streams.process.records, .duration | process-total, process-latency |
| moldau.streams.commit.duration | commit-total, commit-latency |
| moldau.streams.records.lag, .buffered | records-lag of the consumer, buffered records |
| moldau.streams.records.dropped | dropped-records-total: skipped, dead-lettered, late |
| moldau.streams.restore.offsets, .remaining | restore-total, restore-remaining-records-total |
| moldau.streams.standby.lag | the lags of StreamsMetadata of standby partitions |
| moldau.streams.store.rows, .size | num-entries, estimate of RocksDB's own size |

Each task counts for itself while it runs, which costs nothing; a scrape collects the counts in a
break of the work. Pages that draw an app get the same as plain data: counts only grow while a task
runs, so a reader makes rates of two answers; a task that was made again counts from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.errors import MoldauError
from moldau.metrics import Counter, Family, Gauge, Metric, Registry
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import StoreSize
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.standbys import Standbys
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask
from moldau.tracing import Tracer

_TASK: Final = ("task",)
_STORE: Final = ("task", "store")
GIVEN_UP: Final = "given-up"
Lag = Callable[[TopicPartition], int | None]
Labels = tuple[str, ...]


class _Series:
    """The time series of one metric, replaced as a whole at each scrape."""

    def __init__(self, family: Family[Counter] | Family[Gauge]) -> None:
        self._family = family
        self._known: set[Labels] = set()

    def replace(self, values: Mapping[Labels, int | float]) -> None:
        for gone in self._known - values.keys():
            self._family.remove(*gone)
        for labels, value in values.items():
            self._family.bind(*labels).value = value
        self._known = set(values)


class _StandbySeries:
    """The time series of the copies that a worker keeps."""

    def __init__(self, registry: Registry, standbys: Standbys) -> None:
        self._standbys = standbys
        self._lags = _Series(
            registry.gauges(
                "moldau.streams.standby.lag",
                "Changelog offsets that a copy of a store lacks.",
                labels=_STORE,
            )
        )
        self._given_up = registry.gauge(
            "moldau.streams.standby.given.up",
            "Standby tasks that this worker cannot keep, because their files stay damaged.",
        )

    def look(self) -> None:
        """Take the values of now."""
        self._given_up.value = len(self._standbys.given_up)
        self._lags.replace(
            {
                (str(task_id), store): lag
                for task_id, task in self._standbys.tasks.items()
                for store, lag in self._standbys.lags(task).items()
            }
        )


class WorkerMetrics:
    """The metrics of one worker."""

    def __init__(
        self,
        tasks: Mapping[TaskId, WorkerTask],
        standbys: Standbys,
        gate: Gate,
        lag: Lag,
        tracer: Tracer | None = None,
    ) -> None:
        self._tasks = tasks
        self._standbys = standbys
        self._tracer = tracer
        self._gate = gate
        self._lag = lag
        self._last: tuple[Metric, ...] = ()
        self.registry = registry = Registry()
        self.commit_duration = registry.histogram(
            "moldau.streams.commit.duration", "How long commits of this worker take."
        )
        counters, gauges = registry.counters, registry.gauges
        counter = registry.counter
        self._spans_ended = counter("moldau.streams.spans.ended", "Spans of records.")
        self._spans_dropped = counter(
            "moldau.streams.spans.dropped", "Spans lost: the receiver takes fewer than there are."
        )
        self._states = _Series(
            gauges("moldau.streams.tasks", "Tasks of this worker by state.", labels=("state",))
        )
        self._records = _Series(
            counters("moldau.streams.process.records", "Records processed.", labels=_TASK)
        )
        self._seconds = _Series(
            counters(
                "moldau.streams.process.duration", "Time spent in processing.", "s", labels=_TASK
            )
        )
        self._lags = _Series(
            gauges(
                "moldau.streams.records.lag",
                "Records between the end of an input partition and what the task is done with.",
                labels=("task", "topic", "partition"),
            )
        )
        self._buffered = _Series(
            gauges("moldau.streams.records.buffered", "Fetched records that wait.", labels=_TASK)
        )
        self._dropped = _Series(
            counters(
                "moldau.streams.records.dropped",
                "Records left out: skipped or dead-lettered by a policy, too late, without a key; "
                "replies to topics that are not allowed.",
                labels=("task", "reason", "operator"),
            )
        )
        self._restored = _Series(
            counters("moldau.streams.restore.offsets", "Changelog offsets restored.", labels=_STORE)
        )
        self._remaining = _Series(
            gauges(
                "moldau.streams.restore.remaining", "Changelog offsets to restore.", labels=_STORE
            )
        )
        self._copies = _StandbySeries(registry, standbys)
        self._rows = _Series(
            gauges("moldau.streams.store.rows", "About how many rows a store has.", labels=_STORE)
        )
        self._sizes = _Series(
            gauges("moldau.streams.store.size", "Bytes of a store on disk.", "By", labels=_STORE)
        )

    async def snapshot(self) -> tuple[Metric, ...]:
        """Return the current values of all metrics."""
        self._look_at_tasks()
        if self._tracer is not None:
            self._spans_ended.value = self._tracer.ended
            self._spans_dropped.value = self._tracer.dropped
        rows, sizes, dropped = await self._gate.ask(self._look_at_stores)
        self._rows.replace(rows)
        self._sizes.replace(sizes)
        self._dropped.replace(dropped)
        return self.registry.snapshot()

    async def keep_last(self) -> None:
        """Keep the values of now: the tasks are about to close, and what they counted goes with
        them. A store that cannot be read is no reason to end otherwise."""
        with suppress(MoldauError):
            self._last = await self.snapshot()

    async def last(self) -> tuple[Metric, ...]:
        """Return what `keep_last` has kept; nothing of a worker that did not come to it."""
        return self._last

    def _look_at_tasks(self) -> None:
        tasks = {str(task_id): task for task_id, task in self._tasks.items()}
        copies = self._standbys.tasks
        states = [task.state for task in (*tasks.values(), *copies.values())]
        self._states.replace({(each.value,): states.count(each) for each in TaskState})
        self._records.replace({(name,): task.processed for name, task in tasks.items()})
        self._seconds.replace({(name,): task.seconds for name, task in tasks.items()})
        lags: dict[Labels, int | float] = {}
        buffered: dict[Labels, int | float] = {}
        for name, task in tasks.items():
            waiting = {where: task.task.buffered(where.topic) for where in task.inputs}
            buffered[(name,)] = sum(waiting.values())
            for where, count in waiting.items():
                behind = self._lag(where)
                if behind is not None:
                    lags[name, where.topic, str(where.partition)] = behind + count
        self._lags.replace(lags)
        self._buffered.replace(buffered)
        restoring = [
            ((name, each.store), each)
            for name, task in tasks.items()
            for each in task.restoring.values()
        ]
        self._restored.replace({labels: each.position - each.begin for labels, each in restoring})
        self._copies.look()
        self._remaining.replace(
            {labels: max(0, each.end - each.position) for labels, each in restoring}
        )

    def _look_at_stores(
        self,
    ) -> tuple[dict[Labels, int | float], dict[Labels, int | float], dict[Labels, int | float]]:
        """Collect the values of the stores; runs on the thread that has them."""
        rows: dict[Labels, int | float] = {}
        sizes: dict[Labels, int | float] = {}
        dropped: dict[Labels, int | float] = {}
        for task_id, task in list(self._tasks.items()):
            if task.state is TaskState.CLOSED:
                continue
            name = str(task_id)
            for what, count in task.task.counters().items():
                reason, _, operator = what.partition(" ")
                dropped[name, reason, operator] = count
        for task_id, task in [*self._tasks.items(), *self._standbys.tasks.items()]:
            if task.database is not None and task.state is not TaskState.CLOSED:
                for each in task.database.sizes():
                    rows[str(task_id), each.name] = each.rows
                    sizes[str(task_id), each.name] = each.size_bytes
        return rows, sizes, dropped


class TaskFigures:
    """Reads the progress of the tasks of one worker."""

    def __init__(
        self,
        tasks: Mapping[TaskId, WorkerTask],
        standbys: Standbys,
        gate: Gate,
        lag: Callable[[TopicPartition], int | None],
    ) -> None:
        self._tasks = tasks
        self._standbys = standbys
        self._gate = gate
        self._lag = lag

    async def read(self) -> dict[str, list[dict[str, Any]]]:
        """Return the figures of the tasks, and those of the standbys, as JSON values."""
        copies = [
            {
                "program": task_id.program,
                "partition": task_id.partition,
                "state": TaskState.STANDBY.value,
                "lag": sum(self._standbys.lags(task).values()),
                "positions": {each.store: each.position for each in task.restoring.values()},
            }
            for task_id, task in sorted(self._standbys.tasks.items())
        ]
        copies += [
            {
                "program": task_id.program,
                "partition": task_id.partition,
                "state": GIVEN_UP,
                "reason": reason,
            }
            for task_id, reason in sorted(self._standbys.given_up.items())
        ]
        return {"tasks": await self._gate.ask(self._read), "standbys": copies}

    def _read(self) -> list[dict[str, Any]]:
        """Collect the figures; runs on the thread that has the stores."""
        found = []
        for task_id, task in sorted(self._tasks.items()):
            if task.state is not TaskState.CLOSED:
                inputs = [self._input(task, where) for where in task.inputs]
                found.append(_figures(task_id, task, inputs))
        return found

    def _input(self, task: WorkerTask, where: TopicPartition) -> dict[str, Any]:
        waiting, behind = task.task.buffered(where.topic), self._lag(where)
        begin, end = task.origins.get(where), task.fetched.get(where)
        return {
            "topic": where.topic,
            "done": 0 if begin is None or end is None else max(0, end - begin - waiting),
            "lag": None if behind is None else behind + waiting,
        }


def _figures(task_id: TaskId, task: WorkerTask, inputs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sizes = [] if task.database is None else task.database.sizes()
    dropped = sum(task.task.counters().values())
    return {
        "program": task_id.program,
        "partition": task_id.partition,
        "state": task.state.value,
        "processed": task.processed,
        "seconds": task.seconds,
        "buffered": sum(task.task.buffered(where.topic) for where in task.inputs),
        "dropped": dropped,
        "inputs": list(inputs),
        "stores": [_store(each) for each in sizes],
        "restored": sum(each.position - each.begin for each in task.restoring.values()),
        "to_restore": sum(each.end - each.begin for each in task.restoring.values()),
    }


def _store(size: StoreSize) -> dict[str, Any]:
    return {"name": size.name, "rows": size.rows, "bytes": size.size_bytes}
