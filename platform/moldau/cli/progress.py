"""How far long work has come: a bar with a rate where a person looks, one line at the end anywhere.

Everything goes to the error stream, so that what a command prints stays what it is. A bar that is
drawn anew on the last line of a terminal tears whatever else is written or typed there: so there is
none beside that, and lines for the user go through `tell`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from moldau.cli.output import write_above, write_lines

if TYPE_CHECKING:
    from types import TracebackType

    from moldau.cli.command import Context

_MIB = 1 << 20


class Progress(AbstractContextManager["Progress"]):
    """Counts records and bytes; `clock` gives seconds."""

    def __init__(
        self,
        context: Context,
        verb: str,
        total: int | None,
        clock: Callable[[], float],
        *,
        is_alone: bool = True,
    ) -> None:
        """`verb`: what is done, as in "sent" or "read"; `total` is None if it is not known.
        `is_alone`: nothing else is written or typed at the terminal meanwhile."""
        self.records = 0
        self.size_bytes = 0
        self._context = context
        self._verb = verb
        self._total = total
        self._clock = clock
        self._is_alone = is_alone
        self._start = clock()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._start = self._clock()
        if self._is_alone and self._context.err.isatty():
            self._show_bar()
        return self

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} records"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(file=self._context.err),
            transient=True,
        )
        self._task = self._bar.add_task(self._verb, total=self._total, rate="")
        self._bar.start()

    def add(self, records: int, size_bytes: int) -> None:
        """So much more is done."""
        self.records += records
        self.size_bytes += size_bytes
        if self._bar is not None:
            rate = f"{self.records / self.seconds:,.0f}/s"
            self._bar.update(self._task, completed=self.records, rate=rate)

    def tell(self, lines: Iterable[str]) -> None:
        """Lines for the user, above the bar if there is one."""
        if self._bar is None:
            write_lines(self._context.err, lines)
            self._context.err.flush()
            return
        for line in lines:
            write_above(self._bar.console, line)

    @property
    def seconds(self) -> float:
        """How long it has taken; never zero."""
        return max(self._clock() - self._start, 1e-6)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def summary(self) -> str:
        """One line: how much, how long, how fast."""
        seconds = self.seconds
        return (
            f"{self._verb} {self.records:,} records ({self.size_bytes / _MIB:,.1f} MiB) in "
            f"{seconds:.2f} s: {self.records / seconds:,.0f} records/s, "
            f"{self.size_bytes / _MIB / seconds:,.1f} MiB/s"
        )

    def facts(self) -> dict[str, object]:
        """The same for programs."""
        seconds = self.seconds
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds),
            "bytes_per_second": round(self.size_bytes / seconds),
        }
