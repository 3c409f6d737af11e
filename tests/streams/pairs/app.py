"""The app of a case, as a user writes it: `moldau streams run tests.streams.pairs.app:app`.

APP names the app and its topics; CASE has the choices as JSON. REPAIRED is set once what stopped
the app is repaired, UPGRADED in a version with one more sub-topology.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

import msgspec

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Streams,
    col,
    concat,
    count_window,
    dead_letter,
    hopping,
    retry,
    session,
    sliding,
    tumbling,
    until_close,
    when,
    within,
)
from tests.streams.pairs.model import (
    ADVANCE_MS,
    COUNT,
    NEAR_MS,
    NO_NAME,
    RECORDS,
    WINDOW_MS,
    answer_to,
    foreign_key,
    is_bad,
)

NAME: Final = os.environ.get("APP", "app")
CASE: Final[dict[str, str]] = json.loads(os.environ.get("CASE", "{}"))
GRACE: Final = "1m"
_HOUR: Final = "1h"
_failed_once: Final[set[str]] = set()
_POLICIES: Final[dict[str, Any]] = {
    "skip": "skip",
    "retry": retry(5, backoff="50ms"),
    "dead letter": dead_letter(f"{NAME}-dead"),
}


class Part(msgspec.Struct):
    """A line in fields, for expressions."""

    key: str
    number: int
    zero: int = 0


def number_of(line: str) -> int:
    return int(line.split()[1])


def key_of(line: str) -> str:
    return line.split()[0]


def fails() -> bool:
    """Whether the app has a function that fails."""
    return CASE["policy"] != "none" and not os.environ.get("REPAIRED")


def checked(line: str, kind: str = "line") -> str:
    """Fail for some lines, as the policy of the case wants it."""
    if not fails() or not is_bad(number_of(line)):
        return line
    if CASE["policy"] == "retry":
        if f"{kind} {line}" in _failed_once:
            return line
        _failed_once.add(f"{kind} {line}")
    raise ValueError(f"no {line}")


async def checked_later(line: str) -> str:
    return checked(line)


def all_checked(lines: list[str]) -> list[str]:
    return [checked(each) for each in lines]


def checked_row(row: str) -> str:
    return checked(row, "row")


def parsed(line: str) -> Part:
    return Part(key_of(line), number_of(line))


def build() -> Streams:
    """Return the app of the case."""
    options: Any = {"on_error": "skip"} if CASE["policy"] == "app skips" else {}
    if CASE["store"] == "every update":
        options["emit"] = "every"
    made = Streams(NAME, **options)
    given = made.stream(f"{NAME}-lines", str)
    if CASE["branch"] == "sibling":
        given.to(f"{NAME}-copy")
    if CASE["branch"] == "reply":
        made.stream(f"{NAME}-requests", str).map_values(answer_to).reply()
    steps = _checked(given)
    _step(steps)
    _fold(steps)
    _join(made, steps)
    if os.environ.get("UPGRADED"):
        made.stream(f"{NAME}-more", str).group_by(key_of).count(name="more")
    return made


def _policy() -> Any:
    return {"on_error": _POLICIES[CASE["policy"]]} if CASE["policy"] in _POLICIES else {}


def _checked(given: Any) -> Any:
    match CASE["way"]:
        case "sync":
            return given.map_values(checked, **_policy())
        case "async":
            return given.map_values(checked_later, **_policy())
        case "batch":
            return given.map_batch(all_checked, **_policy())
    parts = given.map_values(parsed)
    if fails():
        # An expression computes what is needed: nothing is divided where the condition is false.
        bad = (col("number") % 13 == 5) & (col("number") < RECORDS)
        number = when(bad).then(col("number") // col("zero")).otherwise(col("number"))
        parts = parts.with_columns(number=number, **_policy())
    return parts.filter(col("number") >= 0).map_values(
        concat(col("key"), " ", col("number").cast(str))
    )


def _step(steps: Any) -> None:
    out = f"{NAME}-step"
    match CASE["step"]:
        case "map":
            marked = steps.map_headers(lambda line: [("step", b"map")])
            marked = marked.filter(lambda line, *, headers: ("step", b"map") in headers)
            marked.map(lambda key, line: (key_of(line), line), key=str, type=str).to(out)
        case "flat map":
            steps.flat_map(lambda line: [line, f"{line} again"], type=str).to(out)
        case "merge":
            even, odd = steps.branch(lambda line: number_of(line) % 2 == 0)
            even.merge(odd).to(out)
        case "repartition":
            steps.repartition("again").to(out)
        case "many topics":
            steps.to(lambda line: out if number_of(line) % 2 else f"{out}-even")


def _fold(steps: Any) -> None:
    out = f"{NAME}-fold"
    if CASE["fold"] == "process":
        keyed = steps.select_key(key_of)
        keyed.process(Kept, name="kept", stores=_stores(), key=str, type=str).to(out)
        return
    grouped = steps.group_by(key_of)
    kept = _kept()
    match CASE["fold"]:
        case "count":
            found = grouped.count(name="counts", **kept).changes()
        case "reduce":
            found = grouped.reduce(_larger, name="largest", **kept).changes().map_values(number_of)
        case "sum":
            found = grouped.aggregate(0, _added, name="sums", **kept).changes()
        case "distinct":
            numbers = grouped.distinct(number_of, name="numbers", **kept)
            found = numbers.changes().map_values(lambda these: " ".join(map(str, sorted(these))))
        case "cogroup":
            counts = grouped.cogroup(lambda count, _: count + 1)
            found = counts.aggregate(0, name="counts", **kept).changes()
        case _:
            found = _windows(grouped, kept).changes().map(_windowed, key=str, type=Any)
    found.map_values(lambda value: "" if value is None else str(value), type=str).to(out)


def _kept() -> Any:
    """Return the options of a store."""
    if CASE["store"] == "in memory":
        return {"in_memory": True}
    return {"logged": False} if CASE["store"] == "no changelog" else {}


def _windows(grouped: Any, kept: Any) -> Any:
    windows: Any = {
        "hopping": hopping(WINDOW_MS, advance=ADVANCE_MS, grace=GRACE),
        "sliding": sliding(NEAR_MS, grace=GRACE),
        "session": session(NEAR_MS, grace=GRACE),
        "counted": count_window(COUNT),
    }.get(CASE["fold"], tumbling(WINDOW_MS, grace=GRACE))
    how: Any = {"emit": "close"} if CASE["fold"] == "close" else {}
    counts = grouped.window(windows, **how).count(name="windows", **kept)
    if CASE["fold"] == "suppress":
        return counts.suppress(until_close(), name="closed")
    return counts


def _windowed(window: Any, count: int | None) -> tuple[str, Any]:
    """A session that has grown into another one is gone: its count is nothing."""
    end = f" {window.end}" if CASE["fold"] == "session" else ""
    return f"{window.key} {window.start}{end}", count


def _larger(one: str, other: str) -> str:
    return max(one, other, key=number_of)


def _added(total: int, line: str) -> int:
    return total + number_of(line)


def _stores() -> list[StateStore]:
    is_logged = CASE["store"] != "no changelog"
    types: Any = {"key": str, "value": int, "logged": is_logged}
    where: Any = {"in_memory": CASE["store"] == "in memory"}
    return [
        StateStore("kept-rows", ttl=_HOUR, **types, **where),
        StateStore.windows("windows", size=WINDOW_MS, retention=_HOUR, in_memory=True, **types),
        StateStore.sessions("sessions", retention=_HOUR, **types, **where),
        StateStore.versions("versions", retention=_HOUR, **types),
    ]


class Kept:
    """Counts the lines of a key in stores of all kinds."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows, self.windows = context.store("kept-rows"), context.store("windows")
        self.sessions, self.versions = context.store("sessions"), context.store("versions")

    def process(self, record: Record) -> None:
        key, at = record.key, record.timestamp
        self.rows[key] = self.rows.get(key, 0) + 1
        start = at // WINDOW_MS * WINDOW_MS
        self.windows.put(key, self.windows.get(key, start, 0) + 1, start)
        self.sessions.put(key, at, at, 1)
        self.versions.put(key, number_of(record.value), at)
        counts = (
            self.rows[key],
            sum(count for _, count in self.windows.fetch(key, 0, at * 2)),
            len(list(self.sessions.find(key, 0, at * 2))),
            len(list(self.versions.versions(key, 0, at * 2))),
        )
        self.context.forward(record.changed(value=" ".join(map(str, counts))))


