"""DescribeClientQuotas, answered from the image, and the form of a refused AlterClientQuotas.

The metadata may hold quotas that a controller of Apache Kafka wrote and that are not enforced here;
they are described as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_EXACT: Final = 0
_DEFAULT: Final = 1


def serve_describe(node: Node, request: ApiRequest) -> None:
    """Answer from the image, at once."""
    message = cast(DescribeClientQuotasRequest, request.decode())
    entries = [
        EntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name)
                for kind, name in sorted(entity, key=lambda part: part[0])
            ],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in node.image.client_quotas.by_entity.items()
        if _matches(message, dict(entity))
    ]
    request.answer(DescribeClientQuotasResponse(error_code=0, error_message="", entries=entries))


def _matches(message: DescribeClientQuotasRequest, entity: Mapping[str, str | None]) -> bool:
    if message.strict and len(entity) != len(message.components):
        return False
    return all(
        each.entity_type in entity and _is_met(each, entity[each.entity_type])
        for each in message.components
    )


def _is_met(component: ComponentData, name: str | None) -> bool:
    if component.match_type == _EXACT:
        return name == component.match
    return name is None if component.match_type == _DEFAULT else True
