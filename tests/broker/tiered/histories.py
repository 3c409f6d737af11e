"""Random remote segments and leader epochs, for tests against a model that looks at all of them."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.remote_segment import RemoteEvent, SegmentState
from tests.broker.tiered.segments import changed, segment

OFFSETS_MAX: Final = 20
_STARTED, FINISHED, DELETING, DELETED = SegmentState


@st.composite
def chains(draw: st.DrawFn) -> LeaderEpochs:
    starts = draw(st.lists(st.integers(1, OFFSETS_MAX), max_size=4, unique=True).map(sorted))
    epochs = draw(st.lists(st.integers(1, 9), min_size=len(starts), max_size=len(starts)))
    chain, epoch = LeaderEpochs([(0, 0)]), 0
    for start, more in zip(starts, epochs, strict=True):
        epoch += more
        chain.assign(epoch, start)
    return chain


@st.composite
def histories(draw: st.DrawFn) -> list[RemoteEvent]:
    """Segments of two histories that part somewhere, in any states."""
    lines = draw(st.lists(chains(), min_size=2, max_size=2))
    events: list[RemoteEvent] = []
    count = draw(st.integers(1, 9))
    for number in range(1, count + 1):
        start = draw(st.integers(0, OFFSETS_MAX - 1))
        end = draw(st.integers(start + 1, OFFSETS_MAX))
        chain = draw(st.sampled_from(lines))
        epochs = chain.in_range(start, end)
        events.append(segment(number, range(start, end), epochs, size_bytes=end - start))
    numbers = st.integers(1, count)
    states = st.sampled_from([FINISHED, FINISHED, FINISHED, DELETING, DELETED])
    changes = draw(st.lists(st.builds(changed, numbers, states), max_size=40))
    return [*events, *(changed(number, FINISHED) for number in range(1, count + 1)), *changes]