def _join(made: Streams, steps: Any) -> None:
    out = f"{NAME}-join"
    match CASE["join"]:
        case "global":
            names = made.global_table(f"{NAME}-names", str, key=str, name="names")
            steps.join(names, _both, key=key_of).to(out)
        case "global store":
            store = StateStore("names", key=str, value=str)
            rows = made.global_store(f"{NAME}-names", str, key=str, store=store, make=Names)
            steps.join(rows, _both, key=key_of).to(out)
        case "table process":
            seen = StateStore("seen", key=str, value=str, **_kept())
            found = _rows(made).process(OldValues, name="seen-by", stores=[seen], key=str, type=str)
            found.to(out)
        case "streams" | "left streams":
            _joined_streams(steps).to(out)
        case "to table":
            steps.select_key(key_of).to_table(name="lines").changes().to(out)
        case "lookup" | "left lookup" | "versioned":
            history: Any = {"versioned": _HOUR} if CASE["join"] == "versioned" else {}
            names = _table(made, "names", **history)
            keyed = steps.select_key(key_of)
            join = keyed.left_join if CASE["join"] == "left lookup" else keyed.join
            join(names, _both, name="named").to(out)
        case _:
            found = _tables(made)
            found.changes().map_values(_text, type=str).to(out)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


class Names:
    """Keeps the names of a global store."""

    def __init__(self, context: Context) -> None:
        self.rows = context.store("names")

    def process(self, record: Record) -> None:
        self.rows[record.key] = record.value


