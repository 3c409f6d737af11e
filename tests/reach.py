"""Which deep tests continuous integration runs: those that the change reaches, and a third by date.

    python -m tests.reach build/reach.json --minutes 20 --workers 4 --spark-workers 3

Nearly every deep test starts a whole broker, so each reaches nearly every module. They are ranked
by how close the change is instead (`Closeness`): the closest always run, and so does a third of
all, which goes on by one each day. The others fill what is left of the minutes, the closest first,
and of those the shortest first. `make test-deep` without MINUTES runs all.

Invariants:
* The choice is a function of the changed files, the imports, tests/durations.toml and the date of
  HEAD, so a run can be repeated.
* A test whose own file changed runs, whatever it takes.
* Whatever changed, each test is among those of one of three consecutive days.
* If the change is not known, all run.
"""

from __future__ import annotations

import argparse
import enum
import json
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import suites
from tests.change import Change, changed, day
from tests.imports import Imports, imports_of_this_house
from tests.rooms import FEW_ROOMS, changed_rooms

DAYS: Final = 3
UNKNOWN_S: Final = 1.0
"""What a file counts that is not in the table of durations: it is new, or takes less."""
HELPS_MANY: Final = 25
"""A helper that more deep files use belongs to the house, as what they start does."""
HOUSE: Final = ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run")
"""Every test depends on these."""


class Closeness(enum.IntEnum):
    """How close the change is to a test; the closest first."""

    FILE = 1
    HELPER = 2
    ROOM = 3
    IMPORT = 4
    AROUND = 5
    PART = 6
    NOTHING = 7


REASONS: Final = {
    Closeness.FILE: "the file itself changed",
    Closeness.HELPER: "a helper or a file that it reads changed",
    Closeness.ROOM: "the room that it tests changed",
    Closeness.IMPORT: "a module that it imports changed",
    Closeness.AROUND: "a room in the one that it tests changed",
    Closeness.PART: "a part of the house that it starts changed",
    Closeness.NOTHING: "no part of it changed",
}


