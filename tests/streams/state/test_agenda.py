"""Deadlines come out in order, though only some of them are in memory."""

from __future__ import annotations

from bisect import insort
from struct import pack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.state.agenda import NEVER, Agenda

# True takes what is due before the time, False adds a deadline.
steps = st.lists(st.tuples(st.booleans(), st.integers(0, 50), st.binary(max_size=1)))


class Store:
    """Keeps entries in order, as rows do."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def read(self, first: bytes, limit: int) -> list[bytes]:
        return [entry for entry in self.entries if entry >= first][:limit]


class Small(Agenda):
    size = 3


@given(steps)
def test_what_is_due_comes_out_in_order_and_little_is_in_memory(given_steps: Any) -> None:
    store = Store()
    agenda = Small(store.read)
    for takes, time, key in given_steps:
        if not takes:
            entry = pack(">Q", time) + key
            if entry not in store.entries:
                insort(store.entries, entry)
                agenda.add(entry)
        else:
            due = [entry for entry in store.entries if entry < pack(">Q", time)]
            found = []
            while agenda.first_time < time:
                first = agenda.first()
                if first is None or agenda.first_time >= time:
                    break
                found.append(agenda.pop())
                store.entries.remove(found[-1])
            assert found == due
        assert len(agenda) <= 2 * agenda.size


def test_an_empty_agenda_is_never_due() -> None:
    agenda = Small(Store().read)
    assert agenda.first() is None
    assert agenda.first_time == NEVER
