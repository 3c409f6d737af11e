"""Lists quotas by the users, client ids or addresses that they are set for (KIP-546)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Float64, Int8, Int16, Int32, String


class ComponentData(Struct):
    """A part of the filter: an exact name (0), the default (1) or any name (2)."""

    entity_type: String
    match_type: Int8
    match: String | None


class DescribeClientQuotasRequest(
    Request, key=48, versions="0-1", flexible="1+", listeners=("broker",)
):
    """The filter; `strict` leaves out quotas with parts that it does not name."""

    components: list[ComponentData]
    strict: Bool


class EntityData(Struct):
    """One part of an entity; a null name is the default for its type."""

    entity_type: String
    entity_name: String | None


class ValueData(Struct):
    """One quota."""

    key: String
    value: Float64


class EntryData(Struct):
    """An entity and its quotas."""

    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """The entities that match and their quotas."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    entries: list[EntryData] | None
