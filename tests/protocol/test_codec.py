"""Bytes of the sample messages: some worked out by hand, and round trips of made-up values."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Message
from moldau.protocol.failures import REASON_LENGTH_MAX, UnencodableMessage
from moldau.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from moldau.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from tests.protocol.sample import (
    Forms,
    Leader,
    Lengths,
    Lists,
    Nested,
    Numbers,
    Partition,
    Place,
    Row,
    Rows,
    Topic,
)
from tests.protocol.sample_values import trips

ID = bytes(range(16))


@given(trips())
def test_what_is_written_is_read_back(trip: tuple[Any, int]) -> None:
    message, version = trip
    cls = type(message)
    data = message.encode(version)
    for form in (data, bytearray(data), memoryview(data), memoryview(data).cast("b")):
        assert cls.decode(form, version) == message
    assert cls.decode_from(b"before" + data + b"behind", 6, version) == (message, 6 + len(data))
    assert b"".join(message.encode_parts(version)) == data


def test_numbers_stand_side_by_side_in_big_endian() -> None:
    numbers = Numbers(
        yes=True,
        tiny=-2,
        small=-3,
        port=65535,
        middle=-4,
        crc=2**32 - 1,
        large=-5,
        real=0.5,
        id=ID,
    )
    plain = struct.pack(">?bhHiIqd16s", True, -2, -3, 65535, -4, 2**32 - 1, -5, 0.5, ID)
    assert numbers.encode(0) == plain
    assert numbers.encode(1) == plain + b"\0"


def test_lengths_are_plain_or_compact() -> None:
    message = Lengths(name="ab", nick=None, blob=b"c", extra=None, view=b"de", records=b"f")
    assert message.encode(0) == (b"\0\2ab\xff\xff\0\0\0\1c\xff\xff\xff\xff\0\0\0\2de\0\0\0\1f")
    assert message.encode(1) == b"\3ab\0\2c\0\3de\2f\0"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 129, 16382, 16383, 16384, 32767])
@pytest.mark.parametrize("version", [0, 1])
def test_lengths_around_the_steps_of_a_varint(size: int, version: int) -> None:
    for nick in ("n" * size, None):
        message = Lengths(
            name="x" * size,
            nick=nick,
            blob=b"y" * size,
            extra=b"",
            view=b"z" * size,
            records=None,
        )
        assert Lengths.decode(message.encode(version), version) == message


def test_text_longer_than_it_looks() -> None:
    message = Row(name="\U0001f600" * 100)
    assert Rows.decode(Rows(rows=[message]).encode(0), 0).rows == [message]


def test_null_and_default_structs() -> None:
    nested = Nested(topics=[], place=Place(host="h", port=1))
    assert nested.encode(0) == b"\0\0\0\0\0\1h\0\0\0\1\1"
    assert nested.encode(2) == b"\0\0\0\0\0\0\0\0\0\1h\0\0\0\1\xff\1"
    nested.elsewhere = Place(host="e", port=2)
    assert nested.encode(2)[-9:] == b"\1\0\1e\0\0\0\2\1"


def test_tagged_fields_at_their_default_are_left_out() -> None:
    nested = Nested(topics=[], place=Place())
    start = b"\0\0\0\0\1\1\xff\xff\xff\xff\0\xff"
    assert nested.encode(3) == start + b"\0"
    nested.cluster_id = None
    nested.deep.port = 7
    nested.epoch = 3
    assert nested.encode(3) == start + (b"\3\0\1\0\1\6\1\0\0\0\7\0\x09\x08\0\0\0\0\0\0\0\3")


def test_a_tagged_null_struct_is_a_varint_of_zero() -> None:
    start = Nested(topics=[], place=Place()).encode(3)[:-1]
    nested = Nested(topics=[], place=Place(), rare=Place(port=7), seldom_null=None)
    data = start + b"\2\5\7\1\1\0\0\0\7\0\x0a\1\0"
    assert nested.encode(3) == data
    assert Nested.decode(data, 3) == nested
    assert Nested.decode(data[:-2] + b"\2\x80\0", 3) == nested


def test_unknown_tags_are_skipped_and_not_kept() -> None:
    start = Nested(topics=[], place=Place()).encode(3)[:-1]
    read = Nested.decode(start + b"\3\2\3abc\x09\x08\0\0\0\0\0\0\0\3\x20\0", 3)
    assert read == Nested(topics=[], place=Place(), epoch=3)
    assert read.encode(3) == start + b"\1\x09\x08\0\0\0\0\0\0\0\3"


def test_a_field_that_is_never_compact() -> None:
    assert Forms(client="ab").encode(1) == b"\0\2ab\1\1\0\0"
    assert Forms(client=None).encode(1)[:2] == b"\xff\xff"


def test_absent_fields_are_read_as_their_defaults() -> None:
    read = Nested.decode(Nested(topics=[Topic(partitions=[])], place=Place()).encode(0), 0)
    assert read.cluster_id == "moldau"
    assert read.deep == Place()
    assert read.topics[0].topic_id == bytes(16)
    read.deep.port = 9
    assert Nested.decode(read.encode(0), 0).deep.port == -1


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (Nested(topics=[], place=Place(), epoch=4), 2, "epoch"),
        (Nested(topics=[], place=Place(), was_there=False), 3, "was_there"),
        (Nested(topics=[], place=Place(), cluster_id=None), 2, "cluster_id"),
        (Nested(topics=[], place=Place(), elsewhere=Place()), 1, "elsewhere"),
        (
            Nested(
                topics=[
                    Topic(partitions=[]),
                    Topic(
                        partitions=[
                            Partition(index=0, offset=0),
                            Partition(index=0, offset=0, leader=Leader(leader_epoch=3)),
                        ]
                    ),
                ],
                place=Place(),
            ),
            2,
            "topics[1].partitions[1].leader",
        ),
    ],
)
def test_a_value_that_the_version_would_lose_is_refused(
    message: Message, version: int, field: str
) -> None:
    with pytest.raises(KafkaError) as raised:
        message.encode(version)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert raised.value.context["message"] == "Nested"
    assert raised.value.context["version"] == version
    assert raised.value.context["field"] == field


def test_an_ignorable_value_is_dropped_silently() -> None:
    nested = Nested(topics=[], place=Place(), throttle_time_ms=5, deep=Place(port=3))
    assert Nested.decode(nested.encode(0), 0) == Nested(topics=[], place=Place())


def lengths(**changes: Any) -> Lengths:
    fields: dict[str, Any] = {
        "name": "",
        "nick": None,
        "blob": b"",
        "extra": None,
        "view": b"",
        "records": None,
    }
    return Lengths(**{**fields, **changes})


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("message", "field", "reason"),
    [
        (lengths(name=None), "name", "null where the field is never null"),
        (lengths(blob=None), "blob", "null where the field is never null"),
        (lengths(view=None), "view", "null where the field is never null"),
        (lengths(name=3), "name", "does not fit"),
        (lengths(nick="\ud800"), "nick", "does not fit"),
        (lengths(blob=3), "blob", "does not fit"),
        (lengths(name="x" * 32768), "name", ""),
        (lengths(nick="x" * 70000), "nick", ""),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_field(
    message: Lengths, version: int, field: str, reason: str
) -> None:
    for encode in (message.encode, message.encode_parts):
        with pytest.raises(UnencodableMessage) as raised:
            encode(version)
        assert raised.value.context["field"] == field
        assert raised.value.context["message"] == "Lengths"
        assert raised.value.context["version"] == version
        assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"middle": 2**31}, "middle"),
        ({"tiny": 1.5}, "tiny"),
        ({"id": b"short"}, "id"),
        ({"id": None}, "id"),
        ({"port": -1}, "port"),
    ],
)
def test_numbers_that_do_not_fit_are_told_apart_from_their_neighbours(
    change: dict[str, Any], field: str
) -> None:
    fields: dict[str, Any] = dict.fromkeys(
        ("yes", "tiny", "small", "port", "middle", "crc", "large", "real"), 0
    )
    with pytest.raises(UnencodableMessage) as raised:
        Numbers(**{**fields, "id": ID, **change}).encode(1)
    assert raised.value.context["field"] == field


def test_an_id_in_a_list_has_its_size_too() -> None:
    nothing: dict[str, Any] = {field.name: [] for field in Lists.spec.fields}
    with pytest.raises(UnencodableMessage, match="an id has 16 bytes") as raised:
        Lists(**{**nothing, "ids": [ID, b"short"]}).encode(0)
    assert raised.value.context["field"] == "ids"


def test_the_element_that_does_not_fit_is_named() -> None:
    topics = [
        Topic(partitions=[Partition(index=1, offset=2)]),
        Topic(partitions=[Partition(index=1, offset=2), Partition(index=1, offset=2**63)]),
    ]
    with pytest.raises(UnencodableMessage) as raised:
        Nested(topics=topics, place=Place()).encode(0)
    assert raised.value.context["field"] == "topics[1].partitions[1].offset"


@pytest.mark.parametrize("version", [-1, 4, 99])
def test_versions_that_do_not_exist(version: int) -> None:
    for use in (
        lambda: Forms(client=None).encode(version),
        lambda: Forms(client=None).encode_parts(version),
        lambda: Forms.decode(b"", version),
        lambda: Forms.decode_from(b"", 0, version),
    ):
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION") as raised:
            use()
        assert raised.value.context == {"message": "Forms", "version": version, "versions": "0-3"}


def test_an_unstable_version_can_be_used() -> None:
    message = Forms(client="c", later=None, items=None)
    assert Forms.decode(message.encode(3), 3) == message


def test_null_that_is_allowed_later() -> None:
    with pytest.raises(UnencodableMessage) as raised:
        Forms(client=None, later=None).encode(1)
    assert raised.value.context["field"] == "later"
    with pytest.raises(UnencodableMessage) as raised:
        Forms(client=None, items=None).encode(1)
    assert raised.value.context["field"] == "items"


class FileSlice:
    """What a broker answers a fetch with: it has a size and is sent by other means."""

    def __len__(self) -> int:
        return 1_000_000


def test_views_pass_through_untouched() -> None:
    slice_ = FileSlice()
    view = memoryview(b"view")
    message = lengths(name="n", view=view, records=slice_)
    before, first, between, second, after = message.encode_parts(1)
    assert first is view
    assert second is slice_
    assert (before, after) == (b"\2n\0\1\0\5", b"\0")
    assert between == b"\xc1\x84\x3d"
    with pytest.raises(UnencodableMessage, match="FileSlice"):
        message.encode(1)


def test_views_share_the_memory_of_the_input() -> None:
    data = bytearray(lengths(blob=b"blob", view=b"view", records=b"records").encode(1))
    read = Lengths.decode(data, 1)
    data[:] = b"\xff" * len(data)
    assert read.blob == b"blob"
    assert bytes(read.view) == b"\xff" * 4
    assert type(read.records) is memoryview
    assert not read.records.readonly


def test_views_of_bytes_are_views_too() -> None:
    read = Lengths.decode(lengths(records=b"records").encode(0), 0)
    assert type(read.records) is memoryview


def test_elements_of_every_type() -> None:
    lists = Lists(
        flags=[True, False],
        tiny=[-1, 1],
        small=[-1, 1],
        numbers=list(range(200)),
        large=[2**63 - 1],
        ids=[ID, bytes(16)],
        names=["", "a" * 300],
        maybe=None,
        blobs=[b"", b"b" * 300],
    )
    for version in (0, 1):
        assert Lists.decode(lists.encode(version), version) == lists


def test_varints_may_be_longer_than_needed() -> None:
    plain = lengths(name="ab", blob=b"c").encode(1)
    assert plain == b"\3ab\0\2c\0\1\0\0"
    padded = b"\x83\0ab\x80\0\x82\x80\0c\x80\0\x81\0\x80\0\x80\0"
    assert Lengths.decode(padded, 1) == Lengths.decode(plain, 1)


def test_a_field_of_ours_is_not_on_the_wire_unless_it_says_something() -> None:
    batch = AcknowledgementBatch(first_offset=0, last_offset=9, acknowledge_types=[2])
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    topic = AcknowledgeTopic(topic_id=bytes(16), partitions=[partition])
    request = ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=1, topics=[topic]
    )
    plain = request.encode(2)
    batch.delay_ms, batch.reason = 30_000, "why"
    told = request.encode(2)
    assert len(told) == len(plain) + len("why") + 15  # two tags with their sizes
    read = ShareAcknowledgeRequest.decode(told, 2).topics[0].partitions[0]
    (found,) = read.acknowledgement_batches
    assert (found.delay_ms, found.reason) == (30_000, "why")


def test_the_reason_of_an_error_that_is_too_long_is_cut() -> None:
    for version in (2, 5):  # without compact lengths and with them
        row = CreatableTopicResult(name="t", error_code=1, error_message="\u20ac" * 20_000)
        response = CreateTopicsResponse(topics=[row])
        again = CreateTopicsResponse.decode(response.encode(version), version)
        reason = again.topics[0].error_message
        assert reason is not None
        assert reason == "\u20ac" * (len(reason) - 3) + "..."
        assert len(reason) == REASON_LENGTH_MAX


def test_another_text_that_is_too_long_is_not_cut() -> None:
    row = CreatableTopicResult(name="t" * 40_000, error_code=1, error_message="x" * 40_000)
    with pytest.raises(UnencodableMessage):
        CreateTopicsResponse(topics=[row]).encode(5)
