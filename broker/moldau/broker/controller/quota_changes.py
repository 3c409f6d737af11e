"""AlterClientQuotas (KIP-546): quotas of users, client ids and both.

Invariants: an entity of a request succeeds or fails as a whole. A key that is not known is
refused. Setting the same value again makes no record.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.outcome import Outcome, check_record_count
from moldau.broker.controller.quotas import CONNECTION_RATE, OF_CLIENTS
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.controller.quotas import Entity
    from moldau.protocol.declare import MetadataRecord

_FRACTIONS: Final = frozenset(("request_percentage", "controller_mutation_rate"))
_LONG_MAX: Final = float(2**63)
_INT_MAX: Final = float(2**31 - 1)


def alter_quotas(
    image: Image, request: AlterClientQuotasRequest
) -> Outcome[AlterClientQuotasResponse]:
    """Set and remove quotas. With `validate_only`, only check the request."""
    records: list[MetadataRecord] = []
    results: dict[Entity, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        entity = frozenset((each.entity_type, each.entity_name) for each in entry.entity)
        error: KafkaError | None = None
        try:
            if entity in results:
                raise _invalid("the request names an entity twice")
            records += _records(image, entity, entry)
        except KafkaError as refused:
            error = without_frames(refused)
        results[entity] = AlterClientQuotasResponseEntryData(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.reason,
            entity=entry.entity,
        )
    check_record_count(records)
    kept = () if request.validate_only else tuple(records)
    return Outcome(kept, AlterClientQuotasResponse(entries=list(results.values())))


def _records(
    image: Image, entity: Entity, entry: AlterClientQuotasRequestEntryData
) -> list[MetadataRecord]:
    kinds = [each.entity_type for each in entry.entity]
    _check_entity(entry, kinds)
    before = image.client_quotas.by_entity.get(entity, {})
    parts = [
        EntityData(entity_type=kind, entity_name=name)
        for kind, name in sorted(entity, key=lambda part: part[0])
    ]
    records: list[MetadataRecord] = []
    for each in entry.ops:
        if each.remove:
            if each.key in before:
                records.append(
                    ClientQuotaRecord(entity=parts, key=each.key, value=0.0, remove=True)
                )
            continue
        _check_key(each.key, kinds)
        _check_value(each.key, each.value)
        if before.get(each.key) != each.value:
            records.append(
                ClientQuotaRecord(entity=parts, key=each.key, value=each.value, remove=False)
            )
    return records


def _check_entity(entry: AlterClientQuotasRequestEntryData, kinds: list[str]) -> None:
    if not kinds:
        raise _invalid("Invalid empty client quota entity")
    if len(set(kinds)) != len(kinds):
        raise _invalid("Invalid client quota entity: a type is named twice")
    for each in entry.entity:
        if each.entity_type not in ("user", "client-id", "ip"):
            raise _invalid(f"Unhandled client quota entity type: {each.entity_type}")
        if each.entity_name == "":
            raise _invalid(f"Empty {each.entity_type} not supported")
    for each in entry.entity:
        if each.entity_type == "ip" and each.entity_name is not None:
            _check_address(each.entity_name)
    if "ip" in kinds and len(kinds) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined")


def _check_address(name: str) -> None:
    try:
        ip_address(name)
    except ValueError:
        raise _invalid(f"{name} is not a valid IP address") from None


def _check_key(key: str, kinds: list[str]) -> None:
    known = (CONNECTION_RATE,) if kinds == ["ip"] else OF_CLIENTS
    if key not in known:
        raise _invalid(f"Invalid configuration key {key}")


def _check_value(key: str, value: float) -> None:
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value >= _LONG_MAX or (key == CONNECTION_RATE and value > _INT_MAX):
        raise _invalid(f"Quota {key} is too large")
    if key not in _FRACTIONS and value != int(value):
        raise _invalid(f"Quota {key} must be a whole number")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
