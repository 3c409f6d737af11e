"""Scripts as text, and topologies of scripts in our DSL.

A topology is lines of steps: `left = stream one | map-values plus`. A step is an operation with its
words, a line begins with `stream`, `table`, `global` or the name of a line before. `to` and `raw`
write: as text, or as the bytes that a key has in a topic.

An input is `TOPIC KEY VALUE @TIME +HEADER` or `clock MILLISECONDS`, an output looks the same. The
word `null` is a null. StreamsAnswers.java reads the same language. `storeless` asks Kafka for a
table without a store; ours always have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from moldau.streams import (
    StateStore,
    Stream,
    Streams,
    Table,
    hopping,
    session,
    sliding,
    tumbling,
    unlimited,
    until_close,
    until_time,
    within,
)
from moldau.streams.dsl.grouped import Cogrouped
from moldau.streams.dsl.joins import GlobalRows
from moldau.streams.dsl.table import GroupedTable
from moldau.streams.testing.driver import Driver
from tests.streams.kafka import functions as named

Lines = tuple[str, ...]
Answer = list[list[str]]


@dataclass(frozen=True, slots=True)
class Script:
    """What goes in, line by line; `topology` says through what."""

    name: str
    topology: Lines
    inputs: Lines


class Topology:
    """An app that is made of the lines of a topology. `prefix` comes before the names of topics."""

    def __init__(self, lines: Sequence[str], *, name: str = "app", prefix: str = "") -> None:
        self.app = Streams(name, emit="every")
        self.prefix = prefix
        self.sinks: set[str] = set()
        self._names: dict[str, Any] = {}
        self._stores = 0
        for line in lines:
            self._statement(line)

    def _store(self) -> str:
        self._stores += 1
        return f"store-{self._stores - 1}"

    def _statement(self, line: str) -> None:
        left, _, right = line.rpartition(" = ")
        first, *steps = right.split(" | ")
        found = self._source(first.split(" "))
        for step in steps:
            operation, *words = step.strip().split(" ")
            found = self._step(found, operation, words)
        names = left.split(", ") if left else []
        self._names.update(zip(names, found if len(names) > 1 else [found], strict=False))

    def _source(self, words: list[str]) -> Any:
        kind, *rest = words
        if kind == "stream":
            topics = [self.prefix + each for each in rest[0].split(",")]
            return self.app.stream(topics, str, key=str)
        if kind == "table":
            # A table without a store is something that only Kafka has.
            has_history = rest[1:2] == ["versioned"]
            options: Any = {"versioned": int(rest[2])} if has_history else {}
            return self.app.table(
                self.prefix + rest[0], str, key=str, name=self._store(), **options
            )
        if kind == "global":
            return self.app.global_table(self.prefix + rest[0], str, key=str, name=self._store())
        return self._names[kind]

    def _step(self, node: Any, operation: str, words: list[str]) -> Any:
        if operation in ("to", "raw"):
            return self._sink(node, operation, words[0])
        if isinstance(node, Stream):
            return self._on_stream(node, operation, words)
        if isinstance(node, Table):
            return self._on_table(node, operation, words)
        if isinstance(node, GroupedTable):
            return self._aggregated(node, operation, {})
        return self._on_grouped(node, operation, words)

    def _sink(self, node: Any, operation: str, topic: str) -> Any:
        stream = node.changes() if isinstance(node, Table) else node
        self.sinks.add(topic)
        if operation == "to":
            shown = lambda key, value: (named.text(key), named.text(value))  # noqa: E731
            stream = stream.map(shown, key=str, type=str)
        stream.to(self.prefix + topic)
        return node

    def _on_stream(self, node: Stream[Any, Any], operation: str, words: list[str]) -> Any:
        function: Any = named.MAPPERS.get(words[0]) if words else None
        if operation in ("filter", "filter-not"):
            predicate = named.PREDICATES[words[0]]
            return node.filter(predicate) if operation == "filter" else node.filter_not(predicate)
        simple: dict[str, Callable[[], Any]] = {
            "map-values": lambda: node.map_values(function, type=str),
            "flat-map-values": lambda: node.flat_map(function, type=str),
            "select-key": lambda: node.select_key(function, type=str),
            "peek": lambda: node.peek(lambda value: None),
            "merge": lambda: node.merge(self._names[words[0]]),
            "branch": lambda: node.branch(*(named.PREDICATES[word] for word in words)),
            "repartition": lambda: node.repartition(self._store()),
            "to-table": lambda: node.to_table(name=self._store()),
            "group": node.group_by_key,
            "group-by": lambda: node.group_by(function, type=str),
        }
        if operation in simple:
            return simple[operation]()
        if operation == "map":
            other = named.MAPPERS[words[1]]
            both = lambda key, value: (function(key, value), other(key, value))  # noqa: E731
            return node.map(both, key=str, type=str)
        if operation == "flat-map":
            pairs = lambda key, value: [(part, value) for part in function(key, value)]  # noqa: E731
            return node.flat_map_pairs(pairs, key=str, type=str)
        if operation in ("punctuate", "changed"):
            return self._process(node, operation, words)
        return self._joined(node, operation, words)

    def _process(self, node: Stream[Any, Any], operation: str, words: list[str]) -> Any:
        store = self._store()
        if operation == "changed":
            make: Any = lambda context: named.Changed(context, store)  # noqa: E731
        else:
            by, interval = words[0], int(words[1])
            make = lambda context: named.Ticking(context, store, by, interval)  # noqa: E731
        stores = [StateStore(store, key=str, value=str)]
        return node.process(make, name=f"process-{store}", stores=stores, key=str, type=str)

    def _joined(self, node: Stream[Any, Any], operation: str, words: list[str]) -> Any:
        other = self._names[words[0]]
        join: Any = getattr(node, _method(operation))
        if isinstance(other, GlobalRows):
            return join(other, named.joiner, key=named.MAPPERS[words[1]])
        if isinstance(other, Table):
            return join(
                other, named.joiner, grace=_number(words, "grace", None), name=self._store()
            )
        span = within(
            before=_number(words, "before"),
            after=_number(words, "after"),
            grace=_number(words, "grace"),
        )
        return join(other, named.joiner, within=span, name=self._store())

    def _on_grouped(self, node: Any, operation: str, words: list[str]) -> Any:
        if operation == "cogroup":
            other = self._names[words[1]] if len(words) > 1 else node
            if isinstance(node, Cogrouped):
                return node.cogroup(other, named.marked(words[0]))
            return other.cogroup(named.marked(words[0]))
        grace = _number(words, "grace")
        made: dict[str, Callable[[], Any]] = {
            "tumbling": lambda: tumbling(int(words[0]), grace=grace),
            "hopping": lambda: hopping(int(words[0]), advance=int(words[1]), grace=grace),
            "sliding": lambda: sliding(int(words[0]), grace=grace),
            "session": lambda: session(int(words[0]), grace=grace),
            "unlimited": lambda: unlimited(int(words[0])),
        }
        if operation in made:
            return node.window(made[operation](), emit="close" if "close" in words else "every")
        return self._aggregated(node, operation, {"merge": named.merge})

    def _aggregated(self, node: Any, operation: str, options: dict[str, Any]) -> Any:
        name = self._store()
        of_table = isinstance(node, GroupedTable)
        if operation == "count":
            return node.count(name=name)
        if operation == "reduce":
            removers = (_unreduce,) if of_table else ()
            return node.reduce(named.reduce, *removers, name=name)
        if isinstance(node, Cogrouped):
            return node.aggregate(".", name=name, **options, type=str)
        functions = (named.add, named.remove) if of_table else (named.add,)
        return node.aggregate(".", *functions, name=name, **options, type=str)

    def _on_table(self, node: Table[Any, Any], operation: str, words: list[str]) -> Any:
        if operation == "changes":
            return node.changes()
        if operation in ("filter", "filter-not"):
            predicate = named.PREDICATES[words[0]]
            return node.filter(predicate) if operation == "filter" else node.filter_not(predicate)
        if operation == "map-values":
            return node.map_values(named.MAPPERS[words[0]], type=str)
        if operation == "group-by":
            return self._regrouped(node, [named.MAPPERS[word] for word in words])
        if operation == "suppress":
            return node.suppress(_suppression(words), name=self._store())
        other = self._names[words[0]]
        if operation.startswith("fk-"):
            join: Any = getattr(node, _method(operation[3:]))
            return join(other, named.joiner, on=named.MAPPERS[words[1]], name=self._store())
        join = getattr(node, _method(operation))
        return join(other, named.joiner)

    def _regrouped(self, node: Table[Any, Any], functions: list[Any]) -> Any:
        if len(functions) == 1:
            kind = node._step.value_type
            chosen = lambda key, value: (functions[0](key, value), value)  # noqa: E731
            return node.group_by(chosen, key=str, type=kind)
        both = lambda key, value: (functions[0](key, value), functions[1](key, value))  # noqa: E731
        return node.group_by(both, key=str, type=str)


def _unreduce(one: named.Text, other: Any) -> named.Text:
    return named.remove(one, other)


def _method(operation: str) -> str:
    return operation.replace("lookup-global", "join").replace("lookup", "join").replace("-", "_")


def _number(words: list[str], name: str, otherwise: Any = 0) -> Any:
    return int(words[words.index(name) + 1]) if name in words else otherwise


def _suppression(words: list[str]) -> Any:
    if words[0] == "close":
        return until_close()
    full: Literal["emit", "fail"] = "fail" if "fail" in words else "emit"
    return until_time(int(words[1]), max_records=_number(words, "records", None), when_full=full)


def give(driver: Driver, line: str, *, commit: bool = True) -> None:
    """Pipe an input into the driver."""
    words = line.split(" ")
    if words[0] == "clock":
        driver.advance(int(words[1]))
        return
    topic, key, value, time, *headers = words
    row = (_given(key), _given(value), int(time[1:]))
    marks = tuple((mark[1:], b"") for mark in headers)
    driver.pipe_all(topic, [row], headers=marks, commit=commit)


def _given(word: str) -> str | None:
    return None if word == "null" else word


def outputs(driver: Driver, sinks: set[str]) -> list[str]:
    """What came out since the last look."""
    return [
        shown(sink, key, value, time, headers)
        for sink in sorted(sinks)
        for key, value, time, headers in driver.read_bytes(sink)
    ]


def shown(
    sink: str, key: bytes | None, value: bytes | None, time: int, headers: Sequence[tuple[str, Any]]
) -> str:
    """An output record as a line."""
    marks = [f"+{name}" for name, _ in headers]
    return " ".join([sink, _shown(sink, key), _shown("", value), f"@{time}", *marks])


def _shown(sink: str, data: bytes | None) -> str:
    if data is None:
        return "null"
    return data.hex() if sink.startswith("raw") else data.decode()
