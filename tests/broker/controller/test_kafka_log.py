"""Held against a log of Apache Kafka 4.3.1: we fold it as it does, and decide as it did."""

from __future__ import annotations

from random import Random

from moldau.broker.controller.controller import Controller
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import record_version
from moldau.broker.controller.metadata_batches import decode_records
from moldau.broker.controller.outcome import DecisionInputs
from moldau.broker.controller.registration import fence
from moldau.broker.controller.rules import Rules
from moldau.broker.decision.context import of_node
from moldau.protocol.declare import MetadataRecord, Request
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from moldau.protocol.schemas.broker_log import RegisterBrokerRecord, RegisterControllerRecord
from moldau.protocol.schemas.metadata_log import NoOpRecord
from moldau.records import walk
from tests.broker.controller.cluster import schema
from tests.broker.controller.kafka_log import (
    SNAPSHOT_OFFSET,
    image_before,
    snapshot_bytes,
    written,
)

END = 1_000_000
RULES = Rules("cluster", 1, schema())


def versioned(records: tuple[MetadataRecord, ...]) -> list[tuple[object, int]]:
    return [(each, record_version(each, 30)) for each in records]


def controller_at(offset: int) -> Controller:
    return Controller(RULES, image_before(offset))


def decided(offset: int, request: Request) -> list[tuple[object, int]]:
    inputs = DecisionInputs(0, offset, Random(0))
    context = of_node(1, type(request).spec.versions.last)
    return versioned(controller_at(offset).on_request(request, context, inputs).records)


def beat(broker_id: int, broker_epoch: int, **wants: bool) -> BrokerHeartbeatRequest:
    wanted = {"want_fence": False, "want_shut_down": False} | wants
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=END,
        **wanted,  # type: ignore[arg-type]
    )


def test_the_fold_of_the_log_is_the_fold_of_kafkas_snapshot() -> None:
    restored = Image()
    for batch in walk(snapshot_bytes()):
        restored.replay_all(decode_records(batch))
    assert restored == image_before(SNAPSHOT_OFFSET)


def in_order(record: MetadataRecord) -> str:
    """Features are a set; Kafka writes them in the order of a hash table."""
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        record.features.sort(key=lambda each: each.name)
    return repr(record)


def test_our_snapshot_says_what_kafkas_says() -> None:
    theirs = [record for batch in walk(snapshot_bytes()) for record in decode_records(batch)]
    ours = image_before(SNAPSHOT_OFFSET).records()
    assert sorted(map(in_order, ours)) == sorted(map(in_order, theirs))


def test_each_record_is_written_in_kafkas_version() -> None:
    for record, version in written(0, END):
        if isinstance(record, MetadataRecord) and not isinstance(record, NoOpRecord):
            assert record_version(record, 30) == version, record


def test_a_broker_that_was_killed_is_fenced_as_kafka_does() -> None:
    image = image_before(483)
    assert versioned(tuple(fence(image, RULES, image.brokers.by_id[1]))) == written(483, 489)


def test_a_broker_that_comes_back_after_a_crash_is_registered_as_kafka_does() -> None:
    told = written(490, 496)
    record = told[-1][0]
    assert isinstance(record, RegisterBrokerRecord)
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=record.incarnation_id,
        listeners=[
            Listener(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in record.end_points
        ],
        features=[
            Feature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in record.features
        ],
        rack=None,
        log_dirs=record.log_dirs,
    )
    ours = decided(490, request)
    theirs = [each for each in told if each[0] is not record]
    assert ours[:-1] == theirs
    last = ours[-1][0]
    assert isinstance(last, RegisterBrokerRecord)
    last.cordoned_log_dirs = record.cordoned_log_dirs
    assert last == record


def test_its_partitions_find_their_last_leader_again() -> None:
    assert decided(496, beat(1, 490)) == written(496, 502)


def test_a_controlled_shutdown_is_what_kafka_wrote() -> None:
    assert decided(557, beat(1, 490, want_shut_down=True)) == written(557, 563)
    assert decided(563, beat(1, 490, want_shut_down=True)) == written(563, 564)


def test_one_of_two_is_fenced_and_comes_back_as_in_kafka() -> None:
    assert decided(36, beat(5, 33)) == written(36, 37)
    assert decided(40, beat(5, 33, want_fence=True)) == written(40, 43)
