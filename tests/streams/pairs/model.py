"""What goes into an app and what must come out, by the choices of its case.

A line is "KEY NUMBER". Steps before the operator leave the line as it is, or fail for every
thirteenth number: for good, or once if the policy is to retry.

A sibling branch copies all lines, but those that the app leaves out as a whole.

The end: the last value of each key in the output, or all values of a `map`. Exactly once it is that
of a run without faults. At least once a fault may double what is counted: then the end is no less.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.streams.pairs.columns import is_table

RECORDS: Final = 240
KEYS: Final = 7
_HOUR_MS: Final = 3_600_000
BEGAN_MS: Final = int(
    os.environ.get("BEGAN_MS", 0) or (int(time.time() * 1000) // _HOUR_MS - 1) * _HOUR_MS
)
"""The time of the first record. Brokers delete what is older than the retention of its topic, so it
is of today; the app has it from its environment."""
STEP_MS: Final = 100
WINDOW_MS: Final = 5_000
GAP_MS: Final = 1_000
_BAD: Final = 13


@dataclass(frozen=True, slots=True)
class Line:
    """A record of the input."""

    number: int
    key: str | None
    value: str | None
    timestamp_ms: int


def key_of(number: int) -> str:
    return f"k{number % KEYS}"


def lines(case: Mapping[str, str]) -> list[Line]:
    """Return the input, in order."""
    found = []
    for number in range(RECORDS):
        at = BEGAN_MS + number * STEP_MS
        if case["odd"] == "late" and number % 10 == 9:
            at -= 3_000
        key: str | None = key_of(number)
        if case["odd"] == "null keys" and number % 5 == 0:
            key = None
        value: str | None = f"{key_of(number)} {number}"
        if case["odd"] == "tombstones" and number % 11 == 3:
            value = None
        found.append(Line(number, key, value, at))
    return found


def is_bad(number: int) -> bool:
    """Whether the step before the operator fails for the number."""
    return number % _BAD == 5


def passed(case: Mapping[str, str]) -> list[Line]:
    """Return the records that reach the operator."""
    leaves_out = case["policy"] in ("skip", "dead letter", "app skips")
    return [
        each
        for each in lines(case)
        if not (leaves_out and is_bad(each.number)) and not (is_table(case) and each.key is None)
    ]


def wanted(case: Mapping[str, str]) -> Any:
    """Return the end: a Counter of values for `map` and `global`, else the last value by key."""
    found = passed(case)
    match case["operator"]:
        case "map" | "global":
            ending = " name" if case["operator"] == "global" else ""
            return Counter(f"{each.value}{ending}" for each in found)
        case "count" | "cogroup":
            counts = Counter(key_of(each.number) for each in found)
            return {key: str(count) for key, count in counts.items()}
        case "reduce":
            return {key_of(each.number): str(each.number) for each in found}
        case "collect":
            sums: Counter[str] = Counter()
            for each in found:
                sums[key_of(each.number)] += each.number
            return {key: str(total) for key, total in sums.items()}
        case "window":
            windows = Counter(
                f"{key_of(each.number)} {each.timestamp_ms // WINDOW_MS * WINDOW_MS}"
                for each in found
            )
            return {key: str(count) for key, count in windows.items()}
        case "session":
            return _sessions(found)
        case "table" | "foreign key":
            last = {each.key: each.value for each in found}
            ending = " name" if case["operator"] == "foreign key" else ""
            return {key: f"{value}{ending}" for key, value in last.items() if value is not None}
    raise AssertionError(case)


def _sessions(found: list[Line]) -> dict[str, str]:
    """The sessions by key: "KEY START END", with how many records each has."""
    ends = {}
    for key in {key_of(each.number) for each in found}:
        times = sorted(each.timestamp_ms for each in found if key_of(each.number) == key)
        begin, count, last = times[0], 0, times[0]
        for at in times:
            if at - last > GAP_MS:
                ends[f"{key} {begin} {last}"] = str(count)
                begin, count = at, 0
            count, last = count + 1, at
        ends[f"{key} {begin} {last}"] = str(count)
    return ends


def problems(case: Mapping[str, str], values: Counter[str], last: Mapping[str, str]) -> list[str]:
    """Return what is wrong with an output, of which these are all values and the last ones."""
    expected = wanted(case)
    if isinstance(expected, Counter):
        lost, more = expected - values, values - expected
        if may_double(case):
            more = Counter(set(more) - set(expected))
        return [f"lost {dict(lost)}"] * bool(lost) + [f"more {dict(more)}"] * bool(more)
    found = {key: value for key, value in last.items() if value != ""}
    if may_double(case) and case["operator"] in ("count", "cogroup", "collect", "window"):
        less = {key: (found.get(key), each) for key, each in expected.items()
                if int(found.get(key) or 0) < int(each)}  # fmt: skip
        return [f"less than it must be {less}"] * bool(less)
    if may_double(case) and case["operator"] == "session":
        return [f"sessions {set(found) ^ set(expected)}"] * (set(found) != set(expected))
    wrong = {key: (found.get(key), expected.get(key)) for key in {*found, *expected}
             if found.get(key) != expected.get(key)}  # fmt: skip
    return [f"found and expected differ: {dict(sorted(wrong.items())[:6])}"] * bool(wrong)


def copies(case: Mapping[str, str]) -> Counter[str]:
    """Return what the sibling branch must have written. What was done in front of an `async def`
    function or `map_batch` stays."""
    if case["branch"] == "none":
        return Counter()
    leaves_out = case["policy"] == "app skips" and case["way"] == "sync"
    return Counter(
        str(each.value) for each in lines(case) if not (leaves_out and is_bad(each.number))
    )


def copy_problems(case: Mapping[str, str], found: Counter[str]) -> list[str]:
    """Return what is wrong with the output of the sibling branch."""
    expected = copies(case)
    lost, more = expected - found, found - expected
    if may_double(case):
        more = Counter(set(more) - set(expected))
    return [f"copies: lost {dict(lost)}, more {dict(more)}"] * bool(lost or more)


def may_double(case: Mapping[str, str]) -> bool:
    """Whether a record may count twice: at least once, after a kill or a broker that was away."""
    return case["guarantee"] == "at_least_once" and case["fault"] in ("kill", "broker", "again")


def letters(case: Mapping[str, str]) -> set[int]:
    """Return the numbers in the topic of dead letters."""
    if case["policy"] != "dead letter":
        return set()
    return {each.number for each in lines(case) if is_bad(each.number)}
