"""A setting of a broker, changed over the wire."""

from __future__ import annotations

from moldau.broker.server.standalone import CLIENTS
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages import incremental_alter_configs as changing
from tests.broker.server.wire import Wire

BROKER, SET = 4, 0

OF_X = f"{CLIENTS}:PLAINTEXT,CONTROLLER:PLAINTEXT,X:PLAINTEXT"


async def change(wire: Wire, broker: str, **values: str) -> None:
    configs = [
        changing.AlterableConfig(name=name.replace("_", "."), config_operation=SET, value=value)
        for name, value in values.items()
    ]
    resource = changing.AlterConfigsResource(
        resource_type=BROKER, resource_name=broker, configs=configs
    )
    request = changing.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = (await wire.ask(request, changing.IncrementalAlterConfigsResponse)).responses[0]
    assert answer.error_code == ErrorCode.NONE, answer.error_message
