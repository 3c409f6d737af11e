"""What is wrong with a pipeline file, each with its line, and the nearest name for a wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An error, or a warning about what is likely a mistake."""

    line: int
    text: str
    is_error: bool = True

    @property
    def kind(self) -> str:
        return "error" if self.is_error else "warning"

    def told(self, file: str) -> str:
        """In one line, as compilers write it."""
        return f"{file}:{self.line}: {self.kind}: {self.text}"


def warning(line: int, text: str) -> Problem:
    """A problem that does not keep the pipeline from running."""
    return Problem(line, text, is_error=False)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, or nothing."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
