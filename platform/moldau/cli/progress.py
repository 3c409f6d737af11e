"""Shows the progress of long work: a bar with a rate on a terminal, and one summary line anywhere.

Everything goes to the error stream, so that the output of a command is not changed. The bar is
redrawn on the last line of a terminal, and would mix with other text there. So there is no bar if
something else is written or typed, and lines for the user go through `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from moldau.cli.output import write_above, write_lines
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from types import TracebackType

    from moldau.cli.command import Context

_MIB = 1 << 20


class Progress(AbstractContextManager["Progress"]):
    """Counts the records and bytes of a command; `clock` returns seconds."""

    def __init__(
        self,
        context: Context,
        verb: str,
        total: int | None,
        clock: Callable[[], float],
        *,
        is_alone: bool = True,
    ) -> None:
        """`verb` is the work in the past tense, such as "sent" or "read". `total` is None if
        unknown. `is_alone` means that nothing else is written or typed at the terminal
        meanwhile."""
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
        """Count more records and bytes as done, and advance the bar."""
        self.records += records
        self.size_bytes += size_bytes
        if self._bar is not None:
            rate = f"{self.records / self.seconds:,.0f}/s"
            self._bar.update(self._task, completed=self.records, rate=rate)

    def report(self, lines: Iterable[str]) -> None:
        """Write lines for the user, above the bar if there is one."""
        if self._bar is None:
            write_lines(self._context.err, lines)
            self._context.err.flush()
            return
        for line in lines:
            write_above(self._bar.console, line)

    @property
    def seconds(self) -> float:
        """The seconds since the start; never zero."""
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
        """Return one line with the count, the size, the time and the rates."""
        seconds = self.seconds
        return (
            f"{self._verb} {counted(self.records, 'record')} ({self.size_bytes / _MIB:,.1f} "
            "MiB) in "
            f"{seconds:.2f} s: {self.records / seconds:,.0f} records/s, "
            f"{self.size_bytes / _MIB / seconds:,.1f} MiB/s"
        )

    def facts(self) -> dict[str, object]:
        """Return the same facts as `summary`, for JSON."""
        seconds = self.seconds
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds),
            "bytes_per_second": round(self.size_bytes / seconds),
        }
