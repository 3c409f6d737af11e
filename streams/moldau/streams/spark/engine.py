"""The driver's part: the sub-topologies of an app, each on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Self, TypeVar

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.runtime.children import Mailbox
from moldau.runtime.threads import here
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.problems import StreamsError
from moldau.streams.spark.failures import first_line
from moldau.streams.spark.inputs import Inputs
from moldau.streams.spark.preparation import Preparation
from moldau.streams.spark.query import SubtopologyQuery
from moldau.streams.spark.waiting import Patience, is_passing

LOG: Final = logging.getLogger("moldau.streams")
_IDLE_S: Final = 0.05
_CANCEL_S: Final = 0.2
_CANCELS_MAX: Final = 150
_SETTLE_S: Final = 2.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AppEnd:
    """The end of the app: the error of a sub-topology, or None after `stop`."""

    error: Exception | None


class SparkApp:
    """An app on a Spark session.

        running = app.on_spark(spark, checkpoint="/shared/app", bootstrap="localhost:9092")
        running.start()
        running.wait()                # until a batch fails, or `stop` from another thread

    Or `process_available()`, which runs all records that are there, and returns: also, after the
    batch that runs, when another thread calls `stop`."""

    def __init__(self, prepared: Preparation, spark: Any) -> None:
        """Nothing runs yet. Raise StreamsError for a session that cannot run apps."""
        plan = prepared.layout.plan
        if not hasattr(spark, "sparkContext") or "connect" in type(spark).__module__:
            prepared.close()
            raise StreamsError(
                f"app={plan.app}: it needs a session with a driver of its own, not Spark Connect: "
                "give a master, such as spark://HOST:7077"
            )
        self._app = plan.app
        self._prepared = prepared
        self._queries = [
            SubtopologyQuery(prepared, each, spark.sparkContext) for each in plan.programs
        ]
        self._inputs = Inputs(prepared.settings, prepared.layout, prepared.checkpoint)
        self._stops: list[Mailbox[bool]] = []
        self._left = Mailbox[bool]()
        """One item for each thread that has ended."""
        self._ended = Mailbox[AppEnd]()
        """What `wait` waits for."""
        self._is_stopping = False
        self._is_over = False
        self._available = here().lock()
        """Held by `process_available`, and by what closes the clients and the checkpoint."""
        self._is_processing = False

    @property
    def records(self) -> int:
        """How many records the committed batches of this driver have run."""
        return sum(each.records for each in self._queries)

    @property
    def restored(self) -> int:
        """How many times a task has read its stores from the checkpoint."""
        return sum(each.restored for each in self._queries)

    def start(self, interval: Duration = 0) -> Self:
        """Start the sub-topologies. A batch begins as soon as there are records, and `interval`
        after the one before it, such as "1s", at the earliest. While brokers are away, it waits."""
        pause_s = milliseconds(interval, "interval") / 1000
        for query in self._queries:
            stop = Mailbox[bool]()
            self._stops.append(stop)
            here().start(partial(self._repeat, query, stop, pause_s), query.name)
        return self

    def wait(self) -> None:
        """Wait until a sub-topology ends. Raise StreamsError if it failed.

        The main thread waits in Python alone, so that no signal interrupts a call of Java."""
        ended = self._ended.take(None)
        with self._short_failures():
            if ended is not None and ended.error is not None:
                raise ended.error

    def process_available(self) -> None:
        """Run all records that are there, and what they lead to in topics that the app writes.
        Return before that, after the batch that runs, if the app stops meanwhile. Raise
        StreamsError if it has stopped already.

        Sub-topologies run one after the other, again until none finds records."""
        with self._processing(), self._short_failures():
            try:
                self._process_available()
            except MoldauError as error:
                if not self._is_stopping or not is_passing(error):
                    raise

    def _process_available(self) -> None:
        patience = Patience(self._app)

        def repeated(work: Callable[[], T]) -> T:
            return patience.run(work, lambda: self._is_stopping)

        until = repeated(self._inputs.source_ends)
        while True:
            has_run = False
            for each in self._queries:
                if self._is_stopping:
                    return
                has_run |= repeated(partial(each.run_batch, self._inputs, until))
            if not has_run and repeated(partial(self._has_settled, until)):
                return

    @contextmanager
    def _processing(self) -> Iterator[None]:
        """Keep the clients and the checkpoint open, and close them at the end if the app stops
        meanwhile."""
        with self._available:
            if self._is_stopping:
                raise StreamsError(f"app={self._app}: it has stopped: make another one")
            self._is_processing = True
            try:
                yield
            finally:
                self._is_processing = False
                self._close_after_batch()

    def stop(self) -> None:
        """Stop the sub-topologies and release the checkpoint. A batch that runs does not count; one
        of `process_available` is waited for."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._stop_threads()
        with self._available:
            if not self._is_processing:  # else it is this very thread, in a signal handler say
                self._close()

    def _stop_threads(self) -> None:
        """End what `start` has started."""
        for stop in self._stops:
            stop.put(True)
        running = len(self._stops)
        for _ in range(_CANCELS_MAX):
            if not running:
                break
            for query in self._queries:
                query.cancel()
            running -= bool(self._left.take(_CANCEL_S))
        self._ended.put(AppEnd(None))

    def _close_after_batch(self) -> None:
        if self._is_stopping:
            self._close()

    def _close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._inputs.close()
            self._prepared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _repeat(self, query: SubtopologyQuery, stop: Mailbox[bool], pause_s: float) -> None:
        """Run batches until the app stops, or one fails."""
        threads, error, patience = here(), None, Patience(query.name)
        run = partial(query.run_batch, self._inputs)
        try:
            while not self._is_stopping:
                begin = threads.monotonic()
                ran = patience.run(run, lambda: self._is_stopping)
                left_s = begin + pause_s - threads.monotonic()
                wait_s = max(left_s, 0.0 if ran else _IDLE_S)
                if wait_s > 0:
                    stop.take(wait_s)
        except Exception as found:
            error = found
        if not self._is_stopping:
            self._ended.put(AppEnd(error))
        self._left.put(True)

    def _has_settled(self, until: dict[Any, int]) -> bool:
        """Whether no more records come out of the app's own topics. When a producer knows that its
        transaction is committed, a broker may still be writing that to the topics."""
        threads = here()
        deadline = threads.monotonic() + _SETTLE_S
        while not self._inputs.are_settled() and threads.monotonic() < deadline:
            Mailbox[bool]().take(_IDLE_S)
        return not any(each.has_more(self._inputs, until) for each in self._queries)

    @contextmanager
    def _short_failures(self) -> Iterator[None]:
        """Raise a failure of a task as one line, without the frames of Java."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise StreamsError(f"app={self._app}: {first_line(error)}") from None
