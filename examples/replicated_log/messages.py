"""What nodes and clients say, and the frames that carry it.

A frame is its length (4 bytes), the number of its kind (1 byte) and the message. A response to a
node says by itself what it is about (epoch and offset), so that loss, delay and reordering need no
special case: the replica takes any message at any time.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from moldau.protocol.declare import Data, Message, Struct
from moldau.protocol.types import Bool, Bytes, Int8, Int32, Int64

NOBODY = -1
NO_OFFSET = -1
NO_EPOCH = 0
FRAME_BYTES_MAX = 1 << 20


class Record(Struct):
    """A value, and the epoch whose leader took it. A leader's first record has no value."""

    epoch: Int32
    value: Bytes


class VoteRequest(Data, versions="0"):
    """A candidate asks for a vote, and says how far its log goes."""

    epoch: Int32
    candidate: Int8
    last_epoch: Int32
    log_end: Int64


class VoteResponse(Data, versions="0"):
    """A vote, or none; in either case the voter's epoch."""

    epoch: Int32
    voter: Int8
    is_granted: Bool


class AppendRequest(Data, versions="0"):
    """The leader's records from `base_offset`, which continue a log that ends in `previous_epoch`.

    Without records it says only that the leader is there, and how far all may read.
    """

    epoch: Int32
    leader: Int8
    base_offset: Int64
    previous_epoch: Int32
    high_watermark: Int64
    records: list[Record]


class AppendResponse(Data, versions="0"):
    """Accepted: equal to the leader's log, and durable, below `log_end`. Else: try from there.

    `base_offset` is that of the request.
    """

    epoch: Int32
    follower: Int8
    base_offset: Int64
    is_accepted: Bool
    log_end: Int64


class ProduceRequest(Data, versions="0"):
    """A client has a value to keep."""

    value: Bytes


class ProduceResponse(Data, versions="0"):
    """Where the value is kept for good; or `NO_OFFSET`, and who may be the leader.

    Without an offset the value may still be kept: the leader lost its office before it knew.
    """

    offset: Int64
    leader: Int8


class ReadRequest(Data, versions="0"):
    """A client wants what is kept from this offset on."""

    offset: Int64


class ReadResponse(Data, versions="0"):
    """Records that are kept for good, some or all, and where such records end."""

    high_watermark: Int64
    records: list[Record]


PeerMessage: TypeAlias = VoteRequest | VoteResponse | AppendRequest | AppendResponse

_KINDS: tuple[type[Message], ...] = (
    VoteRequest,
    VoteResponse,
    AppendRequest,
    AppendResponse,
    ProduceRequest,
    ProduceResponse,
    ReadRequest,
    ReadResponse,
)
_ENCODERS = {kind: (number, kind.codec.encode) for number, kind in enumerate(_KINDS)}
DECODERS = tuple(kind.codec.decode_from for kind in _KINDS)
KIND_COUNT = len(_KINDS)
_HEAD = struct.Struct(">IB")
HEAD_BYTES = _HEAD.size
pack_head, read_head = _HEAD.pack, _HEAD.unpack_from


def encode_frame(message: Message) -> bytes:
    """The message as it travels."""
    number, encode = _ENCODERS[type(message)]
    body = encode(message, 0)
    return pack_head(len(body), number) + body
