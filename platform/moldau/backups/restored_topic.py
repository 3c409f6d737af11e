"""RestoreTopic, as backups and restores ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import CONTROLLER
from moldau.protocol.messages.restore_topic import RestoreTopicRequest, RestoreTopicResponse

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.link.metadata import Topic

TIMEOUT_MS: Final = 15_000


def question(topic: Topic) -> RestoreTopicRequest:
    """Return a request that only asks. For a topic that is there it makes nothing, and one without
    partitions is never made."""
    return RestoreTopicRequest(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=1,
        leader_epochs=[],
        configs=[],
        producer_id_end=0,
        backup="",
        timeout_ms=TIMEOUT_MS,
    )


async def made(admin: Admin, request: RestoreTopicRequest) -> RestoreTopicResponse:
    """Return the answer about a topic that is there now. Raise KafkaError if it cannot be made."""
    cluster = admin._cluster

    async def attempt() -> RestoreTopicResponse:
        answer = await cluster.call(request, RestoreTopicResponse, node_id=CONTROLLER)
        if answer.error_code:
            raise KafkaError(
                ErrorCode(answer.error_code), answer.error_message or "", topic=request.name
            )
        return answer

    return await cluster.retry(attempt)
