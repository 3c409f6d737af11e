"""Run a plan in virtual time, without a broker: with the same tasks, plan and codecs as a worker.

Each topic has one partition. What an app writes to its own repartition topics comes back to it. The
driver commits after each `pipe`; `pipe_all` with commit=False leaves that to `commit()`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.streams.engine.batches import Chunk, Headers, Outputs
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.global_table import GlobalStore
from moldau.streams.engine.parts import Store
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan import operations as op
from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import StreamsError
from moldau.streams.query.answers import answer
from moldau.streams.query.asking import Query
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import ANY_JSON, BYTES, LENIENT_JSON, LENIENT_TEXT, codec_for
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changes import Changes
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import WindowStore
from moldau.streams.testing.shell import await_all


@dataclass(frozen=True, slots=True)
class Record:
    """A record that the app wrote, decoded."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()

    def __iter__(self) -> Iterator[Any]:
        """Yield key and value, so that a record unpacks as (key, value)."""
        return iter((self.key, self.value))


class Driver:
    """An app in virtual time. `batch` is how many records a task runs at a time: results do not
    depend on it. `topics` are the topics that exist, for an app that reads topics by a pattern."""

    def __init__(
        self,
        plan: Plan,
        *,
        batch: int = 500,
        cache_bytes: int = 10 * 1024 * 1024,
        now_ms: int = 0,
        topics: Iterable[str] = (),
    ) -> None:
        plan = self.plan = resolved(plan, matches(plan, topics))
        self.now_ms = now_ms
        self.changelogs: dict[str, Changes] = {}
        self._batch = batch
        self._settings = TaskSettings(cache_bytes=cache_bytes)
        self._own = {topic.name for topic in plan.repartitions}
        self._backings = {
            store.name: MemoryBacking() for program in plan.programs for store in program.stores
        }
        self._offsets: dict[str, int] = {}
        self._written: dict[str, list[Outputs]] = {}
        self._read: dict[str, int] = {}
        self._codecs = _topic_codecs(plan)
        self._tasks: list[Task] = []
        # How many records the app has sent to itself.
        self._sent = 0
        # Whether a commit waits for another attempt of an emit.
        self._is_held = False
        self._global_tables = {
            table.store.name: GlobalStore(table, MemoryBacking()) for table in plan.global_tables
        }
        self._begin([""] * len(plan.programs))

    def pipe(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Send one record to the app, and run it to the end. The time defaults to the driver's."""
        at = self.now_ms if timestamp is None else timestamp
        self.pipe_all(topic, [(key, value, at)], headers=headers)

    def pipe_all(
        self,
        topic: str,
        records: list[tuple[Any, Any, int]],
        *,
        headers: Headers = (),
        commit: bool = True,
    ) -> None:
        """Send records as (key, value, timestamp) to the app, and run them all."""
        self.add(topic, records, headers=headers)
        self.run()
        if commit:
            self.commit()

    def add(
        self, topic: str, records: list[tuple[Any, Any, int]], *, headers: Headers = ()
    ) -> None:
        """Send records as (key, value, timestamp) to the app, to be run later."""
        if topic not in self.plan.source_topics():
            known = ", ".join(self.plan.source_topics())
            raise StreamsError(f"topic={topic}: the app does not read it; it reads {known}")
        key_codec, value_codec = self._codecs[topic]
        self._add(
            topic,
            [None if key is None else key_codec.encode(key) for key, _, _ in records],
            [None if value is None else value_codec.encode(value) for _, value, _ in records],
            [timestamp for _, _, timestamp in records],
            [headers] * len(records) if headers else None,
        )

    def pipe_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp: int = 0
    ) -> None:
        """Send one record as bytes to the app, and run it to the end."""
        self._add(topic, [key], [value], [timestamp], None)
        self.run()
        self.commit()

    def positions(self) -> dict[str, int]:
        """Return the next offset of each input."""
        return {
            topic: position for task in self._tasks for topic, position in task.positions().items()
        }

    def counters(self) -> dict[str, int]:
        """Return how many records were left out so far: by policies, and late ones by operator."""
        found: Counter[str] = Counter()
        for task in self._tasks:
            found.update(task.counters())
        return dict(found)

    def run(self) -> None:
        """Run what is buffered, and what the app sends to itself."""
        is_busy = True
        while is_busy:
            is_busy = False
            for task in self._tasks:
                while task.process(self.now_ms, self._batch) or self._await_calls(task):
                    is_busy = True
                self._deliver(task.take_outputs())
        if any(task.wants_commit() for task in self._tasks) and not self._is_held:
            self.commit()

    def close(self) -> None:
        """Stop as a worker does: the operators of users are closed."""
        for task in self._tasks:
            task.close()

    def _await_calls(self, task: Task) -> bool:
        calls = task.take_calls()
        if calls:
            await_all(calls)
        return bool(calls)

    def commit(self) -> None:
        """Commit each task, as a worker does at its interval."""
        sent, was_held, self._is_held = self._sent, self._is_held, False
        for task in self._tasks:
            flushed: Mapping[str, Changes]
            try:
                flushed = task.flush()
            except EmitsPending:
                flushed = {}  # `advance` tries again
                self._is_held = True
            for store, changes in flushed.items():
                log = self.changelogs.setdefault(store, Changes())
                log.keys += changes.keys
                log.values += changes.values
                log.timestamps += changes.timestamps
            self._deliver(task.take_outputs())
        if self._sent != sent or (was_held and not self._is_held):
            self.run()
            self.commit()

    def advance(self, milliseconds: int) -> None:
        """Advance the wall clock, then run and commit what is due."""
        self.now_ms += milliseconds
        for task in self._tasks:
            task.punctuate(self.now_ms)
            self._deliver(task.take_outputs())
        self.run()
        self.commit()

    def restart(self, *, from_changelog: bool = False) -> None:
        """Stop and start again, with the committed state, or restored from the changelogs."""
        self.close()
        metadata = [task.metadata() for task in self._tasks]
        if from_changelog:
            for store in self.changelogs:
                self._backings[store] = MemoryBacking()
        self._begin(metadata)
        if from_changelog:
            for task in self._tasks:
                for store in task.network.stores:
                    if store in self.changelogs:
                        task.restore(store, self.changelogs[store])

    def read(self, topic: str, *, key: Any = None, type: Any = None) -> list[Record]:
        """Return the records written to `topic` since the last read, decoded as the app wrote them.

        Keys without a declared type are read as text, and values as JSON or else as text.
        """
        found = self.read_bytes(topic)
        own = self._codecs.get(topic, (BYTES, BYTES))
        keys = (LENIENT_TEXT if own[0] is ANY_JSON else own[0]) if key is None else codec_for(key)
        values = (
            (LENIENT_JSON if own[1] is ANY_JSON else own[1]) if type is None else codec_for(type)
        )
        return [
            Record(
                None if key is None else keys.decode(key),
                None if value is None else values.decode(value),
                timestamp,
                headers,
            )
            for key, value, timestamp, headers in found
        ]

    def read_bytes(self, topic: str) -> list[tuple[bytes | None, bytes | None, int, Headers]]:
        """Return the records written to `topic` since the last read, as bytes."""
        return [
            row
            for outputs in self._written.pop(topic, [])
            for row in zip(
                outputs.keys,
                outputs.values,
                outputs.timestamps,
                outputs.headers or [()] * len(outputs),
                strict=True,
            )
        ]

    def query(self, name: str) -> Query:
        """Return a query of a store, as `Streams.query` does."""
        self._queried(name)
        return Query(lambda question: answer(self._queried(name), question))

    def _queried(self, name: str) -> Store:
        if name in self._global_tables:
            return self._global_tables[name].store
        for task in self._tasks:
            if name in task.network.stores:
                return task.store(name)
        known = ", ".join(sorted({*self._backings, *self._global_tables})) or "none"
        raise StreamsError(f"store={name}: the app has no such store; it has {known}")

    def store(self, name: str) -> dict[Any, Any]:
        """Return the rows of a store: key -> value, for windows (key, start) -> value, and for
        sessions (key, start, end) -> value."""
        for task in self._tasks:
            found = task.network.stores.get(name)
            if isinstance(found, KeyValueStore | VersionedStore):
                return {key: entry[0] for key, entry in found.items()}
            if isinstance(found, WindowStore):
                return {(key, start): entry[0] for key, start, entry in found.items()}
            if isinstance(found, SessionStore):
                return {(key, span[1], span[0]): value for key, span, value in found.items()}
        known = ", ".join(sorted(self._backings)) or "none"
        raise StreamsError(f"store={name}: the app has no such store; it has {known}")

    def _begin(self, metadata: list[str]) -> None:
        self._tasks = [
            Task(
                program,
                0,
                {store.name: self._backings[store.name] for store in program.stores},
                settings=self._settings,
                metadata=[text],
                global_tables=self._global_tables,
            )
            for program, text in zip(self.plan.programs, metadata, strict=True)
        ]
        for task in self._tasks:
            for topic in task.program.inputs:
                task.set_at_end(topic, True)

    def _add(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None,
    ) -> None:
        first = self._offsets.get(topic, 0)
        last = self._offsets[topic] = first + len(timestamps)
        chunk = Chunk(range(first, last), timestamps, keys, values, last, headers)
        for task in self._tasks:
            if topic in task.program.inputs:
                task.add(topic, chunk)
        for table in self._global_tables.values():
            if table.table.topic == topic:
                table.apply(chunk)

    def _deliver(self, written: list[Outputs]) -> None:
        inputs = {topic for program in self.plan.programs for topic in program.inputs}
        for outputs in written:
            if outputs.topic not in self._own:
                self._written.setdefault(outputs.topic, []).append(outputs)
            if outputs.topic in inputs:
                self._sent += len(outputs)
                self._add(
                    outputs.topic,
                    outputs.keys,
                    outputs.values,
                    outputs.timestamps,
                    outputs.headers or None,
                )


def _topic_codecs(plan: Plan) -> dict[str, tuple[Codec, Codec]]:
    """Return the codecs by which the app reads or writes each topic; a topic that it both reads and
    writes has those of reading."""
    found: dict[str, tuple[Codec, Codec]] = {}
    for program in plan.programs:
        for step in program.steps:
            operation = step.operation
            if isinstance(operation, op.Sink) and operation.topic is not None:
                found.setdefault(operation.topic, (operation.key, operation.value))
            elif isinstance(operation, op.Source | op.TableSource):
                for topic in operation.topics:
                    found[topic] = (operation.key, operation.value)
    for table in plan.global_tables:
        found[table.topic] = (table.store.key, table.store.value)
    return found
