"""DescribeConfigs: every kind of resource. Answers are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.broker.controller.configs import ResourceType
from moldau.broker.settings import dynamic_layers
from moldau.logging import Level, Loggers
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from moldau.protocol.schemas.metadata_log import ConfigRecord
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SUBSCRIPTION, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP
OF_TOPIC, OF_ALL, OF_BROKER, FILE, DEFAULT, OF_LOGGER = 1, 3, 2, 4, 5, 6
LONG = 5


def set_configs(broker: Administered, kind: int, name: str, **values: str) -> None:
    """Stored in the metadata log, and in force."""
    broker.cluster.append(
        [
            ConfigRecord(
                resource_type=kind, resource_name=name, name=key.replace("__", "."), value=value
            )
            for key, value in values.items()
        ]
    )
    configs = broker.cluster.image.configs
    layers = dynamic_layers(configs.of((BROKER, "")), configs.of((BROKER, "1")))  # type: ignore[arg-type]
    broker.node.settings = broker.node.settings.overlaid(*layers)


def describe(
    broker: Administered, kind: int, name: str, *keys: str, version: int = 4, docs: bool = False
) -> DescribeConfigsResult:
    """With synonyms."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
        include_documentation=docs,
    )
    (result,) = broker.ask(request, DescribeConfigsResponse, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def one(result: DescribeConfigsResult) -> DescribeConfigsResourceResult:
    assert (result.error_code, result.error_message) == (0, "")
    (found,) = result.configs
    return found


def chain(found: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in found.synonyms]


@pytest.fixture
def broker() -> Administered:
    administered = Administered(1)
    administered.cluster.create(topic("orders", configs={"retention.ms": "7"}))
    return administered


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_tells_all_its_settings_in_every_version(
    broker: Administered, version: int
) -> None:
    result = describe(broker, TOPIC, "orders", version=version)
    assert len(result.configs) == 37
    found = {each.name: each for each in result.configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("7", OF_TOPIC)
    assert chain(found["retention.ms"]) == [("retention.ms", "7", OF_TOPIC)]
    assert found["retention.ms"].config_type == (LONG if version >= 3 else 0)
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == (
        "1073741824",
        DEFAULT,
    )
    assert chain(found["segment.bytes"]) == [("log.segment.bytes", "1073741824", DEFAULT)]


def test_synonyms_and_documentation_are_told_to_who_asks(broker: Administered) -> None:
    wanted = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="orders", configuration_keys=["retention.ms"]
    )
    request = DescribeConfigsRequest(resources=[wanted])
    plain = one(broker.ask(request, DescribeConfigsResponse).results[0])
    assert (plain.synonyms, plain.documentation) == ([], None)
    told = one(describe(broker, TOPIC, "orders", "retention.ms", docs=True))
    assert told.documentation


def test_only_the_names_that_were_asked_for(broker: Administered) -> None:
    result = describe(broker, TOPIC, "orders", "nope", "retention.ms", "cleanup.policy")
    assert [each.name for each in result.configs] == ["retention.ms", "cleanup.policy"]
    result = describe(broker, TOPIC, "orders", "cleanup.policy", "retention.ms", "cleanup.policy")
    assert [each.name for each in result.configs] == ["cleanup.policy", "retention.ms"]
    nothing = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="orders", configuration_keys=[]
    )
    request = DescribeConfigsRequest(resources=[nothing, nothing])
    results = broker.ask(request, DescribeConfigsResponse).results
    assert [len(each.configs) for each in results] == [37, 37], "an empty list means all"


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", 3),
        (TOPIC, "__cluster_metadata", 3),
        (TOPIC, "b ad", 17),
        (TOPIC, "", 17),
        (BROKER, "2", 42),
        (BROKER, "-1", 42),
        (BROKER, "x", 42),
        (BROKER, " 1", 42),
        (BROKER, "1_0", 42),
        (LOGGER, "", 42),
        (LOGGER, "2", 42),
        (LOGGER, "x", 42),
        (SUBSCRIPTION, "", 42),
        (GROUP, "", 42),
        (0, "x", 42),
        (1, "x", 42),
        (3, "x", 42),
        (64, "x", 42),
    ],
)
def test_what_has_no_settings_here(broker: Administered, kind: int, name: str, code: int) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_a_refusal_says_what_is_wrong_and_spares_the_others(broker: Administered) -> None:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
            )
            for kind, name in ((TOPIC, "nope"), (TOPIC, "orders"))
        ]
    )
    missing, found = broker.ask(request, DescribeConfigsResponse).results
    assert "nope" in (missing.error_message or "")
    assert one(found).value == "7"


