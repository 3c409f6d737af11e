"""Memory of unfinished requests: bounded, and always somebody who may go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.network.memory import RequestMemory


class Reading:
    """A connection: how much of its request is here, and whether it is read."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.held = 0
        self.is_reading = True

    def on_memory(self) -> None:
        self.is_reading = True
        if self.held and self.memory.is_short:
            self.is_reading = self.memory.may_read(self)

    def on_shortage(self, since: float) -> None:
        raise AssertionError("no clock here")

    def receive(self, size: int) -> None:
        assert self.is_reading
        self.memory.take(size)
        self.held += size
        if self.memory.is_short:
            self.is_reading = self.memory.may_read(self)

    def finish(self) -> None:
        held, self.held = self.held, 0
        self.memory.give(held)
        self.memory.finish(self)


def test_without_a_limit_nobody_stops() -> None:
    memory = RequestMemory(-1)
    reading = Reading(memory)
    reading.receive(1 << 40)

    assert reading.is_reading
    assert not memory.is_short


def test_when_it_is_short_one_goes_on_and_the_others_stop_until_there_is_room() -> None:
    memory = RequestMemory(100)
    one, two, three = (Reading(memory) for _ in range(3))
    one.receive(60)
    two.receive(60)
    three_may = three.is_reading
    three.receive(10)

    assert three_may
    assert [each.is_reading for each in (one, two, three)] == [True, True, False]
    assert memory.runner is two, "it was the first to be asked"
    two.receive(500)
    two.finish()
    assert [each.is_reading for each in (one, two, three)] == [True, True, True]
    assert memory.used == 70
    memory.take(1000)
    assert memory.may_read(one), "nobody was the runner any more"


def test_the_next_one_goes_on_while_it_is_still_short() -> None:
    memory = RequestMemory(10)
    readers = [Reading(memory) for _ in range(3)]
    memory.take(100)
    for reader in readers:
        reader.receive(5)

    assert [each.is_reading for each in readers] == [True, False, False]
    readers[0].finish()
    assert [each.is_reading for each in readers] == [True, True, False]
    readers[1].finish()
    assert [each.is_reading for each in readers] == [True, True, True]
    assert memory.stopped == 0


def test_a_higher_limit_lets_all_go_on() -> None:
    memory = RequestMemory(10)
    readers = [Reading(memory) for _ in range(3)]
    for reader in readers:
        reader.receive(20)
    memory.update(1000)

    assert all(reader.is_reading for reader in readers)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60), st.booleans()), max_size=60))
def test_somebody_may_always_go_on(events: list[tuple[int, int, bool]]) -> None:
    memory = RequestMemory(50)
    readers = [Reading(memory) for _ in range(5)]
    for which, size, ends in events:
        reader = readers[which]
        if ends:
            reader.finish()
            reader.is_reading = True
        elif reader.is_reading:
            reader.receive(size)
        assert any(each.is_reading for each in readers)
        assert memory.used == sum(each.held for each in readers)
        if not memory.is_short:
            assert all(each.is_reading for each in readers)
