"""Deadlines: moved, cancelled, never late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.consumer.deadlines import Deadlines, Due

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["set", "cancel", "forget", "take"]),
        st.sampled_from(list(Due)),
        st.sampled_from("abc"),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(events=EVENTS)
def test_it_is_a_dictionary_with_a_least_value(events: list[tuple[str, Due, str, int]]) -> None:
    deadlines, model = Deadlines(), dict[tuple[Due, str], int]()
    told_ms: int | None = None
    for what, due, member_id, at_ms in events:
        if what == "set":
            deadlines.set(due, member_id, at_ms)
            model[due, member_id] = at_ms
        elif what == "cancel":
            deadlines.cancel(due, member_id)
            model.pop((due, member_id), None)
        elif what == "forget":
            deadlines.forget(member_id)
            model = {key: value for key, value in model.items() if key[1] != member_id}
        else:
            over = {key for key, value in model.items() if value <= at_ms}
            taken = deadlines.take_due(at_ms)
            assert set(taken) == over
            assert len(taken) == len(over)
            model = {key: value for key, value in model.items() if key not in over}
        if model and not deadlines.has_news:
            assert told_ms is not None
            assert told_ms <= min(model.values())
        told_ms = deadlines.next_ms()
        assert told_ms == min(model.values(), default=None)
        assert not deadlines.has_news
        assert all(deadlines.has(due, member) for due, member in model)


def test_a_deadline_that_moves_on_stays_one_entry() -> None:
    deadlines = Deadlines()
    for at_ms in range(1000):
        deadlines.set(Due.SESSION, "a", at_ms)
    assert len(deadlines._heap) == 1
    assert deadlines.next_ms() == 999
    deadlines.set(Due.SESSION, "a", 1000)
    assert not deadlines.has_news
