"""Small messages that use every feature of the declaration language, for tests of the engine."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Data, LogKey, Request, Response, Struct, field
from moldau.protocol.types import (
    Bool,
    Bytes,
    BytesView,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uint16,
    Uint32,
    Uuid,
)


class Numbers(Data, versions="0-1", flexible="1+"):
    """Every fixed-size type, side by side."""

    yes: Bool
    tiny: Int8
    small: Int16
    port: Uint16
    middle: Int32
    crc: Uint32
    large: Int64
    real: Float64
    id: Uuid


class Lengths(Data, versions="0-1", flexible="1+"):
    """Every length-prefixed type, nullable and not."""

    name: String
    nick: String | None
    blob: Bytes
    extra: Bytes | None
    view: BytesView
    records: Records | None


class Lists(Data, versions="0-1", flexible="1+"):
    """Arrays of everything."""

    flags: list[Bool]
    tiny: list[Int8]
    small: list[Int16]
    numbers: list[Int32]
    large: list[Int64]
    ids: list[Uuid]
    names: list[String]
    maybe: list[Int32] | None
    blobs: list[Bytes]


class Mark(Struct):
    """As little as a struct can hold."""

    on: Bool


class Marks(Data, versions="0-1", flexible="1+"):
    """Many small structs."""

    marks: list[Mark]


class Shelf(Struct):
    """Lists that may all be empty."""

    left: list[Int32]
    middle: list[Int32]
    right: list[Int32]


class Shelves(Data, versions="0-1", flexible="1+"):
    """Structs that are cheap on the wire and full of lists in memory."""

    shelves: list[Shelf]


class Place(Struct):
    """A struct that can be left at its default."""

    host: String = field(default="")
    port: Int32 = field(default=-1)


class Leader(Struct):
    """A struct of plain numbers, as Kafka's tagged ones are."""

    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class Partition(Struct):
    """An element of an element."""

    index: Int32
    epoch: Int32 = field(since=2, default=-1, ignorable=True)
    offset: Int64
    error_message: String | None = field(since=1, default=None)
    leader: Leader = field(since=3, tag=0, default_factory=Leader)
    replicas: list[Int32] = field(since=3, tag=2, default_factory=list)


class Topic(Struct):
    """An element with a list of its own."""

    name: String = field(until=3, default="", ignorable=True)
    topic_id: Uuid = field(since=4, default=ZERO_UUID, ignorable=True)
    partitions: list[Partition]


class Nested(Response, key=901, versions="0-4", flexible="3+"):
    """Lists in lists, nullable and tagged structs, fields that come and go."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    topics: list[Topic]
    place: Place
    elsewhere: Place | None = field(since=2, default=None)
    was_there: Bool = field(until=2, default=True)
    cluster_id: String | None = field(since=3, tag=0, default="moldau")
    deep: Place = field(since=3, tag=1, default_factory=Place, ignorable=True)
    rare: Place | None = field(since=3, tag=5, default=None)
    epoch: Int64 = field(since=3, tag=9, default=-1)
    seldom_null: Place | None = field(since=3, tag=10, default_factory=Place)


class Forms(Request, key=902, versions="0-3", flexible="1+", latest_unstable=True):
    """Null that is allowed later, a field that is never compact, names that are not derived."""

    client: String | None = field(flexible=False)
    later: String | None = field(nullable_since=2, default="")
    items: list[Place] | None = field(nullable_since=2, default_factory=list)
    isr_only: Bool = field(since=1, default=False, name="ISROnly", map_key=True)


class Rows(Data, versions="0", flexible="0+"):
    """The cheapest elements that there are: two bytes each on the wire."""

    rows: list[Row]


class Row(Struct):
    """An empty name and no tags."""

    name: String


class Nothing(Data, versions="0-1", flexible="1+"):
    """A message without fields."""


class MemberKey(LogKey, type=3, versions="0"):
    """A key in a coordinator's log."""

    group_id: String


class Awkward(Data, versions="0-1", flexible="1+"):
    """Fields whose names the generated code uses for itself."""

    n: list[Row]
    p: list[Row]
    data: list[Row]
    end: list[Row]
    text: list[Row]
    short: list[Row]
    len: list[Row]
    range: list[Row]
    varint: list[Row]
    message: list[Row]
    parts: list[Row]
    tagged: list[Row]
    pack_i: list[Int32]
    array_i: list[Row]
    number: Int32
    tag: list[Row] = field(since=1, tag=0, default_factory=list)
    make_place: Place = field(since=1, tag=1, default_factory=lambda: Place(port=3))
