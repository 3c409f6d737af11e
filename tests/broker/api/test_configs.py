"""Changing settings: what is judged here, what the controller decides, and one answer for both."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.broker.controller.config_changes import Operation
from moldau.broker.controller.configs import Resource, ResourceType
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Level, Loggers
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SUBSCRIPTION, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP
SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND
LOG = "moldau.broker.log"

Wanted = tuple[int, str, list[tuple[str, int, str | None]]]


@pytest.fixture
def broker() -> Administered:
    loggers = Loggers(SimpleNamespace(wall_ms=lambda: 0), lambda line: None)
    loggers.get(LOG)
    administered = Administered(1, 2, loggers=loggers)
    administered.cluster.create(topic("orders"))
    return administered


def change(
    broker: Administered, *wanted: Wanted, validate_only: bool = False, version: int = 1
) -> list[tuple[int, str, int]]:
    """IncrementalAlterConfigs: type, name and code of each answer."""
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
    response = broker.ask(request, changing.IncrementalAlterConfigsResponse, version)
    return [
        (each.resource_type, each.resource_name, each.error_code) for each in response.responses
    ]


def replace(
    broker: Administered, *wanted: tuple[int, str, dict[str, str | None]], version: int = 2
) -> list[tuple[int, str, int]]:
    """AlterConfigs, likewise."""
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    replacing.AlterableConfig(name=key, value=value)
                    for key, value in values.items()
                ],
            )
            for kind, name, values in wanted
        ],
        validate_only=False,
    )
    response = broker.ask(request, replacing.AlterConfigsResponse, version)
    return [
        (each.resource_type, each.resource_name, each.error_code) for each in response.responses
    ]


@pytest.mark.parametrize("name", ["1", ""])
def test_what_clients_are_told_changes_with_the_file_only(broker: Administered, name: str) -> None:
    """As in Kafka, which registers a broker's addresses when it starts."""
    told: list[tuple[str, int, str | None]] = [
        ("advertised.listeners", SET, "PLAINTEXT://elsewhere:1")
    ]
    before = dict(broker.node.image.configs.by_resource)
    for changes in (told, [*told, ("log.retention.ms", SET, "5")]):
        assert change(broker, (BROKER, name, changes)) == [(BROKER, name, 42)]
    assert replace(broker, (BROKER, name, {"advertised.listeners": "PLAINTEXT://elsewhere:1"})) == [
        (BROKER, name, 42)
    ]
    assert broker.node.image.configs.by_resource == before


def level(broker: Administered, name: str = LOG) -> Level:
    assert broker.node.loggers is not None
    return broker.node.loggers.level(name)


