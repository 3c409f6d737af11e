"""Sets or removes quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Float64, Int16, Int32, String


class EntityData(Struct):
    """One part of an entity; a null name is the default for its type."""

    entity_type: String
    entity_name: String | None


class OpData(Struct):
    """One quota to set, or to remove."""

    key: String
    value: Float64
    remove: Bool


class AlterClientQuotasRequestEntryData(Struct, schema_name="EntryData"):
    """An entity and the changes to its quotas."""

    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(
    Request, key=49, versions="0-1", flexible="1+", listeners=("broker", "controller")
):
    """The changes, entity by entity."""

    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: Bool


class AlterClientQuotasResponseEntryData(Struct, schema_name="EntryData"):
    """The outcome for one entity."""

    error_code: Int16
    error_message: String | None
    entity: list[EntityData]


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    """The outcome for each entity."""

    throttle_time_ms: Int32 = field(default=0)
    entries: list[AlterClientQuotasResponseEntryData]
