"""`Streams`, an application: its streams and tables build a graph, and `plan()` compiles it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack, overload

from moldau.streams.dsl.joins import GlobalRows
from moldau.streams.dsl.lakes import lake_table
from moldau.streams.dsl.options import check_options
from moldau.streams.dsl.stores import StateStore, global_spec
from moldau.streams.dsl.stream import Stream
from moldau.streams.dsl.table import Table
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.engine.operators.process import Context
from moldau.streams.expressions.column import Column
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import compiled
from moldau.streams.plan.dead_letters import with_dead_letters
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Step
from moldau.streams.plan.partitioners import Partitioner, partitioning_of
from moldau.streams.plan.patterns import pattern_topic
from moldau.streams.plan.plan import GlobalSource, GlobalTable, LakeFormat, Plan
from moldau.streams.plan.policies import Policy, policy
from moldau.streams.plan.replies import REPLY_TOPICS
from moldau.streams.problems import TopologyError
from moldau.streams.query.asking import AsyncQuery, Bounds, Query
from moldau.streams.query.gate import Running
from moldau.streams.query.lifecycle import AppState, H, L
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import UndeclaredType, codec_for, type_name
from moldau.streams.state.spec import StoreKind, StoreSpec

if TYPE_CHECKING:
    from moldau.streams.spark.engine import SparkApp
    from moldau.streams.testing.driver import Driver

K = TypeVar("K")
V = TypeVar("V")


GUARANTEES: Final = {
    "exactly_once": "exactly_once_v2",
    "at_least_once": "at_least_once",
    "exactly_once_v2": "exactly_once_v2",
}
Topics = str | Sequence[str] | re.Pattern[str]


class SourceOptions(TypedDict, total=False):
    """Options of a source: `timestamp(value, record_time)` chooses the time of a record, `on_error`
    is the policy for records that cannot be read, `partitioner` is that of the topic's writer."""

    timestamp: op.Timestamp | None
    partitioner: Partitioner | None
    on_error: Policy | str | None


class LakeOptions(TypedDict, total=False):
    """Options of a table of a lake: `refresh` is how often the files are looked at (10 s), `where`
    the expression that is true for the rows to keep."""

    refresh: Duration
    where: Column


