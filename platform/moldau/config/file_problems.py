"""Describe problems of a file by their lines, and suggest the right spelling of names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of a file: an error, or a warning about a likely mistake."""

    line: int
    text: str
    is_error: bool = True

    @property
    def kind(self) -> str:
        return "error" if self.is_error else "warning"

    def format(self, file: str) -> str:
        """Return the problem as one line, in the form that compilers use."""
        return f"{file}:{self.line}: {self.kind}: {self.text}"


def warning(line: int, text: str) -> Problem:
    """Return a problem that does not stop the file from being used."""
    return Problem(line, text, is_error=False)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` with the most similar known name, or an empty text."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