class OldValues:
    """Forwards the rows of a table. Exactly once, a row whose old value is not the one before is
    marked from then on."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.seen = context.store("seen")

    def process(self, record: Record) -> None:
        before = self.seen.get(record.key, "")
        value = _text(record.value)
        if CASE["guarantee"] == "exactly_once_v2" and _text(record.old) != before:
            value = f"{before} was {record.old}"
        self.seen[record.key] = value if " was " not in before else before
        self.context.forward(record.changed(value=self.seen[record.key]))


class RowMaker:
    """Makes a row of each row."""

    def __init__(self, context: Context) -> None:
        """It has no stores."""

    def process(self, record: Record) -> str | None:
        return None if record.value is None else f"{record.value} processed"


def _joined_streams(steps: Any) -> Any:
    even, odd = steps.select_key(key_of).branch(lambda line: number_of(line) % 2 == 0)
    near = within(NEAR_MS, grace=GRACE)
    join = even.left_join if CASE["join"] == "left streams" else even.join
    return join(odd, _both, within=near, name="near")


def _table(made: Streams, topic: str, **options: Any) -> Any:
    writer: Any = "crc32" if CASE["writer"] == "crc32" else None
    return made.table(f"{NAME}-{topic}", str, key=str, partitioner=writer, name=topic, **options)


def _rows(made: Streams) -> Any:
    return _table(made, "rows").map_values(checked_row, **_policy())


def _tables(made: Streams) -> Any:
    rows = _rows(made)
    match CASE["join"]:
        case "table":
            return rows
        case "processed table":
            return rows.process_values(RowMaker, name="processed")
        case "regroup":
            return rows.group_by(_parity).count(name="groups", **_kept())
    names = _table(made, "names")
    match CASE["join"]:
        case "tables":
            return rows.join(names, _both)
        case "outer tables":
            return rows.outer_join(names, _both)
        case "foreign key":
            return rows.join(names, _both, on=_named_by, name="joined")
        case "left foreign key":
            return rows.left_join(names, _both, on=_named_by, name="joined")
    raise AssertionError(CASE)


def _both(left: str | None, right: str | None) -> str:
    return f"{NO_NAME if left is None else left} {NO_NAME if right is None else right}"


def _named_by(row: str) -> str:
    return foreign_key(number_of(row))


def _parity(_: str, row: str) -> tuple[str, str]:
    return str(number_of(row) % 2), row


app = build() if CASE else Streams(NAME)
