"""The settings of a program: rows with unique names, their aliases, and removed names.

A layer of moldau declares its rows in a module and makes one table of them. A name that is not in
the table is rejected, unless it begins with an open prefix: `listener.name.` has a listener's own
settings, `config.providers.` a plugin's, and no table can contain those names.
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

# Checks several settings together; returns what is wrong, or None.
Rule: TypeAlias = "Callable[[Settings], str | None]"

_NEAREST_RATIO = 0.7
_SIGN = re.compile(r"[^\w-]")  # what may stand behind a name


class SettingTable:
    """All rows by name. Iteration yields them in the order of their declaration."""

    def __init__(
        self,
        rows: Iterable[Row],
        *,
        open_prefixes: tuple[str, ...] = (),
        removed: Mapping[str, str] | None = None,
        rules: tuple[Rule, ...] = (),
        whole_rules: tuple[Rule, ...] = (),
    ) -> None:
        """`removed`: removed names, with advice on what to do instead. A name that ends in `.`
        stands for all names that begin with it. `whole_rules` are not about the settings of one
        listener or plugin (`Settings.with_prefix`)."""
        self.open_prefixes = open_prefixes
        self.rules = rules
        self.whole_rules = whole_rules
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
        """Return a table with the rows of both: a process that is broker and controller reads one
        file. A row may be in both tables, if it is the same object."""
        return SettingTable(
            dict.fromkeys((*self, *other)),
            open_prefixes=(*self.open_prefixes, *other.open_prefixes),
            removed={**self._removed, **other._removed},
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
            whole_rules=tuple(dict.fromkeys((*self.whole_rules, *other.whole_rules))),
        )

    def find(self, name: str) -> Row | None:
        """Return the row with that current or earlier name; None if there is none."""
        return self._rows.get(name) or self._aliases.get(name)

    def instead_of(self, name: str) -> str | None:
        """Return the advice for a setting that was removed; None if it was not."""
        for removed, advice in self._removed.items():
            if name == removed or (removed.endswith(".") and name.startswith(removed)):
                return advice
        return None

    def secret_before(self, name: str) -> str | None:
        """Return the secret setting that `name` begins with, before some sign. The rest may then be
        the secret itself, as in `ssl.key.password:c2VjcmV0==1`, or a key below it in a map."""
        for sign in _SIGN.finditer(name, 0, self._name_length_max + 1):
            row = self.find(name[: sign.start()])
            if row is not None and row.secret:
                return name[: sign.start()]
        return None

    def is_open(self, name: str) -> bool:
        """Whether `name` begins with an open prefix, so that this table cannot list it."""
        return name.startswith(self.open_prefixes)

    def nearest(self, name: str) -> str | None:
        """Return the known name that is most similar to `name`, if any is similar."""
        from difflib import get_close_matches

        guess = name.strip().lower().replace("_", ".").replace("-", ".")
        matches = get_close_matches(guess, self._rows, n=1, cutoff=_NEAREST_RATIO)
        return matches[0] if matches else None

    def resolve(self, *layers: Layer, is_whole: bool = True) -> Settings:
        """Return the settings of `layers`, of which the last wins. Raise BadSettings with all
        problems. The usual order is: file, environment, command line, overrides."""
        from moldau.config.resolution import resolve

        return resolve(self, layers, self.rules + self.whole_rules if is_whole else self.rules)
