"""A task: one program on one partition. It buffers fetched records and runs them in order of time.

Invariants:
* Records of one topic run in the order of their offsets; across topics the lowest time runs first,
  and of equal times the topic named first in the plan.
* The result does not depend on how records were cut into chunks or calls of `process`.
* A position is the offset after the last record that was run, or skipped by a policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, repeat
from operator import itemgetter, length_hint
from typing import Any

from moldau.deferred import dataclass
from moldau.streams.engine.batches import Chunk, Outputs, Turn, merged
from moldau.streams.engine.construction import Store
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.extracted import Stamp, stamps_of
from moldau.streams.engine.failures import BatchFailures, Cause, EmissionUnit, Failures, RecordUnit
from moldau.streams.engine.global_table import LookupTable
from moldau.streams.engine.kept_times import KeptTimes, times_in
from moldau.streams.engine.network import Network
from moldau.streams.engine.operator import UNKNOWN_TIME, Clock
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.restored import RestoredTimes, kept_by_source
from moldau.streams.engine.spans import TaskSpans
from moldau.streams.plan import operations as op
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StateError
from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.state.backing import Backing
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import StoreClock
from moldau.tracing import Tracer

_EMPTY: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """`max_task_idle_ms` is Kafka's setting: how long a task with several inputs waits for records
    of an empty one. 0 waits only while its log has more, -1 never waits. `cache_bytes` is the limit
    of each store's cache. With a `tracer` records of traces get spans."""

    cache_bytes: int = 64 * 1024 * 1024
    max_task_idle_ms: int = 0
    tracer: Tracer | None = None


class Input:
    """The buffered records of one topic."""

    def __init__(self, topic: str, network: Network, stamp: Stamp | None = None) -> None:
        """`stamp` gives the times that decide which input comes first, if not the records' own."""
        self.topic = topic
        self.run = network.runs[topic]
        self.run_one = network.single_runs.get(topic)
        self._stamp = stamp
        self.times: deque[Sequence[int]] = deque()
        self.position: int | None = None
        self.is_at_end = False
        self.count = 0
        self.chunks: deque[Chunk] = deque()
        # How many records of the first chunk have run.
        self.done = 0

    def add(self, chunk: Chunk) -> None:
        if not len(chunk):
            if not self.chunks:
                self.position = chunk.next_offset
            return
        self.chunks.append(chunk)
        self.times.append(chunk.timestamps if self._stamp is None else self._stamp(chunk))
        self.count += len(chunk)

    def advance(self, to: int) -> None:
        """Mark the records of the first chunk before `to` as done."""
        chunk = self.chunks[0]
        self.count -= to - self.done
        self.done = to
        if to == len(chunk):
            self.position = chunk.next_offset
            self.chunks.popleft()
            self.times.popleft()
            self.done = 0
        elif to:
            self.position = chunk.offsets[to - 1] + 1


@dataclass(frozen=True, slots=True)
class UnfinishedBatch:
    """A batch with waiting records. When they are done, all records before `stop` are done."""

    input: Input
    stop: int
    failure: Exception | None

    def last(self) -> int:
        """Return the index of the last record that has run."""
        return max(self.input.done, self.stop - 1)


