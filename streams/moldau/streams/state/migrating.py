"""Values of a store in their next form, some rows at a time. Pure: nothing is written.

A pass goes over the rows in the order of their keys, from one version to another. What it has done
is told by one key: rows before it have the new version, so a pass that was cut short goes on there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.problems import StateError
from moldau.streams.state.backing import Backing
from moldau.streams.state.changelog_rows import changelog_record
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.spec import StoreSpec

ROWS: Final = 5000
BYTES: Final = 4 << 20
"""About how much is changed at a time: a transaction must end before its timeout."""


@dataclass(frozen=True, slots=True)
class MigratedRows:
    """The changed rows as changelog records, and the key of the row to go on with; None at the
    end."""

    changes: ChangelogRecords
    following: bytes | None


def migrated(
    spec: StoreSpec, versions: tuple[int, int], rows: Backing, first: bytes
) -> MigratedRows:
    """Return the rows from `first` on with values of the second version instead of the first one.

    Raise StateError for a value that is not of the first version, or that a function fails on.
    """
    change = _change(spec, *versions)
    changes = ChangelogRecords()
    size_bytes = 0
    for count, (key, row) in enumerate(rows.scan(first, None)):
        if count >= ROWS or size_bytes > BYTES:
            return MigratedRows(changes, key)
        record = changelog_record(spec, key, row)
        name, value, time = record or (b"", None, 0)
        if value is None:
            continue
        new = change(value)
        if new != value:
            changes.add(name, new, time)
            size_bytes += len(name) + len(new or b"")
    return MigratedRows(changes, None)


def require_readable(spec: StoreSpec, newest: int) -> None:
    """Raise StateError if rows may have a later version than the app declares."""
    if newest > spec.version:
        raise StateError(
            f"store={spec.name}: its rows have version {newest}, and this app declares version "
            f"{spec.version}: run the newer app here, too; the earlier one cannot read them any "
            "more"
        )


def require_steps(spec: StoreSpec, before: int, after: int) -> None:
    """Raise StateError if the app has no function for a step between these versions."""
    missing = [each for each in range(before, after) if each not in spec.migrations]
    if missing:
        raise StateError(
            f"store={spec.name}: its rows have version {before}, and migrate[{missing[0]}] is "
            f"missing, which makes version {missing[0] + 1} of {missing[0]}: keep the functions "
            "until no store has the earlier version"
        )


def _change(spec: StoreSpec, before: int, after: int) -> Callable[[bytes], bytes | None]:
    """Return the function that leads the bytes of one version to those of another."""
    steps = [spec.migrations[version] for version in range(before, after)]
    encode = (spec.value if after == spec.version else spec.migrations[after].before).encode
    decode = steps[0].before.decode

    def change(data: bytes) -> bytes | None:
        at = before
        try:
            value: Any = decode(data)
            for step in steps:
                value = step.function(value)
                at += 1
                if value is None:
                    return None
            at -= 1
            return encode(value)
        except Exception as error:
            raise StateError(
                f"store={spec.name}: a value of version {before} does not become version {after}: "
                f"{type(error).__name__}: {error}, in migrate[{at}]: {data[:80]!r}; repair the "
                "function, or the type that its parameter declares, and start again: rows that "
                "are done stay so"
            ) from error

    return change