@dataclass(frozen=True, slots=True)
class DeepFile:
    """A file with deep tests, and how many seconds of a worker they take."""

    path: str
    seconds: float
    is_spark: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """How long deep tests may take, and how many run at once; those of Spark run after all
    others."""

    seconds: float
    workers: int
    spark_workers: int

    def wall_s(self, files: Iterable[DeepFile]) -> float:
        """Return the seconds that a run of these takes."""
        return sum(
            each.seconds / (self.spark_workers if each.is_spark else self.workers) for each in files
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs, by the reason; the third of the day has those that nothing closer chose."""

    close: Mapping[Closeness, tuple[DeepFile, ...]]
    of_day: tuple[DeepFile, ...]
    left_out: tuple[DeepFile, ...]

    @property
    def chosen(self) -> tuple[DeepFile, ...]:
        return (*(each for files in self.close.values() for each in files), *self.of_day)


def third(path: str) -> int:
    """Return the day of three on which the file runs in any case."""
    return zlib.crc32(f"third {path}".encode()) % DAYS


def choose(
    files: Iterable[DeepFile],
    closeness: Mapping[str, Closeness],
    always: Closeness,
    day_number: int,
    budget: Budget,
) -> Choice:
    """Choose what is as close as `always` or of the day, then by closeness while the budget
    lasts."""
    close: dict[Closeness, list[DeepFile]] = {}
    of_day, rest, left_out = [], [], []
    for each in sorted(files, key=lambda each: (closeness[each.path], each.seconds, each.path)):
        if closeness[each.path] <= always:
            close.setdefault(closeness[each.path], []).append(each)
        elif third(each.path) == day_number % DAYS:
            of_day.append(each)
        else:
            rest.append(each)
    used_s = budget.wall_s([*(each for those in close.values() for each in those), *of_day])
    for each in rest:
        cost_s = budget.wall_s([each])
        if closeness[each.path] < Closeness.NOTHING and used_s + cost_s <= budget.seconds:
            used_s += cost_s
            close.setdefault(closeness[each.path], []).append(each)
        else:
            left_out.append(each)
    kept = {rank: tuple(those) for rank, those in sorted(close.items())}
    return Choice(kept, tuple(of_day), tuple(left_out))


class Ranks:
    """Finds the closeness of tests to one change."""

    def __init__(self, change: frozenset[str], imports: Imports, deep: Iterable[str]) -> None:
        deep = tuple(deep)
        self._change = change
        self._imports = imports
        helped = Counter(each for path in deep for each in imports.helpers(path))
        self._of_many = {path for path, count in helped.items() if count > HELPS_MANY}
        self._changes_house = any(each in change for each in HOUSE)
        rooms = {room for path in deep if (room := imports.room(path)) is not None}
        self.changed_rooms = changed_rooms(rooms, change)

    @property
    def always(self) -> Closeness:
        """What is so close runs over the budget too."""
        return Closeness.ROOM if len(self.changed_rooms) <= FEW_ROOMS else Closeness.HELPER

    def closeness(self, path: str) -> Closeness:
        if path in self._change:
            return Closeness.FILE
        helpers = self._imports.helpers(path)
        own = helpers - self._of_many
        if self._change & own:
            return Closeness.HELPER
        room = self._imports.room(path)
        if room in self.changed_rooms:
            return Closeness.ROOM
        if self._change & self._imports.product({path, *own}):
            return Closeness.IMPORT
        if room is not None and any(each.startswith(f"{room}/") for each in self._change):
            return Closeness.AROUND
        if self._changes_house or self._change & (helpers | self._imports.started(path)):
            return Closeness.PART
        return Closeness.NOTHING


def deep_files() -> list[DeepFile]:
    """Return all files that may have deep tests, with what they took when that was last written
    down."""
    seconds = tomllib.loads(suites.DURATIONS.read_text(encoding="ascii"))[suites.DEEP]
    return [
        DeepFile(path, seconds.get(path, UNKNOWN_S), path.startswith(suites.SPARK_FILES))
        for path in suites.files()
        if suites.may_be_deep(path)
    ]


def choice_for(change: Change, day_number: int, budget: Budget) -> Choice:
    """Choose among the deep tests of this house."""
    files = deep_files()
    if change is None:
        return Choice({}, tuple(files), ())
    paths = [each.path for each in files]
    ranks = Ranks(change, imports_of_this_house(change), paths)
    closeness = {path: ranks.closeness(path) for path in paths}
    return choose(files, closeness, ranks.always, day_number, budget)


def report(choice: Choice, change: Change, day_number: int, budget: Budget) -> list[str]:
    """Say in a few lines what runs and why, and what does not."""
    size = "of unknown size: all run" if change is None else f"of {len(change)} files"
    found = [f"deep tests for a change {size}, on day {day_number % DAYS + 1} of {DAYS}:"]
    rows = [(REASONS[rank], files) for rank, files in choice.close.items()]
    rows += [("of this day", choice.of_day), ("left out", choice.left_out)]
    for reason, files in rows:
        seconds = sum(each.seconds for each in files)
        found.append(f"{len(files):5} files {seconds:6.0f} s of workers  {reason}")
    found.append(f"about {budget.wall_s(choice.chosen) / 60:.0f} minutes")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose deep tests for continuous integration.")
    parser.add_argument("path", type=Path, help="where the files that are left out are written")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--spark-workers", type=int, required=True)
    given = parser.parse_args()
    budget = Budget(given.minutes * 60, given.workers, given.spark_workers)
    change, day_number = changed(suites.ROOT), day(suites.ROOT)
    choice = choice_for(change, day_number, budget)
    given.path.parent.mkdir(parents=True, exist_ok=True)
    left_out = sorted(each.path for each in choice.left_out)
    given.path.write_text(json.dumps(left_out, indent=1), encoding="utf-8")
    print("\n".join(report(choice, change, day_number, budget)), flush=True)


if __name__ == "__main__":
    main()
