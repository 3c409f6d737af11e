"""Measure cases side by side and report which goals are met.

Invariants:
* Cases of one table are interleaved: every round runs each of them once, beginning with another
  one each time, so that a machine that slows down for a while slows all of them down.
* The report shows the median of the rounds, with the spread beside it; a ratio is the quotient of
  the two medians that the reader sees.
* A goal that names no case of its table is an error, never a goal silently left out.
* A case that raises `Missing` is not run again and is in the table with its reason. A goal on it
  is missed; a goal that compares with it cannot be judged, and the report says so.
* A report contains nothing that names the machine's owner: no host name, no path.

Why not a benchmark library: what matters here is the ratio to a peer in the same run, which those
tools measure one case after the other.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

Clock = Callable[[], float]

ROUNDS_DEFAULT = 7
UNEXPLAINED = "Not explained yet: bench/missed.toml has no sentence for it."


class Missing(Exception):
    """A case has no value: it took too long or cannot run here. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure: `run` does one round of work and returns the measured value."""

    name: str
    run: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a case: on its own value, or on its value divided by that of `versus`."""

    case: str
    versus: str | None = None
    ratio_at_least: float | None = None
    ratio_at_most: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        ratios = [bound for bound in (self.ratio_at_least, self.ratio_at_most) if bound is not None]
        values = [bound for bound in (self.at_least, self.at_most) if bound is not None]
        if not ratios and not values:
            raise ValueError(f"the goal on {self.case!r} has no bound")
        if bool(ratios) != (self.versus is not None):
            raise ValueError(f"the goal on {self.case!r}: a ratio and `versus` belong together")


