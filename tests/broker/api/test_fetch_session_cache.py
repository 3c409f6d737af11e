"""Which fetch session stays and which makes room (KIP-227), and that a session loses nothing."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.api.fetch_session import FetchSession, Key, RequestedFetch, next_epoch, wanted_by
from moldau.broker.api.fetch_session_cache import EVICTION_MS, FetchSessions
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, PartitionData
from tests.broker.api.requests import fetch, want

LATER = EVICTION_MS + 1


def partitions(count: int) -> dict[Key, RequestedFetch]:
    return wanted_by(fetch(*(("t", want(index)) for index in range(count))), 12)


def sessions(slots: int) -> FetchSessions:
    return FetchSessions(slots, Random(1))


def go_on(cache: FetchSessions, session_id: int, now_ms: int) -> None:
    """The session's next request."""
    epoch = cache.sessions[session_id].epoch
    cache.begin(fetch(session_id=session_id, session_epoch=epoch), 12, now_ms)


def test_ids_are_positive_and_differ() -> None:
    cache = sessions(100)
    ids = {cache.create(partitions(1), 0) for _ in range(100)}
    assert len(ids) == 100
    assert min(ids) > 0


def test_a_young_session_is_not_evicted() -> None:
    cache = sessions(1)
    first = cache.create(partitions(1), 0)
    assert first
    assert cache.create(partitions(100), EVICTION_MS) == 0
    assert list(cache.sessions) == [first]


def test_a_session_that_nobody_used_for_two_minutes_goes() -> None:
    cache = sessions(2)
    first, second = cache.create(partitions(9), 0), cache.create(partitions(9), 0)
    go_on(cache, first, 10)
    third = cache.create(partitions(1), LATER)
    assert set(cache.sessions) == {first, third}
    assert second not in cache.sessions


def test_an_old_session_goes_for_a_larger_one_only() -> None:
    cache = sessions(2)
    small, large = cache.create(partitions(2), 0), cache.create(partitions(5), 0)
    for each in (small, large):
        go_on(cache, each, LATER)
    assert cache.create(partitions(1), LATER) == 0
    third = cache.create(partitions(3), LATER)
    assert set(cache.sessions) == {large, third}, "the smallest of those that are old"


def test_a_session_counts_with_the_size_that_it_has_grown_to() -> None:
    cache = sessions(2)
    first, second = cache.create(partitions(1), 0), cache.create(partitions(2), 0)
    epoch = cache.sessions[first].epoch
    grown = fetch(
        *(("t", want(index)) for index in range(9)), session_id=first, session_epoch=epoch
    )
    cache.begin(grown, 12, LATER)
    go_on(cache, second, LATER)
    third = cache.create(partitions(5), LATER)
    assert set(cache.sessions) == {first, third}


def test_followers_keep_theirs_and_may_take_a_consumers_young_one() -> None:
    cache = sessions(2)
    follower = cache.create(partitions(1), 0, is_privileged=True)
    consumer = cache.create(partitions(9), 0)
    for each in (follower, consumer):
        go_on(cache, each, LATER)
    third = cache.create(partitions(10), LATER)
    assert set(cache.sessions) == {follower, third}
    fourth = cache.create(partitions(1), LATER, is_privileged=True)
    assert set(cache.sessions) == {follower, fourth}, "the consumer's, young as it is"
    assert cache.create(partitions(100), LATER) == 0


