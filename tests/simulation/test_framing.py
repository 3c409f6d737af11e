"""Frames: messages come out whole, however the bytes were cut; a lie ends its connection."""

from __future__ import annotations

import asyncio

import pytest

from examples.replicated_log.framing import Connection
from examples.replicated_log.messages import (
    FRAME_BYTES_MAX,
    AppendRequest,
    ProduceRequest,
    Record,
    VoteRequest,
    encode_frame,
)
from moldau.protocol.declare import Message

APPEND = AppendRequest(
    epoch=3,
    leader=1,
    base_offset=7,
    previous_epoch=2,
    high_watermark=5,
    records=[Record(epoch=3, value=b"one"), Record(epoch=3, value=b"")],
)
PRODUCE = ProduceRequest(value=b"x")
VOTE = VoteRequest(epoch=1, candidate=1, last_epoch=0, log_end=0)


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True


def connection() -> tuple[Connection, list[Message], Wire]:
    heard: list[Message] = []
    made, wire = Connection(lambda message, _: heard.append(message)), Wire()
    made.connection_made(wire)
    return made, heard, wire


def test_frames_are_cut_wherever_the_bytes_were() -> None:
    data = encode_frame(APPEND) + encode_frame(PRODUCE) + encode_frame(VOTE)
    for first in range(len(data)):
        for second in range(first, len(data)):
            made, heard, wire = connection()
            for piece in (data[:first], data[first:second], data[second:]):
                made.data_received(piece)
            assert heard == [APPEND, PRODUCE, VOTE]
            assert not wire.is_cut


def test_a_message_is_heard_as_soon_as_it_is_whole() -> None:
    made, heard, _ = connection()
    data = encode_frame(PRODUCE)
    made.data_received(data[:-1])
    assert heard == []
    made.data_received(data[-1:] + data[:3])
    assert heard == [PRODUCE]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff\xff\xff\xff\x00", id="negative"),
        pytest.param((FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"\x00", id="long"),
        pytest.param(b"\x00\x00\x00\x00\x63", id="kind"),
        pytest.param(b"\x00\x00\x00\x07\x04\x00\x00\x00\x01xyz", id="too-much"),
        pytest.param(b"\x00\x00\x00\x05\x04\x00\x00\x00\x02x", id="next-one's"),
    ],
)
def test_a_frame_that_lies_ends_the_connection(frame: bytes) -> None:
    made, heard, wire = connection()
    made.data_received(encode_frame(VOTE) + frame + encode_frame(PRODUCE))
    assert heard == [VOTE]
    assert wire.is_cut
