"""Deadlines that move: nothing late, nothing lost, nothing that grows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.classic.membership import Deadlines

keys = st.sampled_from("abcd")
times = st.integers(0, 30)
events = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, times),
        st.tuples(st.just("cancel"), keys, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), times),
    ),
    max_size=60,
)


@given(events)
def test_what_is_due_comes_up_once_and_nothing_else_does(
    events: list[tuple[str, str, int]],
) -> None:
    deadlines: Deadlines[str] = Deadlines()
    naive: dict[str, int] = {}
    told_ms: int | None = None
    for what, key, at_ms in events:
        if what == "set":
            deadlines.set(key, at_ms)
            naive[key] = at_ms
        elif what == "cancel":
            deadlines.cancel(key)
            naive.pop(key, None)
        else:
            _pop_all(deadlines, naive, at_ms)
        if naive and not deadlines.has_news:
            assert told_ms is not None
            assert told_ms <= min(naive.values())
        told_ms = next_ms = deadlines.next_ms()
        assert not deadlines.has_news
        assert (next_ms is None) == (not naive)
        assert next_ms is None or next_ms <= min(naive.values())
        assert len(deadlines) == len(naive)
        assert all(each in deadlines for each in naive)


def _pop_all(deadlines: Deadlines[str], naive: dict[str, int], now_ms: int) -> None:
    due = {key for key, at_ms in naive.items() if at_ms <= now_ms}
    popped = []
    while (key := deadlines.pop_due(now_ms)) is not None:
        popped.append(key)
        del naive[key]
    assert sorted(popped) == sorted(due)
    next_ms = deadlines.next_ms()
    assert next_ms is None or next_ms > now_ms


def test_the_earlier_comes_first_and_of_equals_the_older() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at_ms in (("late", 9), ("first", 5), ("second", 5)):
        deadlines.set(key, at_ms)
    assert [deadlines.pop_due(9) for _ in range(4)] == ["first", "second", "late", None]


def test_heartbeats_and_churn_do_not_make_it_grow() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for now_ms in range(10_000):
        deadlines.set(0, now_ms + 1_000)
        deadlines.set(now_ms, 1_000_000 - now_ms)
        deadlines.set(now_ms, 500_000 - now_ms)
        deadlines.cancel(now_ms - 5)
    assert len(deadlines) <= 7
    assert len(deadlines._heap) < 200


def test_a_deadline_that_moves_on_is_no_news() -> None:
    deadlines: Deadlines[str] = Deadlines()
    heard = []
    for at_ms in (10, 20, 5, 15):
        deadlines.set("a", at_ms)
        heard.append((deadlines.has_news, deadlines.next_ms()))
    assert heard == [(True, 10), (False, 10), (True, 5), (False, 5)]


def test_cleared_means_nothing_is_due() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 1)
    deadlines.clear()
    assert deadlines.next_ms() is None
    assert deadlines.pop_due(2) is None
