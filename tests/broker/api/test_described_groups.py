"""What a client with few rights sees of consumer groups and of share groups."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any

import pytest

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.rights.guard import Client, GuardedMessage
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.controller.image import Image
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, bits_of
from moldau.protocol.messages import consumer_group_describe, share_group_describe
from moldau.protocol.rights import Right

MAY = {"seen", "hidden-topic", "orders"}
"""The groups and topics that the client may describe."""


class Reader:
    """An authorizer that allows DESCRIBE on some names, and nothing else."""

    allows_all = False
    uses_rules = False

    def allowed(self, context: RequestContext, right: Right, names: Collection[str]) -> list[str]:
        return [each for each in names if right.operation is AclOperation.DESCRIBE and each in MAY]

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        return False


def described(kind: ModuleType, group_id: str, topic: str) -> Any:
    """A group with one member that has a partition of this topic."""
    of = kind.TopicPartitions(topic_id=bytes(16), topic_name=topic, partitions=[0])
    member: dict[str, Any] = {
        "member_id": "a",
        "member_epoch": 1,
        "client_id": "c",
        "client_host": "h",
        "subscribed_topic_names": [topic],
        "assignment": kind.Assignment(topic_partitions=[of]),
    }
    if kind is consumer_group_describe:
        member["target_assignment"] = member["assignment"]
    return kind.DescribedGroup(
        error_code=0,
        group_id=group_id,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="",
        members=[kind.Member(**member)],
        authorized_operations=ALL_OF_GROUP,
    )


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (consumer_group_describe, "ConsumerGroupDescribe", 69),
        (share_group_describe, "ShareGroupDescribe", 77),
    ],
)
def test_groups_and_topics_without_the_right_are_not_shown(
    kind: ModuleType, name: str, key: int
) -> None:
    client = Client(Reader(), RequestContext("", "", 0, "PLAINTEXT"), Image())
    wanted = ["seen", "hidden-topic", "secret"]
    message = getattr(kind, f"{name}Request")(group_ids=wanted, include_authorized_operations=True)
    guard = RIGHTS[key].guard
    assert guard is not None
    guarded = guard(client, message, 1)
    assert isinstance(guarded, GuardedMessage)
    asked: Any = guarded.message
    assert asked.group_ids == ["seen", "hidden-topic"]

    found = [described(kind, "seen", "orders"), described(kind, "hidden-topic", "salaries")]
    response = getattr(kind, f"{name}Response")(groups=found)
    guarded.finish(response)

    seen, hidden, secret = response.groups
    assert seen.error_code == ErrorCode.NONE
    assert seen.authorized_operations == bits_of([AclOperation.DESCRIBE])
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert secret.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
