"""Settings changed at run time; codes are those that Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from moldau.broker.controller.configs import ALL_BROKERS, DynamicConfigs, Resource, ResourceType
from moldau.broker.controller.levels import METADATA_VERSION
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Listener,
)
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.protocol.messages.restore_topic import (
    RESTORING,
    RestoreTopicRequest,
    RestoreTopicResponse,
)
from moldau.protocol.schemas.metadata_log import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
)
from tests.broker.controller.cluster import Cluster, topic

Changes = list[tuple[str, int, str | None]]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(1)
    made.create(topic("def"))
    return made


def alter(
    cluster: Cluster, *wanted: tuple[int, str, Changes], validate_only: bool = False
) -> list[int]:
    request = changing.IncrementalAlterConfigsRequest(
        resources=[
            changing.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    changing.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in wanted
        ],
        validate_only=validate_only,
    )
    answer = cluster.ask(request, changing.IncrementalAlterConfigsResponse)
    cluster.check_fold()
    return [each.error_code for each in answer.responses]


def of_topic(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.image.configs.of_topic("def"))


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (2, "def", [("retention.ms", 0, "1000")], 0),
        (2, "nope", [("retention.ms", 0, "1000")], 3),
        (2, "def", [("nope", 0, "1000")], 40),
        (2, "def", [("nope", 1, "")], 0),
        (2, "def", [("nope", 1, None)], 0),
        (2, "def", [("retention.ms", 0, None)], 42),
        (2, "def", [("retention.ms", 2, "5")], 40),
        (2, "def", [("retention.ms", 0, "abc")], 40),
        (2, "def", [("cleanup.policy", 2, None)], 42),
        (2, "def", [("cleanup.policy", 2, "")], 40),
        (2, "def", [("cleanup.policy", 2, ",")], 0),
        (2, "def", [("cleanup.policy", 2, ",compact")], 40),
        (2, "def", [("cleanup.policy", 2, "compact,")], 0),
        (2, "def", [], 0),
        (2, "def", [("retention.ms", 0, "1"), ("retention.ms", 1, None)], 42),
        (2, "", [("retention.ms", 0, "1")], 42),
        (2, "bad name", [("retention.ms", 0, "1")], 17),
        (2, "def", [("segment.bytes", 0, "10")], 40),
        (2, "def", [("min.insync.replicas", 0, "5")], 0),
        (2, "def", [("remote.storage.enable", 0, "true")], 40),
        (2, "def", [("retention.ms", 0, "5"), ("nope", 0, "1")], 40),
        (4, "1", [("log.cleaner.threads", 0, "2")], 0),
        (4, "", [("log.cleaner.threads", 0, "2")], 0),
        (4, "2", [("log.cleaner.threads", 0, "2")], 42),
        (4, "x", [("log.cleaner.threads", 0, "2")], 42),
        (4, "1", [("node.id", 0, "2")], 42),
        (4, "1", [("my.own.thing", 0, "2")], 0),
        (4, "", [("listeners", 0, "2")], 42),
        (4, "", [("min.insync.replicas", 0, "2")], 0),
        (4, "", [("min.insync.replicas", 1, "")], 40),
        (4, "1", [("min.insync.replicas", 0, "2")], 40),
        (4, "1", [("min.insync.replicas", 1, None)], 40),
        (4, "", [("message.max.bytes", 0, "-5")], 42),
        (16, "cm", [("interval.ms", 0, "1000")], 0),
        (16, "cm", [("foo", 0, "1000")], 42),
        (16, "cm", [("match", 0, "client_id=a")], 0),
        (16, "cm", [("match", 0, "client_id=[")], 40),
        (16, "cm", [("match", 0, "client_id=["), ("interval.ms", 0, "9")], 42),
        (16, "cm", [("match", 0, ","), ("interval.ms", 0, "9")], 40),
        (16, "cm", [("foo", 0, "1000"), ("interval.ms", 0, "x")], 42),
        (16, "cm", [("interval.ms", 0, "x")], 40),
        (16, "cm", [("interval.ms", 0, "")], 40),
        (16, "cm", [("interval.ms", 0, "99999999999")], 40),
        (16, "cm", [("interval.ms", 0, "1")], 42),
        (16, "cm", [("metrics", 0, "a,,b")], 40),
        (16, "cm", [("metrics", 0, ",")], 40),
        (16, "cm", [("metrics", 0, ","), ("interval.ms", 0, "9")], 40),
        (16, "", [("interval.ms", 0, "1000")], 42),
        (32, "grp", [("consumer.session.timeout.ms", 0, "50000")], 0),
        (32, "grp", [("consumer.session.timeout.ms", 0, "1")], 40),
        (32, "", [("consumer.session.timeout.ms", 0, "50000")], 42),
        (64, "grp", [("consumer.session.timeout.ms", 0, "50000")], 42),
        (0, "grp", [("consumer.session.timeout.ms", 0, "50000")], 42),
    ],
)
def test_what_kafka_answers_to_one_change(
    cluster: Cluster, kind: int, name: str, changes: Changes, code: int
) -> None:
    before = len(cluster.log)
    assert alter(cluster, (kind, name, changes)) == [code]
    if code:
        assert len(cluster.log) == before


@pytest.mark.parametrize("own_first", [False, True])
def test_settings_of_all_brokers_and_of_one_must_fit_each_other(
    cluster: Cluster, own_first: bool
) -> None:
    """Together they are in force: a broker could neither go on with these nor start."""
    of_all: Changes = [("log.cleaner.min.compaction.lag.ms", 0, "1000")]
    own: Changes = [("log.cleaner.max.compaction.lag.ms", 0, "100")]
    first, second = (
        ((4, "1", own), (4, "", of_all)) if own_first else ((4, "", of_all), (4, "1", own))
    )
    assert alter(cluster, first) == [0]
    before = len(cluster.log)
    assert alter(cluster, second) == [42]
    assert len(cluster.log) == before
    undo: Changes = [(first[2][0][0], 1, None)]
    assert alter(cluster, (first[0], first[1], undo)) == [0]
    assert alter(cluster, second) == [0]


@pytest.mark.parametrize("what", ["ms", "bytes"])
def test_no_more_can_be_set_to_stay_on_local_disk_than_is_kept(cluster: Cluster, what: str) -> None:
    """Kafka asks for it at every change, whether there is tiered storage or not."""
    whole, local = f"log.retention.{what}", f"log.local.retention.{what}"
    assert alter(cluster, (4, "", [(whole, 0, "5")])) == [0]
    before = len(cluster.log)
    assert alter(cluster, (4, "1", [(local, 0, "6")])) == [42]
    assert alter(cluster, (4, "", [(local, 0, "-1")])) == [42]
    assert len(cluster.log) == before
    assert alter(cluster, (4, "1", [(local, 0, "5")])) == [0]
    assert alter(cluster, (4, "", [(whole, 0, "4")])) == [42]
    assert alter(cluster, (4, "", [(whole, 0, "-1")])) == [0]
    assert alter(cluster, (4, "1", [(local, 0, "6")])) == [0]
    assert alter(cluster, (4, "", [(whole, 1, None)])) == [0]


def test_directories_are_cordoned_off_where_that_can_be_recorded(cluster: Cluster) -> None:
    wanted: Changes = [("cordoned.log.dirs", 0, "*")]
    cluster.append([FeatureLevelRecord(name=METADATA_VERSION, feature_level=29)])
    assert alter(cluster, (4, "1", wanted)) == [42]
    assert alter(cluster, (4, "1", [("cordoned.log.dirs", 0, "")])) == [0]
    cluster.append([FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)])
    assert alter(cluster, (4, "1", wanted)) == [0]


def test_lists_grow_and_shrink(cluster: Cluster) -> None:
    policies = []
    for operation, value in ((2, "compact"), (2, "compact"), (3, "delete"), (3, "compact")):
        assert alter(cluster, (2, "def", [("cleanup.policy", operation, value)])) == [0]
        policies.append(of_topic(cluster)["cleanup.policy"])
    assert policies == ["delete,compact", "delete,compact", "compact", ""]


def test_a_value_that_is_set_already_is_not_written_again(cluster: Cluster) -> None:
    change: Changes = [("retention.ms", 0, "9")]
    assert alter(cluster, (2, "def", change)) == [0]
    before = len(cluster.log)
    assert alter(cluster, (2, "def", change)) == [0]
    assert len(cluster.log) == before


@pytest.mark.parametrize("name", ["", "1"])
def test_a_brokers_value_is_written_again_so_that_it_looks_again_at_what_it_names(
    cluster: Cluster, name: str
) -> None:
    change: Changes = [("log.retention.ms", 0, "9")]
    assert alter(cluster, (4, name, change)) == [0]
    before = len(cluster.log)
    assert alter(cluster, (4, name, change)) == [0]
    assert len(cluster.log) == before + 1
    assert alter(cluster, (4, name, [("other", 1, None)])) == [0]
    assert len(cluster.log) == before + 1


def test_a_resource_may_be_there_once_and_others_are_changed(cluster: Cluster) -> None:
    cluster.create(topic("other"))
    one: Changes = [("retention.ms", 0, "1")]
    codes = alter(cluster, (2, "def", one), (2, "other", one), (2, "def", one))
    assert codes == [42, 0, 42]
    assert of_topic(cluster) == {}


def test_validation_alone_changes_nothing(cluster: Cluster) -> None:
    assert alter(cluster, (2, "def", [("retention.ms", 0, "1")]), validate_only=True) == [0]
    assert of_topic(cluster) == {}


def test_another_smallest_isr_clears_who_was_eligible(cluster: Cluster) -> None:
    alter(cluster, (2, "def", [("min.insync.replicas", 0, "5")]))
    assert cluster.log[-1] == ClearElrRecord(topic_name="def")
    alter(cluster, (4, "", [("min.insync.replicas", 0, "2")]))
    assert cluster.log[-1] == ClearElrRecord(topic_name="")
    assert cluster.image.configs.of(ALL_BROKERS)["min.insync.replicas"] == "2"


def replace_all(cluster: Cluster, name: str, configs: dict[str, str | None]) -> int:
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[
                    replacing.AlterableConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )
    return cluster.ask(request, replacing.AlterConfigsResponse).responses[0].error_code


def test_the_older_request_takes_away_what_it_does_not_name(cluster: Cluster) -> None:
    alter(cluster, (2, "def", [("retention.ms", 0, "1"), ("flush.ms", 0, "2")]))
    assert replace_all(cluster, "def", {"retention.bytes": "77"}) == 0
    assert of_topic(cluster) == {"retention.bytes": "77"}
    assert (
        ConfigRecord(resource_type=2, resource_name="def", name="flush.ms", value=None)
        in cluster.log
    )
    assert replace_all(cluster, "def", {"retention.bytes": None}) == 42
    assert replace_all(cluster, "nope", {}) == 3
    assert replace_all(cluster, "def", {"a": "b"}) == 40


def listed(cluster: Cluster, *types: int, version: int = 1) -> list[tuple[int, str]] | int:
    request = ListConfigResourcesRequest(resource_types=list(types))
    answer = cluster.ask(request, ListConfigResourcesResponse, version)
    if answer.error_code:
        return answer.error_code
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_resources_are_listed_by_type(cluster: Cluster) -> None:
    alter(cluster, (16, "cm", [("interval.ms", 0, "1000")]))
    alter(cluster, (32, "grp", [("consumer.session.timeout.ms", 0, "50000")]))
    everything = [(32, "grp"), (16, "cm"), (8, "1"), (4, "1"), (2, "def")]
    assert listed(cluster) == everything
    assert listed(cluster, 2, 16) == [(16, "cm"), (2, "def")]
    assert listed(cluster, 0) == 35
    assert listed(cluster, 7) == 35
    assert listed(cluster, version=0) == [(16, "cm")]


def test_a_resource_without_settings_is_not_kept(cluster: Cluster) -> None:
    alter(cluster, (2, "def", [("retention.ms", 0, "1")]))
    alter(cluster, (2, "def", [("retention.ms", 1, None)]))
    assert Resource(ResourceType.TOPIC, "def") not in cluster.image.configs.by_resource


def test_what_brokers_say_is_what_topics_start_from(cluster: Cluster) -> None:
    ask, configs = cluster.rules.configs.default, cluster.image.configs
    for value in ("2", "3"):
        alter(cluster, (4, "", [("min.insync.replicas", 0, value)]))
        assert ask(ResourceType.TOPIC, "min.insync.replicas", configs.of_broker(1)) == value
    alter(cluster, (4, "", [("log.segment.bytes", 0, "2000000")]))
    alter(cluster, (4, "1", [("log.segment.bytes", 0, "3000000")]))
    assert ask(ResourceType.TOPIC, "segment.bytes", configs.of_broker(1)) == "3000000"
    assert ask(ResourceType.TOPIC, "segment.bytes", configs.of_broker(2)) == "2000000"
    nothing = DynamicConfigs({}, {})
    assert ask(ResourceType.TOPIC, "min.insync.replicas", nothing) == "1"
    assert ask(ResourceType.TOPIC, "nope", nothing) is None


@pytest.mark.parametrize("validate_only", [False, True])
def test_more_records_than_enter_the_log_at_once_are_refused_all_together(
    cluster: Cluster, validate_only: bool
) -> None:
    """BROKER resources take settings of any name."""

    def some(count: int, first: int = 0) -> Changes:
        return [(f"own.{number}", 0, "1") for number in range(first, first + count)]

    with pytest.raises(KafkaError) as caught:
        alter(cluster, (4, "1", some(5_001)), (4, "", some(5_000)), validate_only=validate_only)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    assert caught.value.context == {"records": 10_001, "records_max": 10_000}
    assert len(cluster.image.configs.of(ALL_BROKERS)) == 1
    assert alter(cluster, (4, "1", some(5_000)), (4, "", some(5_000))) == [0, 0]
    assert len(cluster.image.configs.of(ALL_BROKERS)) == 5_001
    # For a broker also what is there already makes a record.
    with pytest.raises(KafkaError):
        alter(cluster, (4, "1", some(10_001)))
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=4,
                resource_name="1",
                configs=[
                    replacing.AlterableConfig(name=name, value="2") for name, _, _ in some(10_002)
                ],
            )
        ],
        validate_only=validate_only,
    )
    with pytest.raises(KafkaError, match="more than enters the log"):
        cluster.ask(request, replacing.AlterConfigsResponse)


def test_a_controller_has_settings_by_its_id() -> None:
    """`kafka-reassign-partitions --bootstrap-controller --cancel` clears throttles of all nodes."""
    cluster = Cluster(1)
    cluster.ask(
        ControllerRegistrationRequest(
            controller_id=3001,
            incarnation_id=bytes(range(16)),
            zk_migration_ready=False,
            listeners=[Listener(name="CONTROLLER", host="x", port=1, security_protocol=0)],
            features=[],
        ),
        ControllerRegistrationResponse,
    )
    cleared: Changes = [("leader.replication.throttled.rate", 1, "")]
    assert alter(cluster, (4, "3001", cleared), (4, "1", cleared)) == [0, 0]
    assert alter(cluster, (4, "3001", [("log.retention.ms", 0, "77000")])) == [0]
    assert cluster.image.configs.of(Resource(4, "3001")) == {"log.retention.ms": "77000"}
    assert alter(cluster, (4, "3002", cleared)) == [42]


def test_the_mark_of_a_restore_is_no_setting(cluster: Cluster) -> None:
    """Settings of a topic that is being restored can be changed, and the mark stays."""
    request = RestoreTopicRequest(
        name="old",
        topic_id=bytes(range(16)),
        replication_factor=1,
        leader_epochs=[4],
        configs=[],
        producer_id_end=0,
        backup="backup",
        timeout_ms=5000,
    )

    def restored() -> tuple[bool, str]:
        answer = cluster.ask(request, RestoreTopicResponse)
        return answer.is_restoring, answer.backup

    assert restored() == (True, "backup")
    assert alter(cluster, (2, "old", [("retention.ms", 0, "1000")])) == [0]
    assert replace_all(cluster, "old", {"flush.ms": "2"}) == 0
    assert restored() == (True, "backup")
    for name in ("old", "def"):
        assert alter(cluster, (2, name, [(RESTORING, 0, "other")])) == [40]
        assert replace_all(cluster, name, {RESTORING: "other"}) == 40
    assert alter(cluster, (2, "old", [(RESTORING, 1, None)])) == [0]
    assert restored() == (False, "")
    assert cluster.image.configs.of(Resource(2, "old")) == {"flush.ms": "2"}
