"""The ways into a batch that spare a tuple a record: slots with the time of a clock, lists of
values, and columns in Arrow's buffers. Both kernels, and whatever offsets may say."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.editions import KERNEL, edition
from tests.records.strategies import NOW

CONTENTS = st.lists(st.none() | st.binary(max_size=300), max_size=60)


class Owner:
    """A batch as far as a slot knows it."""

    is_done = False

    async def outcome(self, index: int, timestamp: int) -> str:
        return f"outcome of {index} at {timestamp}"


def spans(records: Any, values: list[bytes | None], width: int, skipped: int = 0) -> Any:
    """What Arrow would make of the values, behind some others."""
    whole = [b"skipped"] * skipped + values
    ends = [0]
    for value in whole:
        ends.append(ends[-1] + len(value or b""))
    bits = bytearray((len(whole) + 7) // 8)
    for index, value in enumerate(whole):
        if value is not None:
            bits[index >> 3] |= 1 << (index & 7)
    data = b"".join(value or b"" for value in whole)
    offsets = array("i" if width == 4 else "q", ends)
    return records.Spans(data or None, offsets, width, bytes(bits), skipped, len(values))


def everywhere(way: Callable[[Any, Any], Any]) -> Any:
    """What both kernels answer, the built batch included; both answer the same."""
    answers = []
    for which in KERNEL:
        modules = edition(which)
        appender = modules["kernel"].Appender(5000)
        try:
            answer = way(appender, modules[""])
        except (ValueError, TypeError, OverflowError) as error:
            answer = (type(error).__name__, str(error))
        state = (appender.count, appender.size_bytes, appender.max_timestamp)
        answers.append((answer, state, bytes(appender.take())))
    assert answers[0] == answers[1]
    return answers[0]


@given(CONTENTS, st.integers(0, 20))
def test_a_list_of_values_is_written_as_rows_are(values: list[bytes | None], start: int) -> None:
    rows = [(NOW, None, value, ()) for value in values]
    start = min(start, len(values))
    assert everywhere(lambda to, _: to.extend_values(NOW, values, start)) == everywhere(
        lambda to, _: to.extend(rows, start)
    )


@given(CONTENTS, st.sampled_from([4, 8]), st.integers(0, 9), st.integers(0, 20), st.booleans())
def test_columns_in_buffers_are_written_as_rows_are(
    values: list[bytes | None], width: int, skipped: int, start: int, has_keys: bool
) -> None:
    start = min(start, len(values))
    keys = values[::-1]
    rows = [
        (NOW, key if has_keys else None, value, ()) for key, value in zip(keys, values, strict=True)
    ]

    def way(to: Any, records: Any) -> Any:
        its_keys = spans(records, keys, 12 - width) if has_keys else None
        return to.extend_spans(NOW, spans(records, values, width, skipped), its_keys, start)

    assert everywhere(way) == everywhere(lambda to, _: to.extend(rows, start))


@given(
    st.lists(st.integers(-5, 40), min_size=0, max_size=8),
    st.integers(-2, 9),
    st.integers(-2, 9),
    st.none() | st.binary(max_size=2),
    st.sampled_from([4, 8]),
)
def test_offsets_that_lead_out_of_the_data_are_refused_by_both(
    ends: list[int], first: int, count: int, validity: bytes | None, width: int
) -> None:
    offsets = array("i" if width == 4 else "q", ends)
    answer, _, written = everywhere(
        lambda to, records: to.extend_spans(
            NOW, records.Spans(bytes(range(32)), offsets, width, validity, first, count)
        )
    )
    is_inside = first >= 0 and count >= 0 and first + count + 1 <= len(ends)
    if not is_inside:
        assert answer[0] == "ValueError"
    assert len(written) >= 61


@pytest.mark.parametrize(
    ("ends", "width", "told"),
    [
        ([0, 2**40], 8, "an offset leads out of the data"),
        ([5, 3], 4, "an offset leads out of the data"),
        ([-1, 3], 4, "an offset leads out of the data"),
        ([0, 3], 2, "offsets have 4 or 8 bytes"),
    ],
)
def test_damaged_offsets_are_told(
    kernel: Any, records: Any, ends: list[int], width: int, told: str
) -> None:
    offsets = array("q" if width == 8 else "i", ends)
    with pytest.raises(ValueError, match=told):
        kernel.Appender().extend_spans(NOW, records.Spans(b"abcdef", offsets, width, None, 0, 1))


def test_keys_and_values_have_one_length(kernel: Any, records: Any) -> None:
    values, keys = spans(records, [b"a", b"b"], 4), spans(records, [b"a"], 4)
    with pytest.raises(ValueError, match="as many keys as values"):
        kernel.Appender().extend_spans(NOW, values, keys)


@pytest.mark.parametrize("way", ["extend_values", "extend_spans"])
def test_what_is_no_column_is_refused(kernel: Any, way: str) -> None:
    appender = kernel.Appender()
    with pytest.raises((TypeError, ValueError)):
        getattr(appender, way)(NOW, {b"a": b"b"})
    with pytest.raises(ValueError, match="negative"):
        appender.extend_values(NOW, [b"v"], -1)
    with pytest.raises(TypeError, match="value must be bytes or None, not str"):
        appender.extend_values(NOW, ["text"])
    assert appender.count == 0


def test_a_slot_has_the_time_of_the_clock_and_knows_its_batch(kernel: Any) -> None:
    owner, times = Owner(), iter([1_000_000, 7_999_999])
    appender = kernel.Appender()
    appender.open_for(owner, lambda: next(times), 5_000_000)
    first, second = appender.place(None, b"a"), appender.place(b"k", None, (("h", b"1"),))
    assert (first.batch, first.index, second.index) == (owner, 0, 1)
    assert (appender.base_timestamp, appender.max_timestamp) == (6, 12)
    plain = kernel.Appender()
    plain.extend([(6, None, b"a", ()), (12, b"k", None, (("h", b"1"),))])
    assert plain.take() == appender.take()
    assert first.is_done is False
    with pytest.raises(StopIteration) as ended:
        second.__await__().send(None)
    assert ended.value.value == "outcome of 1 at 12"


def test_a_full_batch_gives_no_slot_and_a_spent_one_refuses(kernel: Any) -> None:
    appender = kernel.Appender(100)
    with pytest.raises(ValueError, match="was not opened"):
        appender.place(None, b"v")
    appender.open_for(Owner(), lambda: 0, 0)
    assert appender.place(None, bytes(25)) is not None
    assert appender.place(None, bytes(25)) is None
    assert appender.count == 1
    with pytest.raises(TypeError, match="key must be bytes or None, not str"):
        appender.place("key", None)
    appender.take()
    with pytest.raises(ValueError, match="taken"):
        appender.place(None, b"v")
    with pytest.raises(ValueError, match="taken"):
        appender.extend_values(NOW, [b"v"])


def test_a_clock_that_takes_the_batch_away_breaks_nothing(kernel: Any) -> None:
    appender = kernel.Appender()

    def clock() -> int:
        appender.take()
        return 0

    appender.open_for(Owner(), clock, 0)
    with pytest.raises(ValueError, match="taken"):
        appender.place(None, b"v")
