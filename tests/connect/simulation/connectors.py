"""The connectors of a simulated world: a source of numbered rows, and two sinks into a table.

`Rows` reads rows that the world makes. `Kept` keeps rows until it is flushed (at least once).
`Exact` writes rows and the offset behind them in one step, and begins there (exactly once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api import (
    Connector,
    ExactlyOnceSupport,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Task,
)
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.installed.plugins import catalogue
from moldau.connect.plugins import InstalledPlugin, PluginKind
from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.threads import here

GROUPS: Final = 4
"""The source partitions."""
POLL_MAX: Final = 7


@dataclass
class Table:
    """What the sinks have written: outside of all nodes, so it outlives each."""

    rows: Counter[str] = field(default_factory=Counter)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    places: Counter[tuple[str, int, int]] = field(default_factory=Counter)


@dataclass
class Outside:
    """What is around the workers of one world."""

    random: Random
    on_step: Callable[[str], bool]
    """Called with each step that a task reaches; whether its node dies there."""
    is_calm: bool = False
    """Whether connectors fail no more."""
    made: list[int] = field(default_factory=lambda: [0] * GROUPS)
    """How many rows each source partition has."""
    kept: Table = field(default_factory=Table)
    exact: Table = field(default_factory=Table)
    failures: Counter[str] = field(default_factory=Counter)

    def fails(self, what: str, probability: float) -> bool:
        """Whether this call fails now."""
        if self.is_calm or self.random.random() >= probability:
            return False
        self.failures[what] += 1
        return True

    def reach(self, step: str) -> None:
        """Die here, if the world wants that."""
        if self.on_step(step):
            here().queue().get()

    def rows(self) -> set[str]:
        """Every row that was made."""
        return {f"{group}:{n}" for group, count in enumerate(self.made) for n in range(count)}


_OUTSIDE: list[Outside] = []


def outside() -> Outside:
    """Return what is around the workers."""
    return _OUTSIDE[-1]


@contextmanager
def installed(around: Outside) -> Iterator[None]:
    """Install the connectors during the block."""
    plugins = catalogue()
    for kind in (Rows, Kept, Exact):
        plugin = InstalledPlugin(PluginKind.CONNECTOR, kind, "simulated", "1")
        plugins._single[PluginKind.CONNECTOR, f"simulated.{kind.__name__}"] = plugin
    _OUTSIDE.append(around)
    try:
        yield
    finally:
        _OUTSIDE.remove(around)
        for kind in (Rows, Kept, Exact):
            del plugins._single[PluginKind.CONNECTOR, f"simulated.{kind.__name__}"]


class _Simulated(Connector):
    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)
        if outside().fails("connector start", 0.1):
            raise ConnectError("the connector cannot start now")

    def stop(self) -> None:
        return


class Rows(_Simulated, SourceConnector):
    """Each task reads some of the source partitions."""

    def task_class(self) -> type[Task]:
        return RowsTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, GROUPS)
        return [
            {**self.props, "groups": ",".join(map(str, range(number, GROUPS, count)))}
            for number in range(count)
        ]

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED


class RowsTask(SourceTask):
    """Reads from the stored offsets on."""

    def start(self, props: Mapping[str, str]) -> None:
        self._topic = props["topic"]
        self._next: dict[int, int] = {}
        outside().reach("source start")
        for group in map(int, props["groups"].split(",")):
            stored = self.context.offset_storage_reader.offset({"group": group})
            self._next[group] = 0 if stored is None else int(stored["n"])

    def poll(self) -> Sequence[SourceRecord] | None:
        around = outside()
        around.reach("poll")
        if around.fails("poll again", 0.02):
            raise RetriableError("the source is away")
        if around.fails("poll", 0.005):
            raise ConnectError("the source is broken")
        found: list[SourceRecord] = []
        for group, first in self._next.items():
            end = min(around.made[group], first + POLL_MAX)
            found += (self._record(group, n) for n in range(first, end))
            self._next[group] = max(first, end)
        return found or None

    def _record(self, group: int, n: int) -> SourceRecord:
        row = f"{group}:{n}"
        return SourceRecord({"group": group}, {"n": n + 1}, self._topic, key=row, value=row)


class _Sink(_Simulated, SinkConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props) for _ in range(max_tasks)]


class Kept(_Sink):
    """Writes when it is flushed."""

    def task_class(self) -> type[Task]:
        return KeptTask


class Exact(_Sink):
    """Writes at once, with the offset."""

    def task_class(self) -> type[Task]:
        return ExactTask


class _SinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        outside().reach("sink start")

    def _fail(self) -> None:
        around = outside()
        if around.fails("put again", 0.05):
            self.context.timeout(around.random.choice((10, 500)))
            raise RetriableError("the table is away")
        if around.fails("put", 0.01):
            raise ConnectError("the table is broken")


class KeptTask(_SinkTask):
    """Keeps rows in memory until it is flushed."""

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._rows: list[SinkRecord] = []

    def put(self, records: list[SinkRecord]) -> None:
        outside().reach("put")
        self._fail()
        self._rows += records

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        around = outside()
        around.reach("flush")
        if around.fails("flush", 0.05):
            self._rows.clear()  # the worker goes back to what is committed
            raise ConnectError("the table cannot be flushed")
        rows, self._rows = self._rows, []
        around.kept.rows.update(str(each.value) for each in rows)
        around.reach("flushed")

    def close(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self._rows = [
            each
            for each in self._rows
            if TopicPartition(each.original_topic, each.original_partition) not in gone
        ]


class ExactTask(_SinkTask):
    """Stores the offset beside the rows, and refuses to write where another task went on."""

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._ends: dict[TopicPartition, int] = {}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        around = outside()
        around.reach("open")
        for where in partitions:
            if where in around.exact.offsets:
                self._ends[where] = around.exact.offsets[where]
                self.context.offset({where: self._ends[where]})

    def put(self, records: list[SinkRecord]) -> None:
        outside().reach("put")
        self._fail()
        table = outside().exact
        ends: dict[TopicPartition, int] = {}
        rows: list[SinkRecord] = []
        for each in records:
            where = TopicPartition(each.original_topic, each.original_partition)
            if each.original_offset >= ends.get(where, self._ends.get(where, 0)):
                rows.append(each)
                ends[where] = each.original_offset + 1
        if any(table.offsets.get(where) != self._ends.get(where) for where in ends):
            raise ConnectError("another task has written this partition", node=_node())
        table.offsets.update(ends)
        self._ends.update(ends)
        table.rows.update(str(each.value) for each in rows)
        for each in rows:
            table.places[each.original_topic, each.original_partition, each.original_offset] += 1
        outside().reach("written")

    def pre_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        outside().reach("pre_commit")
        return {where: OffsetAndMetadata(self._ends[where]) for where in offsets
                if where in self._ends}  # fmt: skip

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for where in partitions:
            self._ends.pop(where, None)


def _node() -> str:
    life = CURRENT.get()
    return "" if life is None else life.name