@pytest.mark.parametrize("version", [0, 1])
def test_a_setting_is_changed_by_the_controller(broker: Administered, version: int) -> None:
    wanted: Wanted = (TOPIC, "orders", [("retention.ms", SET, "7")])
    assert change(broker, wanted, version=version) == [(TOPIC, "orders", 0)]
    assert broker.cluster.image.configs.of_topic("orders") == {"retention.ms": "7"}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_settings_are_replaced_by_the_controller(broker: Administered, version: int) -> None:
    replace(broker, (TOPIC, "orders", {"retention.ms": "7"}), version=version)
    assert replace(broker, (TOPIC, "orders", {"cleanup.policy": "compact"}), version=version) == [
        (TOPIC, "orders", 0)
    ]
    assert broker.cluster.image.configs.of_topic("orders") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((TOPIC, "orders", [("retention.ms", SET, None)]), 42),
        ((TOPIC, "orders", [("nope", SET, "1")]), 40),
        ((TOPIC, "orders", [("nope", DELETE, None)]), 0),
        ((TOPIC, "orders", [("retention.ms", APPEND, "1")]), 40),
        ((TOPIC, "orders", [("cleanup.policy", APPEND, "compact")]), 0),
        ((TOPIC, "orders", [("retention.ms", SET, "x")]), 40),
        ((TOPIC, "orders", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]), 42),
        ((TOPIC, "orders", []), 0),
        ((TOPIC, "nope", [("retention.ms", SET, "5")]), 3),
        ((TOPIC, "", [("retention.ms", SET, "5")]), 42),
        ((TOPIC, "b ad", [("retention.ms", SET, "5")]), 17),
        ((BROKER, "1", [("log.retention.ms", SET, "5")]), 0),
        ((BROKER, "", [("log.retention.ms", SET, "5")]), 0),
        ((BROKER, "2", [("log.retention.ms", SET, "5")]), 42),
        ((BROKER, "01", [("log.retention.ms", SET, "5")]), 42),
        ((BROKER, "x", [("log.retention.ms", SET, "5")]), 42),
        ((BROKER, "1", [("log.dirs", SET, "5")]), 42),
        ((BROKER, "", [("a.plugins", SET, "5")]), 0),
        ((BROKER, "", [("log.retention.ms", SET, "x")]), 42),
        ((BROKER, "", [("max.connections", SET, "0")]), 42),
        ((BROKER, "1", [("max.connection.creation.rate", SET, "0")]), 42),
        ((BROKER, "1", [("log.retention.ms", SET, None)]), 42),
        ((BROKER, "1", [("log.cleaner.threads", APPEND, "1")]), 40),
        ((LOGGER, "1", [(LOG, SET, "DEBUG")]), 0),
        ((LOGGER, "1", [("nope", SET, "DEBUG")]), 40),
        ((LOGGER, "1", [(LOG, SET, "BAD")]), 40),
        ((LOGGER, "1", [(LOG, SET, "debug")]), 40),
        ((LOGGER, "1", [(LOG, SET, "OFF")]), 40),
        ((LOGGER, "1", [(LOG, SET, None)]), 42),
        ((LOGGER, "1", [(LOG, APPEND, "DEBUG")]), 42),
        ((LOGGER, "1", [(LOG, DELETE, None)]), 0),
        ((LOGGER, "1", [("root", DELETE, None)]), 42),
        ((LOGGER, "01", [("root", SET, "WARN")]), 0),
        ((LOGGER, "2", [("root", SET, "DEBUG")]), 42),
        ((LOGGER, "", [("root", SET, "DEBUG")]), 42),
        ((SUBSCRIPTION, "all", [("interval.ms", SET, "1000")]), 0),
        ((SUBSCRIPTION, "", [("interval.ms", SET, "1000")]), 42),
        ((SUBSCRIPTION, "all", [("interval.ms", SET, "1")]), 42),
        ((SUBSCRIPTION, "all", [("x", SET, "1")]), 42),
        ((GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "1")]), 40),
        ((GROUP, "", [("consumer.heartbeat.interval.ms", SET, "5000")]), 42),
        ((GROUP, "g", [("x", SET, "1")]), 40),
        ((0, "x", [("a", SET, "b")]), 42),
        ((64, "x", [("a", SET, "b")]), 42),
    ],
)
def test_single_changes_have_kafkas_codes(broker: Administered, wanted: Wanted, code: int) -> None:
    before = level(broker)
    assert change(broker, wanted, validate_only=True) == [(wanted[0], wanted[1], code)]
    assert level(broker) == before, "only looked at"
    assert change(broker, wanted) == [(wanted[0], wanted[1], code)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((TOPIC, "orders", {"retention.ms": None}), 42),
        ((TOPIC, "orders", {"nope": "1"}), 40),
        ((TOPIC, "nope", {"retention.ms": "1"}), 3),
        ((LOGGER, "1", {"root": "DEBUG"}), 42),
        ((BROKER, "1", {"log.retention.ms": "5"}), 0),
        ((BROKER, "x", {"log.retention.ms": "5"}), 42),
        ((BROKER, "2", {"log.retention.ms": "5"}), 42),
        ((BROKER, "", {"log.dirs": "5"}), 42),
        ((GROUP, "g", {"x": "5"}), 40),
        ((64, "t", {"x": "5"}), 42),
    ],
)
def test_replacements_have_kafkas_codes(
    broker: Administered, wanted: tuple[int, str, dict[str, str | None]], code: int
) -> None:
    assert replace(broker, wanted) == [(wanted[0], wanted[1], code)]


