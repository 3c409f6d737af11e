"""The app of a case, as a user writes it: `moldau streams run tests.streams.pairs.app:app`.

APP names the app and its topics; CASE has the choices as JSON.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from moldau.streams import Streams, dead_letter, retry, session, tumbling
from tests.streams.pairs.model import GAP_MS, WINDOW_MS, is_bad

NAME: Final = os.environ.get("APP", "app")
CASE: Final[dict[str, str]] = json.loads(os.environ.get("CASE", "{}"))
_failed_once: Final[set[int]] = set()
_POLICIES: Final[dict[str, Any]] = {
    "skip": "skip",
    "retry": retry(5, backoff="50ms"),
    "dead letter": dead_letter(f"{NAME}-dead"),
}


def number_of(line: str) -> int:
    return int(line.split()[1])


def checked(line: str) -> str:
    """Fail for some lines, as the policy of the case wants it."""
    number, policy = number_of(line), CASE["policy"]
    if policy == "none" or not is_bad(number):
        return line
    if policy == "retry":
        if number in _failed_once:
            return line
        _failed_once.add(number)
    raise ValueError(f"no {number}")


async def checked_later(line: str) -> str:
    return checked(line)


def all_checked(lines: list[str]) -> list[str]:
    return [checked(each) for each in lines]


def key_of(line: str) -> str:
    return line.split()[0]


def build() -> Streams:
    """Return the app of the case."""
    skips = {"on_error": "skip"} if CASE["policy"] == "app skips" else {}
    made = Streams(NAME, **skips)  # type: ignore[arg-type]
    partitioner: Any = "crc32" if CASE["writer"] == "crc32" else None
    if CASE["operator"] in ("table", "foreign key"):
        _tables(made, partitioner)
        return made
    given = made.stream(f"{NAME}-lines", str)
    if CASE["branch"] == "sibling":
        given.to(f"{NAME}-copy")
    options: Any = {}
    if CASE["policy"] in _POLICIES:
        options["on_error"] = _POLICIES[CASE["policy"]]
    match CASE["way"]:
        case "sync":
            steps = given.map_values(checked, **options)
        case "async":
            steps = given.map_values(checked_later, **options)
        case _:
            steps = given.map_batch(all_checked, **options)
    _operators(made, steps)
    return made


def _tables(made: Streams, partitioner: Any) -> None:
    rows = made.table(f"{NAME}-lines", str, key=str, partitioner=partitioner, name="rows")
    if CASE["operator"] == "table":
        rows.changes().to(f"{NAME}-out")
        return
    names = made.table(f"{NAME}-names", str, key=str, partitioner=partitioner, name="names")
    joined = rows.join(names, lambda row, name: f"{row} {name}", on=key_of, name="joined")
    joined.changes().to(f"{NAME}-out")


def _operators(made: Streams, steps: Any) -> None:
    out = f"{NAME}-out"
    grouped: Any = None
    if CASE["operator"] not in ("map", "global"):
        grouped = steps.group_by(key_of)
    match CASE["operator"]:
        case "map":
            steps.to(out)
        case "global":
            names = made.global_table(f"{NAME}-names", str, key=str, name="names")
            steps.join(names, lambda line, name: f"{line} {name}", key=key_of).to(out)
        case "count":
            grouped.count(name="counts").changes().map_values(str).to(out)
        case "reduce":
            largest = grouped.reduce(_larger, name="largest").changes()
            largest.map_values(lambda line: str(number_of(line))).to(out)
        case "collect":
            total = grouped.aggregate(0, _added, name="sums").changes()
            total.map_values(str).to(out)
        case "cogroup":
            counts = grouped.cogroup(lambda count, _: count + 1)
            counts.aggregate(0, name="counts").changes().map_values(str).to(out)
        case "window":
            windows = grouped.window(tumbling(WINDOW_MS, grace="1h")).count(name="windows")
            windows.changes().map(_windowed, key=str, type=str).to(out)
        case "session":
            sessions = grouped.window(session(GAP_MS, grace="1h")).count(name="sessions")
            sessions.changes().map(_session, key=str, type=str).to(out)


def _larger(one: str, other: str) -> str:
    return max(one, other, key=number_of)


def _added(total: int, line: str) -> int:
    return total + number_of(line)


def _windowed(window: Any, count: int) -> tuple[str, str]:
    return f"{window.key} {window.start}", str(count)


def _session(window: Any, count: int | None) -> tuple[str, str]:
    """A session that has grown into another one is gone: its count is nothing."""
    return f"{window.key} {window.start} {window.end}", "" if count is None else str(count)


app = build() if CASE else Streams(NAME)
