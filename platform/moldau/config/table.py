"""The settings that a program knows: unique names, what they are called besides, what is gone.

A layer of moldau declares its rows in a module and makes one table of them. A name that is not in
the table is refused, unless it begins with an open prefix: `listener.name.` holds a listener's own
settings, `config.providers.` a plugin's, and no table can know these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from moldau.config.given import Layer
from moldau.config.setting import INHERITED, Setting

if TYPE_CHECKING:
    from moldau.config.settings import Settings

Row: TypeAlias = Setting[Any]

# Looks at several settings together; answers what is wrong, or None.
Rule: TypeAlias = "Callable[[Settings], str | None]"

_NEAREST_RATIO = 0.7
_SIGN = re.compile(r"[^\w-]")  # what may stand behind a name


class SettingTable:
    """All rows by name. Iterating gives them in the order of their declaration."""

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        open_prefixes: tuple[str, ...] = (),
        removed: Mapping[str, str] | None = None,
        rules: tuple[Rule, ...] = (),
    ) -> None:
        """`removed`: names that are gone, with what to do instead; a name that ends in `.` stands
        for all names that begin so."""
        self.open_prefixes = open_prefixes
        self.rules = rules
        self._removed = dict(removed or {})
        self._rows: dict[str, Row] = {}
        self._aliases: dict[str, Row] = {}
        for row in rows:
            self._add(row)
        for row in self:
            self._assert_fallback(row)
        self._name_length_max = max(map(len, (*self._rows, *self._aliases)), default=0)

    def _add(self, row: Row) -> None:
        for name in (row.name, *row.aliases):
            taken = name in self._rows or name in self._aliases
            assert not taken, f"two settings are called {name}"
            assert name not in self._removed, f"{name} is both a setting and removed"
        self._rows[row.name] = row
        self._aliases.update(dict.fromkeys(row.aliases, row))

    def _assert_fallback(self, row: Row) -> None:
        seen = [row]
        while row.fallback is not None:
            row = row.fallback.setting
            assert self._rows.get(row.name) is row, f"{seen[-1].name} falls back out of the table"
            assert row not in seen, f"{row.name} falls back to itself"
            seen.append(row)
        assert row.default is not INHERITED

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, setting: object) -> bool:
        return isinstance(setting, Setting) and self._rows.get(setting.name) is setting

    def __add__(self, other: SettingTable) -> SettingTable:
        """The rows of both: one process that is broker and controller reads one file. A row may
        stand in both tables, if it is the same one."""
        return SettingTable(
            dict.fromkeys((*self, *other)),
            open_prefixes=(*self.open_prefixes, *other.open_prefixes),
            removed={**self._removed, **other._removed},
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
        )

    def find(self, name: str) -> Row | None:
        """The row of that name, today's or an earlier one."""
        return self._rows.get(name) or self._aliases.get(name)

    def instead_of(self, name: str) -> str | None:
        """What to do instead of using a setting that is gone."""
        for removed, advice in self._removed.items():
            if name == removed or (removed.endswith(".") and name.startswith(removed)):
                return advice
        return None

    def secret_before(self, name: str) -> str | None:
        """The secret setting that `name` begins with, before some sign: the rest of it may be what
        shall be hidden, as in `ssl.key.password:c2VjcmV0==1` or below it in a map."""
        for sign in _SIGN.finditer(name, 0, self._name_length_max + 1):
            row = self.find(name[: sign.start()])
            if row is not None and row.secret:
                return name[: sign.start()]
        return None

    def is_open(self, name: str) -> bool:
        """Whether `name` is a setting of something that this table does not list."""
        return name.startswith(self.open_prefixes)

    def nearest(self, name: str) -> str | None:
        """The known name that looks most like `name`, if any does."""
        from difflib import get_close_matches

        guess = name.strip().lower().replace("_", ".").replace("-", ".")
        matches = get_close_matches(guess, self._rows, n=1, cutoff=_NEAREST_RATIO)
        return matches[0] if matches else None

    def resolve(self, *layers: Layer) -> Settings:
        """The settings that `layers` give, the last layer winning; BadSettings tells all that is
        wrong. The usual order: file, environment, command line, overrides."""
        from moldau.config.resolution import resolve

        return resolve(self, layers)