def test_each_resource_has_its_own_verdict_in_the_order_of_the_request(
    broker: Administered,
) -> None:
    verdicts = change(
        broker,
        (LOGGER, "1", [(LOG, SET, "TRACE")]),
        (TOPIC, "nope", [("retention.ms", SET, "5")]),
        (BROKER, "2", [("log.retention.ms", SET, "5")]),
        (TOPIC, "orders", [("retention.ms", SET, "5")]),
    )
    assert [code for *_, code in verdicts] == [0, 3, 42, 0]
    assert [name for _, name, _ in verdicts] == ["1", "nope", "2", "orders"]
    (asked,) = broker.channel.asked
    assert isinstance(asked, changing.IncrementalAlterConfigsRequest)
    assert [each.resource_name for each in asked.resources] == ["nope", "orders"]
    assert level(broker) is Level.TRACE


def test_a_resource_that_is_named_twice_is_refused_twice(broker: Administered) -> None:
    wanted: Wanted = (TOPIC, "orders", [("retention.ms", SET, "5")])
    logger: Wanted = (LOGGER, "1", [(LOG, SET, "TRACE")])
    verdicts = change(broker, wanted, logger, wanted, logger)
    assert [code for *_, code in verdicts] == [42, 42, 42, 42]
    assert broker.channel.asked == []
    assert level(broker) is Level.INFO


def test_levels_change_all_or_none(broker: Administered) -> None:
    change(broker, (LOGGER, "1", [(LOG, SET, "TRACE"), ("nope", SET, "TRACE")]))
    assert level(broker) is Level.INFO
    change(broker, (LOGGER, "1", [(LOG, SET, "TRACE"), ("root", SET, "WARN")]))
    assert (level(broker), level(broker, "root")) == (Level.TRACE, Level.WARN)
    change(broker, (LOGGER, "1", [(LOG, DELETE, None)]))
    assert level(broker) is Level.WARN


def test_a_broker_without_loggers_refuses(broker: Administered) -> None:
    broker.node.loggers = None
    assert change(broker, (LOGGER, "1", [(LOG, SET, "DEBUG")])) == [(LOGGER, "1", 42)]


def test_without_a_controller_only_what_was_open_is_refused(broker: Administered) -> None:
    broker.channel.refusals.append(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    verdicts = change(
        broker,
        (TOPIC, "orders", [("retention.ms", SET, "5")]),
        (LOGGER, "1", [(LOG, SET, "TRACE")]),
        (BROKER, "2", []),
    )
    assert [code for *_, code in verdicts] == [ErrorCode.NOT_ENOUGH_REPLICAS, 0, 42]
    broker.channel.refusals.append(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert replace(broker, (TOPIC, "orders", {})) == [(TOPIC, "orders", 19)]


def test_nothing_wanted_is_answered_with_nothing(broker: Administered) -> None:
    assert change(broker) == []
    assert replace(broker) == []
    assert broker.channel.asked == []


def test_resources_with_settings_are_listed(broker: Administered) -> None:
    change(broker, (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]))
    change(broker, (SUBSCRIPTION, "all", [("interval.ms", SET, "1000")]))
    assert listed(broker) == {
        (GROUP, "g"),
        (SUBSCRIPTION, "all"),
        (LOGGER, "1"),
        (LOGGER, "2"),
        (BROKER, "1"),
        (BROKER, "2"),
        (TOPIC, "orders"),
    }
    assert listed(broker, TOPIC, GROUP) == {(TOPIC, "orders"), (GROUP, "g")}
    assert listed(broker, version=0) == {(SUBSCRIPTION, "all")}


def listed(broker: Administered, *kinds: int, version: int = 1) -> set[Resource]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = broker.ask(request, ListConfigResourcesResponse, version)
    assert response.error_code == 0
    return {Resource(each.resource_type, each.resource_name) for each in response.config_resources}


@pytest.mark.parametrize("kind", [0, 1, 64])
def test_resources_of_unknown_types_are_not_listed(broker: Administered, kind: int) -> None:
    request = ListConfigResourcesRequest(resource_types=[TOPIC, kind])
    response = broker.ask(request, ListConfigResourcesResponse)
    assert (response.error_code, response.config_resources) == (35, [])
