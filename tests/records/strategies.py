"""Rows and sections for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.records.editions import edition

INT64 = st.integers(-(2**63), 2**63 - 1)
NOW = 1_700_000_000_000

timestamps = st.one_of(st.integers(NOW - 70_000, NOW + 70_000), st.integers(-(2**61), 2**61))
contents = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda size: b"x" * size, st.sampled_from((63, 64, 127, 128, 8191, 8192, 8200))),
)
headers = st.one_of(
    st.just(()),
    st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple),
)
rows = st.lists(st.tuples(timestamps, contents, contents, headers), min_size=1, max_size=90)
damaged = st.tuples(st.integers(0, 2**16), st.integers(0, 2), st.binary(max_size=3))
"""Where, how much is taken away there, and what is put in its place."""


@st.composite
def damaged_sections(draw: st.DrawFn) -> tuple[bytes, int]:
    """A good section with a few bytes overwritten, inserted or taken away."""
    given_rows = draw(st.lists(st.tuples(timestamps, contents, contents, headers), max_size=6))
    appender = edition("pure")["kernel"].Appender()
    appender.extend(given_rows)
    section = appender.take()[61:]
    for at, cut, put in draw(st.lists(damaged, max_size=3)):
        at %= len(section) + 1
        section[at : at + cut] = put
    return bytes(section), len(given_rows)


def section_header(records: Any, size: int, count: int, **claims: int) -> Any:
    """A header over `size` bytes of `count` records that says nothing wrong by itself."""
    header = records.BatchHeader(
        base_offset=0,
        batch_length=size + 49,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=max(count - 1, 0),
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return header._replace(**claims)
