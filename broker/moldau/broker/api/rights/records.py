"""Guards of requests about records: Produce and InitProducerId.

Fetch has none here: its session names the partitions, so each read is checked (`fetch_rights`).
Rights on transactions are taken from the batches and not from the fields of the request
(CVE-2018-17196).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.refused import refused_rows
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.broker.api.rights.items import ItemGuard, names_of
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.rights import Right
from moldau.records import HEADER_BYTES
from moldau.records.header import MAGIC, MAGIC_AT, TRANSACTIONAL

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client

WRITE: Final = Right(AclResource.TOPIC, AclOperation.WRITE)
_TOPICS: Final = ItemGuard(WRITE)
_ATTRIBUTES_AT: Final = 22


def guard_produce(
    client: Client, message: ProduceRequest, version: int
) -> GuardedMessage | ProduceResponse | None:
    """WRITE on each topic, and on the transactional id where a batch is transactional."""
    transactional_id = message.transactional_id
    if transactional_id is not None and _is_transactional(message):
        writes = AclOperation.WRITE
        if not client.may(AclResource.TRANSACTIONAL_ID, writes, transactional_id):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            rows = refused_rows(TopicProduceResponse, message.topic_data, code)
            return _unless_silent(message, ProduceResponse(responses=rows))
    names = names_of(client, message.topic_data, AclResource.TOPIC)
    if None not in names and client.has(WRITE, cast("list[str]", names)):
        return None
    left, out = _TOPICS.divide(client, message.topic_data)
    if not out:
        return None
    refused = refused_rows(TopicProduceResponse, out, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def finish(response: ProduceResponse) -> None:
        response.responses = [*refused, *response.responses]

    return GuardedMessage(changed(message, topic_data=left), finish, closes_silent=True)


def _unless_silent(
    message: ProduceRequest, response: ProduceResponse
) -> GuardedMessage | ProduceResponse:
    """Return the response. Without acknowledgements there is none: a message without records is
    left, and the refusal closes the connection."""
    if message.acks:
        return response
    return GuardedMessage(changed(message, topic_data=[]), lambda _: None, closes_silent=True)


def _is_transactional(message: ProduceRequest) -> bool:
    return any(
        records is not None
        and len(records) >= HEADER_BYTES
        and records[MAGIC_AT] == MAGIC
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL
        for topic in message.topic_data
        for records in (each.records for each in topic.partition_data)
    )


def guard_producer_id(
    client: Client, message: InitProducerIdRequest, version: int
) -> InitProducerIdResponse | None:
    """An idempotent producer needs IDEMPOTENT_WRITE, or WRITE on some topic (KIP-679). The right on
    a transactional id is checked by the handler."""
    if message.transactional_id is not None:
        return None
    if client.may_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return None
    if client.may_on_some(*WRITE):
        return None
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
