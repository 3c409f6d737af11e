"""Brokers join, beat, fall silent, stop and leave; codes are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.broker.controller.image import Image
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.protocol.messages.broker_registration import Feature
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
from moldau.protocol.schemas.broker_log import UnregisterControllerRecord
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from tests.broker.controller.cluster import Cluster, topic

SESSION_MS = 9_000


def test_a_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(1).broker_epoch
    early = cluster.beat(1, current_metadata_offset=epoch - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    late = cluster.beat(1, current_metadata_offset=epoch)
    assert (late.is_caught_up, late.is_fenced) == (True, False)
    cluster.check_fold()


def test_the_epoch_is_the_offset_of_the_decision() -> None:
    cluster = Cluster()
    offset = len(cluster.log)
    assert cluster.register(1).broker_epoch == offset


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, 104),
        ({"broker_id": -1}, 119),
        ({"log_dirs": []}, 119),
        ({"log_dirs": [b"d" * 16, b"d" * 16]}, 119),
        ({"log_dirs": [bytes(16)]}, 119),
        ({"log_dirs": [bytes(15) + b"\2"]}, 119),
        ({"features": []}, 35),
        ({"is_migrating_zk_broker": True}, 102),
        ({"listeners": []}, 0),
    ],
)
def test_what_kafka_answers_to_a_registration(changes: dict[str, object], code: int) -> None:
    cluster = Cluster()
    assert cluster.register(6, **changes).error_code == code


def test_a_broker_that_cannot_run_at_the_clusters_level_is_refused() -> None:
    cluster = Cluster()
    old = Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)
    assert cluster.register(6, features=[old]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_directory_belongs_to_one_broker() -> None:
    cluster = Cluster()
    cluster.register(5, log_dirs=[b"d" * 16])
    assert cluster.register(6, log_dirs=[b"d" * 16]).error_code == 119


def test_the_same_incarnation_keeps_its_epoch_and_another_waits_for_its_session() -> None:
    cluster = Cluster()
    first = cluster.register(5, incarnation_id=b"1" * 16)
    again = cluster.register(5, incarnation_id=b"1" * 16)
    assert again.broker_epoch == first.broker_epoch
    assert cluster.register(5, incarnation_id=b"2" * 16).error_code == 101
    cluster.now_ms += SESSION_MS
    other = cluster.register(5, incarnation_id=b"2" * 16)
    assert other.error_code == 0
    assert other.broker_epoch > first.broker_epoch
    assert cluster.beat(5, broker_epoch=first.broker_epoch).error_code == 77


def test_silence_fences_and_the_leader_is_gone() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t"))
    cluster.now_ms += SESSION_MS - 1
    assert cluster.controller.on_tick(cluster.inputs) == ()
    cluster.now_ms += 1
    cluster.append(cluster.controller.on_tick(cluster.inputs))
    assert cluster.image.brokers.by_id[1].is_fenced
    found = cluster.image.topics.by_name("t")
    assert found is not None
    assert not found.partitions[0].has_leader
    assert not cluster.beat(1).is_fenced
    assert found.partitions[0].leader == 1
    cluster.check_fold()


def test_the_broker_in_the_controllers_own_process_may_come_back_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.controller.take_over(cluster.now_ms)
    assert cluster.register(1).error_code == 0
    assert cluster.register(2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_controlled_shutdown_hands_over_before_it_ends() -> None:
    cluster = Cluster(1, 2)
    cluster.create(topic("t", placed={0: [1, 2], 1: [2, 1]}))
    first = cluster.beat(1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    found = cluster.image.topics.by_name("t")
    assert found is not None
    assert [each.leader for each in found.partitions.values()] == [2, 2]
    assert [each.isr for each in found.partitions.values()] == [(2,), (2,)]
    last = cluster.beat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    cluster.check_fold()


def test_a_failed_directory_gives_up_its_leaders() -> None:
    cluster = Cluster()
    cluster.register(1, log_dirs=[b"a" * 16, b"b" * 16])
    cluster.beat(1)
    cluster.create(topic("t", 2))
    found = cluster.image.topics.by_name("t")
    assert found is not None
    assert cluster.beat(1, offline_log_dirs=[b"a" * 16]).error_code == 0
    assert cluster.image.brokers.by_id[1].log_dirs == (b"b" * 16,)
    assert all(each.has_leader for each in found.partitions.values()), "not placed there yet"


def test_leaving_for_good_needs_to_be_known() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t"))
    answer = cluster.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert answer.error_code == 0
    assert not cluster.image.brokers.by_id
    again = cluster.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert again.error_code == 102
    cluster.check_fold()


def unregister(cluster: Cluster, controller_id: int) -> int:
    request = UnregisterControllerRequest(controller_id=controller_id)
    return cluster.ask(request, UnregisterControllerResponse).error_code


def test_a_controller_leaves_for_good_and_no_snapshot_has_it() -> None:
    cluster = Cluster(1)
    for controller_id in (1, 101):
        assert cluster.register_controller(controller_id).error_code == 0
    assert unregister(cluster, 9) == 136
    assert unregister(cluster, -1) == 136
    assert unregister(cluster, 1) == 42, "it decides this itself"
    assert unregister(cluster, 101) == 0
    assert unregister(cluster, 101) == 136
    assert set(cluster.image.copy().brokers.controllers) == {1}
    cluster.check_fold()
    cluster.register_controller(101)
    assert set(cluster.image.copy().brokers.controllers) == {1, 101}
    cluster.check_fold()


@pytest.mark.parametrize(("level", "registered", "left"), [(32, 0, 35), (15, 0, 35), (14, 35, 35)])
def test_controllers_come_and_leave_from_their_levels_on(
    level: int, registered: int, left: int
) -> None:
    cluster = Cluster()
    cluster.append([FeatureLevelRecord(name="metadata.version", feature_level=level)])
    before = len(cluster.log)
    assert cluster.register_controller(101).error_code == registered
    assert unregister(cluster, 101) == left
    assert unregister(cluster, 9) == left
    assert len(cluster.log) == before + (not registered)
    cluster.append([FeatureLevelRecord(name="metadata.version", feature_level=33)])
    assert unregister(cluster, 101) == (136 if registered else 0)


def test_an_old_controller_holds_a_feature_back_until_it_is_unregistered() -> None:
    cluster = Cluster(1)
    cluster.append([FeatureLevelRecord(name="share.version", feature_level=1)])
    raised = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="share.version", max_version_level=2, upgrade_type=1)
        ]
    )
    cluster.register_controller(101, {"share.version": (0, 1)})
    assert cluster.ask(raised, UpdateFeaturesResponse).error_code == 95
    assert unregister(cluster, 101) == 0
    assert cluster.ask(raised, UpdateFeaturesResponse).error_code == 0


def test_a_record_about_a_controller_that_is_not_there_is_corrupt() -> None:
    with pytest.raises(CorruptLog):
        Image().replay(UnregisterControllerRecord(controller_id=1))


def test_producer_ids_come_in_blocks_and_never_twice() -> None:
    cluster = Cluster(1)
    starts = []
    for _ in range(3):
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1])
        block = cluster.ask(request, AllocateProducerIdsResponse)
        assert (block.error_code, block.producer_id_len) == (0, 1000)
        starts.append(block.producer_id_start)
    assert starts == [0, 1000, 2000]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    assert cluster.ask(stale, AllocateProducerIdsResponse).error_code == 77
    cluster.check_fold()


def test_an_image_can_be_copied() -> None:
    cluster = Cluster(1)
    cluster.create(topic("t"))
    twin = cluster.image.copy()
    assert twin == cluster.image
    cluster.create(topic("u"))
    assert twin != cluster.image
    assert twin != Image()
