"""Which deep tests continuous integration runs: those that the change reaches, and a third by date.

    python -m tests.reach build/reach.json --minutes 20 --cores 2

Nearly every deep test starts a whole broker, so each reaches nearly every module. They are ranked
by how close the change is instead (`Closeness`): the closest always run, and so does a third of
all, which goes on by one each day; of long files in it, only a third of the cases. The others fill
what is left of the minutes, the closest first, and of those the shortest first. `make test-deep`
without MINUTES runs all.

Invariants:
* The choice is a function of the changed files, the imports, tests/durations.toml and the date of
  HEAD, so a run can be repeated.
* A test whose own file changed runs, whatever it takes.
* Whatever changed, each test is among those of one of three consecutive days, or of nine if its
  file is long.
* If the change is not known, all run.
"""

from __future__ import annotations

import argparse
import enum
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
LONG_S: Final = 60.0
"""The cases of a file that takes more take turns when it is only its day."""
BUSY: Final = 0.9
"""The part of the cores that a run uses: the rest is waiting."""
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
    """A file with deep tests, and how many seconds of a core they take."""

    path: str
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Budget:
    """How long deep tests may take, and on how many cores."""

    seconds: float
    cores: int

    def wall_s(self, cpu_s: float) -> float:
        """Return how long tests take that need so much of the cores."""
        return cpu_s / (self.cores * BUSY)


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs, by the reason. The third of the day has what nothing closer chose; of those that
    take turns only a part of the cases."""

    close: Mapping[Closeness, tuple[DeepFile, ...]]
    of_day: tuple[DeepFile, ...]
    in_turns: tuple[DeepFile, ...]
    left_out: tuple[DeepFile, ...]

    @property
    def whole(self) -> tuple[DeepFile, ...]:
        return (*(each for files in self.close.values() for each in files), *self.of_day)

    @property
    def cpu_s(self) -> float:
        """What the chosen tests take."""
        return cpu_s(self.whole) + cpu_s(self.in_turns) / suites.TURNS


def cpu_s(files: Iterable[DeepFile]) -> float:
    return sum(each.cpu_s for each in files)


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
    of_day: dict[bool, list[DeepFile]] = {False: [], True: []}
    rest = []
    ordered = sorted(files, key=lambda each: (closeness[each.path], each.cpu_s, each.path))
    for each in ordered:
        if closeness[each.path] <= always:
            close.setdefault(closeness[each.path], []).append(each)
        elif third(each.path) == day_number % DAYS:
            of_day[each.cpu_s > LONG_S].append(each)
        else:
            rest.append(each)
    used_s = Choice(_kept(close), tuple(of_day[False]), tuple(of_day[True]), ()).cpu_s
    for each in [each for each in ordered if closeness[each.path] < Closeness.NOTHING]:
        for those, part in ((rest, 1.0), (of_day[True], 1 - 1 / suites.TURNS)):
            more_s = each.cpu_s * part
            if each in those and budget.wall_s(used_s + more_s) <= budget.seconds:
                used_s += more_s
                those.remove(each)
                close.setdefault(closeness[each.path], []).append(each)
    return Choice(_kept(close), tuple(of_day[False]), tuple(of_day[True]), tuple(rest))


def _kept(close: Mapping[Closeness, list[DeepFile]]) -> dict[Closeness, tuple[DeepFile, ...]]:
    return {rank: tuple(those) for rank, those in sorted(close.items())}


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
    seconds = suites.durations()[suites.DEEP]
    return [
        DeepFile(path, seconds.get(path, UNKNOWN_S))
        for path in suites.files()
        if suites.may_be_deep(path)
    ]


def choice_for(change: Change, day_number: int, budget: Budget) -> Choice:
    """Choose among the deep tests of this house."""
    files = deep_files()
    if change is None:
        return Choice({}, tuple(files), (), ())
    paths = [each.path for each in files]
    ranks = Ranks(change, imports_of_this_house(change), paths)
    closeness = {path: ranks.closeness(path) for path in paths}
    return choose(files, closeness, ranks.always, day_number, budget)


def report(choice: Choice, change: Change, day_number: int, budget: Budget) -> list[str]:
    """Say in a few lines what runs and why, and what does not."""
    size = "of unknown size: all run" if change is None else f"of {len(change)} files"
    found = [f"deep tests for a change {size}, on day {day_number % DAYS + 1} of {DAYS}:"]
    rows = [(REASONS[rank], files) for rank, files in choice.close.items()]
    rows += [("of this day", choice.of_day), ("of this day, in turns", choice.in_turns)]
    for reason, files in [*rows, ("left out", choice.left_out)]:
        found.append(f"{len(files):5} files {cpu_s(files):6.0f} s of CPU  {reason}")
    found.append(f"about {budget.wall_s(choice.cpu_s) / 60:.0f} minutes")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose deep tests for continuous integration.")
    parser.add_argument("path", type=Path, help="where the files that are left out are written")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--cores", type=int, required=True)
    given = parser.parse_args()
    budget = Budget(given.minutes * 60, given.cores)
    change, day_number = changed(suites.ROOT), day(suites.ROOT)
    choice = choice_for(change, day_number, budget)
    suites.LeftOut(
        frozenset(each.path for each in choice.left_out),
        frozenset(each.path for each in choice.in_turns),
        day_number // DAYS % suites.TURNS,
    ).write(given.path)
    print("\n".join(report(choice, change, day_number, budget)), flush=True)


if __name__ == "__main__":
    main()
