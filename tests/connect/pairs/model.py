"""What a chain of connectors must bring from a table or a file into another one.

The first rows have what is at the edges of their types: the largest and smallest values, no value,
text that is empty, long, or not of this alphabet. With a change the table gets one more column in
the middle, in which the rows before have no value.

Always: every row comes. Once each where the sink takes a key, or where nothing has failed, or where
source and sink both are exactly once; a source that is exactly once does not double a row in the
topic, whatever fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.connect.pairs.edges import EDGES, text_of

Case = Mapping[str, str]

ROWS: Final = 200
BAD: Final = 5
"""How many bad records are put into the topic."""
MASKED: Final = ""
ADDED: Final = "north"
MORE: Final = "more"
"""The value of the column that a change adds."""
FIELDS: Final = ("id", "name", "amount", "region", "more")
_TEXTS: Final = (None, "", "x" * 2_000, "\u00e9\u4e2d\U0001f600", 'it\'s "quoted"', "null", " a b")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the source."""

    id: int
    name: str | None
    amount: Any
    more: str | None = None


def rows(case: Case) -> list[Row]:
    """Return the rows, in the order of their ids."""
    found = []
    for number in range(1, ROWS + 1):
        name = _TEXTS[number - 1] if number <= len(_TEXTS) else f"row {number}"
        more = MORE if case["change"] == "column" and number > ROWS // 2 else None
        found.append(Row(number, name, EDGES[case["type"]].value(number), more))
    return found


def bad_values(case: Case) -> list[bytes]:
    """Return the values that are put into the topic beside the rows: none that a converter reads,
    or rows without the key that the sink needs."""
    if case["bad"] == "undecodable":
        return [b"\x07 no record %d" % number for number in range(BAD)]
    if case["bad"] == "refused":
        return [_without_key(case, number) for number in range(BAD)]
    return []


def name_field(case: Case) -> str | None:
    """Return what the name of a row is called in the topic."""
    return {"replace": None, "rename": "title"}.get(case["transform"], "name")


def _without_key(case: Case, number: int) -> bytes:
    """Return a row of the columns that the table has, but for the key: a row with another column is
    the table's problem, and ends the task whatever is tolerated."""
    name = name_field(case)
    types = {"id": "int32", "amount": "int64"} | ({} if name is None else {name: "string"})
    fields = [{"field": each, "type": kind, "optional": True} for each, kind in types.items()]
    schema = {"type": "struct", "name": "bad", "optional": False, "fields": fields}
    payload = {"id": None, "amount": number} | ({} if name is None else {name: f"bad {number}"})
    return json.dumps({"schema": schema, "payload": payload}).encode()


def expected(case: Case, row: Row) -> tuple[str, ...]:
    """Return the FIELDS of a row in the sink, as texts."""
    name, region = row.name, None
    match case["transform"]:
        case "insert":
            region = ADDED
        case "replace":
            name = None
        case "mask":
            name = None if name is None else MASKED
    return tuple(map(text_of, (row.id, name, row.amount, region, row.more)))


def problems(case: Case, found: Iterable[tuple[str, ...]]) -> list[str]:
    """Return what is wrong with what the sink has."""
    wanted = Counter(expected(case, each) for each in rows(case))
    there = Counter(found)
    lost, strange = wanted - there, Counter(set(there) - set(wanted))
    wrong = [f"lost {len(lost)}: {sorted(lost)[:3]!s:.300}"] if lost else []
    wrong += [f"strange {len(strange)}: {sorted(strange)[:3]!s:.300}"] if strange else []
    twice = [each for each, count in there.items() if count > wanted[each] > 0]
    if twice and not may_double(case):
        wrong.append(f"{len(twice)} twice: {sorted(twice)[:3]!s:.300}")
    return wrong


def may_double(case: Case) -> bool:
    """Whether a row may come twice into the sink."""
    if case["sink"] == "upsert" or case["fault"] == "none":
        return False
    is_exact = case["sink"] in ("exact insert", "rolls", "parquet")
    return not (is_exact and case["once"] == "exactly")
