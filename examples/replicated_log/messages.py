"""The messages of nodes and clients, and the frames that carry them.

A frame is its length (4 bytes), the number of its kind (1 byte) and the message. A node's response
contains what it refers to (epoch and offset), so that loss, delay and reordering need no special
case: the replica accepts any message at any time.
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
    """A value and the epoch of the leader that took it. A leader's first record has no value."""

    epoch: Int32
    value: Bytes


class VoteRequest(Data, versions="0"):
    """A candidate requests a vote and reports how far its log goes."""

    epoch: Int32
    candidate: Int8
    last_epoch: Int32
    log_end: Int64


class VoteResponse(Data, versions="0"):
    """A vote or a refusal; both contain the voter's epoch."""

    epoch: Int32
    voter: Int8
    is_granted: Bool


class AppendRequest(Data, versions="0"):
    """The leader's records from `base_offset`, which continue a log that ends in `previous_epoch`.

    Without records it is a heartbeat. It also reports the high watermark, up to which all may read.
    """

    epoch: Int32
    leader: Int8
    base_offset: Int64
    previous_epoch: Int32
    high_watermark: Int64
    records: list[Record]


class AppendResponse(Data, versions="0"):
    """Accepted: below `log_end`, the log equals the leader's and is durable. Else: try from there.

    `base_offset` is that of the request.
    """

    epoch: Int32
    follower: Int8
    base_offset: Int64
    is_accepted: Bool
    log_end: Int64


class ProduceRequest(Data, versions="0"):
    """A client sends a value to store."""

    value: Bytes


class ProduceResponse(Data, versions="0"):
    """The offset of the committed value; or `NO_OFFSET`, and the node that may be the leader.

    Without an offset the value may still become committed: the leader lost its role before it knew.
    """

    offset: Int64
    leader: Int8


class ReadRequest(Data, versions="0"):
    """A client requests the committed records from this offset on."""

    offset: Int64


class ReadResponse(Data, versions="0"):
    """Some or all of the committed records, and the high watermark, at which they end."""

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
    """Return the frame of a message."""
    number, encode = _ENCODERS[type(message)]
    body = encode(message, 0)
    return pack_head(len(body), number) + body
