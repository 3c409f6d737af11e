"""Checks of a heartbeat that do not depend on any group.

Order and codes are Kafka's: a request with two errors is answered with the same one.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.coordinator.group.consumer.reconciliation import (
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
)
from moldau.broker.settings.coordinator import (
    CONSUMER_ASSIGNOR_CLASSES,
    group_consumer_assignors,
)
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_OWN_MEMBER_ID_SINCE: Final = 1
"""From this version on (KIP-1082) a member creates its own id."""


def check_heartbeat(
    message: ConsumerGroupHeartbeatRequest, api_version: int, settings: Settings
) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for an invalid heartbeat."""
    epoch = message.member_epoch
    if api_version >= _OWN_MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVING_EPOCH:
        _refuse_blank(message.member_id, "MemberId")
    _refuse_blank(message.group_id, "GroupId")
    if message.instance_id is not None:
        _refuse_blank(message.instance_id, "InstanceId")
    if message.rack_id is not None:
        _refuse_blank(message.rack_id, "RackId")
    if epoch == 0:
        _check_join(message)
    elif epoch == STATIC_LEAVING_EPOCH:
        if message.instance_id is None:
            raise _invalid("only a static member, which has an InstanceId, leaves for a while")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("no MemberEpoch is that low", member_epoch=epoch)
    assignor = message.server_assignor
    if assignor is not None and assignor not in offered_assignors(settings):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "the broker does not offer that ServerAssignor",
            assignor=assignor,
            offered=", ".join(offered_assignors(settings)),
        )


def offered_assignors(settings: Settings) -> tuple[str, ...]:
    """Return the assignors that members may request, the default first."""
    named = settings[group_consumer_assignors]
    return tuple(dict.fromkeys(CONSUMER_ASSIGNOR_CLASSES.get(each, each) for each in named))


def _check_join(message: ConsumerGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout_ms == -1:
        raise _invalid("a joining member gives its RebalanceTimeoutMs")
    if message.topic_partitions is None or message.topic_partitions:
        raise _invalid("a joining member gives an empty list of TopicPartitions")
    # An empty list or expression is valid: the member reads nothing yet.
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise _invalid("a joining member gives SubscribedTopicNames or SubscribedTopicRegex")


def _refuse_blank(value: str, name: str) -> None:
    if not value.strip():
        raise _invalid(f"{name} must not be empty")


def _invalid(reason: str, **context: object) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason, **context)
