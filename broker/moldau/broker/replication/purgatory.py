"""Requests that cannot be answered yet: a fetch without bytes, a produce without acknowledgement.

Invariants:
* An operation is answered at most once: by `try_complete` after a move, or by `on_timeout` when its
  time is over, whichever comes first; never after `cancel`.
* `on_timeout` is never early, and less than a millisecond late if the event loop is free.
* An operation that is done is removed from every key and from the wheel.
* Order is a function of the calls: keys in the order in which they moved, operations of a key in
  the order in which they began to wait, timeouts by millisecond and then likewise.

`moved` only notes a move. The operations are tried once, in the next turn of the event loop. So an
append never runs the answer of another request in the middle of its work, and ten appends of one
turn wake a fetch once. An operation that fails harms no other: the event loop reports its error,
and the others continue.

Deadlines are a wheel of milliseconds with one timer for the earliest: 100,000 produces a second
with a timeout of 30 s each cost no timer, and leave nothing behind when they are done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from moldau.runtime import Clock

_SLOT_NS: Final = 1_000_000
_STALE_MAX: Final = 64


class Handle(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> object: ...


class Turns(Protocol):
    """The methods of an event loop that are used here; asyncio, uvloop, the simulation have
    them."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> Handle: ...


class DelayedOperation(ABC):
    """An operation that waits. Subclasses have `__slots__` and keep the data for the answer."""

    __slots__ = ("_keys", "_slot")

    _keys: tuple[Hashable, ...] | None
    """The watched keys; None once it is done, or before it waits."""
    _slot: int

    @property
    def is_gone(self) -> bool:
        """Whether no client waits for the answer any more, so it may be dropped without a call."""
        return False

    @abstractmethod
    def try_complete(self) -> bool:
        """Answer if possible, and return whether it was. Called after a watched key has moved."""

    @abstractmethod
    def on_timeout(self) -> None:
        """Answer with the current state: the time is over."""


class Pause(DelayedOperation):
    """A pause of some time, after which a function is called."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def try_complete(self) -> bool:
        return False

    def on_timeout(self) -> None:
        self._then()


class Purgatory:
    """All waiting operations of a node. `len` returns their number."""

    __slots__ = (
        "_clock",
        "_count",
        "_due",
        "_is_closed",
        "_is_turn_asked",
        "_moved",
        "_slots",
        "_timer",
        "_timer_slot",
        "_turns",
        "_watchers",
    )

    def __init__(self, clock: Clock, turns: Turns) -> None:
        self._clock = clock
        self._turns = turns
        self._count = 0
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._slots: dict[int, dict[DelayedOperation, None]] = {}
        self._due: list[int] = []  # a heap of slot numbers; some slots may be empty by now
        self._moved: dict[Hashable, None] = {}
        self._is_turn_asked = False
        self._timer: Handle | None = None
        self._timer_slot = 0
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Let `operation` wait until one of `keys` (normally Partitions) moves and it can be
        completed, or for `timeout_ms`. The caller has found that it cannot be completed now.

        Nothing is called before this returns, not even for a timeout of 0 or less. Each operation
        waits only once.
        """
        if self._is_closed:
            timeout_ms = 0
        # Rounded up, so that it is never early.
        deadline_ns = self._clock.monotonic_ns() + (timeout_ms * _SLOT_NS if timeout_ms > 0 else 0)
        slot = -(-deadline_ns // _SLOT_NS)
        operation._keys = keys = tuple(keys)
        operation._slot = slot
        watchers = self._watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: None}
            else:
                waiting[operation] = None
        others = self._slots.get(slot)
        if others is None:
            self._slots[slot] = {operation: None}
            heappush(self._due, slot)
            if self._timer is None or slot < self._timer_slot:
                self._set_timer(slot)
        else:
            others[operation] = None
        self._count += 1

    def moved(self, key: Hashable) -> None:
        """Note a change that operations under `key` wait for. They are tried in the next turn."""
        if key in self._watchers:
            self._moved[key] = None
            if not self._is_turn_asked:
                self._ask_turn()

    def is_watched(self, key: Hashable) -> bool:
        """Whether an operation waits for `key`."""
        return key in self._watchers

    def cancel(self, operation: DelayedOperation) -> None:
        """Forget the operation without a call, if it waits."""
        if getattr(operation, "_keys", None) is not None:
            self._remove(operation)

    def close(self) -> None:
        """Answer all waiting operations as if their time were over. None can wait after that."""
        self._is_closed = True
        try:
            self._take_turn()  # operations that can be completed must not end by a timeout
        finally:
            self._end_all()

    def _end_all(self) -> None:
        waiting = [each for slot in sorted(self._slots) for each in self._slots[slot]]
        self._slots.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._run(waiting)

    # Moves.

    def _ask_turn(self) -> None:
        self._is_turn_asked = True
        self._turns.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Try all operations that wait for moved keys. One that fails is removed; the rest get
        another turn, and the event loop reports the error."""
        self._is_turn_asked = False
        moved, self._moved = self._moved, {}
        left = list(moved)
        left.reverse()
        attempt, watchers = self._try, self._watchers
        try:
            while left:
                for operation in list(watchers.get(left[-1], ())):
                    attempt(operation)
                left.pop()
        finally:
            if left:
                self._moved = {**dict.fromkeys(reversed(left)), **self._moved}
                if not self._is_turn_asked:
                    self._ask_turn()

    def _try(self, operation: DelayedOperation) -> None:
        if operation._keys is None:  # an operation before it has cancelled it
            return
        if operation.is_gone:
            self._remove(operation)
            return
        is_done = True
        try:
            is_done = operation.try_complete()
        finally:
            if is_done and operation._keys is not None:
                self._remove(operation)

    def _remove(self, operation: DelayedOperation) -> None:
        """Remove the operation from all keys and from the wheel."""
        keys = operation._keys
        assert keys is not None
        operation._keys = None
        watchers = self._watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is not None:
                waiting.pop(operation, None)
                if not waiting:
                    del watchers[key]
        others = self._slots.get(operation._slot)
        if others is not None:  # None: its slot has expired
            others.pop(operation, None)
            if not others:
                del self._slots[operation._slot]
                if len(self._due) > 2 * len(self._slots) + _STALE_MAX:
                    self._due = list(self._slots)
                    heapify(self._due)
        self._count -= 1

    # Time.

    def _set_timer(self, slot: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_slot = slot
        seconds = (slot * _SLOT_NS - self._clock.monotonic_ns()) / 1e9
        self._timer = self._turns.call_later(max(seconds, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            if self._moved:  # the move came before the timeout, only its turn has not come yet
                self._take_turn()
        finally:
            self._expire()

    def _expire(self) -> None:
        now_ns = self._clock.monotonic_ns()
        due: list[DelayedOperation] = []
        while self._due:
            slot = self._due[0]
            if slot in self._slots:
                if slot * _SLOT_NS > now_ns:  # the event loop's clock may be coarser than ours
                    break
                due += self._slots.pop(slot)
            heappop(self._due)
        try:
            self._run(due)
        finally:
            # An operation that began to wait meanwhile may have set the timer later than another is
            # due.
            if self._due and (self._timer is None or self._due[0] < self._timer_slot):
                self._set_timer(self._due[0])

    def _run(self, due: list[DelayedOperation]) -> None:
        """Call `on_timeout` of each operation. If one fails, the others are still called."""
        done = 0
        try:
            for operation in due:
                done += 1
                if operation._keys is not None:
                    self._remove(operation)
                    if not operation.is_gone:
                        operation.on_timeout()
        finally:
            left = due[done:]
            if left:
                self._turns.call_soon(lambda: self._run(left))
