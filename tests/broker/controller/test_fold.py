"""Whatever is asked in whatever order: the image is the fold of the log, and of its snapshot."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.controller.image import Image
from moldau.broker.controller.topics import NO_LEADER
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from moldau.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.schemas.metadata_log import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tests.broker.controller.cluster import Cluster, topic

Step = tuple[str, int, int]
OF_BROKERS = ("register", "beat", "fence", "stop", "wait", "leave", "ids")
OF_CONTROLLERS = ("controller", "forget")
KINDS = ("create", "delete", "grow", "config", "feature", "elect", *OF_BROKERS)
NAMES = ("a.b", "a_b", "c")
CONFIGS = ("retention.ms", "min.insync.replicas", "unclean.leader.election.enable")
VALUES = (("1", "2", "3"), ("1", "2", "3"), ("true", "false", "true"))

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "create",
                "delete",
                "grow",
                "config",
                "feature",
                "register",
                "beat",
                "fence",
                "stop",
                "wait",
                "leave",
                "ids",
                "elect",
                *OF_CONTROLLERS,
            ]
        ),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=40,
)


@settings(max_examples=120)
@given(steps)
def test_the_image_is_the_fold_of_the_log_and_of_its_snapshot(events: list[Step]) -> None:
    cluster = Cluster(0, 1)
    for event in events:
        take(cluster, event)
        check_partitions(cluster)
    cluster.check_fold()


def take(cluster: Cluster, event: Step) -> None:
    kind, which, how = event
    name = NAMES[which]
    if kind in OF_BROKERS:
        take_of_broker(cluster, kind, which)
    elif kind in OF_CONTROLLERS:
        take_of_controller(cluster, kind, which)
    elif kind == "create":
        cluster.create(topic(name, how + 1, which + 1))
    elif kind == "delete":
        gone = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=1
        )
        cluster.ask(gone, DeleteTopicsResponse)
    elif kind == "grow":
        more = CreatePartitionsTopic(name=name, count=how + 2, assignments=None)
        grown = CreatePartitionsRequest(topics=[more], timeout_ms=1, validate_only=False)
        cluster.ask(grown, CreatePartitionsResponse)
    elif kind == "config":
        change = AlterableConfig(
            name=CONFIGS[how], config_operation=which % 2, value=VALUES[how][which]
        )
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
        altered = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        cluster.ask(altered, IncrementalAlterConfigsResponse)
    elif kind == "feature":
        update = FeatureUpdateKey(
            feature="eligible.leader.replicas.version",
            max_version_level=how % 2,
            upgrade_type=2,
        )
        cluster.ask(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)
    else:
        elected = ElectLeadersRequest(election_type=how % 2, topic_partitions=None)
        cluster.ask(elected, ElectLeadersResponse)


def take_of_controller(cluster: Cluster, kind: str, controller_id: int) -> None:
    controllers = cluster.image.brokers.controllers
    was_known = controller_id in controllers
    if kind == "controller":
        assert cluster.register_controller(controller_id).error_code == 0
        assert controller_id in controllers
        return
    request = UnregisterControllerRequest(controller_id=controller_id)
    answer = cluster.ask(request, UnregisterControllerResponse)
    is_active = controller_id == cluster.rules.node_id
    assert answer.error_code == (42 if is_active else 0 if was_known else 136)
    assert (controller_id in controllers) == (is_active and was_known)


def take_of_broker(cluster: Cluster, kind: str, broker_id: int) -> None:
    if kind == "register":
        previous = cluster.epochs.get(broker_id, -1) if len(cluster.log) % 2 else -1
        cluster.register(broker_id, previous_broker_epoch=previous)
    elif kind == "wait":
        cluster.now_ms += 5_000
        while records := cluster.controller.on_tick(cluster.inputs):
            cluster.append(records)
    elif kind == "leave":
        cluster.ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    elif kind == "ids":
        epoch = cluster.epochs.get(broker_id, -1)
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
        cluster.ask(request, AllocateProducerIdsResponse)
    elif broker_id in cluster.epochs:
        cluster.beat(broker_id, want_fence=kind == "fence", want_shut_down=kind == "stop")


def check_partitions(cluster: Cluster) -> None:
    active = cluster.image.brokers.active_ids()
    topics = cluster.image.topics
    counted = Counter(each.preferred_leader for _, _, each in topics.all_partitions())
    assert +topics.preferred == counted
    for _, _, partition in cluster.image.topics.all_partitions():
        assert set(partition.isr) <= set(partition.replicas)
        assert set(partition.elr) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.elr)
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert partition.leader == NO_LEADER or partition.leader in active
        assert len(partition.directories) == len(partition.replicas)


def test_a_transaction_counts_as_a_whole_or_not_at_all() -> None:
    image = Image()
    image.replay_all([BeginTransactionRecord(), acl(1), AbortTransactionRecord()])
    assert image == Image()
    image.replay_all([BeginTransactionRecord(), acl(2)])
    assert image.acls.by_id == {}
    image.replay(EndTransactionRecord())
    assert list(image.acls.by_id) == [bytes(15) + b"\2"]


def acl(number: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=bytes(15) + bytes((number,)),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )


def test_what_later_layers_decide_is_kept_and_restored() -> None:
    entity = [EntityData(entity_type="user", entity_name=None)]
    token = DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=["User:b"],
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id=NAMES[0],
    )
    credential = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    said: list[MetadataRecord] = [
        acl(1),
        acl(2),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=9.5, remove=False),
        token,
        credential,
    ]
    image = Image()
    image.replay_all(said)
    assert image.copy() == image
    assert "key" not in repr(image.credentials.scram("a", 1))
    taken_back: list[MetadataRecord] = [
        RemoveAccessControlEntryRecord(id=acl(1).id),
        RemoveAccessControlEntryRecord(id=acl(2).id),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=0.0, remove=True),
        RemoveDelegationTokenRecord(token_id=NAMES[0]),
        RemoveUserScramCredentialRecord(name="a", mechanism=1),
    ]
    image.replay_all(taken_back)
    assert image == Image()
