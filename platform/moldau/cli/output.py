"""Tables for people, JSON for programs, and a stand-in for a stream whose reader has gone.

Invariant: names that others chose (of groups, of clients) cannot drive a terminal or break a line.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

_GAP = "  "
_FRAME = 3  # of each column that is drawn: a blank on both sides, and a line


def shown(text: str) -> str:
    """In one line, whatever is in it."""
    from moldau.logging.fields import one_line

    return one_line(text)


def write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """Each in a line of its own."""
    out.writelines(f"{shown(line)}\n" for line in lines)


def write_above(console: Console, line: str) -> None:
    """A line above what rich draws anew there: written between, it would be torn or tear that."""
    console.print(shown(line), markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_table(out: TextIO, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """By rich on a terminal that is wide enough for it; elsewhere plain columns that never lose or
    wrap a value."""
    header = list(map(shown, header))
    rows = [list(map(shown, row)) for row in rows]
    if out.isatty() and _is_drawn(out, header, rows):
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.write(_GAP.join(cells).rstrip() + "\n")


def _is_drawn(out: TextIO, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Draws it, unless values would have to be cut short: half an offset looks like another one."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out)
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    if sum(widths) + _FRAME * len(widths) + 1 > console.width:
        return False
    table = Table(*header)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    return True


def write_json(out: TextIO, value: object) -> None:
    """One document, indented, keys in the order that was given."""
    import json

    out.write(json.dumps(value, indent=2) + "\n")


class _Closed(io.TextIOBase):
    def __init__(self, error: type[OSError] | None) -> None:
        self._error = error

    def write(self, text: str, /) -> int:
        if self._error is not None:
            raise self._error
        return len(text)


def closed_stream(error: type[OSError] | None = None) -> TextIO:
    """Refuses every write with `error`, or swallows it."""
    return cast("TextIO", _Closed(error))
