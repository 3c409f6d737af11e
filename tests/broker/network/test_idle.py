"""The wheel: nobody is looked at early, nobody much later, nobody twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.network.idle import NO_SLOT, IdleWheel


class Item:
    def __init__(self) -> None:
        self.idle_slot = NO_SLOT


def test_an_item_is_due_once() -> None:
    wheel: IdleWheel[Item] = IdleWheel(1.0)
    item = Item()
    wheel.put(item, 10.0)

    assert wheel.due(9.9) == []
    assert wheel.due(12.0) == [item]
    assert wheel.due(100.0) == []
    assert len(wheel) == 0


def test_an_item_that_was_removed_is_never_due() -> None:
    wheel: IdleWheel[Item] = IdleWheel(1.0)
    item = Item()
    wheel.remove(item)
    wheel.put(item, 3.0)
    wheel.remove(item)

    assert wheel.due(1e9) == []


def test_what_is_put_in_the_past_is_due_at_the_next_look() -> None:
    wheel: IdleWheel[Item] = IdleWheel(1.0)
    wheel.due(50.0)
    item = Item()
    wheel.put(item, 10.0)

    assert wheel.due(51.0) == [item]


@given(
    st.floats(0.01, 2.0),
    st.lists(st.floats(0, 100), max_size=30),
    st.lists(st.floats(0.001, 30), min_size=1, max_size=30),
)
def test_each_is_looked_at_after_its_moment_and_soon(
    slot: float, moments: list[float], steps: list[float]
) -> None:
    wheel: IdleWheel[Item] = IdleWheel(slot)
    items = {Item(): at for at in moments}
    for item, at in items.items():
        wheel.put(item, at)
    now = before = 0.0
    for step in steps:
        before, now = now, now + step
        for item in wheel.due(now):
            at = items.pop(item)
            assert at <= now + 1e-6
        assert all(at > now - 2 * slot for at in items.values())
    assert len(wheel) == len(items)
    assert before <= now
