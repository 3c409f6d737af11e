"""The names of a record's parts at one place of the generated source."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a record's parts. For a table, `value` is the new value, `old` the former."""

    key: str
    value: str
    time: str
    headers: str
    old: str = "None"

    def changed(self, **names: str) -> Scope:
        return replace(self, **names)

    def arguments(self, *, is_table: bool) -> str:
        parts = [self.key, self.value, self.time, self.headers]
        if is_table:
            parts.insert(2, self.old)
        return ", ".join(parts)


STREAM = Scope("key", "value", "time", "headers")
TABLE = Scope("key", "value", "time", "headers", "old")
