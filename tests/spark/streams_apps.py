"""Apps that run on both engines, and what comes out of each."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.records import partition_for_key
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Stream, Streams, Table, col, dead_letter, tumbling, until_close
from tests.streams.broker.apps import Broker, Out, RunningApp, clients

PARTITIONS = 2
NEW_MS = 1_790_000_000_000


def word_count(name: str) -> Streams:
    app = Streams(name, emit="every")
    _word_count(app.stream(f"{name}-lines", str, key=str), f"{name}-out")
    return app


def windowed_join(name: str) -> Streams:
    """Orders with the cities of their customers, counted in windows."""
    app = Streams(name, emit="every")
    _windowed_join(app, app.stream(f"{name}-lines", str, key=str))
    return app


def both(name: str, gate: str = "") -> Streams:
    """A windowed count of joined records, and a word count: two sub-topologies.

    A line `wait` is not done before `gate` is opened, if there is such a gate."""
    app = Streams(name, emit="every")
    lines = app.stream(f"{name}-lines", str, key=str).peek(
        lambda line: Path(gate).read_bytes() if line == "wait" and Path(gate).is_fifo() else None
    )
    _windowed_join(app, lines)
    _word_count(lines, f"{name}-words")
    return app


def _word_count(lines: Stream[str, str], to: str) -> None:
    words = lines.flat_map(str.split).group_by(lambda word: word)
    words.count(name="counts").changes().to(to)


def _windowed_join(app: Streams, lines: Stream[str, str]) -> None:
    name = app.name
    cities = app.table(f"{name}-cities", str, key=str)
    joined = lines.join(cities, lambda order, city: f"{order} in {city}")
    joined.to(f"{name}-joined")
    (
        joined.group_by_key()
        .window(tumbling("10s", grace="5s"))
        .count(name="per-window")
        .changes()
        .map(lambda key, count: (f"{key.key} {key.start}", str(count)))
        .to(f"{name}-out")
    )


def make_topics(servers: str, app: Streams) -> None:
    plan = app.plan()
    own = {topic.name for topic in plan.repartitions}
    names = {*plan.source_topics(), *plan.outputs()} - own
    with Admin(bootstrap_servers=servers) as admin:
        for name in sorted(names):
            admin.create_topic(NewTopic(name, PARTITIONS, 1, {"retention.ms": "-1"}))


def write(servers: str, name: str, first: int, count: int, *, has_cities: bool = True) -> None:
    """Lines of words that belong to the line's key, and cities that change."""
    with Producer(bootstrap_servers=servers) as producer:
        for at in range(first, first + count):
            key = f"k{at % 7}"
            partition = partition_for_key(key.encode(), PARTITIONS)
            where: dict[str, Any] = {"key": key.encode(), "partition": partition}
            at_ms = NEW_MS + 700 * at - (9000 if at % 11 == 0 else 0)
            line = f"{key}-w{at % 3} {key}-w{at % 5}".encode()
            headers = [("at", str(at).encode())] if at % 4 == 0 else []
            producer.send(f"{name}-lines", line, timestamp_ms=at_ms, headers=headers, **where)
            if has_cities and at % 5 == 0:
                city = None if at % 20 == 15 else f"city {at}".encode()
                producer.send(f"{name}-cities", city, timestamp_ms=at_ms, **where)
        producer.flush()


def write_wait(servers: str, name: str, key: str, at: int) -> None:
    """A line that waits at the gate, with the time of line `at`."""
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(
            f"{name}-lines",
            b"wait",
            key=key.encode(),
            partition=partition_for_key(key.encode(), PARTITIONS),
            timestamp_ms=NEW_MS + 700 * at,
        )


class Gate:
    """Where an app waits, in the middle of a batch, until the gate is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._writer: int | None = None

    @property
    def is_reached(self) -> bool:
        """Whether an app waits at it."""
        if self._writer is None:
            with suppress(OSError):  # nobody reads
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        return self._writer is not None

    def waiting(self) -> list[int]:
        """The processes that wait at it."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                opened = {os.readlink(fd) for fd in (each / "fd").iterdir()}
                if str(self.path) in opened and int(each.name) != os.getpid():
                    found.append(int(each.name))
        return found

    def open(self) -> None:
        """Let those that wait go on, and all others pass."""
        self.path.unlink()
        if self._writer is not None:
            os.close(self._writer)


def in_order(outs: list[Out], name: str) -> dict[Any, list[Any]]:
    """The records of each topic, partition and key, in their order."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for each in outs:
        place = (each.topic.removeprefix(name), each.partition, each.key)
        found[place].append((each.value, each.timestamp, each.headers))
    return dict(found)


def comparable(outs: list[Out], name: str) -> dict[Any, list[Any]]:
    """What two engines give the same of `rest_of_dsl`: of the totals, which are told at commits,
    the last one of each key; in headers, no names of the app's topics."""
    plain = [
        each._replace(
            headers=tuple((k, (v or b"").replace(name.encode(), b"")) for k, v in each[5])
        )
        for each in outs
    ]
    return {
        where: told[-1:] if where[0] == "-totals" else told
        for where, told in in_order(plain, name).items()
    }


