"""What the runners of sources and sinks share: the worker's commands, states, failure, and the end.

Invariants: `run` never raises and always ends with `stopped`; the connector's `stop` is called
once, also when its start failed; a failure is reported as FAILED with one line `cause -> hint`,
without secrets, before the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from moldau.connect.errors import ConnectError, PermanentError
from moldau.connect.storage.statuses import ConnectorState
from moldau.connect.task.diagnosis import trace_of
from moldau.connect.task.link import Link, Stopping
from moldau.connect.task.membership import Fenced
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.tolerance import told
from moldau.logging import Logger
from moldau.runtime.interface import Clock

METRICS_EVERY_MS: Final = 1_000


class TaskRunner(ABC):
    """Runs one task, from its start to its end, on one thread."""

    def __init__(self, spec: TaskSpec, link: Link, clock: Clock, log: Logger) -> None:
        self.spec = spec
        self.link = link
        self.clock = clock
        self.log = log
        self.secrets: set[str] = set()
        self.is_paused = spec.is_paused
        self._metrics_ms = 0
        self.told: dict[str, float] = {}
        self._waits_for: str | None = None

    # From start to end

    def run(self) -> None:
        """Run the task until it is stopped or fails."""
        try:
            self._live()
        finally:
            self.link.notify("stopped")

    def _live(self) -> None:
        failure: Exception | None = None
        try:
            self.open()
            self._report_state()
            while not self.link.is_stopping:
                self._obey(0.0)
                if not self.link.is_stopping:
                    self.work()
                self.report_metrics()
        except Stopping:
            pass  # in order: it waited for the worker, which stops it
        except Exception as error:
            failure = error
        self._end(failure)

    def _end(self, failure: Exception | None) -> None:
        try:
            self.close(is_clean=failure is None)
        except Exception as error:
            if failure is None:
                failure = error
            else:
                self.log.warn("a failed task did not close in order", error=self._shown(error))
        self.report_metrics(is_due=True)
        if failure is not None:
            trace = trace_of(failure, self.secrets)
            self.log.error("task failed", task=str(self.spec.id), cause=trace.split("\n", 1)[0])
            is_fenced = isinstance(failure, Fenced)
            self.link.notify(
                "state",
                state=ConnectorState.FAILED.value,
                trace=trace,
                is_fenced=is_fenced,
                is_permanent=isinstance(failure, PermanentError),
            )

    @abstractmethod
    def open(self) -> None:
        """Make clients and converters, then start the connector's task."""

    @abstractmethod
    def work(self) -> None:
        """Do one round of work. Return at least about once a second."""

    @abstractmethod
    def close(self, *, is_clean: bool) -> None:
        """If `is_clean`, complete all pending work. Then release everything."""

    def on_paused(self) -> None:
        """Called after `is_paused` has changed."""
        return

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Return the current values of the task's metrics."""

    # Commands

    def _obey(self, timeout_s: float) -> bool:
        """Carry out the worker's next command. Return False if none arrives in time."""
        message = self.link.take(timeout_s)
        if message is None:
            return False
        if message["type"] in ("pause", "resume"):
            self.is_paused = message["type"] == "pause"
            self.on_paused()
            self._report_state()
        return True

    def rest(self, timeout_s: float) -> None:
        """Wait for `timeout_s`, or until the worker sends a command. Carry the command out."""
        if not self.link.is_stopping:
            self._obey(timeout_s)

    def now_ms(self) -> int:
        """Return the time of the monotonic clock in milliseconds."""
        return self.clock.monotonic_ns() // 1_000_000

    def wait_ms(self, ms: int) -> bool:
        """Wait, and carry out commands. Return False if a stop command ends the wait early."""
        until_ms = self.now_ms() + ms
        while not self.link.is_stopping and (left_ms := until_ms - self.now_ms()) > 0:
            self._obey(left_ms / 1000)
        return not self.link.is_stopping

    # Messages to the worker

    def _report_state(self) -> None:
        state = ConnectorState.PAUSED if self.is_paused else ConnectorState.RUNNING
        self.link.notify("state", state=state.value)

    def report_metrics(self, *, is_due: bool = False) -> None:
        now_ms = self.now_ms()
        if not is_due and now_ms - self._metrics_ms < METRICS_EVERY_MS:
            return
        self._metrics_ms = now_ms
        metrics = self.metrics()
        if metrics != self.told:
            self.told = metrics
            self.link.notify("metrics", values=metrics)

    def report_waiting(self, error: Exception | None) -> None:
        """Report the error behind a retry. None: the last attempt worked."""
        self.report_cause(None if error is None else self._shown(error))

    def report_cause(self, cause: str | None) -> None:
        """Report what the task waits for, in one line. None: it waits for nothing."""
        if cause != self._waits_for:
            self._waits_for = cause
            self.link.notify("waiting", cause=cause)

    def _shown(self, error: BaseException) -> str:
        return trace_of(error, self.secrets).split("\n", 1)[0]

    def guarded(self, what: str, call: Callable[[], object]) -> None:
        """Call the connector's code at the end. Log its error, to keep an earlier one visible."""
        try:
            call()
        except Exception as error:
            self.log.warn("closing a task went wrong", step=what, error=self._shown(error))


def in_order(call: Callable[[], None], what: str) -> None:
    """Call the connector's code. Raise ConnectError, with the step's name if the error has none."""
    try:
        call()
    except ConnectError:
        raise
    except Exception as error:
        raise ConnectError(f"{what} failed: {told(error)}") from error
