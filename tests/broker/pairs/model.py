"""What a copy must be, by the choices of its case. Small enough to be read.

A source record is a number. It goes to the partition that its number says, and the copier writes it
to the same partition of the target. A third of the transactions of a source are aborted, each soon
after a commit; every second one of an aborting sender, whose transactions are small.

Always: nothing that was committed is missing in the target, and nothing is there that the copier
may not see. A reader of uncommitted records may see those of an aborted transaction: a producer
need not send what it is to abort.
Exact: each record once, in the order of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.broker.pairs.columns import TRANSACTIONAL

PARTITIONS: Final = 4
RECORDS: Final = 360
WORKERS: Final = 2
"""How many copiers a client has."""
PIECE: Final = 30
"""How many records a transaction of the source has."""
SMALL_PIECE: Final = 6
"""How many one of an aborting sender has."""


Ends = Mapping[int, int]
"""The end of each partition of the source."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that are sent together."""

    numbers: Sequence[int]
    is_aborted: bool


def pieces(case: Mapping[str, str]) -> list[Piece]:
    """Return what is sent, in order."""
    is_aborting = case["sender"] == "aborting"
    size, every = (SMALL_PIECE, 2) if is_aborting else (PIECE, 3)
    aborts = case["sender"] in TRANSACTIONAL
    return [
        Piece(range(begin, begin + size), aborts and index % every == 1)
        for index, begin in enumerate(range(0, RECORDS, size))
    ]


def wanted(case: Mapping[str, str], *, with_aborted: bool = False) -> dict[int, list[int]]:
    """Return the numbers that the copier must see by partition, or those that it may see."""
    found: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    for piece in pieces(case):
        if with_aborted or not piece.is_aborted:
            for number in piece.numbers:
                found[number % PARTITIONS].append(number)
    return found


def problems(case: Mapping[str, str], copied: Mapping[int, Sequence[int]]) -> list[str]:
    """Return what is wrong with the target."""
    found = []
    possible = wanted(case, with_aborted=case["isolation"] == "read_uncommitted")
    for index, numbers in wanted(case).items():
        there, may = copied.get(index, []), possible[index]
        lost, strange = set(numbers) - set(there), set(there) - set(may)
        if lost:
            found.append(f"partition {index}: {len(lost)} lost, {sorted(lost)[:9]}")
        if strange:
            found.append(f"partition {index}: {len(strange)} strange, {sorted(strange)[:9]}")
        firsts = list(dict.fromkeys(there))
        if is_ordered(case) and firsts != [each for each in may if each in set(there)]:
            found.append(f"partition {index}: not in order, {list(there)[:40]}")
        if is_exact(case) and len(there) > len(firsts):
            twice = [each for each in firsts if list(there).count(each) > 1]
            found.append(f"partition {index}: {len(twice)} twice, {twice[:9]}")
    return found


def ends_problems(before: Ends, after: Ends) -> list[str]:
    """Return what is wrong with ends that were told after a fault: none is below what was
    acknowledged before it (KIP-207)."""
    return [
        f"partition {index}: its end was {end}, and then {after.get(index)}"
        for index, end in before.items()
        if after.get(index, -1) < end
    ]


def is_exact(case: Mapping[str, str]) -> bool:
    """Whether each record is in the target once. Without transactions a member that loses its
    coordinator, or its partitions, reads again from what it has committed. aiokafka may lose its
    partitions between a piece and its commit, and names no member with the offsets of a
    transaction, so that no broker can refuse them (KIP-447)."""
    if case["client"] == "aiokafka":
        return False
    if case["sender"] in TRANSACTIONAL:
        return True
    return case["fault"] == "none" and case["change"] == "none" and case["group"] != "share"


def is_ordered(case: Mapping[str, str]) -> bool:
    """Whether the target has the order of the source. A producer that is not idempotent, with
    several requests in flight, may reorder what it sends again; a share group does not promise
    an order."""
    if case["group"] == "share":
        return False
    return case["sender"] != "plain" or (case["fault"] == "none" and case["change"] == "none")
