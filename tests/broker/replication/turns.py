"""An event loop's turns and clock, moved by hand, and operations that note what is done to them."""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.replication.purgatory import DelayedOperation

MS = 1_000_000


class Timer:
    """A call that is due at a moment."""

    def __init__(self, at_ns: int, callback: Callable[[], object]) -> None:
        self.at_ns = at_ns
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandTurned:
    """Clock and event loop in one: nothing happens but by `turn` and `advance`."""

    def __init__(self, *, early_ns: int = 0) -> None:
        """`early_ns`: timers come by so much too early, as on loops with coarse clocks."""
        self.now_ns = 12_345
        self.early_ns = early_ns
        self.errors: list[Exception] = []
        self._soon: list[Callable[[], object]] = []
        self.timers: list[Timer] = []

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9

    def wall_ms(self) -> int:
        return self.now_ns // MS

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        at_ns = max(self.now_ns, self.now_ns + round(delay * 1e9) - self.early_ns)
        timer = Timer(at_ns, callback)
        self.timers.append(timer)
        return timer

    def turn(self) -> None:
        """One turn: all that was asked for before it."""
        soon, self._soon = self._soon, []
        for callback in soon:
            self._call(callback)

    def settle(self) -> None:
        """Turn until nothing is asked for."""
        while self._soon:
            self.turn()

    def advance(self, ns: int) -> None:
        """Let time pass, with the timers that come due."""
        end = self.now_ns + ns
        while True:
            self.settle()
            self.timers = [each for each in self.timers if not each.is_cancelled]
            due = min(self.timers, key=lambda each: each.at_ns, default=None)
            if due is None or due.at_ns > end:
                break
            self.timers.remove(due)
            # A loop whose clock is coarse gets there by calling again and again.
            self.now_ns = max(self.now_ns + (self.early_ns and 1000), due.at_ns)
            self._call(due.callback)
        self.now_ns = max(end, self.now_ns)

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except ValueError as error:  # as an event loop reports it and goes on
            self.errors.append(error)


class Noted(DelayedOperation):
    """Completes when it is ready, and notes each call in a list that many share."""

    __slots__ = ("fails", "gone", "is_ready", "name", "notes", "on_try")

    def __init__(self, name: str, notes: list[str], *, is_ready: bool = False) -> None:
        self.name = name
        self.notes = notes
        self.is_ready = is_ready
        self.gone = False
        self.fails = False
        self.on_try: Callable[[], object] = lambda: None

    @property
    def is_gone(self) -> bool:
        return self.gone

    def try_complete(self) -> bool:
        self.on_try()
        if self.fails:
            raise ValueError(self.name)
        if self.is_ready:
            self.notes.append(f"{self.name} done")
        return self.is_ready

    def on_timeout(self) -> None:
        self.notes.append(f"{self.name} late")
        if self.fails:
            raise ValueError(self.name)
