"""The rows of a response to a client without a right: those of the request, and no id of a topic
that the client may not see."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.api.handlers import APIS
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages import alter_partition_reassignments as moving
from moldau.protocol.messages import alter_share_group_offsets as altering
from moldau.protocol.messages import delete_share_group_offsets as deleting
from moldau.protocol.messages import describe_share_group_offsets as describing
from moldau.protocol.messages import describe_user_scram_credentials as scram
from moldau.protocol.messages import list_partition_reassignments as listing
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.rights import Right
from moldau.protocol.spec import ArrayOf, StructSpec
from tests.broker.api.administered import Administered
from tests.broker.api.rights import Rights, guarded
from tests.broker.api.serving import Serving, serving
from tests.broker.api.share_group import GROUP, coordinated, described

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HIDDEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)


@pytest.fixture
def broker() -> Administered:
    administered, _ = guarded()
    administered.channel.refusals.extend([KafkaError(REFUSED)] * 2)
    return administered


def test_a_refused_move_has_the_rows_of_the_request(broker: Administered) -> None:
    rows = [moving.ReassignablePartition(partition_index=each, replicas=[1]) for each in (0, 3)]
    topics = [moving.ReassignableTopic(name="orders", partitions=rows)]
    request = moving.AlterPartitionReassignmentsRequest(topics=topics)
    answer = broker.ask(request, moving.AlterPartitionReassignmentsResponse)
    assert answer.error_code == REFUSED
    (topic,) = answer.responses
    assert topic.name == "orders"
    found = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert found == [(0, REFUSED), (3, REFUSED)]


def test_a_refused_list_of_moves_has_the_rows_of_the_request(broker: Administered) -> None:
    asked = listing.ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 3])
    request = listing.ListPartitionReassignmentsRequest(topics=[asked])
    answer = broker.ask(request, listing.ListPartitionReassignmentsResponse)
    assert answer.error_code == REFUSED
    (topic,) = answer.topics
    found = [(each.partition_index, each.replicas) for each in topic.partitions]
    assert (topic.name, found) == ("orders", [(0, []), (3, [])])
    every = listing.ListPartitionReassignmentsRequest(topics=None)
    assert broker.ask(every, listing.ListPartitionReassignmentsResponse).topics == []


def test_a_refused_description_of_users_has_a_row_for_each(broker: Administered) -> None:
    users = [scram.UserName(name=each) for each in ("alice", "bob")]
    request = scram.DescribeUserScramCredentialsRequest(users=users)
    answer = broker.ask(request, scram.DescribeUserScramCredentialsResponse)
    assert answer.error_code == REFUSED
    assert [(each.user, each.error_code) for each in answer.results] == [("", REFUSED)] * 2


def filled(spec: StructSpec, version: int) -> Any:
    """A value with one element in each list."""
    values = {field.name: field.make_default() for field in spec.fields}
    for field in spec.fields:
        if isinstance(field.type, ArrayOf) and field.is_present(version):
            element = field.type.element
            value = filled(element, version) if isinstance(element, StructSpec) else element.zero
            values[field.name] = [value]
    return spec.cls(**values)


@pytest.mark.parametrize("key", [key for key, row in APIS.items() if row.refuse is not None])
def test_a_refusal_fits_each_version_and_has_the_error(key: int) -> None:
    spec, refuse = request_class(key).spec, APIS[key].refuse
    assert refuse is not None
    for version in spec.stable_versions.all():
        refused = refuse(filled(spec, version), version, KafkaError(REFUSED))
        read = response_class(key).decode(refused.encode(version), version)
        assert f"{REFUSED.value}" in repr(read) or (key == 35 and version < 3), version


@serving()
async def test_offsets_of_share_groups_hide_the_id_of_a_topic(at: Serving) -> None:
    await coordinated(at)
    every = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.DELETE)
    at.node.authorizer = Rights(*((Right(AclResource.GROUP, each), GROUP) for each in every))
    shown = await at.ask(described(GROUP, 0), describing.DescribeShareGroupOffsetsResponse)
    (topic,) = shown.groups[0].topics
    assert (topic.partitions[0].error_code, topic.topic_id) == HIDDEN
    start = altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    alter = altering.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[start])
    change = altering.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[alter])
    altered = await at.ask(change, altering.AlterShareGroupOffsetsResponse)
    (changed,) = altered.responses
    assert (changed.partitions[0].error_code, changed.topic_id) == HIDDEN
    named = deleting.DeleteShareGroupOffsetsRequestTopic(topic_name="orders")
    delete = deleting.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=[named])
    deleted = await at.ask(delete, deleting.DeleteShareGroupOffsetsResponse)
    (gone,) = deleted.responses
    assert (gone.error_code, gone.topic_id) == HIDDEN
