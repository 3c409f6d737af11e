"""An app in this process: its state, whether it is paused, and what to do when its worker fails.

The states are those of Kafka Streams (`KafkaStreams.State`):

    CREATED --> REBALANCING <--> RUNNING
       |             |              |
       |             +------+-------+--> PENDING_ERROR --> ERROR
       |                    v
       +--------> PENDING_SHUTDOWN --> NOT_RUNNING

A worker that waits for its group, or whose tasks are restored, is REBALANCING. A pause is no
state: a paused app stays in its group and RUNNING (KIP-834). Invariant: listeners hear each change
once, in order, on the event loop of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from moldau.streams.problems import StreamsError, TopologyError


class AppState(Enum):
    """The state of an app in this process, by Kafka Streams' names."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


TRANSITIONS: Final[Mapping[AppState, frozenset[AppState]]] = {
    AppState.CREATED: frozenset((AppState.REBALANCING, AppState.PENDING_SHUTDOWN)),
    AppState.REBALANCING: frozenset(
        (AppState.RUNNING, AppState.PENDING_SHUTDOWN, AppState.PENDING_ERROR)
    ),
    AppState.RUNNING: frozenset(
        (AppState.REBALANCING, AppState.PENDING_SHUTDOWN, AppState.PENDING_ERROR)
    ),
    AppState.PENDING_SHUTDOWN: frozenset((AppState.NOT_RUNNING,)),
    AppState.PENDING_ERROR: frozenset((AppState.ERROR,)),
    AppState.NOT_RUNNING: frozenset(),
    AppState.ERROR: frozenset(),
}


class OnFailure(Enum):
    """What an exception handler answers (KIP-671)."""

    REPLACE = "replace"
    """Begin again from the last commit with a new worker (REPLACE_THREAD)."""
    STOP_WORKER = "stop-worker"
    """End this worker alone (SHUTDOWN_CLIENT)."""
    STOP_APP = "stop-app"
    """End all workers of the app, on all machines (SHUTDOWN_APPLICATION)."""


StateListener: TypeAlias = Callable[[AppState, AppState], object]
ExceptionHandler: TypeAlias = Callable[[Exception], str]
L = TypeVar("L", bound=StateListener)
H = TypeVar("H", bound=ExceptionHandler)


class Lifecycle:
    """What an app and its worker tell each other. Any thread may pause and resume."""

    def __init__(self, app: str = "") -> None:
        self._app = app
        self._listeners: list[StateListener] = []
        self._handler: ExceptionHandler | None = None
        self.state = AppState.CREATED
        self.is_paused = False

    def require_embedded(self) -> None:
        """Raise TopologyError if the app uses what only workers of the embedded engine have."""
        if self.is_paused or self._listeners or self._handler is not None:
            raise TopologyError(
                f"app={self._app}: on Spark an app has no pause, on_state_change or on_exception: "
                "use Spark's own listeners of queries, or run it on the embedded engine"
            )

    def listen(self, listener: L) -> L:
        """Call a listener with the new state and the old one from now on."""
        self._listeners.append(listener)
        return listener

    def handle(self, handler: H) -> H:
        """Let this function decide what to do when a worker fails, and no other."""
        self._handler = handler
        return handler

    def begin(self) -> None:
        """A run begins. After the end of another one the app is as it was made."""
        if not TRANSITIONS[self.state]:
            self.state = AppState.CREATED
        self.move(AppState.REBALANCING)

    def move(self, state: AppState) -> None:
        """The app has come to a state."""
        before = self.state
        if state is before:
            return
        assert state in TRANSITIONS[before], (before, state)
        self.state = state
        for listener in self._listeners:
            listener(state, before)

    def settle(self, *, is_running: bool) -> None:
        """The worker has done one turn, after which all its tasks run or not."""
        if self.state in (AppState.RUNNING, AppState.REBALANCING):
            self.move(AppState.RUNNING if is_running else AppState.REBALANCING)

    def stop(self) -> None:
        """The app was asked to stop."""
        if AppState.PENDING_SHUTDOWN in TRANSITIONS[self.state]:
            self.move(AppState.PENDING_SHUTDOWN)

    def fail(self) -> None:
        """The worker has failed, and ends the run."""
        if AppState.PENDING_ERROR in TRANSITIONS[self.state]:
            self.move(AppState.PENDING_ERROR)

    def end(self, *, is_failure: bool) -> None:
        """The run is over."""
        if is_failure:
            self.fail()
        else:
            self.stop()
        is_error = self.state is AppState.PENDING_ERROR
        self.move(AppState.ERROR if is_error else AppState.NOT_RUNNING)

    def choice(self, error: Exception) -> OnFailure | None:
        """Return what the app's handler says about an error; None if it has no handler."""
        if self._handler is None:
            return None
        answer = self._handler(error)
        try:
            return OnFailure(answer)
        except ValueError:
            known = ", ".join(f'"{each.value}"' for each in OnFailure)
            raise StreamsError(
                f"app={self._app}: on_exception returned {answer!r}, which is none of {known}; "
                f"the worker failed with: {error}"
            ) from error