@dataclass(frozen=True, slots=True)
class Table:
    """Cases with one unit, and their goals. Ratios refer to the first case."""

    title: str
    unit: str
    cases: Sequence[Case]
    goals: Sequence[Goal] = ()
    higher_is_better: bool = True
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if not names:
            raise ValueError(f"table {self.title!r} has no cases")
        if len(set(names)) < len(names):
            raise ValueError(f"table {self.title!r} has two cases of one name: {names}")
        for goal in self.goals:
            for name in (goal.case, goal.versus):
                if name is not None and name not in names:
                    raise ValueError(f"a goal of table {self.title!r} names no case: {name!r}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal compared with what was measured."""

    goal: Goal
    text: str
    met: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one table: every value of every case, in the order of the rounds."""

    table: Table
    values: Mapping[str, Sequence[float]]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Cases without values, with the reasons."""
    verdicts: Sequence[Verdict] = field(init=False)

    def __post_init__(self) -> None:
        verdicts = []
        for goal in self.table.goals:
            if goal.case in self.missing:
                verdicts.append(Verdict(goal, f"`{goal.case}` has no value", met=False))
            elif goal.versus not in self.missing:
                verdicts += _judge(goal, self.median, self.scale[1])
        object.__setattr__(self, "verdicts", tuple(verdicts))

    @property
    def scale(self) -> tuple[str, float]:
        """The unit that the report has, and the factor from values to it."""
        return fitting(self.table.unit, max(map(self.median, self.values), default=0.0))

    def shown(self, name: str) -> str:
        """Return the median of a case in the report's unit."""
        return human(self.median(name) * self.scale[1])

    def median(self, name: str) -> float:
        return statistics.median(self.values[name])

    def spread(self, name: str) -> float:
        """Return the distance of the lowest and the highest round, as a part of the median."""
        values = self.values[name]
        median = self.median(name)
        return (max(values) - min(values)) / median if median else 0.0

    @property
    def is_met(self) -> bool:
        return all(verdict.met for verdict in self.verdicts)


def rate(
    work: Callable[[], object], count: int, *, clock: Clock = time.perf_counter
) -> Callable[[], float]:
    """A `run` for `Case`: call `work`, which does `count` things, and return things a second."""
    each = seconds(work, count, clock=clock)
    return lambda: 1.0 / each()


def seconds(
    work: Callable[[], object], count: int = 1, *, clock: Clock = time.perf_counter
) -> Callable[[], float]:
    """A `run` for `Case`: call `work`, which does `count` things, and return seconds a thing."""

    def run() -> float:
        start = clock()
        work()
        return (clock() - start) / count

    return run


def measure(table: Table, *, rounds: int = ROUNDS_DEFAULT, warm_up: int = 1) -> Measured:
    """Run every case `warm_up` times without measuring, then once a round, interleaved."""
    if rounds < 1:
        raise ValueError(f"at least one round is needed, not {rounds}")
    missing: dict[str, str] = {}
    for case in table.cases:
        for _ in range(warm_up):
            _run(case, missing)
    values: dict[str, list[float]] = {case.name: [] for case in table.cases}
    for number in range(rounds):
        for case in _rotated(table.cases, number):
            gc.collect()
            values[case.name] += _run(case, missing)
    return Measured(
        table, {name: found for name, found in values.items() if name not in missing}, missing
    )


def _run(case: Case, missing: dict[str, str]) -> list[float]:
    """Return the value of one round, or none if the case is missing or raises `Missing`."""
    if case.name in missing:
        return []
    try:
        return [case.run()]
    except Missing as error:
        missing[case.name] = str(error)
        return []


def report(
    area: str,
    measured: Iterable[Measured],
    *,
    command: str,
    machine: str,
    reasons: Mapping[str, str] | None = None,
) -> str:
    """Return the Markdown page of an area: what ran, where, and a table with its goals for each.
    `reasons` has what stands after a missed goal, by the title of the table."""
    lines = [f"# {area}", "", f"- machine: {machine}", f"- command: `{command}`", ""]
    for each in measured:
        lines += _report_table(each, (reasons or {}).get(each.table.title, UNEXPLAINED))
    return "\n".join(lines).rstrip() + "\n"


def told(measured: Measured) -> str:
    """Return a table in one line: its medians, and the missed goals."""
    medians = (f"{name} {measured.shown(name)}" for name in measured.values)
    missing = (f"{name} has no value: {reason}" for name, reason in measured.missing.items())
    missed = (f"MISSED {each.text}" for each in measured.verdicts if not each.met)
    return ", ".join((*medians, *missing, *missed))


def machine_line(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor, cores, Python, system and day: what readers need to compare numbers."""
    kernel = re.match(r"\d+\.\d+", platform.release())
    system = f"{platform.system()} {kernel.group() if kernel else ''}".strip()
    return ", ".join(
        (
            _processor(cpu_info),
            f"{os.cpu_count()} cores",
            f"{platform.python_implementation()} {platform.python_version()}",
            system,
            time.strftime("%Y-%m-%d"),
        )
    )


def human(value: float) -> str:
    """Return a number as people read it: 25,310,000, 1,406, 23.51, 0.597, 0.0041."""
    if not value:
        return "0"
    digits = _DIGITS if abs(value) >= 1 else _DIGITS - 1
    rounded = Decimal(f"{value:.{digits - 1}e}")
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_DIGITS = 4
_UNITS = (
    (re.compile(r"^seconds\b"), ((0.0, 1e-3, 1e6, "us"), (1e-3, 0.1, 1e3, "ms"))),
    (re.compile(r"^s\b(?!/)"), ((0.0, 1e-3, 1e6, "us"), (1e-3, 0.1, 1e3, "ms"))),
    (re.compile(r"\bbytes\b"), ((1e4, 1e6, 1e-3, "kB"), (1e6, 1e13, 1e-6, "MB"))),
)
"""Units, and for the largest number of a table from a bound to another: the factor and the unit
that fit it."""


def fitting(unit: str, largest: float) -> tuple[str, float]:
    """Return the unit in which people read a table with that largest number, and the factor to it:
    `bytes/s` becomes `MB/s`, and times far below a second are in ms or us."""
    for pattern, scales in _UNITS:
        if pattern.search(unit):
            for low, high, factor, name in scales:
                if low <= largest < high:
                    return pattern.sub(name, unit, count=1), factor
    return unit, 1.0


def _rotated(cases: Sequence[Case], by: int) -> Sequence[Case]:
    start = by % len(cases)
    return [*cases[start:], *cases[:start]]


def _judge(goal: Goal, median: Callable[[str], float], factor: float) -> list[Verdict]:
    value = median(goal.case)
    verdicts = []
    if goal.versus is not None:
        other = median(goal.versus)
        ratio = value / other if other else float("inf")
        name = f"`{goal.case}` / `{goal.versus}`"
        verdicts += _hold(goal, name, ratio, (goal.ratio_at_least, goal.ratio_at_most))
    bounds = (goal.at_least, goal.at_most)
    return verdicts + _hold(goal, f"`{goal.case}`", value, bounds, factor)


def _hold(
    goal: Goal,
    name: str,
    value: float,
    bounds: tuple[float | None, float | None],
    factor: float = 1.0,
) -> list[Verdict]:
    low, high = bounds
    said = f"{name} = {human(value * factor)}, goal"
    verdicts = []
    if low is not None:
        verdicts.append(Verdict(goal, f"{said} >= {human(low * factor)}", value >= low))
    if high is not None:
        verdicts.append(Verdict(goal, f"{said} <= {human(high * factor)}", value <= high))
    return verdicts


def _report_table(measured: Measured, reason: str) -> list[str]:
    table = measured.table
    present = [case.name for case in table.cases if case.name not in measured.missing]
    first = present[0] if present else table.cases[0].name
    base = measured.median(first) if present else 0.0
    better = "higher" if table.higher_is_better else "lower"
    rounds = len(measured.values[first]) if present else 0
    lines = [
        f"## {table.title}",
        "",
        f"{measured.scale[0]}, {better} is better; median of {rounds} interleaved rounds.",
        "",
        f"| case | median | spread | / {first} |",
        "|-|-:|-:|-:|",
    ]
    for case in table.cases:
        if case.name in measured.missing:
            lines.append(f"| {case.name} | missing | - | - |")
            continue
        median = measured.median(case.name)
        ratio = f"{median / base:.2f}" if base else "-"
        spread = f"{measured.spread(case.name):.0%}"
        lines.append(f"| {case.name} | {measured.shown(case.name)} | {spread} | {ratio} |")
    lines.append("")
    for each in measured.verdicts:
        lines += [f"- met: {each.text}"] if each.met else [f"- MISSED: {each.text}", f"  {reason}"]
    lines += [
        f"- not judged: `{goal.case}` / `{goal.versus}`"
        for goal in table.goals
        if goal.versus in measured.missing and goal.case not in measured.missing
    ]
    lines += [f"- missing: {name}: {reason}" for name, reason in measured.missing.items()]
    lines += [f"- {note}" for note in table.notes]
    return [*lines, ""] if lines[-1] else lines


def _processor(cpu_info: Path) -> str:
    try:
        text = cpu_info.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor() or platform.machine()
