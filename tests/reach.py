"""Which deep tests continuous integration runs: those of the day, and what the change reaches.

    python -m tests.reach build/reach.json --minutes 20 --cores 2

Nearly every deep test starts a whole broker, so each reaches nearly every module, and the rule
"what the change reaches runs" would run all of them: twice the time that there is. So the minutes
are a budget that nothing goes beyond, and what competes for them stands in one order:

1. Files of the day, whatever changed: each file has one day of the week. Of a long file (`LONG_S`)
   a third of the cases runs then, another third a week later.
2. Files whose own text changed.
3. The others by how close the change is to them (`Closeness`), the closest first, and of those the
   shortest first.

Of a long file that is close a third of the cases is taken first; it runs whole if minutes are left
when all others that are as close have been asked. What finds no room runs on its day. `make
test-deep` without MINUTES runs all.

Minutes are those of a clock. The tests of Spark run after all others, and each of the two parts has
a pace of its own (`Part`): JVMs start alone, so Spark's uses less of the cores. CPU seconds of a
file are those of tests/durations.toml, without hunts and soak. A file that no run has measured is
taken for `NEW_S`.

Invariants:
* The choice is a function of the changed files, the imports, tests/durations.toml and the date of
  HEAD, so a run can be repeated.
* Nothing but the part of the day can go beyond the minutes, and that takes a half of 20 at most.
* No file is left out for one that is less close, unless that one is shorter than what is left.
* Whatever changed, each test is among those of one of seven consecutive days, or of three weeks if
  its file is long.
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
from tests.rooms import changed_rooms

DAYS: Final = 7
QUICK_S: Final = 1.0
"""What a file counts that is not in the table, and has few deep tests or none."""
NEW_S: Final = 15.0
"""What a file of deep tests alone counts that is not in the table: all that ran once are."""
LONG_S: Final = 60.0
"""The cases of a file that takes more take turns."""
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
class Part:
    """A part of the deep tests: they run one after the other."""

    start_s: float
    """On the clock: reading the tests, and the last of them, beside which nothing runs."""
    busy: float
    """How much of the cores it uses meanwhile; the rest is waiting."""


OTHERS: Final = Part(start_s=30, busy=0.9)
SPARK: Final = Part(start_s=45, busy=0.8)


@dataclass(frozen=True, slots=True)
class DeepFile:
    """A file with deep tests, and how many seconds of a core they take."""

    path: str
    cpu_s: float

    @property
    def part(self) -> Part:
        return SPARK if self.path.startswith(suites.SPARK_FILES) else OTHERS

    @property
    def first_share(self) -> float:
        """How much of it runs on its day, and before others that are as close have had their
        turn."""
        return 1 / suites.TURNS if self.cpu_s > LONG_S else 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How long deep tests may take, and on how many cores."""

    seconds: float
    cores: int

    @property
    def left_s(self) -> float:
        """What is there for tests. Nearly every choice has some of both parts."""
        return self.seconds - OTHERS.start_s - SPARK.start_s

    def wall_s(self, file: DeepFile, share: float = 1.0) -> float:
        """Return how long the share of the file's tests takes on the clock."""
        return file.cpu_s * share / (self.cores * file.part.busy)


@dataclass(frozen=True, slots=True)
class Row:
    """A file of which something runs: the share of its cases, and why."""

    file: DeepFile
    share: float
    closeness: Closeness | None
    """What brought it; None for its day."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs, and what does not."""

    rows: tuple[Row, ...]
    left_out: tuple[DeepFile, ...]

    @property
    def whole(self) -> tuple[DeepFile, ...]:
        return tuple(each.file for each in self.rows if each.share == 1)

    @property
    def in_turns(self) -> tuple[DeepFile, ...]:
        """Those of which a part of the cases runs."""
        return tuple(each.file for each in self.rows if each.share < 1)

    def of(self, closeness: Closeness | None) -> tuple[Row, ...]:
        return tuple(each for each in self.rows if each.closeness is closeness)

    def seconds(self, budget: Budget) -> float:
        """What it takes on the clock."""
        taken_s = sum(budget.wall_s(each.file, each.share) for each in self.rows)
        return budget.seconds - budget.left_s + taken_s


def day_of(path: str) -> int:
    """Return the day of `DAYS` on which the file runs in any case."""
    return zlib.crc32(f"its day {path}".encode()) % DAYS


def choose(
    files: Iterable[DeepFile],
    closeness: Mapping[str, Closeness],
    day_number: int,
    budget: Budget,
) -> Choice:
    """Choose the files of the day, then by closeness while the budget lasts."""
    ordered = sorted(files, key=lambda each: (closeness[each.path], each.cpu_s, each.path))
    rows = {
        each: Row(each, each.first_share, None)
        for each in ordered
        if day_of(each.path) == day_number % DAYS
    }
    left_s = budget.left_s - sum(budget.wall_s(row.file, row.share) for row in rows.values())
    for rank in Closeness:
        close = [each for each in ordered if closeness[each.path] is rank]
        if rank is Closeness.NOTHING:
            break
        for wants_all in (False, True):
            for each in close:
                share = 1.0 if wants_all else each.first_share
                before = rows[each].share if each in rows else 0.0
                more_s = budget.wall_s(each, share - before)
                if share > before and more_s <= left_s:
                    left_s -= more_s
                    rows[each] = Row(each, share, rank)
    left_out = tuple(each for each in ordered if each not in rows)
    return Choice(tuple(rows[each] for each in ordered if each in rows), left_out)


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
        DeepFile(path, seconds.get(path, unmeasured_s(path)))
        for path in suites.files()
        if suites.may_be_deep(path)
    ]


def unmeasured_s(path: str) -> float:
    """Return what a file counts that no run has measured."""
    return NEW_S if suites.is_deep_file(path) else QUICK_S


def choice_for(change: Change, day_number: int, budget: Budget) -> Choice:
    """Choose among the deep tests of this house."""
    files = deep_files()
    if change is None:
        return Choice(tuple(Row(each, 1.0, None) for each in files), ())
    paths = [each.path for each in files]
    ranks = Ranks(change, imports_of_this_house(change), paths)
    closeness = {path: ranks.closeness(path) for path in paths}
    return choose(files, closeness, day_number, budget)


def report(choice: Choice, change: Change, day_number: int, budget: Budget) -> list[str]:
    """Say in a few lines what runs and why, and what does not."""
    size = "of unknown size: all run" if change is None else f"of {len(change)} files"
    found = [f"deep tests for a change {size}, on day {day_number % DAYS + 1} of {DAYS}:"]
    for closeness in (None, *Closeness):
        if rows := choice.of(closeness):
            reason = "of this day" if closeness is None else REASONS[closeness]
            seconds = sum(each.file.cpu_s * each.share for each in rows)
            turns = sum(each.share < 1 for each in rows)
            of_some = f", a part of the cases of {turns}" if turns else ""
            found.append(f"{len(rows):5} files {seconds:6.0f} s of CPU  {reason}{of_some}")
    seconds = sum(each.cpu_s for each in choice.left_out)
    found.append(f"{len(choice.left_out):5} files {seconds:6.0f} s of CPU  left to their days")
    found += [f"it changed and waits for its day: {each}" for each in _late(choice, change)]
    found.append(f"about {choice.seconds(budget) / 60:.0f} minutes")
    return found


def _late(choice: Choice, change: Change) -> list[str]:
    return sorted(
        each.path for each in choice.left_out if change is not None and each.path in change
    )


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
