"""Random topologies, and the plain model of what they must give.

Seeds make tables and streams out of each other: grouped, counted, keyed anew, joined, filtered, in
chains, diamonds and circles through repartition topics. Whatever two partitions and the network do
to the order of records, each output comes to one end: a table to its rows, a stream to its records.
So functions do not depend on the order in which records of different keys come: counts and sums,
keys that stay apart when they change, and lookups that only look whether they find something.

The model knows no topics and no time: a table is a dict, a stream a list, each made from the whole
input at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from moldau.streams import Stream, Streams, Table

Rows = dict[str, int]
Records = list[tuple[str, int]]
Inputs = dict[str, list[tuple[str, int | None]]]
SOURCES: Final = {"s0": False, "s1": False, "t0": True, "t1": True}
"""The input topics, and whether each is a table."""
KEYS: Final = "abcdefgh"
_STEPS: Final = (4, 9)


@dataclass(frozen=True)
class Node:
    """A stream or a table: in our DSL, and as the model makes it from the inputs."""

    what: str
    node: Any
    rows: Callable[[Inputs], Any]
    origins: frozenset[str] = frozenset()
    """The tables that it changes with, at once."""

    @property
    def is_table(self) -> bool:
        return isinstance(self.node, Table)


class RandomApp:
    """An app of a seed; `outputs` says what each of its output topics must have at the end."""

    def __init__(self, seed: int, name: str) -> None:
        self.app = Streams(name, emit="every" if seed % 2 else "commit")
        self.outputs: dict[str, Node] = {}
        self.text: list[str] = []
        self._random = Random(f"random app {seed}")
        self._name = name
        self._stores = 0
        self._nodes = [self._source(topic) for topic in SOURCES]
        for _ in range(self._random.randint(*_STEPS)):
            self._nodes.append(self._drawn())
        for node in self._nodes[len(SOURCES) :]:
            self._to(node)

    def topic(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _store(self) -> str:
        self._stores += 1
        return f"store-{self._stores}"

    def _source(self, topic: str) -> Node:
        if SOURCES[topic]:
            table = self.app.table(self.topic(topic), int, key=str, name=self._store())
            return Node(topic, table, lambda inputs: _table(inputs[topic]), frozenset({topic}))
        stream = self.app.stream(self.topic(topic), int, key=str)
        return Node(topic, stream, lambda inputs: list(inputs[topic]))

    def _to(self, node: Node) -> None:
        topic = self.topic(f"out-{len(self.outputs)}")
        stream = node.node.changes() if node.is_table else node.node
        stream.to(topic, key=str, type=int)
        self.outputs[topic] = node

    def _drawn(self) -> Node:
        makes = [
            self._counted, self._summed, self._regrouped, self._mapped, self._filtered, self._back,
            self._joined, self._joined, self._by_foreign_key, self._looked_up, self._merged,
        ]  # fmt: skip
        while True:
            made = self._random.choice(makes)()
            if made is not None:
                self.text.append(made.what)
                return made

    def _a_table(self) -> Node:
        # Later ones are likelier, for depth.
        tables = [each for each in self._nodes if each.is_table]
        return self._random.choice([*tables, *tables[-2:]])

    def _a_stream(self) -> Node:
        return self._random.choice([each for each in self._nodes if not each.is_table])

    def _own(self) -> frozenset[str]:
        """The origin of a table that has a store of its own, behind a topic."""
        return frozenset({f"store-{self._stores}"})

    # Streams to tables

    def _counted(self) -> Node:
        before, name = self._a_stream(), self._store()
        if self._random.random() < 0.5:
            table = before.node.group_by_key().count(name=name)
            return self._folded(before, f"count of {before.what}", table, lambda key, value: key, 1)
        table = before.node.group_by(_parity, type=str).count(name=name)
        return self._folded(before, f"count by value of {before.what}", table, _parity_of, 1)

    def _summed(self) -> Node:
        before, name = self._a_stream(), self._store()
        table = before.node.group_by(_parity, type=str).sum(name=name)
        return self._folded(before, f"sum by value of {before.what}", table, _parity_of, None)

    def _folded(
        self, before: Node, what: str, table: Any, by: Callable[[str, int], str], each: int | None
    ) -> Node:
        def rows(inputs: Inputs) -> Rows:
            found: Rows = {}
            for key, value in before.rows(inputs):
                group = by(key, value)
                found[group] = found.get(group, 0) + (value if each is None else each)
            return found

        return Node(what, table, rows, self._own())

    # Tables to tables

    def _regrouped(self) -> Node:
        before, name = self._a_table(), self._store()
        grouped = before.node.group_by(
            lambda key, value: (_parity(value), value), key=str, type=int
        )
        is_sum = self._random.random() < 0.5
        table = grouped.sum(_one_more, name=name) if is_sum else grouped.count(name=name)
        # A group that has lost all of its rows stays, with 0.
        table = table.filter(lambda value: value != 0)

        def rows(inputs: Inputs) -> Rows:
            found: Rows = {}
            for value in before.rows(inputs).values():
                group = _parity(value)
                found[group] = found.get(group, 0) + (value + 1 if is_sum else 1)
            return found

        what = f"{'sum' if is_sum else 'count'} of rows of {before.what}"
        return Node(what, table, rows, self._own())

    def _mapped(self) -> Node:
        before = self._a_table()
        table = before.node.map_values(lambda value: value * 2 + 1, type=int)
        return Node(
            f"map of {before.what}",
            table,
            lambda inputs: {key: value * 2 + 1 for key, value in before.rows(inputs).items()},
            before.origins,
        )

    def _filtered(self) -> Node:
        before = self._a_table()
        table = before.node.filter(lambda value: value % 3 != 0)
        return Node(
            f"filter of {before.what}",
            table,
            lambda inputs: {
                key: value for key, value in before.rows(inputs).items() if value % 3 != 0
            },
            before.origins,
        )

    def _back(self) -> Node:
        """The changes of a table under other keys, as a table again: through another topic."""
        before = self._a_table()
        stream = before.node.changes().select_key(_renamed, type=str)
        table = stream.to_table(name=self._store())
        return Node(
            f"re-key of {before.what}",
            table,
            lambda inputs: {
                _renamed(key, value): value for key, value in before.rows(inputs).items()
            },
            self._own(),
        )

    def _joined(self) -> Node | None:
        left, right = self._a_table(), self._a_table()
        if left is right:
            return None
        kind = self._random.choice(["join", "left_join", "outer_join"])
        table = getattr(left.node, kind)(right.node, _added)._typed(int)

        def rows(inputs: Inputs) -> Rows:
            one, other = left.rows(inputs), right.rows(inputs)
            keys = one.keys() & other.keys()
            if kind != "join":
                keys = one.keys()
            if kind == "outer_join":
                keys = one.keys() | other.keys()
            return {key: _added(one.get(key), other.get(key)) for key in keys}

        return Node(
            f"{kind} of {left.what} and {right.what}", table, rows, left.origins | right.origins
        )

    def _by_foreign_key(self) -> Node | None:
        left, right = self._a_table(), self._a_table()
        kind = self._random.choice(["join", "left_join"])
        join = getattr(left.node, kind)
        table = join(right.node, _added, on=_reference, name=self._store())._typed(int)

        def rows(inputs: Inputs) -> Rows:
            other = right.rows(inputs)
            return {
                key: _added(value, other.get(_reference(value)))
                for key, value in left.rows(inputs).items()
                if kind == "left_join" or _reference(value) in other
            }

        what = f"{kind} of {left.what} and {right.what} by key"
        return Node(what, table, rows, left.origins | self._own())

    # Streams

    def _looked_up(self) -> Node:
        """It looks at a table, at a moment that depends on the order; so only the left side tells.

        Through it topics feed each other in circles.
        """
        before, table = self._a_stream(), self._a_table()
        stream = before.node
        if self._random.random() < 0.5:
            stream = stream.select_key(lambda key, _: key, type=str)
        joined = stream.left_join(table.node, lambda left, _: left, name=self._store())
        typed = joined.map_values(lambda value: value, type=int)
        return Node(f"lookup of {before.what} in {table.what}", typed, before.rows)

    def _merged(self) -> Node:
        one, other = self._a_stream(), self._a_stream()
        stream: Stream[Any, Any] = one.node.merge(other.node.map_values(lambda v: v + 1, type=int))
        return Node(
            f"merge of {one.what} and {other.what}",
            stream,
            lambda inputs: [
                *one.rows(inputs),
                *((key, value + 1) for key, value in other.rows(inputs)),
            ],
        )


def drawn_inputs(seed: int) -> Inputs:
    """Records of all topics; tables have deletions."""
    random = Random(f"random inputs {seed}")
    return {
        topic: [
            (
                random.choice(KEYS),
                None if is_table and random.random() < 0.15 else random.randrange(20),
            )
            for _ in range(30)
        ]
        for topic, is_table in SOURCES.items()
    }


def _table(records: list[tuple[str, int | None]]) -> Rows:
    rows = dict(records)
    return {key: value for key, value in rows.items() if value is not None}


def _parity(value: int) -> str:
    return KEYS[value % 4]


def _parity_of(_: str, value: int) -> str:
    return _parity(value)


def _reference(value: int) -> str:
    return KEYS[value % len(KEYS)]


def _one_more(value: int) -> int:
    return value + 1


def _renamed(key: str, _: object) -> str:
    """Another key for each key, of the same set."""
    return KEYS[len(KEYS) - 1 - KEYS.index(key)]


def _added(left: int | None, right: int | None) -> int:
    return (0 if left is None else left) + (0 if right is None else 3 * right)
