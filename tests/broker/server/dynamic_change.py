"""A dynamic setting of a broker, set or deleted over the wire."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.server.wire import Wire

BROKER, SET, DELETE = 4, 0, 1


async def alter(wire: Wire, name: str, value: str | None, broker: str = "1") -> ErrorCode:
    config = AlterableConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
        ],
        validate_only=False,
    )
    answer = await wire.ask(request, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)
