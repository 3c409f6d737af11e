"""Topics, settings and the cluster: the questions of tests/broker/api/conversation.py, to whole
brokers. There they are asked of our handlers on Kafka's own metadata, here of all that is below."""

from __future__ import annotations

from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.api import conversation
from tests.broker.api.renew import CHANGES, SET
from tests.differential.talk import Talk

SETTINGS = {"broker.rack": "r1"}


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await talk.topic("a.b")
    for kind, name, values in SET:
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(name=key, config_operation=0, value=value)
                for key, value in values.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        await talk.send(request, IncrementalAlterConfigsResponse)
    await talk.settled()
    for number, question in enumerate(conversation.questions()):
        if question.listener == conversation.PLAINTEXT:
            label = f"{number} {type(question.request).__name__}"
            await talk.ask(label, question.request, question.version)
            if isinstance(question.request, CHANGES):
                await talk.settled()
