"""What a chain of connectors must bring from a table into another one, or into a file.

The table has edges of its types in its first rows: the largest and smallest numbers, no value,
text that is empty, long, or not of this alphabet.

Always: every row comes. Once each where the sink takes a key, or where nothing has failed; a source
that is exactly once does not double a row in the topic, whatever fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

ROWS: Final = 200
BAD: Final = 5
"""How many bad records are put into the topic."""
MASKED: Final = ""
ADDED: Final = "north"
_LONG_MAX: Final = 2**63 - 1
_TEXTS: Final = (None, "", "x" * 2_000, "\u00e9\u4e2d\U0001f600", 'it\'s "quoted"', "null", " a b")
_NUMBERS: Final = (None, 0, _LONG_MAX, -_LONG_MAX - 1, -1)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the source table."""

    id: int
    name: str | None
    amount: int | None

    def key(self) -> int:
        return self.id


def rows() -> list[Row]:
    """Return the rows, in the order of their ids."""
    found = []
    for number in range(1, ROWS + 1):
        name = _TEXTS[number] if number < len(_TEXTS) else f"row {number}"
        amount = _NUMBERS[number] if number < len(_NUMBERS) else number * 7
        found.append(Row(number, name, amount))
    return found


def bad_values(case: Mapping[str, str]) -> list[bytes]:
    """Return the values that are put into the topic beside the rows: none that a converter reads,
    or rows without the key that the sink needs."""
    if case["bad"] == "undecodable":
        return [b"\x07 no record %d" % number for number in range(BAD)]
    if case["bad"] == "refused":
        return [_without_key(case, number) for number in range(BAD)]
    return []


def _without_key(case: Mapping[str, str], number: int) -> bytes:
    """Return a row of the columns that the table has, but for the key: a row with another column is
    the table's problem, and ends the task whatever is tolerated."""
    types = {"id": "int32", "name": "string", "amount": "int64"}
    if case["transform"] == "replace":
        del types["name"]
    fields = [{"field": name, "type": each, "optional": True} for name, each in types.items()]
    schema = {"type": "struct", "name": "bad", "optional": False, "fields": fields}
    payload = {"id": None, "name": f"bad {number}", "amount": number}
    payload = {name: payload[name] for name in types}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def expected(case: Mapping[str, str], row: Row) -> tuple[str, ...]:
    """Return the fields of a row in the sink, as texts: id, name, amount, region."""
    name, amount, region = row.name, row.amount, None
    match case["transform"]:
        case "insert":
            region = ADDED
        case "replace":
            name = None
        case "mask":
            name = None if name is None else MASKED
    return tuple("-" if each is None else str(each) for each in (row.id, name, amount, region))


def problems(case: Mapping[str, str], found: Iterable[tuple[str, ...]]) -> list[str]:
    """Return what is wrong with what the sink has."""
    wanted = Counter(expected(case, each) for each in rows())
    there = Counter(found)
    lost, strange = wanted - there, Counter(set(there) - set(wanted))
    wrong = [f"lost {len(lost)}: {sorted(lost)[:3]!s:.300}"] if lost else []
    wrong += [f"strange {len(strange)}: {sorted(strange)[:3]!s:.300}"] if strange else []
    twice = [each for each, count in there.items() if count > wanted[each]]
    if twice and not may_double(case):
        wrong.append(f"{len(twice)} twice: {sorted(twice)[:3]!s:.300}")
    return wrong


def may_double(case: Mapping[str, str]) -> bool:
    """Whether a row may come twice."""
    return case["sink"] != "upsert" and case["fault"] != "none"
