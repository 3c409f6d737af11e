"""A log that is cut into two tiers reads as if it were uncut, from every offset.

A random log of several leader epochs, with transactions, is read by Fetch and ListOffsets. Then it
is copied in segments that overlap and end anywhere, some of a history that was lost, and the local
segments go. Then it is read again, and the answers are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.log.marker import Marker
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.records import HEADER_BYTES, read_header
from tests.broker.api.requests import NOW, fetch, list_offsets, want
from tests.broker.api.serving import Serving, fetched, serving
from tests.broker.api.tiered_log import (
    Tier,
    lost_batch,
    roll,
    write,
    write_in_transaction,
)

LEVELS: Final = (0, 1)
PRODUCERS: Final = (7, 8, 9)
_FETCH: Final = 12


class _ReadBatches(NamedTuple):
    """A row of a Fetch."""

    batches: tuple[bytes, ...]
    next_offset: int
    aborted: tuple[tuple[int, int], ...] | None
    facts: tuple[int, ...]


def write_randomly(at: Serving, random: Random) -> None:
    """Batches of several epochs and sizes; transactions that end, and perhaps one that does not."""
    partition = at.partition("t")
    sequences = dict.fromkeys(PRODUCERS, 0)
    open_: set[int] = set()
    for _ in range(random.randrange(20, 60)):
        time = NOW + random.randrange(2_000)
        match random.randrange(10):
            case 0:
                at.begin_epoch("t", (1,))
            case 1 | 2:
                roll(partition)
            case 3 | 4 | 5:
                producer = random.choice(PRODUCERS)
                count = random.randrange(1, 4)
                write_in_transaction(partition, producer, sequences[producer], count, at_ms=time)
                sequences[producer] += count
                open_.add(producer)
            case 6 | 7 if open_:
                producer = random.choice(sorted(open_))
                open_.remove(producer)
                end(partition, producer, is_commit=random.random() < 0.4)
            case _:
                write(partition, random.randrange(1, 5), at_ms=time, size=random.randrange(1, 900))
    while len(open_) > random.randrange(2):
        end(partition, open_.pop(), is_commit=False)
    roll(partition)
    write(partition)


def end(partition: Any, producer: int, *, is_commit: bool) -> None:
    partition.append_own(Marker(producer, 0, is_commit, 0, 1).batch(NOW), NOW)


async def copy_randomly(tier: Tier, random: Random) -> int:
    """Copy all up to some point, in segments that overlap; return that point."""
    stable = tier.partition.last_stable_offset
    bounds = sorted({0, *(each.next_offset for each in tier.batches if each.next_offset <= stable)})
    copied = random.choice(bounds[len(bounds) // 2 :])
    at = 0
    while at < copied:
        earlier = [each for each in bounds if each <= at][-random.randrange(1, 4) :]
        later = [each for each in bounds if each > at]
        stop = random.choice(later[:6])
        if random.random() < 0.3:
            await copy_lost(tier, earlier[0], stop, random)
        await tier.copy(earlier[0], stop)
        if random.random() < 0.2:
            await tier.copy(earlier[0], stop)  # another leader did the same
        at = stop
    return at


async def copy_lost(tier: Tier, start: int, stop: int, random: Random) -> None:
    """Copy what a leader wrote that was deposed: it begins as the log does, and goes on with other
    and newer records, in an epoch that the log never had."""
    inside = [each for each in tier.batches if start <= each.base_offset < stop]
    if not inside:
        return
    shared = random.randrange(len(inside))
    lost = inside[:shared] + [
        lost_batch(each, NOW + random.randrange(2_500)) for each in inside[shared:]
    ]
    await tier.copy(start, stop, batches=lost)


async def read(at: Serving, offset: int, level: int, size: int) -> _ReadBatches:
    request = fetch(
        ("t", want(0, offset, partition_max_bytes=size)), isolation_level=level, min_bytes=1
    )
    answer = await at.ask(request, FetchResponse, _FETCH)
    (row,) = fetched(answer).values()
    batches, next_offset, position = [], offset, 0
    data = bytes(row.records or b"")
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        if position + header.size_bytes > len(data):
            break
        batches.append(data[position : position + header.size_bytes])
        position += header.size_bytes
        next_offset = header.next_offset
    aborted = None
    if row.aborted_transactions is not None:
        aborted = tuple((each.producer_id, each.first_offset) for each in row.aborted_transactions)
    facts = (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset)
    return _ReadBatches(tuple(batches), next_offset, aborted, facts)


async def read_on(at: Serving, offset: int, level: int, size: int) -> list[bytes]:
    """Read to the end, fetch by fetch."""
    found: list[bytes] = []
    while (piece := await read(at, offset, level, size)).batches:
        found += piece.batches
        offset = piece.next_offset
    return found


async def offsets(at: Serving, times: Sequence[int]) -> dict[tuple[int, int, int], Any]:
    """The answers of ListOffsets to consumers of both kinds, and to a debugger."""
    found = {}
    for timestamp in times:
        for level in LEVELS:
            for replica_id in (-1, -2):
                request = list_offsets(timestamp, isolation_level=level, replica_id=replica_id)
                answer = await at.ask(request, ListOffsetsResponse)
                row = answer.topics[0].partitions[0]
                found[timestamp, level, replica_id] = (
                    row.error_code,
                    row.timestamp,
                    row.offset,
                    row.leader_epoch,
                )
    return found


def expected_aborted(tier: Tier, offset: int, upper: int) -> tuple[tuple[int, int], ...]:
    """By a walk over all transactions of the log."""
    found = [
        each for each in tier.aborted if each.last_offset >= offset and each.first_offset < upper
    ]
    ordered = sorted(found, key=lambda each: each.first_offset)
    return tuple((each.producer_id, each.first_offset) for each in ordered)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_log_in_two_tiers_reads_as_the_uncut_one(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    @serving()
    async def run(at: Serving) -> None:
        random = Random(seed)
        at.create("t")
        write_randomly(at, random)
        partition = at.partition("t")
        times = [-1, -2, -3, 0, NOW + 3_000]
        times += [NOW + random.randrange(2_100) for _ in range(12)]
        sizes = {offset: random.choice((1, 700, 3_000, 1 << 20)) for offset in range(500)}
        end_offset = partition.log_end_offset
        uncut = {
            (offset, level): await read(at, offset, level, sizes[offset])
            for offset in range(end_offset + 1)
            for level in LEVELS
        }
        whole = {level: await read_on(at, 0, level, 1 << 20) for level in LEVELS}
        answers = await offsets(at, times)
        tier = Tier(at, partition)
        copied = await copy_randomly(tier, random)
        local_start = tier.cut(random.randrange(copied + 1))
        assert local_start <= copied

        for (offset, level), before in uncut.items():
            now = await read(at, offset, level, sizes[offset])
            case = (seed, offset, level, local_start)
            if offset >= local_start:
                assert now == before, case
                continue
            assert now.facts == before.facts, case
            bound = partition.fetch_bound(level, False)
            assert bool(now.batches) == bool(before.batches) == (offset < bound), case
            shorter = min(len(now.batches), len(before.batches))
            assert now.batches[:shorter] == before.batches[:shorter], case
            if not level:
                assert now.aborted is None, case
                continue
            # More was read than was asked for, and may have named transactions behind the rest.
            assert now.aborted is not None, case
            named = tuple(each for each in now.aborted if each[1] < now.next_offset)
            assert named == expected_aborted(tier, offset, now.next_offset), case
            assert set(now.aborted) <= set(expected_aborted(tier, offset, end_offset)), case
            assert len(now.aborted) == len(set(now.aborted)), case
        for level in LEVELS:
            assert await read_on(at, 0, level, random.choice((1, 2_000, 1 << 20))) == whole[level]
        assert await offsets(at, times) == answers, seed
        tiered_end = await offsets(at, [-4, -5, -6])
        for (timestamp, level, replica_id), row in tiered_end.items():
            offset = {-4: local_start, -5: copied - 1, -6: copied}[timestamp]
            is_visible = replica_id == -2 or offset < partition.fetch_bound(level, False)
            assert row[2] == (offset if is_visible or timestamp == -4 else -1), (seed, timestamp)
        assert not at.lines
        await tier.close()

    run()
