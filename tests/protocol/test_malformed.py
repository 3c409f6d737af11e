"""Bytes that are not what they claim: MalformedMessage each time, with where and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.protocol.limits import DECODE_BUDGET
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.produce import ProduceRequest
from tests.protocol.sample import (
    Forms,
    Leader,
    Lengths,
    Lists,
    Marks,
    Nested,
    Nothing,
    Numbers,
    Partition,
    Place,
    Row,
    Rows,
    Shelves,
    Topic,
)
from tests.protocol.sample_values import MESSAGES, trips
from tests.records.memory import peak_stays_below

FULL = Nested(
    throttle_time_ms=1,
    topics=[
        Topic(name="t" * 130, partitions=[]),
        Topic(
            name="u",
            partitions=[
                Partition(index=0, offset=5, error_message="e"),
                Partition(index=1, offset=6, leader=Leader(leader_id=2), replicas=[1, 2, 3]),
            ],
        ),
    ],
    place=Place(host="h", port=3),
    elsewhere=Place(host="e", port=4),
    cluster_id=None,
    deep=Place(host="d"),
    rare=Place(host="r"),
    epoch=8,
)


def refusal(cls: type[Message], data: Any, version: int, **options: Any) -> MalformedMessage:
    """The error that decoding must raise; checks that it says what, where and in which version."""
    with pytest.raises(MalformedMessage) as raised:
        cls.decode(data, version, **options)
    context = raised.value.context
    assert context["message"] == cls.__name__
    assert context["version"] == version
    assert isinstance(context["field"], str)
    position = context["position"]
    assert isinstance(position, int)
    assert 0 <= position <= len(data)
    return raised.value


def is_message(cls: type[Message], data: Any, version: int) -> bool:
    """Can the bytes be decoded? Any error but MalformedMessage comes through."""
    try:
        cls.decode(data, version)
    except MalformedMessage:
        return False
    return True


def test_each_truncation_is_told() -> None:
    data = FULL.encode(3)
    fields = set()
    for size in range(len(data)):
        for form in (data[:size], bytearray(data[:size]), memoryview(data)[:size]):
            error = refusal(Nested, form, 3)
        fields.add(error.context["field"])
    assert {
        "throttle_time_ms",
        "topics",
        "topics[0].name",
        "topics[0].partitions",
        "topics[1].name",
        "topics[1].partitions",
        "place.host",
        "place.port",
        "elsewhere",
        "elsewhere.port",
    } <= fields


@given(trips(), st.data())
def test_truncated_values_of_every_kind(trip: tuple[Any, int], draw: st.DataObject) -> None:
    message, version = trip
    data = message.encode(version)
    if data:
        size = draw.draw(st.integers(0, len(data) - 1))
        refusal(type(message), data[:size], version)


@given(st.sampled_from(MESSAGES), st.booleans(), st.binary(max_size=200))
def test_noise_is_a_message_or_malformed(cls: type[Message], newest: bool, noise: bytes) -> None:
    version = cls.spec.versions.last if newest else 0
    for form in (noise, memoryview(noise)):
        if not is_message(cls, form, version):
            refusal(cls, form, version)


@given(st.binary(min_size=1, max_size=4), st.data())
def test_damaged_messages_are_messages_or_malformed(patch: bytes, draw: st.DataObject) -> None:
    data = bytearray(FULL.encode(3))
    at = draw.draw(st.integers(0, len(data) - len(patch)))
    data[at : at + len(patch)] = patch
    if not is_message(Nested, data, 3):
        refusal(Nested, data, 3)


def test_a_truncation_inside_a_tagged_field_names_its_tag() -> None:
    error = refusal(Nested, FULL.encode(3)[:-3], 3)
    assert error.reason == "length exceeds what is left"
    assert error.context["tag"] == 9


def test_bytes_behind_the_message_are_told() -> None:
    error = refusal(Nested, FULL.encode(3) + b"more", 3)
    assert error.reason == "bytes are left over behind the message"
    assert error.context["left"] == 4
    assert error.context["position"] == len(FULL.encode(3))


def test_a_position_inside_a_run_is_that_of_the_field() -> None:
    data = Numbers(
        yes=True, tiny=1, small=2, port=3, middle=4, crc=5, large=6, real=7.0, id=bytes(16)
    ).encode(0)
    for size, field, position in ((14, "large", 14), (17, "large", 14), (22, "real", 22)):
        error = refusal(Numbers, data[:size], 0)
        assert error.reason == "the input ends too early"
        assert error.context["field"] == field
        assert error.context["position"] == position


HUGE = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (0, b"\0\0\0\3\0\0", "count exceeds what is left"),
        (0, b"\x7f\xff\xff\xff" + b"\0" * 100, "count exceeds what is left"),
        (0, b"\xff\xff\xff\xff", "null where the field is never null"),
        (0, b"\xff\xff\xff\xfe", "negative count"),
        (0, b"\x80\0\0\0", "negative count"),
        (1, b"\0", "null where the field is never null"),
        (1, b"\x03\1", "count exceeds what is left"),
        (1, HUGE + b"\1" * 100, "count exceeds what is left"),
        (1, b"\xff\xff\xff\xff\x1f", "varint of more than 32 bits"),
        (1, b"\xff" * 5, "varint of more than 32 bits"),
        (1, b"\xff" * 100, "varint of more than 32 bits"),
        (1, b"\x80\x80\x80", "the input ends too early"),
        (1, b"", "the input ends too early"),
    ],
)
def test_counts_that_lie(version: int, data: bytes, reason: str) -> None:
    error = refusal(Lists, data, version)
    assert error.reason == reason
    assert error.context["field"] == "flags"


@pytest.mark.parametrize(
    ("version", "start", "field", "reason"),
    [
        (0, b"\0\3ab", "name", "the input ends too early"),
        (0, b"\0\xc8ab", "name", "length exceeds what is left"),
        (0, b"\xff\xff", "name", "null where the field is never null"),
        (0, b"\xff\xfe", "name", "negative length"),
        (0, b"\0\0\x80\0", "nick", "negative length"),
        (0, b"\0\0\0\0\xff\xff\xff\xff", "blob", "null where the field is never null"),
        (0, b"\0\0\0\0\x80\0\0\0", "blob", "negative length"),
        (0, b"\0\0\0\0\x7f\xff\xff\xff", "blob", "length exceeds what is left"),
        (0, b"\0\0\0\0\0\0\0\0\x80\0\0\1", "extra", "negative length"),
        (0, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", "view", "length exceeds what is left"),
        (0, b"\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", "view", "null where"),
        (1, b"\0", "name", "null where the field is never null"),
        (1, b"\4ab", "name", "the input ends too early"),
        (1, b"\xc8\1ab", "name", "length exceeds what is left"),
        (1, b"\x82\x80\2" + b"a" * 40000, "name", "string too long"),
        (1, HUGE, "name", "string too long"),
        (1, b"\1\0\0", "blob", "null where the field is never null"),
        (1, b"\1\0" + HUGE, "blob", "length exceeds what is left"),
        (1, b"\1\0\1\0\0", "view", "null where the field is never null"),
        (1, b"\1\0\1\0\1" + HUGE, "records", "length exceeds what is left"),
    ],
)
def test_lengths_that_lie(version: int, start: bytes, field: str, reason: str) -> None:
    error = refusal(Lengths, start, version)
    assert error.reason.startswith(reason)
    assert error.context["field"] == field


@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"ok\xe2\x82"]
)
@pytest.mark.parametrize("padding", [b"", b"x" * 200])
def test_text_that_is_not_utf8(text: bytes, padding: bytes) -> None:
    text = padding + text
    start = len(text).to_bytes(2, "big")
    error = refusal(Lengths, start + text + b"\0" * 20, 0)
    assert error.reason == "not UTF-8"
    assert error.context["field"] == "name"
    assert error.context["byte"] == text.rindex(text.lstrip(b"xok")[:1] or text[-1:])


TAGS = Nested(topics=[], place=Place()).encode(3)[:-1]
EPOCH = b"\x08\0\0\0\0\0\0\0\3"


@pytest.mark.parametrize(
    ("section", "reason", "field"),
    [
        (b"\2\x09" + EPOCH + b"\x09" + EPOCH, "duplicate tag", ""),
        (b"\2\x20\0\x20\0", "duplicate tag", ""),
        (b"\2\x09" + EPOCH + b"\0\1\0", "tags out of order", ""),
        (b"\x41" + b"".join(bytes((tag, 0)) for tag in range(20, 85)), "too many tagged", ""),
        (HUGE, "too many tagged", ""),
        (b"\1\x20\5abc", "length exceeds what is left", ""),
        (b"\1\x20" + HUGE, "length exceeds what is left", ""),
        (b"\1" + b"\xff" * 6, "varint of more than 32 bits", ""),
        (b"\1\x09\x07\0\0\0\0\0\0\0\3", "tagged field has another size than it says", "epoch"),
        (b"\1\x09\x09\0\0\0\0\0\0\0\3\0", "tagged field has another size than it says", "epoch"),
        (b"\1\0\2\0\0", "tagged field has another size than it says", "cluster_id"),
        (b"\1\1\0", "the input ends too early", "deep.host"),
        (b"\1", "the input ends too early", ""),
        (b"\1\x09", "the input ends too early", ""),
    ],
)
def test_tag_sections_that_break_the_rules(section: bytes, reason: str, field: str) -> None:
    error = refusal(Nested, TAGS + section, 3)
    assert error.reason.startswith(reason)
    assert error.context["field"] == field


def test_as_many_tags_as_are_allowed() -> None:
    tags = b"\x40" + b"".join(bytes((tag, 1, 7)) for tag in range(20, 84))
    assert Nested.decode(TAGS + tags, 3) == Nested(topics=[], place=Place())
    assert Nothing.decode(tags, 1) == Nothing()
    assert refusal(Nothing, b"\x41" + tags[1:] + b"\x7f\0", 1).reason.startswith("too many")
    assert refusal(Nothing, b"\2\3\0\3\0", 1).reason == "duplicate tag"


def test_null_flags_follow_their_sign() -> None:
    start = b"\0\0\0\0\1\1\0\0\0\0\0"
    assert Nested.decode(start + b"\x80\0", 3).elsewhere is None
    assert Nested.decode(start + b"\x02\1\0\0\0\0\0\0", 3).elsewhere == Place(port=0)


def test_a_header_field_that_is_never_compact_may_be_null() -> None:
    assert Forms.decode(b"\xff\xff\1\1\0\0", 1).client is None
    assert refusal(Forms, b"\xff\xfe\1\1\0\0", 1).context["field"] == "client"


def array(count: int, element: bytes) -> bytes:
    return (count).to_bytes(4, "big") + element * count


def test_a_hundred_mebibytes_of_empty_elements_are_refused_at_once() -> None:
    count = 50 << 20
    data = b"\x81\x80\x80\x19" + b"\1\0" * count + b"\0"
    assert refusal(Rows, data, 0).reason.startswith("the objects would take more memory")
    peak_stays_below(1 << 20, lambda: refusal(Rows, data, 0))


def test_an_error_keeps_nothing_of_the_input_alive() -> None:
    data = memoryview(bytearray(FULL.encode(3)[:-1]))
    error = refusal(Nested, data, 3)
    assert error.__context__ is not None
    assert error.__context__.__traceback__ is None


EMPTY_LISTS = [array(0, b"")] * 9
BOMBS: dict[str, tuple[type[Message], int, Any]] = {
    "small structs": (Marks, 0, array(1 << 15, b"\1")),
    "empty lists in structs": (Shelves, 1, b"\x81\x80\x01" + b"\1\1\1\0" * (1 << 14) + b"\0"),
    # Slices of bytes that are empty cost nothing, those of a view what they cost in production.
    "views in structs": (
        ProduceRequest,
        3,
        memoryview(
            b"\xff\xff\0\1\0\0\0\0" + array(1, b"\0\1t" + array(1 << 14, b"\0\0\0\1" + bytes(4)))
        ),
    ),
    "empty strings": (Rows, 0, b"\x81\x80\x01" + b"\1\0" * (1 << 14) + b"\0"),
    "short strings": (Rows, 0, b"\x81\x40" + b"\4abc\0" * (1 << 13) + b"\0"),
    "wide strings": (
        Rows,
        0,
        b"\x81\x10" + (b"\x7f\xf0\x9f\x98\x80" + b"a" * 122 + b"\0") * 2048 + b"\0",
    ),
    "long wide strings": (
        Rows,
        0,
        b"\x1a" + (b"\xf1\xff\1\xf0\x9f\x98\x80" + b"a" * 32748 + b"\0") * 25 + b"\0",
    ),
    "one long blob": (Lengths, 0, b"\0\0\0\0" + array(2 << 20, b"x") + bytes(12)),
    "many blobs": (Lists, 0, b"".join(EMPTY_LISTS[:8]) + array(1 << 14, bytes(4))),
    "blobs in a list": (
        Lists,
        0,
        b"".join(EMPTY_LISTS[:8]) + array(1 << 10, b"\0\0\4\0" + b"x" * 1024),
    ),
    "numbers": (
        Lists,
        0,
        b"".join(EMPTY_LISTS[:4]) + array(1 << 15, b"\x7f" * 8) + b"".join(EMPTY_LISTS[:4]),
    ),
    "numbers at the end": (
        ListTransactionsRequest,
        0,
        b"\1\x81\x80\x02" + b"\x7f" * (1 << 18) + b"\0",
    ),
    "flags": (Lists, 0, array(1 << 18, b"\1") + b"".join(EMPTY_LISTS[:8])),
    "ids": (
        Lists,
        0,
        b"".join(EMPTY_LISTS[:5]) + array(1 << 14, b"i" * 16) + b"".join(EMPTY_LISTS[:3]),
    ),
    "names": (
        Lists,
        0,
        b"".join(EMPTY_LISTS[:6]) + array(1 << 15, b"\0\2ab") + b"".join(EMPTY_LISTS[:2]),
    ),
    "empty structs": (Nested, 0, array(1 << 14, bytes(6)) + bytes(7)),
    "structs with defaults": (
        Nested,
        0,
        array(1, b"\0\0" + array(1 << 13, b"\x7f" * 12)) + bytes(7),
    ),
    "lists in structs": (
        Nested,
        0,
        array(1 << 8, b"\0\0" + array(50, b"\x7f" * 12)) + bytes(7),
    ),
}
SMALL_BUDGET = 3 << 18
# The error and its traceback, lists that grow by an eighth, and one string of 128 KiB: a string is
# checked once it is made, because its size in memory is not known before.
SLACK = 192 << 10


@pytest.mark.parametrize("name", BOMBS)
def test_the_budget_bounds_what_is_really_allocated(name: str) -> None:
    cls, version, data = BOMBS[name]
    cls.decode(data, version, budget=1 << 40)
    with pytest.raises(MalformedMessage, match="more memory than the budget"):
        cls.decode(data, version, budget=SMALL_BUDGET)

    def decode_with_too_little() -> None:
        with pytest.raises(MalformedMessage):
            cls.decode(data, version, budget=SMALL_BUDGET)

    peak_stays_below(SMALL_BUDGET + SLACK, decode_with_too_little)


@pytest.mark.parametrize("name", BOMBS)
def test_what_fits_the_budget_takes_no_more_than_it(name: str) -> None:
    cls, version, data = BOMBS[name]
    budget = least_budget(cls, version, data)
    peak_stays_below(budget + SLACK, lambda: cls.decode(data, version, budget=budget))


def least_budget(cls: type[Message], version: int, data: bytes) -> int:
    """The smallest budget (to within 3 %) that lets the message pass."""
    low, high = 0, 1 << 26
    while high - low > high // 32:
        middle = (low + high) // 2
        try:
            cls.decode(data, version, budget=middle)
            high = middle
        except MalformedMessage:
            low = middle
    return high


def test_a_produce_of_very_many_empty_partitions_is_refused() -> None:
    count = 400_000
    partitions = (count + 1 | 0x80, count + 1 >> 7 | 0x80, count + 1 >> 14)
    start = b"\0\0\1\0\0\0\0\2\2t" + bytes(each & 0xFF for each in partitions)
    data = memoryview(start + b"\0\0\0\1\1\0" * count + b"\0\0")
    refusal(ProduceRequest, data, 9)
    peak_stays_below(1 << 20, lambda: refusal(ProduceRequest, data, 9))


def test_views_are_not_paid_for() -> None:
    records = bytes(DECODE_BUDGET + 1)
    data = Lengths(name="", nick=None, blob=b"", extra=None, view=b"", records=records).encode(1)
    assert len(Lengths.decode(data, 1).records or b"") == len(records)


def test_a_large_but_honest_message_fits_the_default_budget() -> None:
    rows = Rows(rows=[Row(name=f"topic-{number}") for number in range(100_000)])
    assert len(Rows.decode(rows.encode(0), 0).rows) == 100_000
