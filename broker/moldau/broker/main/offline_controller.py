"""A node's controller without a broker, for commands that change the stored metadata offline.

Invariants: the directory is locked while the controller is open, so no broker uses it. The
controller decides as it would for a client, and its decisions are appended to the metadata log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.config_changes import Operation
from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.image import Image
from moldau.broker.decision.context import of_node
from moldau.broker.log.directory import LogDirectory
from moldau.broker.server.channel import Audience, LocalController
from moldau.broker.server.controller_config import controller_config_of
from moldau.broker.server.storage import cluster_of, places_of
from moldau.broker.settings.node import node_id
from moldau.cli.command import UsageError
from moldau.errors.codes import KafkaError
from moldau.logging import Loggers
from moldau.protocol.messages import incremental_alter_configs as changing

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.protocol.declare import Response
    from moldau.runtime import Runtime

_VERSION: Final = 1
"""The version of IncrementalAlterConfigs."""


async def take_back(
    runtime: Runtime, settings: Settings, names: Sequence[str], *, is_of_all: bool
) -> None:
    """Delete dynamic settings: all of them, durable on return, or none. Raise UsageError for a name
    that is not set, and KafkaError if the remaining settings would be invalid."""
    place = places_of(settings).metadata
    cluster_id = cluster_of(runtime.files, settings)
    directory = LogDirectory.open(runtime.files, place)  # the lock proves that no broker uses it
    try:
        controller = _controller(runtime, settings, cluster_id, place)
        try:
            await _delete(controller, settings, names, is_of_all=is_of_all)
        finally:
            await controller.aclose()
    finally:
        directory.release()


def _controller(
    runtime: Runtime, settings: Settings, cluster_id: str, place: str
) -> LocalController:
    """Return an open controller whose metadata is published nowhere."""
    log = Loggers(runtime.clock, lambda line: None).get("moldau.storage")
    nothing = Audience(
        lambda records, end_offset: None,
        lambda records, end_offset: None,
        lambda: None,
        lambda error: None,
        Image,
    )
    controller = LocalController(
        runtime, controller_config_of(settings, cluster_id, place), nothing, log
    )
    controller.open()
    return controller


async def _delete(
    controller: LocalController, settings: Settings, names: Sequence[str], *, is_of_all: bool
) -> None:
    own = Resource(ResourceType.BROKER, str(settings[node_id]))
    resource = ALL_BROKERS if is_of_all else own
    if controller.active is None:
        raise UsageError("other nodes vote too: change settings in the running cluster")
    stored = controller.active.controller.image.configs.of(resource)
    missing = [name for name in names if name not in stored]
    if missing:
        there = ", ".join(sorted(stored)) or "nothing"
        raise UsageError(f"not set at run time: {', '.join(missing)}; what is: {there}")
    configs = [
        changing.AlterableConfig(name=name, config_operation=Operation.DELETE, value=None)
        for name in names
    ]
    wanted = changing.AlterConfigsResource(
        resource_type=resource.resource_type, resource_name=resource.name, configs=configs
    )
    request = changing.IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    answered: asyncio.Future[Response | KafkaError] = asyncio.get_running_loop().create_future()
    context = of_node(settings[node_id], _VERSION)
    controller.submit(request, context, answered.set_result)
    answer = await answered
    if isinstance(answer, KafkaError):
        raise answer
    assert isinstance(answer, changing.IncrementalAlterConfigsResponse)
    (verdict,) = answer.responses
    if verdict.error_code:
        raise KafkaError(verdict.error_code, verdict.error_message or "")