def test_without_slots_there_are_no_sessions() -> None:
    assert sessions(0).create(partitions(1), 0) == 0


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1)])
def test_epochs_leave_0_out(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_who_asks_for_no_session_costs_none() -> None:
    cache = sessions(5)
    context = cache.begin(fetch(("t", want()), session_epoch=-1), 12, 0)
    assert context.conclude([], 0)[0] == 0
    assert len(cache) == 0


class Model:
    """Sessions as a list, evicted by looking at all of them."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.rows: list[dict[str, int]] = []

    def make(self, session_id: int, size: int, now_ms: int, *, is_privileged: bool) -> None:
        row = {"id": session_id, "size": size, "made": now_ms, "used": now_ms, "old": 0}
        self.rows.append({**row, "privileged": is_privileged})

    def room(self, size: int, now_ms: int, *, is_privileged: bool) -> bool:
        if len(self.rows) < self.slots:
            return True
        if not self.rows:
            return False
        oldest = self.rows[0]
        if now_ms - oldest["used"] > EVICTION_MS:
            self.rows.remove(oldest)
            return True
        among = [
            row for row in self.rows if row["old"] or (is_privileged and not row["privileged"])
        ]
        among.sort(key=lambda row: (row["privileged"], row["size"], row["id"]))
        if not among:
            return False
        least = among[0]
        if (is_privileged, size, 0) < (least["privileged"], least["size"], least["id"]):
            return False
        self.rows.remove(least)
        return True

    def use(self, session_id: int, size: int, now_ms: int) -> None:
        row = next(row for row in self.rows if row["id"] == session_id)
        self.rows.remove(row)
        self.rows.append(row)
        row.update(used=now_ms, size=size, old=int(now_ms - row["made"] > EVICTION_MS))


@given(
    st.integers(0, 4),
    st.lists(
        st.tuples(
            st.sampled_from(["make", "use", "end"]),
            st.integers(1, 4),
            st.booleans(),
            st.integers(0, 90_000),
        ),
        max_size=60,
    ),
)
def test_the_cache_evicts_as_the_rule_says(
    slots: int, steps: list[tuple[str, int, bool, int]]
) -> None:
    cache, model = sessions(slots), Model(slots)
    now_ms = 0
    for kind, size, flag, passed_ms in steps:
        now_ms += passed_ms
        if kind == "make":
            fits = model.room(size, now_ms, is_privileged=flag)
            made = cache.create(partitions(size), now_ms, is_privileged=flag)
            assert bool(made) == fits
            if made:
                model.make(made, size, now_ms, is_privileged=flag)
        elif model.rows:
            row = model.rows[size % len(model.rows)]
            session = cache.sessions[row["id"]]
            if kind == "end":
                request = fetch(session_id=row["id"], session_epoch=-1)
                cache.begin(request, 12, now_ms)
                model.rows.remove(row)
            else:
                request = fetch(
                    *(("t", want(index)) for index in range(size)),
                    session_id=row["id"],
                    session_epoch=session.epoch,
                )
                cache.begin(request, 12, now_ms)
                model.use(row["id"], len(session.partitions), now_ms)
        assert list(cache.sessions) == [row["id"] for row in model.rows]


Marks = st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from([0, 0, 1]), st.booleans())


@given(st.lists(st.lists(Marks, min_size=3, max_size=3), max_size=20))
def test_a_reader_of_a_session_knows_what_a_reader_of_full_fetches_knows(
    rounds: list[list[tuple[int, int, int, bool]]],
) -> None:
    """High watermark, log start and error of each partition, whatever was left out."""
    session = FetchSession(1, partitions(3), 0)
    known: dict[int, tuple[int, int, int]] = {}
    for marks in rounds:
        rows = []
        truth = {}
        for key, wanted in session.partitions.items():
            index = wanted.asked.partition
            high_watermark, start, error, has_records = marks[index]
            if error:
                high_watermark = start = -1
            truth[index] = (high_watermark, start, error)
            data = PartitionData(
                partition_index=index,
                error_code=error,
                high_watermark=high_watermark,
                log_start_offset=start,
                aborted_transactions=None,
                records=b"r" if has_records and not error else b"",
            )
            rows.append((key, wanted, data))
        with_records = [row[0] for row in rows if row[2].records]
        told = list(session.select(rows))
        for _, _, data in told:
            known[data.partition_index] = (
                data.high_watermark,
                data.log_start_offset,
                data.error_code,
            )
        assert known == truth
        assert len({data.partition_index for _, _, data in told}) == len(told)
        order = list(session.partitions)
        assert order[len(order) - len(with_records) :] == with_records


def test_an_evicted_session_is_not_found() -> None:
    cache = sessions(1)
    first = cache.create(partitions(1), 0)
    assert cache.create(partitions(1), LATER)
    with pytest.raises(KafkaError) as refused:
        cache.begin(fetch(session_id=first, session_epoch=1), 12, LATER)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_named_twice_is_read_where_it_was_named_last() -> None:
    wanted = wanted_by(fetch(("t", want(0, 5)), ("t", want(0, 7))), 12)
    (only,) = wanted.values()
    assert isinstance(only.asked, FetchPartition)
    assert only.asked.fetch_offset == 7