class Task:
    """Runs a program on a partition. See engine.contract for the order of a commit."""

    def __init__(
        self,
        program: Program,
        partition: int,
        backings: Mapping[str, Backing],
        *,
        settings: TaskSettings | None = None,
        metadata: Iterable[str] = (),
        global_tables: Mapping[str, LookupTable] | None = None,
    ) -> None:
        self.program = program
        self.partition = partition
        self.network = Network(program, backings, global_tables or {})
        self.network.current.partition = partition
        self._settings = settings or TaskSettings()
        self._cache_bytes = self._settings.cache_bytes
        stamps = stamps_of(program) if len(program.inputs) > 1 else {}
        self._inputs = {
            topic: Input(topic, self.network, stamps.get(topic)) for topic in program.inputs
        }
        self._order = list(self._inputs.values())
        self._journal = self.network.journal
        self._failures = Failures(
            program, partition, self.network.outlets, self.positions, self._journal
        )
        self.network.on_error = self._failures.outside
        self.network.emitting = partial(EmissionUnit, self._failures)
        self._idle_since: int | None = None
        self._last_input_ms: int | None = None
        self._idle_base: dict[str, tuple[int, int]] = {}
        self._is_started = False
        self._restored = RestoredTimes()
        # A flush has emitted all updates, and failed ones wait for a retry: nothing else may run.
        self._is_announced = False
        self._unfinished: UnfinishedBatch | None = None
        policies = [program.on_error, *(step.on_error for step in program.steps)]
        is_retrying = any(each is not None and each.retries for each in policies)
        self.may_pause = bool(self.network.deferred) and is_retrying
        self._spans = self._spans_of(self._settings.tracer)
        self._calls: list[AsyncCall] = []
        self._kept_by_source = kept_by_source(program)
        self._kept_times = KeptTimes(f"{program.index}_{partition}")
        self._store_clocks = self._clocks_of_stores()
        for text in metadata:
            self._adopt(text)

    def _spans_of(self, tracer: Tracer | None) -> TaskSpans | None:
        if tracer is None:
            return None
        name = f"{self.program.index}_{self.partition}"
        return TaskSpans(tracer, self.program.app, name, self.partition)

    def _clocks_of_stores(self) -> dict[str, tuple[StoreClock, Clock]]:
        """Return, by names that no operator has, the stores of users with a time of their own and
        the clocks of their operators, of which they may be ahead: a row may be put in the future.
        """
        return {
            f"store/{spec.name}": (store, self.network.clocks[step.name])
            for step in self.program.steps
            if isinstance(step.operation, op.Process)
            for spec in step.operation.stores
            if isinstance(store := self.network.stores[spec.name], StoreClock)
        }

    def add(self, topic: str, chunk: Chunk) -> None:
        self._inputs[topic].add(chunk)

    def set_at_end(self, topic: str, is_at_end: bool) -> None:
        self._inputs[topic].is_at_end = is_at_end

    def buffered(self, topic: str) -> int:
        return self._inputs[topic].count

    def process(self, now_ms: int, limit: int = 500) -> int:
        self._start(now_ms)
        if self._is_announced or self._failures.pending or self._failures.is_waiting(now_ms):
            return 0
        done = 0
        if self._unfinished is not None:
            done = self._finish(now_ms)
        else:
            while done < limit and (ran := self._step(now_ms, limit - done)):
                done += ran
        if done:
            self._last_input_ms = now_ms
            self._trim()
        return done

    def _step(self, now_ms: int, limit: int) -> int:
        """Run up to `limit` records that come before any not yet at hand; return how many."""
        if self._unfinished is not None:
            return 0
        ready = self._ready(now_ms)
        if len(ready) > 1:
            share = max(1, limit // len(ready))
            turn = merged([each.times[0][each.done : each.done + share] for each in ready])
            if self.network.deferred or self._spans is not None:
                turn = turn.stretch()
            inputs = [each for each, count in zip(ready, turn.counts, strict=True) if count]
            if len(inputs) > 1:
                return self._run_merged(ready, turn, now_ms)
            return self._run(inputs[0], inputs[0].done + len(turn.order), now_ms)
        if not ready:
            return 0
        chosen = ready[0]
        stop = min(len(chosen.times[0]), chosen.done + limit)
        return self._run(chosen, stop, now_ms)

    def _ready(self, now_ms: int) -> list[Input]:
        """Return the inputs with records; none while the task waits for records of others."""
        ready = [each for each in self._order if each.count]
        if len(ready) == len(self._order):
            self._idle_since = None
        elif ready and self._must_wait(now_ms):
            return []
        return ready

    def _must_wait(self, now_ms: int) -> bool:
        """Whether records of an empty input may still come that belong before the others'."""
        idle = self._settings.max_task_idle_ms
        if idle < 0:
            return False
        empty = [each for each in self._order if not each.count]
        if idle == 0 or any(not each.is_at_end for each in empty):
            return any(not each.is_at_end for each in empty)
        if self._idle_since is None:
            self._idle_since = now_ms
        return now_ms - self._idle_since < idle

    def _run(self, chosen: Input, stop: int, now_ms: int) -> int:
        chunk, start = chosen.chunks[0], chosen.done
        if self._spans is not None:
            stop = self._spans.begin(chosen.topic, chunk, start, stop)
        times = iter(chunk.timestamps[start:stop])
        headers: Any = repeat(_EMPTY) if chunk.headers is None else chunk.headers[start:stop]
        failure: Exception | None = None
        end = stop

        def index() -> int:
            return end - length_hint(times) - 1

        self.network.follow(chosen.topic, chunk, index)
        unit = RecordUnit(self._failures, lambda: Cause(chosen.topic, chunk, index()))
        self.network.begin(unit)
        try:
            chosen.run(chunk.keys[start:stop], chunk.values[start:stop], times, headers)
        except Exception as error:
            self._journal.roll_back()
            stop = stop - length_hint(times) - 1
            failure = error
        if self.network.deferred:
            self._unfinished = UnfinishedBatch(chosen, stop, failure)
            return self._finish(now_ms)
        try:
            return self._advance(chosen, stop, failure, now_ms)
        finally:
            failure = None  # its traceback, which names the operator, holds this call

    def _run_merged(self, inputs: Sequence[Input], turn: Turn, now_ms: int) -> int:
        """Run records of several inputs in turn; return how many are done."""
        columns: tuple[list[Any], ...] = ([], [], [], [], [])
        for each, count in zip(inputs, turn.counts, strict=True):
            chunk, start, stop = each.chunks[0], each.done, each.done + count
            headers = repeat(_EMPTY, count) if chunk.headers is None else chunk.headers[start:stop]
            columns[0].extend(repeat(each.run_one, count))
            columns[1].extend(chunk.keys[start:stop])
            columns[2].extend(chunk.values[start:stop])
            columns[3].extend(chunk.timestamps[start:stop])
            columns[4].extend(headers)
        runs, keys, values, stamps, all_headers = map(itemgetter(*turn.order), columns)
        times = iter(stamps)
        rows = (runs, keys, values, times, all_headers)
        before = [0, *accumulate(turn.counts)]

        def cause() -> Cause:
            at = len(stamps) - length_hint(times) - 1
            input_at = turn.place(at)
            each = inputs[input_at]
            index = each.done + turn.order[at] - before[input_at]
            return Cause(each.topic, each.chunks[0], index)

        self.network.current.place = lambda: cause().place
        self.network.begin(RecordUnit(self._failures, cause))
        try:
            for run, key, value, time, headers in zip(*rows, strict=True):
                run(key, value, time, headers)
        except Exception as error:
            self._journal.roll_back()
            done = len(stamps) - length_hint(times) - 1
            chosen = inputs[turn.place(done)]
            self._advance_all(inputs, turn.until(done).counts)
            return done + self._settle(chosen, error, now_ms)
        self._advance_all(inputs, turn.counts)
        return len(stamps)

    @staticmethod
    def _advance_all(inputs: Sequence[Input], counts: Sequence[int]) -> None:
        for each, count in zip(inputs, counts, strict=True):
            if count:
                each.advance(each.done + count)

    def _settle(self, chosen: Input, failure: Exception, now_ms: int) -> int:
        """Handle the failure of an input's first record: 1 to go on, 0 to retry it later."""
        cause = Cause(chosen.topic, chosen.chunks[0], chosen.done)
        if not self._failures.decide(cause, failure, now_ms):
            return 0
        chosen.advance(cause.index + 1)
        return 1

    def _advance(self, chosen: Input, stop: int, failure: Exception | None, now_ms: int) -> int:
        """Mark records before `stop` as done, and handle the failure of the one at it, if any."""
        if self._spans is not None:
            self._spans.end(failure)
        done = stop - chosen.done
        chosen.advance(stop)
        return done if failure is None else done + self._settle(chosen, failure, now_ms)

    def _finish(self, now_ms: int) -> int:
        """Continue a batch in which records wait for a function; return how many are done."""
        unfinished = self._unfinished
        assert unfinished is not None
        chosen = unfinished.input
        chunk = chosen.chunks[0]
        for operator in self.network.deferred:
            self._calls += operator.begin(now_ms)
            self.network.follow(chosen.topic, chunk, operator.passing_index)
            on_error = BatchFailures(self._failures, operator, chosen.topic, chunk, now_ms)
            self.network.unit = on_error
            if not operator.finish(on_error, now_ms):
                return 0
        if self._failures.pending:
            return 0  # the next attempt of an emit may lead to a call
        self._unfinished = None
        return self._advance(chosen, unfinished.stop, unfinished.failure, now_ms)

    def is_unfinished(self) -> bool:
        return self._unfinished is not None

    def take_calls(self) -> list[AsyncCall]:
        """Return the coroutines to await; `process` continues when all are finished."""
        calls, self._calls = self._calls, []
        return calls

    def due_ms(self) -> int | None:
        """Return when the next attempt of what has failed is due; None if nothing waits for one.
        Call `punctuate` then, and `process`."""
        rows = (row.due_ms for each in self.network.deferred for row in each.rows)
        dues = (*rows, self._failures.due_ms())
        return min((each for each in dues if each is not None), default=None)

    def punctuate(self, now_ms: int) -> None:
        self._start(now_ms)
        self.network.end()
        was_quiet = self._is_quiet()
        if self._unfinished is not None:
            for deferring in self.network.deferred:
                deferring.index = self._unfinished.last
        for emission in self._failures.take_due(now_ms):
            self.network.attempt(emission)
        last = self._last_input_ms
        if last is None or not was_quiet or not self._is_quiet():
            last = self._last_input_ms = now_ms
        if self._is_announced:
            return
        for name, operator in self.network.operators.items():
            self.network.guarded(name, operator.on_wall_clock)(now_ms)
            if operator.idle_ms is None:
                continue
            base = self._idle_base.get(name)
            if base is None or base[0] != last:
                base = self._idle_base[name] = (last, operator.clock.time)
            if now_ms - last >= operator.idle_ms and base[1] >= 0:
                self.network.guarded(name, operator.advance)(base[1] + now_ms - last)

    def _is_quiet(self) -> bool:
        """Whether all records of the inputs have run, so that `idle` windows wait for none of them.

        A record has not run while it waits for a retry, an async function or another input, nor
        while an update of it waits for a retry.
        """
        return (
            self._unfinished is None
            and not self._failures.pending
            and all(each.is_at_end and not each.count for each in self._order)
        )

    def take_outputs(self) -> list[Outputs]:
        return self.network.outlets.take()

    def flush(self) -> Mapping[str, ChangelogRecords]:
        assert self._unfinished is None, "stores hold records that no position covers"
        self._start(UNKNOWN_TIME)  # a task that goes before it has run
        self.network.end()
        self._check_pending()
        if not self._is_announced:
            for step in self.program.steps:
                operator = self.network.operators.get(step.name)
                if operator is not None:
                    operator.announce()
            self._is_announced = True
            self._check_pending()
        self._is_announced = False
        self.network.current.is_commit_wanted = False
        self.network.current.has_timer_fired = False
        changes = {}
        for name, store in self.network.stores.items():
            found = _flushed(store)
            if len(found) and store.spec.is_logged and store.spec.source_topic is None:
                changes[name] = found
        for operator in self.network.operators.values():
            operator.expire()
        self._trim()
        return changes

    def wants_commit(self) -> bool:
        return self.network.current.is_commit_wanted

    def has_timer_fired(self) -> bool:
        return self.network.current.has_timer_fired

    def close(self) -> None:
        self.network.end()
        for name, operator in self.network.operators.items():
            self.network.guarded(name, operator.end)()

    def _check_pending(self) -> None:
        if self._failures.pending:
            raise EmitsPending(min(each.due_ms for each in self._failures.pending))

    def restore(self, store: str, changes: ChangelogRecords) -> None:
        assert not self._is_started, "a store is restored before its task runs"
        kept = self._kept_by_source.get(store)
        if kept is not None:
            changes = kept(changes)
        self.network.stores[store].restore(changes)
        if changes.timestamps:
            self._restored.advance(store, max(changes.timestamps))

    def expire_restored(self, *, is_last: bool = False) -> None:
        if self._is_started:
            return  # it does that with its commits
        self._restored.expire(self.network.stores, is_last=is_last)
        for operator in self.network.operators.values():
            operator.expire()

    def positions(self) -> Mapping[str, int]:
        return {each.topic: each.position for each in self._order if each.position is not None}

    def store(self, name: str) -> Store:
        return self.network.stores[name]

    def limit_cache(self, size_bytes: int) -> None:
        self._cache_bytes = size_bytes

    def unflushed_bytes(self) -> int:
        return sum(store.unflushed_bytes() for store in self.network.stores.values())

    def counters(self) -> Mapping[str, int]:
        """Return how many records were left out so far: by policies, and by operator: late records,
        those without the key that it needs, and those with a negative time from a source."""
        found = {"skipped": self._failures.skipped, "dead-lettered": self._failures.dead_lettered}
        for name, operator in self.network.operators.items():
            if (late := getattr(operator, "late", 0)) > 0:
                found[f"late {name}"] = late
            if operator.keyless:
                found[f"keyless {name}"] = operator.keyless
        if self.network.outlets.refused:
            found["refused replies"] = self.network.outlets.refused
        found |= {f"keyless {name}": count for name, count in self.network.keyless.items()}
        found |= {f"untimed {name}": count for name, count in self.network.untimed.items()}
        return found

    def metadata(self) -> str:
        times = {name: clock.time for name, clock in self.network.clocks.items() if clock.time >= 0}
        for name, (store, clock) in self._store_clocks.items():
            if store.clock > clock.time:
                times[name] = store.clock
        return self._kept_times.text(times)

    def _adopt(self, text: str) -> None:
        """Take over the stream times of an earlier task. A text of another form is ignored."""
        clocks, stores = self.network.clocks, self._store_clocks
        for name, time in times_in(text, (*clocks, *stores)).items():
            if name in clocks:
                clocks[name].time = max(clocks[name].time, time)
            elif name in stores:
                store = stores[name][0]
                store.clock = max(store.clock, time)

    def _start(self, now_ms: int) -> None:
        if not self._is_started:
            self._is_started = True
            for operator in self.network.operators.values():
                operator.now_ms = now_ms
                operator.start()

    def _trim(self) -> None:
        for store in self.network.stores.values():
            store.trim(self._cache_bytes)


def _flushed(store: Store) -> ChangelogRecords:
    """Flush a store. Raise StateError for a value that its codec cannot write: a function of the
    app has returned another type than it says."""
    try:
        return store.flush()
    except (*UNREADABLE, TypeError, AttributeError) as error:
        raise StateError(
            f"store={store.spec.name}: a value cannot be kept as {store.spec.value.name}: {error}; "
            "return the declared type, or declare the one that is returned"
        ) from error
