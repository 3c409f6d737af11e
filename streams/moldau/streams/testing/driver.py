"""Run a plan in virtual time, without a broker: with the layout, tasks and codecs of a worker.

Each input has one partition unless the caller says otherwise. What an app writes to its own
repartition topics comes back to it. The driver commits after each `pipe`; `pipe_all` with
commit=False leaves that to `commit()`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from moldau.deferred import dataclass
from moldau.records import partition_for_key
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.engine.batches import Chunk, Headers, Outputs
from moldau.streams.engine.construction import Store, make_store
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.global_table import GlobalStore
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.lakes.rows import GIVEN, LakeRows
from moldau.streams.plan import operations as op
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.placement import declared_by
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.replies import ReplyAddress, result_of
from moldau.streams.plan.topology import Topology, to_keep
from moldau.streams.problems import ReplyTimeout, StreamsError
from moldau.streams.query.answers import Answer, answer, merged
from moldau.streams.query.asking import Query
from moldau.streams.query.questions import PositionQuestion, Question
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import ANY_JSON, BYTES, LENIENT_JSON, LENIENT_TEXT, codec_for
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.migrating import migrated, require_readable, require_steps
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.spec import StoreSpec
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import WindowStore
from moldau.streams.worker.calls import finish_together

_REPLIES: Final = "driver-replies"
_REPLY_STEP_MS: Final = 100


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record that the app wrote, decoded."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()

    def __iter__(self) -> Iterator[Any]:
        """Yield key and value, so that a record unpacks as (key, value)."""
        return iter((self.key, self.value))


class AnyApp(Protocol):
    """An app."""

    def plan(self) -> Plan: ...


class Driver:
    """An app in virtual time. `batch` is how many records a task runs at a time: results do not
    depend on it. `topics` are the topics that exist, for an app that reads topics by a pattern.

    `partitions` is the partition count of the inputs: one number, or a number for each topic, where
    an input without one gets a count that fits. With several partitions there are as many tasks,
    each with its stores and its stream time, as on a broker; records are divided by their keys, and
    those without a key in turn. An app that cannot run on such topics is refused as by a worker.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        batch: int = 500,
        cache_bytes: int = 10 * 1024 * 1024,
        now_ms: int = 0,
        topics: Iterable[str] = (),
        partitions: int | Mapping[str, int] = 1,
    ) -> None:
        self._otherwise = partitions if isinstance(partitions, int) else 1
        self._given = dict.fromkeys(topics, self._otherwise)
        self._given |= {} if isinstance(partitions, int) else partitions
        self.now_ms = now_ms
        self.changelogs: dict[str, ChangelogRecords] = {}
        self._logs: dict[tuple[str, int], ChangelogRecords] = {}
        self._batch = batch
        self._settings = TaskSettings(cache_bytes=cache_bytes)
        # The next offset of each partition, and how many records without a key each topic has had.
        self._offsets: dict[tuple[str, int], int] = {}
        self._keyless: Counter[str] = Counter()
        self._written: dict[str, list[Outputs]] = {}
        self._tasks: list[Task] = []
        # How many records the app has sent to itself.
        self._sent = 0
        # Whether a commit waits for another attempt of an emit.
        self._is_held = False
        self.is_paused = False
        self._requests = 0
        self._backings: dict[tuple[str, int], MemoryBacking] = {}
        self._global_tables: dict[str, GlobalStore] = {}
        self._global_logs: defaultdict[str, list[tuple[Chunk, int]]] = defaultdict(list)
        self._lakes: dict[str, LakeRows] = {}
        self._lay_out(plan)
        self._begin({})

    def _lay_out(self, plan: Plan) -> None:
        """Take a plan, with the rows that are there of its stores and tables."""
        self.layout = assumed_layout(plan, self._given, self._otherwise)
        plan = self.plan = self.layout.plan
        self._own = {topic.name for topic in plan.repartitions}
        self._backings = {
            where: self._backings.get(where, MemoryBacking())
            for program in plan.programs
            for partition in range(self.layout.tasks(program))
            for store in program.stores
            for where in [(store.name, partition)]
        }
        self._codecs = _topic_codecs(plan)
        self._partitionings = {
            topic: way for each in plan.programs for topic, way in declared_by(each).items()
        }
        tables, lakes = self._global_tables, self._lakes
        self._global_tables = {
            name: GlobalStore(table, tables[name].backing if name in tables else MemoryBacking())
            for table in plan.global_tables
            for name in [table.store.name]
        }
        self._lakes = {
            each.name: lakes.get(each.name) or LakeRows(each) for each in plan.lake_tables
        }

    def pipe(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Send one record to the app, and run it to the end. The time defaults to the driver's, the
        partition to the one that the topic's partitioner chooses."""
        at = self.now_ms if timestamp is None else timestamp
        self.add(topic, [(key, value, at)], headers=headers, partition=partition)
        self.run()
        self.commit()

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
        self,
        topic: str,
        records: list[tuple[Any, Any, int]],
        *,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Send records as (key, value, timestamp) to the app, to be run later."""
        if topic not in self.plan.source_topics():
            known = ", ".join(self.plan.source_topics())
            raise StreamsError(f"topic={topic}: the app does not read it; it reads {known}")
        key_codec, value_codec = self._codecs[topic]
        self._add(
            Outputs(
                topic,
                [None if key is None else key_codec.encode(key) for key, _, _ in records],
                [None if value is None else value_codec.encode(value) for _, value, _ in records],
                [timestamp for _, _, timestamp in records],
                [headers] * len(records) if headers else [],
                [] if partition is None else [partition] * len(records),
                self._partitionings.get(topic),
            )
        )

    def pipe_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp: int = 0
    ) -> None:
        """Send one record as bytes to the app, and run it to the end."""
        self._add(
            Outputs(topic, [key], [value], [timestamp], partitioning=self._partitionings.get(topic))
        )
        self.run()
        self.commit()

    def ask(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        type: Any = Any,
        timestamp: int | None = None,
        timeout: Duration = 0,
    ) -> Any:
        """Send one request to the app, run it to the end, and return its reply, as `Streams.ask`
        does. Raise ReplyTimeout if it sends none, also while the clock advances by `timeout`."""
        self._requests += 1
        address = ReplyAddress(_REPLIES, 0, self._requests.to_bytes(16))
        wanted = address.request_headers()
        self.pipe(topic, value, key=key, timestamp=timestamp, headers=wanted)
        end_ms = self.now_ms + milliseconds(timeout, "ask timeout")
        while True:
            for _, reply, _, found in self.read_bytes(_REPLIES):
                if tuple(found)[:1] == wanted[-1:]:
                    return result_of(topic, found, reply, type)
            if self.now_ms >= end_ms:
                break
            self.advance(min(_REPLY_STEP_MS, end_ms - self.now_ms))
        raise ReplyTimeout(
            f"topic={topic}: the app sends no reply: see that it ends in reply(), and that its "
            f"reply_topics allow {_REPLIES}"
        )

    def positions(self) -> dict[str, int]:
        """Return the next offset of each input; of several partitions as "TOPIC-PARTITION"."""
        return {
            topic if self.layout.counts[topic] == 1 else f"{topic}-{task.partition}": position
            for task in self._tasks
            for topic, position in task.positions().items()
        }

    def counters(self) -> dict[str, int]:
        """Return how many records were left out so far: by policies, and late ones by operator."""
        found: Counter[str] = Counter()
        for task in self._tasks:
            found.update(task.counters())
        return dict(found)

    def run(self) -> None:
        """Run what is buffered, and what the app sends to itself; nothing while it is paused."""
        if self.is_paused:
            return
        self._read_lakes([each for each, rows in self._lakes.items() if not rows.version])
        is_busy = True
        while is_busy:
            is_busy = False
            for task in self._tasks:
                while task.process(self.now_ms, self._batch) or self._await_calls(task):
                    is_busy = True
                self._deliver(task.take_outputs())
        if any(task.wants_commit() for task in self._tasks) and not self._is_held:
            self.commit()

    def pause(self) -> None:
        """Process nothing until `resume`, as `Streams.pause`."""
        self.is_paused = True

    def resume(self) -> None:
        """Process what waits since `pause`, and commit."""
        self.is_paused = False
        self.run()
        self.commit()

    def close(self) -> None:
        """Stop as a worker does: the operators of users are closed."""
        for task in self._tasks:
            task.close()
        for table in self._global_tables.values():
            table.close()

    def give_lake(self, name: str, rows: Iterable[Any]) -> None:
        """Give a lake table these rows, in place of those of its files. Without them the files are
        read before the first record, and again at each commit."""
        if name not in self._lakes:
            known = ", ".join(self._lakes) or "none"
            raise StreamsError(f"the app has no lake table {name!r}; it has {known}")
        self._lakes[name].give(rows)

    def _read_lakes(self, names: Iterable[str]) -> None:
        for lake in (self._lakes[name] for name in names):
            if lake.version != GIVEN and (found := lake.newer()) is not None:
                lake.take(found)

    def _await_calls(self, task: Task) -> bool:
        calls = task.take_calls()
        if calls:
            await_all(calls)
        return bool(calls)

    def commit(self) -> None:
        """Commit each task, as a worker does at its interval."""
        sent, was_held, self._is_held = self._sent, self._is_held, False
        for task in self._tasks:
            if task.is_unfinished():
                continue  # `advance` goes on with its batch
            flushed: Mapping[str, ChangelogRecords]
            try:
                flushed = task.flush()
            except EmitsPending:
                flushed = {}  # `advance` tries again
                self._is_held = True
            for store, changes in flushed.items():
                self._log(store, task.partition, changes)
            self._deliver(task.take_outputs())
        self._read_lakes(self._lakes)
        if self._sent != sent or (was_held and not self._is_held):
            self.run()
            self.commit()

    def _log(self, store: str, partition: int, changes: ChangelogRecords) -> None:
        for log in (
            self.changelogs.setdefault(store, ChangelogRecords()),
            self._logs.setdefault((store, partition), ChangelogRecords()),
        ):
            log.keys += changes.keys
            log.values += changes.values
            log.timestamps += changes.timestamps

    def advance(self, milliseconds: int) -> None:
        """Advance the wall clock, then run and commit what is due."""
        self.now_ms += milliseconds
        for task in () if self.is_paused else self._tasks:
            task.punctuate(self.now_ms)
            self._deliver(task.take_outputs())
        self.run()
        self.commit()

    def restart(self, *, from_changelog: bool = False) -> None:
        """Stop and start again, with the committed state, or restored from the changelogs. Global
        stores and tables are restored from what was piped to their topics."""
        self.close()
        metadata = {_id(task): task.metadata() for task in self._tasks}
        if from_changelog:
            for where in self._backings:
                if where[0] in self.changelogs:
                    self._backings[where] = MemoryBacking()
        for table in self._global_tables.values():
            table.renew(MemoryBacking() if from_changelog else table.backing)
            for chunk, partition in self._global_logs[table.table.topic] if from_changelog else ():
                table.apply(chunk, partition)
        self._begin(metadata)
        for task in self._tasks:
            for store in task.network.stores if from_changelog else ():
                if (log := self._logs.get((store, task.partition))) is not None:
                    task.restore(store, log)
            task.expire_restored(is_last=True)

    def upgrade(self, app: AnyApp) -> None:
        """Stop, and go on with another version of the app, as its workers do: with the committed
        state, and with values of earlier versions migrated. Raise TopologyChanged if a store, an
        input or a repartition topic is gone."""
        plan = app.plan()
        to_keep(plan.app, Topology.of(self.plan), Topology.of(plan), accepts_changes=False)
        before = {each.name: each for program in self.plan.programs for each in program.stores}
        after = {each.name: each for program in plan.programs for each in program.stores}
        versions = {name: each.version for name, each in before.items() if name in after}
        for name, version in versions.items():
            require_readable(after[name], version)
            require_steps(after[name], version, after[name].version)
        self.close()
        metadata = {_id(task): task.metadata() for task in self._tasks}
        self._lay_out(plan)
        for name, partition in self._backings:
            if versions.get(name, after[name].version) < after[name].version:
                self._migrate(after[name], partition, versions[name])
        self._begin(metadata)

    def _migrate(self, store: StoreSpec, partition: int, version: int) -> None:
        rows = self._backings[store.name, partition]
        first: bytes | None = b""
        while first is not None:
            found = migrated(store, (version, store.version), rows, first)
            make_store(store, rows).restore(found.changes)
            self._log(store.name, partition, found.changes)
            first = found.following

    def read(self, topic: str, *, key: Any = None, type: Any = None) -> list[OutputRecord]:
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
            OutputRecord(
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

    def query(
        self,
        name: str,
        *,
        wait: Duration = 0,
        stale: bool = False,
        at_least: Mapping[int, int] | None = None,
    ) -> Query:
        """Return a query of a store, as `Streams.query` does. Its stores are current at any time,
        so that `wait`, `stale` and `at_least` change nothing."""
        milliseconds(wait, "query wait")
        self._queried(name)
        return Query(lambda question: self._answer(name, question))

    def _answer(self, name: str, question: Question | PositionQuestion) -> Answer:
        assert not isinstance(question, PositionQuestion), "its stores have no changelogs"
        stores = self._queried(name)
        return merged(stores[0].spec, question, [answer(store, question) for store in stores])

    def _queried(self, name: str) -> list[Store]:
        """Return the stores of this name, one for each task."""
        if name in self._global_tables:
            return [self._global_tables[name].store]
        found = [task.store(name) for task in self._tasks if name in task.network.stores]
        if not found:
            known = sorted({store for store, _ in self._backings} | self._global_tables.keys())
            raise StreamsError(
                f"store={name}: the app has no such store; it has {', '.join(known) or 'none'}"
            )
        return found

    def store(self, name: str) -> dict[Any, Any]:
        """Return the rows of a store: key -> value, for windows (key, start) -> value, and for
        sessions (key, start, end) -> value."""
        found: dict[Any, Any] = {}
        for store in self._queried(name):
            if isinstance(store, KeyValueStore | VersionedStore):
                found |= {key: entry[0] for key, entry in store.items()}
            elif isinstance(store, WindowStore):
                found |= {(key, start): entry[0] for key, start, entry in store.items()}
            elif isinstance(store, SessionStore):
                found |= {(key, span[1], span[0]): value for key, span, value in store.items()}
            else:
                raise StreamsError(f"store={name}: it holds records that wait, and has no rows")
        return found

    def _begin(self, metadata: Mapping[tuple[int, int], str]) -> None:
        self._tasks = [
            Task(
                program,
                partition,
                {store.name: self._backings[store.name, partition] for store in program.stores},
                settings=self._settings,
                metadata=[metadata.get((program.index, partition), "")],
                global_tables={**self._global_tables, **self._lakes},
            )
            for program in self.plan.programs
            for partition in range(self.layout.tasks(program))
        ]
        for task in self._tasks:
            for topic in task.program.inputs:
                task.set_at_end(topic, True)

    def _add(self, records: Outputs) -> None:
        """Append records to the partitions of their topic, and give them to the tasks."""
        for partition, columns in self._divided(records).items():
            where = (records.topic, partition)
            first = self._offsets.get(where, 0)
            last = self._offsets[where] = first + len(columns)
            headers = columns.headers or None
            chunk = Chunk(
                range(first, last), columns.timestamps, columns.keys, columns.values, last, headers
            )
            for task in self._tasks:
                if records.topic in task.program.inputs and task.partition == partition:
                    task.add(records.topic, chunk)
            for table in self._global_tables.values():
                if table.table.topic == records.topic:
                    table.apply(chunk, partition)
            if records.topic in self._global_topics():
                self._global_logs[records.topic].append((chunk, partition))

    def _global_topics(self) -> set[str]:
        return {table.topic for table in self.plan.global_tables}

    def _divided(self, records: Outputs) -> dict[int, Outputs]:
        """Return the records of each partition, chosen as a producer does."""
        count = self.layout.counts[records.topic]
        if count == 1:
            return {0: records}
        found: dict[int, Outputs] = {}
        partitions = records.chosen(count)
        for at, key in enumerate(records.keys):
            chosen = partitions[at] if partitions else None
            if chosen is None and key is not None:
                chosen = partition_for_key(key, count)
            elif chosen is None:
                chosen = self._keyless[records.topic] % count
                self._keyless[records.topic] += 1
            if not 0 <= chosen < count:
                raise StreamsError(
                    f"topic={records.topic}: there is no partition {chosen}: it has {count}"
                )
            columns = found.setdefault(chosen, Outputs(records.topic))
            columns.keys.append(key)
            columns.values.append(records.values[at])
            columns.timestamps.append(records.timestamps[at])
            columns.headers.append(records.headers[at] if records.headers else ())
        return found

    def _deliver(self, written: list[Outputs]) -> None:
        inputs = set(self.layout.inputs())
        for outputs in written:
            if outputs.topic not in self._own:
                self._written.setdefault(outputs.topic, []).append(outputs)
            if outputs.topic in inputs:
                self._sent += len(outputs)
                self._add(outputs)


def _id(task: Task) -> tuple[int, int]:
    return task.program.index, task.partition


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
        found[table.topic] = table.codecs
    return found


def await_all(calls: Sequence[AsyncCall]) -> None:
    """Run all calls concurrently, and finish each."""
    asyncio.run(finish_together(calls))
