"""What goes into an app and what must come out, by the choices of its case.

There are three inputs. A line is "KEY NUMBER", of seven keys in turn. The rows of a table are the
same texts, each under its key; with tombstones some have no value. Names belong to other seven
keys, five of which the lines have too. In the end one more line for each key, half an hour later,
closes all windows.

The app checks lines and rows first: its function leaves them as they are, or fails for every
thirteenth number: for good, once if the policy is to retry, or until the app is repaired.

The outputs are those of a step, a fold and a join, and a sibling branch with all lines but those
that the app leaves out as a whole. Exactly once their ends are those of a run without faults. At
least once a fault may double what is counted: then the end is no less.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

Case = Mapping[str, str]

RECORDS: Final = 240
KEYS: Final = 7
_HOUR_MS: Final = 3_600_000
BEGAN_MS: Final = int(
    os.environ.get("BEGAN_MS", 0) or (int(time.time() * 1000) // _HOUR_MS - 1) * _HOUR_MS
)
"""The time of the first record. Brokers delete what is older than the retention of its topic, so it
is of today; the app has it from its environment."""
STEP_MS: Final = 100
END_MS: Final = BEGAN_MS + _HOUR_MS // 2
"""The time of the first line that closes windows."""
LATE_MS: Final = 3_000
WINDOW_MS: Final = 5_000
ADVANCE_MS: Final = 2_500
NEAR_MS: Final = 1_000
"""The gap of sessions, the difference of sliding windows, the span of a join of streams."""
COUNT: Final = 5
"""The records of a window that counts them."""
NO_NAME: Final = "nameless"
_BAD: Final = 13


@dataclass(frozen=True, slots=True)
class Line:
    """A record of an input."""

    number: int
    key: str | None
    value: str | None
    timestamp_ms: int

    @property
    def text(self) -> str:
        assert self.value is not None
        return self.value


def key_of(number: int) -> str:
    return f"k{number % KEYS}"


def answer_to(request: str) -> str:
    """Return what the app replies to a request."""
    return f"{request} answered"


def foreign_key(number: int) -> str:
    """Return the key of the name that a row refers to; some have none."""
    return f"k{number % (KEYS + 2)}"


def lines(case: Case) -> list[Line]:
    """Return the lines but the last ones, in order."""
    found = []
    for number in range(RECORDS):
        late_ms = LATE_MS if case["odd"] == "late" and number % 10 == 9 else 0
        at = BEGAN_MS + number * STEP_MS - late_ms
        is_null = case["odd"] == "null keys" and number % 5 == 0
        found.append(_line(number, at, is_null=is_null))
    return found


def closing() -> list[Line]:
    """Return the last lines, one for each key."""
    return [_line(RECORDS + each, END_MS + each * STEP_MS) for each in range(KEYS)]


def rows(case: Case) -> list[Line]:
    """Return the rows of the table, in order."""
    found = []
    for each in lines(case):
        is_gone = case["odd"] == "tombstones" and each.number % 11 == 3
        found.append(
            Line(each.number, each.key, None if is_gone else each.value, each.timestamp_ms)
        )
    return found


def names(case: Case) -> list[Line]:
    """Return the names, which are older than all lines; of a versioned table a second one of each
    key, from the middle of the lines on."""
    found = [Line(each, f"k{each + 2}", "name", BEGAN_MS - 10_000 + each) for each in range(KEYS)]
    if case["join"] == "versioned":
        found += [
            Line(each.number, each.key, "other", BEGAN_MS + RECORDS // 2 * STEP_MS)
            for each in found
        ]
    return found


def _line(number: int, at: int, *, is_null: bool = False) -> Line:
    key = key_of(number)
    return Line(number, None if is_null else key, f"{key} {number}", at)


def is_bad(number: int) -> bool:
    """Whether the function that checks a line fails for its number."""
    return number < RECORDS and number % _BAD == 5


def passed(case: Case, given: Iterable[Line]) -> list[Line]:
    """Return what comes through the function that checks it."""
    if case["policy"] not in ("skip", "dead letter", "app skips"):
        return list(given)
    return [each for each in given if each.value is None or not is_bad(each.number)]


@dataclass(frozen=True, slots=True)
class End:
    """What an output must have in the end: all its values, or the last one of each key. `others` it
    may have beside its values. What `grows` is numbers, which records that count twice make larger.
    `once` is for an output that has each key once."""

    values: Counter[str] | None = None
    others: Counter[str] = field(default_factory=Counter)
    last: Mapping[str, str] | None = None
    grows: bool = False
    once: bool = False

    def problems(
        self, found: Counter[str], last: Mapping[str, str], *, keys: int, may_double: bool
    ) -> list[str]:
        """Return what is wrong with an output of these values, of `keys` records with a value."""
        if self.values is not None:
            lost, more = self.values - found, found - self.values - self.others
            if may_double:
                more = Counter(set(more) - set(self.values) - set(self.others))
            return [f"lost {_some(lost)}"] * bool(lost) + [f"more {_some(more)}"] * bool(more)
        assert self.last is not None
        there = {key: value for key, value in last.items() if value not in ("", "0")}
        wrong = {
            key: (there.get(key), self.last.get(key))
            for key in sorted({*there, *self.last})
            if not self._fits(there.get(key), self.last.get(key), may_double=may_double)
        }
        problems = [f"found and wanted differ: {_some(wrong)}"] * bool(wrong)
        if self.once and keys > len(self.last) and not may_double:
            problems.append(f"{keys} results of {len(self.last)} keys")
        return problems

    def _fits(self, found: str | None, wanted: str | None, *, may_double: bool) -> bool:
        if found == wanted or not (may_double and self.grows) or not (found and wanted):
            return found == wanted
        both = zip(found.split(), wanted.split(), strict=True)
        return all(int(one) >= int(other) for one, other in both)


def _some(found: Mapping[str, object]) -> str:
    return str(dict(list(found.items())[:6]))


def ends(case: Case, *, is_closed: bool = True) -> dict[str, End]:
    """Return the ends of all outputs; with `is_closed` False before the last lines came."""
    every = lines(case) + (closing() if is_closed else [])
    good = passed(case, every)
    return {
        "step": step_end(case, good),
        "fold": fold_end(case, good),
        "join": join_end(case, good),
        "copy": copy_end(case, every),
    }


def step_end(case: Case, good: list[Line]) -> End:
    texts = Counter(each.text for each in good)
    if case["step"] == "flat map":
        texts += Counter(f"{each.text} again" for each in good)
    return End(texts)


def fold_end(case: Case, good: list[Line]) -> End:
    """Return what comes of the lines by key."""
    by_key: dict[str, list[Line]] = {}
    for each in good:
        by_key.setdefault(key_of(each.number), []).append(each)
    match case["fold"]:
        case "count" | "cogroup":
            return _counts((key, str(len(these))) for key, these in by_key.items())
        case "reduce":
            return End(last={key: str(max(_numbers(these))) for key, these in by_key.items()})
        case "sum":
            return _counts((key, str(sum(_numbers(these)))) for key, these in by_key.items())
        case "distinct":
            found = {key: sorted(_numbers(these)) for key, these in by_key.items()}
            return End(last={key: " ".join(map(str, each)) for key, each in found.items()})
        case "process":  # each of four stores has them all
            return _counts((key, " ".join([str(len(t))] * 4)) for key, t in by_key.items())
        case "counted":
            return _counts(
                (f"{key} {begin}", str(len(these[begin : begin + COUNT])))
                for key, these in by_key.items()
                for begin in range(0, len(these), COUNT)
            )
    return _windows(case["fold"], by_key)


def _windows(fold: str, by_key: Mapping[str, list[Line]]) -> End:
    """Return how many records the windows of each key have: "KEY START END"."""
    found: Counter[str] = Counter()
    for key, these in by_key.items():
        times = sorted(each.timestamp_ms for each in these)
        for begin, end, count in _spans(fold, times):
            if fold not in ("suppress", "close") or begin < END_MS:
                found[f"{key} {begin} {end}" if fold == "session" else f"{key} {begin}"] = count
    is_once = fold in ("suppress", "close")
    return End(last={key: str(n) for key, n in found.items()}, grows=True, once=is_once)


def _spans(fold: str, times: list[int]) -> Iterable[tuple[int, int, int]]:
    """Yield begin, end and count of the windows of one key."""
    if fold == "session":
        begin = 0
        for at, time_ms in enumerate(times):
            if at + 1 == len(times) or times[at + 1] - time_ms > NEAR_MS:
                yield times[begin], time_ms, at + 1 - begin
                begin = at + 1
        return
    if fold == "sliding":  # up to each record, and behind each that others follow
        starts = {each - NEAR_MS for each in times} | {each + 1 for each in times}
        size = NEAR_MS
    else:
        advance = ADVANCE_MS if fold == "hopping" else WINDOW_MS
        size = WINDOW_MS - 1
        starts = {
            each // advance * advance - back
            for each in times
            for back in range(0, WINDOW_MS, advance)
        }
    for start in sorted(starts):
        inside = sum(start <= each <= start + size for each in times)
        if inside:
            yield start, start + size, inside


def _counts(found: Iterable[tuple[str, str]]) -> End:
    return End(last=dict(found), grows=True)


def _numbers(these: Iterable[Line]) -> list[int]:
    return [each.number for each in these]


def join_end(case: Case, good: list[Line]) -> End:
    """Return what comes of the lines, or of the rows, and of the names."""
    named = {str(each.key): each.text for each in names(case)}
    match case["join"]:
        case "global" | "global store" | "lookup":
            return End(
                Counter(
                    f"{each.text} {named[key_of(each.number)]}"
                    for each in good
                    if key_of(each.number) in named
                )
            )
        case "left lookup":
            return End(
                Counter(f"{each.text} {named.get(key_of(each.number), NO_NAME)}" for each in good)
            )
        case "versioned":
            return End(
                Counter(
                    f"{each.text} {_name_at(each.timestamp_ms)}"
                    for each in good
                    if key_of(each.number) in named
                )
            )
        case "streams" | "left streams":
            return _streams_end(case, good)
        case "to table":
            return End(last={key_of(each.number): each.text for each in good})
    return _table_end(case, named)


def _name_at(time_ms: int) -> str:
    return "name" if time_ms < BEGAN_MS + RECORDS // 2 * STEP_MS else "other"


def _streams_end(case: Case, good: list[Line]) -> End:
    """Return the even lines with the odd ones of their keys that are near in time; of a left join
    also those without any, but the last ones, for which others may come.

    A line out of order whose time is over comes out alone at once, as in Kafka Streams, whether or
    not its partner comes within the grace.
    """
    found, alone = Counter[str](), Counter[str]()
    odd = [each for each in good if each.number % 2]
    for left in good:
        if left.number % 2:
            continue
        near = [
            each.text
            for each in odd
            if key_of(each.number) == key_of(left.number)
            and abs(each.timestamp_ms - left.timestamp_ms) <= NEAR_MS
        ]
        found.update(f"{left.text} {each}" for each in near)
        if left.number < RECORDS:
            (alone if near else found)[f"{left.text} {NO_NAME}"] += case["join"] == "left streams"
    is_divided = case["fault"] == "divided"
    is_ordered = case["partitions"] == "1" and case["odd"] != "late" and not is_divided
    return End(+found, Counter() if is_ordered else alone)


def _table_end(case: Case, named: Mapping[str, str]) -> End:
    there = _rows_left(case)
    match case["join"]:
        case "table" | "table process":
            return End(last={key: each.text for key, each in there.items()})
        case "processed table":
            return End(last={key: f"{each.text} processed" for key, each in there.items()})
        case "regroup":
            groups = Counter(str(each.number % 2) for each in there.values())
            return End(last={group: str(count) for group, count in groups.items()}, grows=False)
        case "tables":
            return End(
                last={
                    key: f"{each.text} {named[key]}" for key, each in there.items() if key in named
                }
            )
        case "outer tables":
            texts = {key: each.text for key, each in there.items()}
            return End(
                last={
                    key: f"{texts.get(key, NO_NAME)} {named.get(key, NO_NAME)}"
                    for key in {*texts, *named}
                }
            )
        case "foreign key":
            found = {key: (each.text, foreign_key(each.number)) for key, each in there.items()}
            return End(
                last={
                    key: f"{text} {named[on]}" for key, (text, on) in found.items() if on in named
                }
            )
        case "left foreign key":
            return End(
                last={
                    key: f"{each.text} {named.get(foreign_key(each.number), NO_NAME)}"
                    for key, each in there.items()
                }
            )
    raise AssertionError(case)


def _rows_left(case: Case) -> dict[str, Line]:
    """Return the last row of each key. One that an operator skips is gone, one that the app skips
    has not come."""
    found: dict[str, Line] = {}
    for each in rows(case):
        is_out = each.value is not None and is_bad(each.number)
        if each.key is None or (is_out and case["policy"] == "app skips"):
            continue
        if each.value is None or (is_out and case["policy"] in ("skip", "dead letter")):
            found.pop(each.key, None)
        else:
            found[each.key] = each
    return found


def copy_end(case: Case, every: list[Line]) -> End:
    """Return what the sibling branch must have written. What was done in front of an `async def`
    function or `map_batch` stays."""
    if case["branch"] != "sibling":
        return End(Counter())
    is_undone = case["policy"] == "app skips" and case["way"] in ("sync", "columns")
    return End(Counter(each.text for each in (passed(case, every) if is_undone else every)))


def may_double(case: Case) -> bool:
    """Whether a record may count twice: at least once, after a kill, a failure or a broker that
    was away."""
    is_cut = case["fault"] in ("kill", "again", "broker", "lost") or case["policy"] == "stop"
    is_cut |= case["hand-over"] in ("kill leaving", "kill heir", "kill coordinator")
    return case["guarantee"] == "at_least_once" and is_cut


def letters(case: Case) -> set[int]:
    """Return the numbers in the topic of dead letters."""
    if case["policy"] != "dead letter":
        return set()
    return {each.number for each in lines(case) if is_bad(each.number)}
