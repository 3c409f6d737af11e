"""The problems of a set of settings, all reported at once.

Each `Problem` names the setting, the given value (never a secret's, and never that of an unknown
name, which may be a misspelt password), the allowed values, the source and the nearest known name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.config.given import RawValue, Source, SourceKind
from moldau.deferred import dataclass
from moldau.errors import ConfigError

_SHOWN_MAX = 120
_TOLD_MAX = 100


UNKNOWN: Final = "unknown setting"
"""The reason of a problem with a name that the table does not have."""
NOT_ALLOWED: Final = "is not allowed"
"""The beginning of the reason of a problem with a value; a hint may follow."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why settings cannot be used. `shown` is the value in a printable form."""

    name: str
    reason: str
    shown: str | None = None
    allowed: str | None = None
    nearest: str | None = None
    source: Source | None = None

    def __str__(self) -> str:
        if self.allowed is not None and self.reason.startswith(NOT_ALLOWED):
            hint = self.reason.removeprefix(NOT_ALLOWED)
            given = "" if self.shown is None else f", not {self.shown}"
            text = f"{_bounded(self.name)} must be {self.allowed}{given}{hint}"
        else:
            value = "" if self.shown is None else f"{self.shown} "
            text = f"{_bounded(self.name)}: {value}{self.reason}" if self.name else self.reason
            text += "" if self.allowed is None else f"; allowed: {self.allowed}"
        if self.nearest is not None:
            text += f"; did you mean {self.nearest}?"
        if self.source is None or self.source.kind is SourceKind.OVERRIDE:
            return text  # the program itself gave it
        return f"{text} ({self.source})"


class BadSettings(ConfigError):
    """Settings that cannot be used. `problems` has all of them, the text only the first ones."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(f"{count} {'setting' if count == 1 else 'settings'} cannot be used")

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = [f"{self.reason}:", *(f"  {problem}" for problem in self.problems[:_TOLD_MAX])]
        if len(self.problems) > _TOLD_MAX:
            lines.append(f"  and {len(self.problems) - _TOLD_MAX} more")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[BadSettings], tuple[tuple[Problem, ...]]]:
        return BadSettings, (self.problems,)


def shown(value: RawValue) -> str:
    """Return a value as an error message shows it: quoted, on one line, of bounded length."""
    if value is None:
        return "null"
    text = repr(value) if isinstance(value, str) else repr(list(value))
    return _bounded(text)


def _bounded(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"
