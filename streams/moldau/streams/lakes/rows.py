"""The rows of a lake table in memory: those of one version, by key.

Reading a newer version changes nothing here; its owner takes it over between two commits, so what
is committed together was joined with one version.
"""

from __future__ import annotations

import datetime
import decimal
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from moldau.deferred import dataclass
from moldau.streams.expressions.kinds import fields_of, without_none
from moldau.streams.expressions.python import evaluated
from moldau.streams.expressions.tree import fields_in
from moldau.streams.lakes.files import LakeFiles, files_of
from moldau.streams.plan.plan import LakeTable
from moldau.streams.problems import LakeUnreadable

GIVEN: Final = "given"
"""The version of rows that a test has given."""
_KEPT: Final = (
    bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LakeVersion:
    """All rows of a version of a table: key -> (value, 0). A row with a null key is left out."""

    version: str
    rows: Mapping[Any, tuple[Any, int]]


class LakeRows:
    """A lake table as tasks look it up. It is empty until a version is taken."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.version = ""
        self._rows: Mapping[Any, tuple[Any, int]] = {}
        self._files: LakeFiles | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: object) -> tuple[Any, int] | None:
        return self._rows.get(key)

    def newer(self) -> LakeVersion | None:
        """Read the files if they have another version, and return its rows. Change nothing that
        `get` reads, so that it may run on another thread. Raise LakeUnreadable."""
        if self._files is None:
            self._files = files_of(self.table)
        version = self._files.version()
        return None if version == self.version else self.read(version)

    def read(self, version: str) -> LakeVersion:
        """Read the rows of a version. Raise LakeUnreadable."""
        if self._files is None:
            self._files = files_of(self.table)
        known = self._files.columns(version)
        wanted = _columns(self.table, known)
        found, rows = self._files.rows(version, wanted)
        return LakeVersion(found, keyed(self.table, rows))

    def give(self, rows: Iterable[Any]) -> None:
        """Look up these rows from now on, in place of those of the files: for tests."""
        plain = [_plain(each) for each in rows]
        if (where := self.table.where) is not None:
            plain = [each for each in plain if evaluated(where, Any, each) is True]
        found = keyed(self.table, plain)
        self.take(LakeVersion(GIVEN, found))

    def take(self, found: LakeVersion) -> None:
        """Look up the rows of this version from now on."""
        self.version, self._rows = found.version, found.rows


def keyed(table: LakeTable, rows: Sequence[dict[str, Any]]) -> dict[Any, tuple[Any, int]]:
    """Return the rows by key, converted to the type of the table. Raise LakeUnreadable if one does
    not fit, or if a key occurs twice."""
    kept = [row for row in rows if row[table.key] is not None]
    found: dict[Any, tuple[Any, int]] = {}
    for row, value in zip(kept, _converted(table, kept), strict=True):
        key = row[table.key]
        try:
            is_known = key in found
        except TypeError:
            raise LakeUnreadable(
                table.name, f"the column {table.key!r} has {type(key).__name__}, which is no key"
            ) from None
        if is_known:
            raise LakeUnreadable(
                table.name,
                f"{table.path} has more than one row with {table.key}={key!r:.80}: keys must be "
                "unique",
            )
        found[key] = (value, 0)
    return found


def required(kind: Any) -> dict[str, bool] | None:
    """Return the columns of a type of rows, and whether it needs each; None for any columns."""
    kind, _ = without_none(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {each.encode_name: each.required for each in msgspec.structs.fields(kind)}
    if hasattr(kind, "model_fields"):
        return {each.alias or name: each.is_required() for name, each in kind.model_fields.items()}
    known = fields_of(kind)
    if known is None:
        return None
    keys: frozenset[str] | None = getattr(kind, "__required_keys__", None)
    defaults = vars(kind)
    return {name: name in keys if keys is not None else name not in defaults for name in known}


def _columns(table: LakeTable, known: Sequence[str]) -> list[str]:
    """Return the columns to read. Raise LakeUnreadable if one is missing."""
    needed = required(table.value_type)
    if needed is None:
        needed = dict.fromkeys(known, False)
    read = () if table.where is None else sorted(fields_in(table.where))
    for name in (table.key, *read, *(name for name, is_needed in needed.items() if is_needed)):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise LakeUnreadable(table.name, f"{table.path} has no column {name!r}; {hint}")
    return list(dict.fromkeys([table.key, *(name for name in needed if name in known)]))


def _converted(table: LakeTable, rows: list[dict[str, Any]]) -> list[Any]:
    kind, _ = without_none(table.value_type)
    if fields_of(kind) is None:
        return rows
    return [_convert(table, kind, row) for row in rows]


def _convert(table: LakeTable, kind: Any, row: dict[str, Any]) -> Any:
    try:
        if hasattr(kind, "model_validate"):
            return kind.model_validate(row)
        return msgspec.convert(row, kind)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise LakeUnreadable(
            table.name, f"the row with {table.key}={row[table.key]!r:.80} is wrong: {reason}"
        ) from None


def _plain(row: Any) -> dict[str, Any]:
    """Return the columns of a row that a test gives."""
    if isinstance(row, Mapping):
        return dict(row)
    if hasattr(row, "model_dump"):
        return dict(row.model_dump())
    found = msgspec.to_builtins(row, builtin_types=_KEPT)
    assert isinstance(found, dict), f"{row!r:.80} is no row"
    return found
