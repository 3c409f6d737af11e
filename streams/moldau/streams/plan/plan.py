"""The compiled plan of an app: sub-topologies, their stores and topics, and nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from moldau.deferred import dataclass
from moldau.streams.expressions.tree import Expression
from moldau.streams.plan.operations import Process, Step
from moldau.streams.plan.policies import FAIL, Policy
from moldau.streams.plan.replies import REPLY_TOPICS
from moldau.streams.plan.topics import RepartitionTopic
from moldau.streams.serdes.codec import Codec
from moldau.streams.state.spec import StoreSpec

LakeFormat = Literal["delta", "iceberg", "parquet"]


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table in files of a lake, which every worker holds in full and reads again by version."""

    name: str
    format: LakeFormat
    path: str
    # The column with the key.
    key: str
    value_type: Any
    refresh_ms: int
    # Only rows for which this holds are read.
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A sub-topology: steps that exchange records directly. A task runs it on one partition.

    `steps` are in topological order. `inputs` are topics to subscribe to, repartition topics of
    this app included; `outputs` the topics it writes to that are known beforehand. Topics of a
    group in `copartitioned` must have the same number of partitions, and be partitioned in the same
    way. `feeding` has the topics whose records reach each store, by the name of the store.
    """

    index: int
    app: str
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stores: tuple[StoreSpec, ...]
    copartitioned: tuple[frozenset[str], ...] = ()
    on_error: Policy = FAIL
    # Tables that its steps look up, which are whole in each worker.
    global_tables: tuple[GlobalTable, ...] = ()
    lake_tables: tuple[LakeTable, ...] = ()
    feeding: tuple[tuple[str, frozenset[str]], ...] = ()
    # The names of the topics that replies may go to, as a pattern.
    reply_topics: str = REPLY_TOPICS

    def dead_letters(self) -> set[str]:
        """Return the topics that its policies send failed records to."""
        policies = (self.on_error, *(each.on_error for each in self.steps if each.on_error))
        return {each.dead_letter for each in policies if each.dead_letter is not None}


@dataclass(frozen=True, slots=True)
class GlobalSource:
    """What makes the rows of a global store: `make(context)` returns an object with
    `process(record)`. The codecs are those of the topic."""

    key: Codec
    value: Codec
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A topic that every worker reads in full into a store of its own. Without a `source` its
    records are the rows."""

    topic: str
    store: StoreSpec
    on_error: Policy = FAIL
    source: GlobalSource | None = None

    @property
    def kind(self) -> str:
        """The name of such a table for users."""
        return "global table" if self.source is None else "global store"

    @property
    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of the topic."""
        chosen = self.store if self.source is None else self.source
        return chosen.key, chosen.value

    @property
    def advice(self) -> str:
        """What a user may do about a record that fails."""
        where = self.kind.replace(" ", "_")
        return (
            "every worker reads it: delete the key from the topic, or set "
            f'on_error="skip" on {where}(...)'
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The compiled plan of a whole app."""

    app: str
    programs: tuple[Program, ...]
    repartitions: tuple[RepartitionTopic, ...] = ()
    global_tables: tuple[GlobalTable, ...] = ()
    lake_tables: tuple[LakeTable, ...] = ()

    def source_topics(self) -> tuple[str, ...]:
        """Return the input topics that must exist before the app starts."""
        own = {topic.name for topic in self.repartitions}
        found = {topic for program in self.programs for topic in program.inputs}
        found |= {table.topic for table in self.global_tables}
        return tuple(sorted(found - own))

    def topics(self) -> tuple[str, ...]:
        """Return all topics of the app: those it reads, makes, and writes to, as far as known."""
        found = {*self.source_topics(), *self.changelogs()}
        found |= {topic.name for topic in self.repartitions}
        return tuple(sorted(found | self.outputs()))

    def outputs(self) -> set[str]:
        """Return the topics that it writes to, as far as they are known; those of dead letters
        belong to them."""
        return {
            topic
            for program in self.programs
            for topic in (*program.outputs, *program.dead_letters())
        }

    def clocked_stores(self) -> set[str]:
        """Return the stores that may have rows before any record came: a clock may call the
        operators of users, so it is those of their sub-topologies."""
        return {
            store.name
            for program in self.programs
            if any(isinstance(step.operation, Process) for step in program.steps)
            for store in program.stores
        }

    def changelogs(self) -> dict[str, StoreSpec]:
        """Return the changelog topics that the app makes: name -> store."""
        return {
            topic: store
            for program in self.programs
            for store in program.stores
            if store.source_topic is None and (topic := store.changelog(self.app)) is not None
        }