def outs_of(servers: str, app: Streams) -> list[Out]:
    """All that is in the app's output topics."""
    with Reader(servers, app) as reader:
        return reader.new()


class Reader:
    """Reads an app's output topics, each record once."""

    def __init__(self, servers: str, app: Streams) -> None:
        own = {topic.name for topic in app.plan().repartitions}
        self._names = sorted(app.plan().outputs() - own)
        self._consumer = Consumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=10,
        )

    def __enter__(self) -> Self:
        consumer = self._consumer.__enter__()
        consumer.assign([each for name in self._names for each in consumer.partitions(name)])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def new(self) -> list[Out]:
        """All that is there and was not returned yet."""
        consumer, found = self._consumer, list[Out]()
        ends = consumer.end_offsets(consumer.assignment)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(0.02):
                found += [
                    Out(
                        part.topic, part.partition, each.key, each.value, each.timestamp,
                        tuple(each.headers),
                    )
                    for each in part.records
                ]  # fmt: skip
        return found


class Made(Broker):
    """A broker that has the topics already."""

    async def make(self, topics: Iterable[str], partitions: int = PARTITIONS) -> None:
        """Do nothing."""


def embedded(servers: str, app: Streams, state: Path) -> list[Out]:
    """What the embedded engine makes of the records that are there."""
    found: list[Out] = []

    async def whole(runtime: Runtime) -> None:
        async with (
            clients(servers, runtime) as one,
            RunningApp.of(
                Made(servers, runtime, one.admin, one.producer), app.plan(), str(state)
            ) as running,
        ):
            found.extend(await running.settled())

    run(whole)
    return found


def with_cities(name: str) -> Streams:
    """Lines with the city of a key in them, and the number of lines of each key."""
    app = Streams(name, emit="every")
    cities = app.global_table(f"{name}-cities", str, key=str)
    lines = app.stream(f"{name}-lines", str, key=str)
    joined = lines.left_join(cities, _in_city, key=lambda line: line[:2])
    joined.to(f"{name}-joined")
    joined.group_by_key().count(name="counts").changes().to(f"{name}-out")
    return app


def _in_city(line: str, city: str | None) -> str:
    return f"{line} in {city}"


def rest_of_dsl(name: str) -> Streams:
    """Dead letters, batches of values, an expression, late records, windows that close or are held
    back, a global table, and a table that is told at commits."""
    app = Streams(name, on_error=dead_letter(f"{name}-dead"))
    cities = app.global_table(f"{name}-cities", str, key=str)
    lines = app.stream(f"{name}-lines", str, key=str).map_batch(_upper, type=str)
    known = lines.map_values(_checked).map_values(_line, type=Line)
    long = known.filter(col("words") > 1).map_values(lambda line: line.text, type=str)
    long.left_join(cities, _in_city, key=lambda line: line[:2].lower()).to(f"{name}-joined")
    grouped = long.group_by_key()
    windows = tumbling("5s", grace="1s")
    closed = grouped.window(windows, emit="close").count(name="closed")
    closed.late().to(f"{name}-late")
    _shown(closed, f"{name}-closed")
    held = grouped.window(windows, emit="every").count(name="held")
    _shown(held.suppress(until_close(), name="until-close"), f"{name}-held")
    grouped.count(name="totals").changes().map_values(_told, type=str).to(f"{name}-totals")
    return app


@dataclass(frozen=True)
class Line:
    """A line, and how many words it has."""

    text: str
    words: int


def made_records(name: str, add: Callable[[int, Line], int]) -> Streams:
    """Records of a selection, the sums of an expression, and two streams in one aggregate, with a
    function of another module."""
    app = Streams(name, emit="every")
    lines = app.stream(f"{name}-lines", str, key=str).map_values(_line, type=Line)
    chosen = lines.select("text", double=col("words") * 2)
    chosen.to(f"{name}-chosen")
    sums = chosen.group_by_key().agg(total=col("double").sum(), name="sums")
    sums.changes().to(f"{name}-sums")
    lines.group_by_key().cogroup(add).aggregate(0, name="added").changes().to(f"{name}-added")
    return app


def _line(text: str) -> Line:
    return Line(text, len(text.split()))


def _upper(lines: list[str]) -> list[str]:
    return [line.upper() for line in lines]


def _checked(line: str) -> str:
    if line.endswith("W4"):
        raise ValueError(f"{line} cannot be read")
    return line


def _told(count: int) -> str:
    return f"{count} lines"


def _shown(windows: Table[Any, int], topic: str) -> None:
    shown = windows.changes().map(lambda key, count: (f"{key.key} {key.start}", str(count)))
    shown.to(topic)


def with_lake(name: str, path: str) -> Streams:
    """Lines with the names that a Delta table has for their keys."""
    app = Streams(name, emit="every")
    names = app.lake_table("names", format="delta", path=path, key="id", refresh="1ms")
    lines = app.stream(f"{name}-lines", str, key=str)
    lines.left_join(names, _named).to(f"{name}-out")
    return app


def _named(line: str, row: dict[str, Any] | None) -> str:
    return f"{line} by {'nobody' if row is None else row['name']}"
