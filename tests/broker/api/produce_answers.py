"""The answers to a produce request, by partition."""

from __future__ import annotations

from typing import Any

from moldau.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from tests.broker.api.requests import produce
from tests.broker.api.serving import Sent, Serving


async def one(at: Serving, *args: Any, version: int = 12, **more: Any) -> PartitionProduceResponse:
    """The answer to a request for one partition."""
    answer = await at.ask(produce(*args, **more), ProduceResponse, version)
    ((row,),) = [each.partition_responses for each in answer.responses]
    return row


def rows(sent: Sent) -> dict[tuple[str, int], PartitionProduceResponse]:
    (answer,) = sent.answers
    assert isinstance(answer, ProduceResponse)
    return {
        (of.name, each.index): each for of in answer.responses for each in of.partition_responses
    }
