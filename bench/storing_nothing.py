"""A broker that stores nothing: what any broker could reach with this client on this machine.

    python -m bench.storing_nothing broker start --data DIRECTORY ...

It is ours, with its network, its protocol and its topics, but a produced batch is acknowledged at
once and dropped, unread. So beside a ratio to another broker, readers see how much of the time is
the client's own.
"""

from __future__ import annotations

import sys
from typing import cast

from moldau.broker.api.handlers import APIS
from moldau.broker.api.node import Node
from moldau.broker.api.request import ApiRequest
from moldau.broker.api.row import Api
from moldau.cli import main
from moldau.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_PRODUCE = 0


def serve(node: Node, request: ApiRequest) -> None:
    """Acknowledge all batches as if they were in the log already."""
    message = cast(ProduceRequest, request.decode())
    if not message.acks:
        request.answer_nothing()
        return
    topics = []
    for topic in message.topic_data:
        answers = [
            PartitionProduceResponse(
                index=data.index, error_code=0, base_offset=0, log_start_offset=0
            )
            for data in topic.partition_data
        ]
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    request.answer(ProduceResponse(responses=topics))


if __name__ == "__main__":
    cast(dict[int, Api], APIS)[_PRODUCE] = Api(serve)
    sys.exit(main(sys.argv[1:]))
