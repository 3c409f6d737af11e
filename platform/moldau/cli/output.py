"""Writes tables for people and JSON for programs, and replaces a closed output stream.

Invariant: names that others chose (of groups, of clients) cannot drive a terminal or break a line.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

_GAP = "  "
_FRAME = 3  # the frame of each column: a blank on both sides, and a line


def shown(text: str) -> str:
    """Return the text as one line, with control characters escaped."""
    from moldau.logging.fields import one_line

    return one_line(text)


def write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """Write each text as a line of its own."""
    out.writelines(f"{shown(line)}\n" for line in lines)


def write_above(console: Console, line: str) -> None:
    """Write a line above rich's live display, which a line written directly would garble."""
    console.print(shown(line), markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_table(out: TextIO, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table: with rich on a terminal that is wide enough; otherwise in plain columns, which
    never cut or wrap a value."""
    header = list(map(shown, header))
    rows = [list(map(shown, row)) for row in rows]
    if out.isatty() and _is_drawn(out, header, rows):
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.write(_GAP.join(cells).rstrip() + "\n")


def _is_drawn(out: TextIO, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Draw the table with rich and return True, unless values would be cut: half an offset looks
    like another offset."""
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
    """Write one JSON document, indented, with the keys in their given order."""
    import json

    out.write(json.dumps(value, indent=2) + "\n")


def write_facts(
    out: TextIO, header: Sequence[str], facts: Sequence[Mapping[str, object]], *, json: bool
) -> None:
    """Write facts as JSON, or as a table in which each has a row: a dash is what is not known."""
    if json:
        write_json(out, facts)
        return
    rows = [["-" if v in (None, "") else str(v) for v in each.values()] for each in facts]
    write_table(out, header, rows)


class _Closed(io.TextIOBase):
    def __init__(self, error: type[OSError] | None) -> None:
        self._error = error

    def write(self, text: str, /) -> int:
        if self._error is not None:
            raise self._error
        return len(text)


def closed_stream(error: type[OSError] | None = None) -> TextIO:
    """Return a stream whose writes raise `error`, or do nothing if there is none."""
    return cast("TextIO", _Closed(error))