@pytest.mark.parametrize("name", ["1", "01", "+1"])
def test_a_broker_tells_its_own_settings(broker: Administered, name: str) -> None:
    result = describe(broker, BROKER, name)
    assert len(result.configs) > 300
    found = {each.name: each for each in result.configs}
    assert (found["node.id"].value, found["node.id"].config_source) == ("1", FILE)
    assert found["node.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert found["ssl.key.password"].is_sensitive
    assert found["ssl.key.password"].value is None


def test_dynamic_settings_of_all_brokers_and_of_one(broker: Administered) -> None:
    set_configs(broker, BROKER, "", log__retention__ms="700")
    set_configs(broker, BROKER, "1", log__retention__ms="800", log__segment__bytes="2000000")
    shared = describe(broker, BROKER, "")
    told = {each.name: (each.value, each.config_source) for each in shared.configs}
    assert told == {"log.retention.ms": ("700", OF_ALL), "min.insync.replicas": ("1", OF_ALL)}
    own = one(describe(broker, BROKER, "1", "log.retention.ms"))
    assert (own.value, own.config_source) == ("800", OF_BROKER)
    assert chain(own)[:2] == [("log.retention.ms", "800", 2), ("log.retention.ms", "700", 3)]
    of_topic = one(describe(broker, TOPIC, "orders", "segment.bytes"))
    assert (of_topic.value, of_topic.config_source) == ("2000000", OF_BROKER)


def test_a_name_that_nobody_knows_is_told_without_its_value(broker: Administered) -> None:
    set_configs(broker, BROKER, "", a__plugins="sesame")
    set_configs(broker, BROKER, "1", a__plugins="open")
    found = one(describe(broker, BROKER, "1", "a.plugins", docs=True))
    assert (found.value, found.is_sensitive, found.read_only) == (None, True, True)
    assert (found.config_source, found.config_type) == (OF_BROKER, 0)
    assert chain(found) == [("a.plugins", None, OF_BROKER), ("a.plugins", None, OF_ALL)]
    found = one(describe(broker, BROKER, "", "a.plugins"))
    assert chain(found) == [("a.plugins", None, OF_ALL)]


def test_a_group_tells_defaults_until_something_is_set(broker: Administered) -> None:
    key = "consumer.session.timeout.ms"
    before = one(describe(broker, GROUP, "readers", key))
    assert (before.value, before.config_source) == ("45000", DEFAULT)
    assert chain(before) == [("group.consumer.session.timeout.ms", "45000", DEFAULT)]
    set_configs(broker, GROUP, "readers", consumer__session__timeout__ms="50000")
    after = one(describe(broker, GROUP, "readers", key))
    assert (after.value, after.config_source) == ("50000", 8)


def test_a_subscription_tells_defaults_until_something_is_set(broker: Administered) -> None:
    before = describe(broker, SUBSCRIPTION, "all")
    assert {each.name: each.value for each in before.configs} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    set_configs(broker, SUBSCRIPTION, "all", interval__ms="1000")
    after = one(describe(broker, SUBSCRIPTION, "all", "interval.ms"))
    assert (after.value, after.config_source) == ("1000", 7)


def test_loggers_are_told_with_the_level_that_counts() -> None:
    loggers = Loggers(SimpleNamespace(wall_ms=lambda: 0), lambda line: None)
    loggers.get("moldau.broker.log")
    loggers.set_levels({"moldau.broker.network": Level.DEBUG, "moldau.quiet": Level.OFF})
    broker = Administered(loggers=loggers)
    result = describe(broker, LOGGER, "1", docs=True)
    assert {each.name: each.value for each in result.configs} == {
        "root": "INFO",
        "moldau.broker.log": "INFO",
        "moldau.broker.network": "DEBUG",
        "moldau.quiet": "FATAL",
    }
    (first, *_) = result.configs
    assert (first.config_source, first.config_type, first.read_only) == (OF_LOGGER, 0, False)
    assert (first.synonyms, first.documentation) == ([], "")


def test_a_broker_without_loggers_has_none_to_tell(broker: Administered) -> None:
    assert describe(broker, LOGGER, "1").configs == []