class Streams:
    """An application: `name` is its consumer group and the prefix of its topics.

    `on_error` is the policy for records that fail. `emit` says when tables emit updates: "commit"
    emits the last update of each key at every commit, "every" emits each update. `processing` says
    what a crash may do: nothing that can be seen, or process some records "at_least_once" more; the
    setting `processing.guarantee` of a run wins. `reply_topics` is a regular expression for the
    names of the topics to which `Stream.reply` may send.
    """

    def __init__(
        self,
        name: str,
        *,
        on_error: Policy | str = "fail",
        emit: Literal["commit", "every"] = "commit",
        processing: Literal["exactly_once", "at_least_once", "exactly_once_v2"] = "exactly_once",
        reply_topics: str | re.Pattern[str] = REPLY_TOPICS,
    ) -> None:
        if not name or not all(
            letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name
        ):
            raise TopologyError(
                f'app name {name!r} must consist of letters, digits, ".", "_" and "-"'
            )
        if emit not in ("commit", "every"):
            raise TopologyError(f'app={name}: emit={emit!r} must be "commit" or "every"')
        if processing not in GUARANTEES:
            raise TopologyError(
                f"app={name}: processing={processing!r} must be one of "
                + ", ".join(f'"{each}"' for each in GUARANTEES)
            )
        self.name = name
        self.guarantee = GUARANTEES[processing]
        """The value of `processing.guarantee` unless a run has another."""
        self._graph = Graph(name, on_error=policy(on_error), emit=op.Emit(emit))
        self._graph.reply_topics = _pattern(name, reply_topics)
        self.running = Running(name)
        """The handle on the worker that runs the app in this process, for queries."""

    @overload
    def stream(
        self,
        topics: Topics,
        value: type[V],
        *,
        key: type[K],
        timestamp: op.Timestamp | None = ...,
        partitioner: Partitioner | None = ...,
        on_error: Policy | str | None = ...,
    ) -> Stream[K, V]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        value: type[V],
        *,
        key: Codec = ...,
        timestamp: op.Timestamp | None = ...,
        partitioner: Partitioner | None = ...,
        on_error: Policy | str | None = ...,
    ) -> Stream[Any, V]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        value: Codec | None = ...,
        *,
        key: Any = ...,
        timestamp: op.Timestamp | None = ...,
        partitioner: Partitioner | None = ...,
        on_error: Policy | str | None = ...,
    ) -> Stream[Any, Any]: ...
    def stream(
        self,
        topics: Topics,
        value: Any = None,
        *,
        key: Any = UndeclaredType,
        timestamp: op.Timestamp | None = None,
        partitioner: Partitioner | None = None,
        on_error: Policy | str | None = None,
    ) -> Stream[Any, Any]:
        """Read topics as a stream: one, several, or all that match `re.compile(...)`.

        `value` and `key` are types or codecs; JSON where none is given. A record may get another
        time, in milliseconds, from `timestamp(value, record_time)`. `partitioner` says how the
        topic was written, "murmur2" if not given: "crc32" as librdkafka does by default, or
        function(key as bytes, partitions). The same topics again are the same stream; with other
        types they are an error.
        """
        names = self._topics(topics)
        kind = Any if value is None else value
        partitioning = partitioning_of(partitioner, f"app={self.name} stream {names[0]}")
        source = op.Source(names, codec_for(key), codec_for(kind), timestamp, partitioning)
        if (known := self._known(source, (key, kind), on_error)) is not None:
            return Stream(self._graph, known)
        return Stream(self._graph, self._source(names, source, (key, kind), on_error))

    def table(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = UndeclaredType,
        name: str | None = None,
        versioned: Duration | None = None,
        **options: Unpack[SourceOptions],
    ) -> Table[Any, Any]:
        """Read a topic as a table: the last value of each key; null deletes.

        Its store is called `name`, or like the topic, and is restored from the topic itself.
        `versioned` keeps the history of each key for this long; joins then look up the value at a
        record's time.
        """
        self._check_topic(topic, "table", "use stream(...).to_table(name=...)")
        kind = Any if value is None else value
        keys, values = codec_for(key), codec_for(kind)
        store = StoreSpec(
            self._graph.claim_store(name or topic, "table"),
            StoreKind.KEY_VALUE if versioned is None else StoreKind.VERSIONED,
            keys,
            values,
            retention_ms=None if versioned is None else milliseconds(versioned, "table versioned"),
            source_topic=topic,
        )
        check_options("table", options, SourceOptions)
        partitioning = partitioning_of(options.get("partitioner"), f"app={self.name} table {topic}")
        timestamp = options.get("timestamp")
        source = op.TableSource((topic,), keys, values, store, timestamp, partitioning)
        step = self._source((topic,), source, (key, kind), options.get("on_error"))
        return Table(self._graph, step)

    def global_table(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = UndeclaredType,
        name: str | None = None,
        on_error: Policy | str | None = None,
    ) -> GlobalRows:
        """Read a whole topic into every worker, so that streams can look up any key of it.

        Every worker reads every record, so a record that cannot be read has only two policies:
        "skip" skips it, "fail" ends the worker.
        """
        self._check_topic(topic, "global_table", "write them to one topic and read that")
        kind = Any if value is None else value
        store = StoreSpec(
            self._graph.claim_store(name or topic, "global_table"),
            StoreKind.KEY_VALUE,
            codec_for(key),
            codec_for(kind),
            is_logged=False,
            source_topic=topic,
        )
        chosen = self._graph.on_error if on_error is None else policy(on_error)
        table = GlobalTable(topic, store, chosen)
        self._graph.global_tables[store.name] = table
        return GlobalRows(self._graph, store.name, kind)

    def global_store(
        self,
        topic: str,
        value: Any = None,
        *,
        store: StateStore,
        make: Callable[[Context], Any],
        key: Any = UndeclaredType,
        on_error: Policy | str | None = None,
    ) -> GlobalRows:
        """Read a whole topic into a store of every worker through an operator of your own:
        process(record) of make(context) changes `context.store(name)` as it likes.

        It runs on each record in each worker, in the order of each partition, also when a store is
        made again from the topic. It forwards nothing and has no timers. Of a record that cannot be
        read, or on which it fails, "skip" leaves nothing behind, and "fail" ends the worker.
        """
        self._check_topic(topic, "global_store", "write them to one topic and read that")
        if not callable(make):
            raise TopologyError(f"global_store: make={make!r:.80} must make an operator")
        spec = global_spec(store, topic)
        self._graph.claim_store(spec.name, "global_store")
        kind = Any if value is None else value
        source = GlobalSource(codec_for(key), codec_for(kind), make)
        chosen = self._graph.on_error if on_error is None else policy(on_error)
        self._graph.global_tables[spec.name] = GlobalTable(topic, spec, chosen, source)
        return GlobalRows(self._graph, spec.name, spec.value.kind or Any)

    def lake_table(
        self,
        name: str,
        value: Any = None,
        *,
        format: LakeFormat,
        path: str | os.PathLike[str],
        key: str,
        **options: Unpack[LakeOptions],
    ) -> GlobalRows:
        """Read a table from the files of a lake into every worker, so that streams can look up any
        key of it: a Delta or Iceberg table, or a file or folder of Parquet.

        `key` is the column with the key, unique in the table; `value` the type of the rows, dict if
        not given. The files are looked at once in `refresh`, and a newer version is taken over
        between two commits. Only rows for which the expression `where` is true are kept.
        """
        kind = Any if value is None else value
        check_options("lake_table", options, LakeOptions)
        refresh = options.get("refresh", "10s")
        what = (kind, format, path, key)
        table = lake_table(self._graph, name, what, refresh, options.get("where"))
        return GlobalRows(self._graph, table.name, kind)

    def plan(self) -> Plan:
        """Return the compiled plan. Raise TopologyError if the topology cannot run."""
        return compiled(self._graph)

    def run(
        self, bootstrap: str = "", *, state: str = "", settings: Mapping[str, object] | None = None
    ) -> None:
        """Run the app in this process until SIGTERM or Ctrl-C; then commit and stop.

        `bootstrap` is host:port of a broker, `state` the directory of the stores; `settings` have
        Kafka's names. For a thread or a program without an event loop of its own.
        """
        from moldau.streams.running import run_process

        run_process(self.plan(), self._given(bootstrap, state, settings), self.running)

    async def run_async(
        self, bootstrap: str = "", *, state: str = "", settings: Mapping[str, object] | None = None
    ) -> None:
        """Run the app as `run` does, on this event loop. Cancel the task to commit and stop."""
        from moldau.streams.running import run_here

        await run_here(self.plan(), self._given(bootstrap, state, settings), self.running)

    @property
    def state(self) -> AppState:
        """The state of the app in this process."""
        return self.running.life.state

    @property
    def is_paused(self) -> bool:
        """Whether the app is paused in this process."""
        return self.running.life.is_paused

    def pause(self) -> None:
        """Process nothing in this process until `resume`, from any thread; also before `run`.

        The worker stays in its group with its tasks: what it has read waits, timers by the wall
        clock stop, commits and standbys go on, and questions are answered.
        """
        self.running.life.is_paused = True

    def resume(self) -> None:
        """Process again what waits since `pause`."""
        self.running.life.is_paused = False

    def on_state_change(self, listener: L) -> L:
        """Call `listener(new, old)` with each AppState that the app comes to in this process.

        It is called on the event loop of the worker, so it must return soon. Usable as a decorator.
        """
        return self.running.life.listen(listener)

    def on_exception(self, handler: H) -> H:
        """Let `handler(error)` say what to do when the worker of this process fails: "replace" it
        by a new one, which begins from the last commit; "stop-worker", as without a handler; or
        "stop-app": the workers of the app stop on all machines. Usable as a decorator.

        A start that fails ends the worker without it. Of processes that `--workers` keeps alive one
        that a handler has stopped is not started again.
        """
        return self.running.life.handle(handler)

    def on_spark(
        self,
        spark: Any,
        *,
        checkpoint: str,
        bootstrap: str = "",
        settings: Mapping[str, object] | None = None,
    ) -> SparkApp:
        """Return this app on a Spark session: `start` it, or `process_available` and stop.

        `checkpoint` is a directory that the driver and all executors reach; it has the stores and
        the offsets. Raise TopologyError for what cannot run on Spark.
        """
        from moldau.streams.spark.engine import SparkApp
        from moldau.streams.spark.preparation import prepared

        self.running.life.require_embedded()
        given = self._given(bootstrap, "", settings)
        return SparkApp(prepared(self.plan(), checkpoint, given), spark)

    async def ask(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        type: Any = Any,
        timeout: Duration = "30s",  # noqa: ASYNC109 - it has its own error
    ) -> Any:
        """Send a request to a topic, and return the reply of the app that reads it, as `Asker.ask`
        does. It uses the connections of the worker of this app in this process, which it waits for,
        from its functions or from any event loop.

        A function of an app waits for what another app, or another worker, replies: a worker does
        not process a request to itself while it waits.
        """
        wait_s = milliseconds(timeout, "ask timeout") / 1000
        return await self.running.request(
            lambda asker: asker.ask(topic, value, key=key, type=type, timeout=timeout), wait_s
        )

    def query(
        self,
        store: str,
        *,
        wait: Duration = 0,
        stale: bool = False,
        at_least: Mapping[int, int] | None = None,
    ) -> Query:
        """Return a query of a store, for threads: it asks the worker of the app in this process.

        `wait` is how long a question waits for the worker to start, for the store to be restored,
        and for the position `at_least`: by partition, the offset that the store must have come to
        in its changelog. With `stale` a standby answers where the task runs at another worker, and
        a store that is being restored; `position` of the query says how far the answer was.
        """
        wait_s = milliseconds(wait, "query wait") / 1000
        bounds = Bounds.of(stale, at_least)
        return Query(lambda question: self.running.ask(store, question, wait_s), bounds)

    def query_async(
        self,
        store: str,
        *,
        wait: Duration = 0,
        stale: bool = False,
        at_least: Mapping[int, int] | None = None,
    ) -> AsyncQuery:
        """Return a query of a store, as `query` does, for coroutines."""
        wait_s = milliseconds(wait, "query wait") / 1000
        bounds = Bounds.of(stale, at_least)
        return AsyncQuery(lambda question: self.running.ask_later(store, question, wait_s), bounds)

    def test(self, *, dead_letters: str = "", **options: Any) -> Driver:
        """Return a driver that runs this app without a broker, in virtual time. `dead_letters` is
        what the setting `errors.dead.letter.queue.topic.name` would say."""
        from moldau.streams.testing.driver import Driver

        return Driver(with_dead_letters(self.plan(), dead_letters), **options)

    def _given(
        self, bootstrap: str, state: str, settings: Mapping[str, object] | None
    ) -> dict[str, object]:
        given: dict[str, object] = {"processing.guarantee": self.guarantee, **(settings or {})}
        if bootstrap:
            given["bootstrap.servers"] = bootstrap
        if state:
            given["state.dir"] = state
        return given

    def _topics(self, topics: Topics) -> tuple[str, ...]:
        if isinstance(topics, re.Pattern):
            return (pattern_topic(topics),)
        names = (topics,) if isinstance(topics, str) else _listed(topics)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TopologyError(f"app={self.name} stream: {topics!r} names no topics")
        return names

    def _known(
        self, wanted: op.Source, types: tuple[Any, Any], on_error: Policy | str | None
    ) -> Step | None:
        """Return the source of these topics if there is one. Raise TopologyError if it differs."""
        topics = wanted.topics
        for step in self._graph.steps.values():
            operation = step.operation
            if not isinstance(operation, op.Source) or operation.topics != topics:
                continue
            names = f"app={self.name} stream: topic {', '.join(topics)}"
            if (step.key_type, step.value_type) != types:
                one, other = (
                    f"(key={type_name(key)}, value={type_name(value)})"
                    for key, value in ((step.key_type, step.value_type), types)
                )
                raise TopologyError(
                    f"{names} is read twice with different types: {one} and {other}; read it with "
                    "one type and map its values"
                )
            chosen = None if on_error is None else policy(on_error)
            ways = (operation.timestamp, operation.partitioning)
            if ways != (wanted.timestamp, wanted.partitioning) or step.on_error != chosen:
                raise TopologyError(
                    f"{names} is read twice with another timestamp=..., partitioner=... or "
                    "on_error=...; read it once and use that stream twice"
                )
            return step
        return None

    def _check_topic(self, topic: object, what: str, advice: str) -> None:
        """Raise TopologyError for anything but the name of one topic."""
        if not isinstance(topic, str) or not topic:
            raise TopologyError(
                f"app={self.name} {what}: {topic!r} is no topic name; for several topics or a "
                f"pattern, {advice}"
            )

    def _source(
        self,
        topics: tuple[str, ...],
        operation: op.Source | op.TableSource,
        types: tuple[Any, Any],
        on_error: Policy | str | None,
    ) -> Step:
        return self._graph.add(
            Step(
                ",".join(topics),
                (),
                operation,
                *types,
                is_table=isinstance(operation, op.TableSource),
                on_error=None if on_error is None else policy(on_error),
            )
        )


def _pattern(app: str, given: str | re.Pattern[str]) -> str:
    """Return a regular expression. Raise TopologyError for what is none."""
    try:
        found: str = re.compile(given).pattern
    except (re.error, TypeError) as error:
        raise TopologyError(f"app={app}: reply_topics={given!r}: {error}") from None
    return found


def _listed(topics: Any) -> tuple[Any, ...]:
    return tuple(topics) if isinstance(topics, Iterable) else ()
