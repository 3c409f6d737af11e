"""What was set at run time over what a node was started with: judged together, and told apart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.broker.controller.configs import DynamicConfigs
from moldau.broker.controller.setting_schema import SettingSchema
from moldau.broker.controller.stored_settings import (
    StoredSetting,
    blamed,
    check_stored,
    problem_with,
)
from moldau.broker.settings import broker_settings
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError

NOTHING = DynamicConfigs({}, {})
LISTENERS, MAP = "listeners", "listener.security.protocol.map"
PLAIN = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
PLACES = "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
WITH_X = f"X://localhost:9094,{PLACES}"
MIN, MAX = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


def started_with(**given: str) -> Settings:
    """A node's file."""
    plain = {
        "process.roles": "broker,controller",
        "node.id": "1",
        LISTENERS: PLACES,
        MAP: PLAIN,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
    return broker_settings(overrides({**plain, **dict(given)}))


def mapping(protocols: str) -> Settings:
    return started_with(**{MAP: protocols})


def of_one(**values: str) -> DynamicConfigs:
    return DynamicConfigs({}, {name.replace("_", "."): each for name, each in values.items()})


def refused(file: Settings, before: DynamicConfigs, after: DynamicConfigs) -> str:
    """With INVALID_REQUEST, and why."""
    with pytest.raises(KafkaError) as caught:
        SettingSchema(file).check_broker(before, after)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    return caught.value.reason


@pytest.mark.parametrize("first", ["all", "one"])
def test_what_all_brokers_and_one_have_is_judged_together(first: str) -> None:
    """Each alone is good; with both no broker could go on, nor start."""
    of_all = DynamicConfigs({MIN: "1000"}, {})
    own = DynamicConfigs({}, {MAX: "100"})
    both = DynamicConfigs(of_all.all_brokers, own.one_broker)
    for alone in (of_all, own):
        SettingSchema(started_with()).check_broker(NOTHING, alone)

    why = refused(started_with(), of_all if first == "all" else own, both)
    assert f"{MIN} must not exceed {MAX}" in why


def test_a_listener_is_not_set_that_the_file_does_not_map() -> None:
    SettingSchema(mapping(f"{PLAIN},X:PLAINTEXT")).check_broker(NOTHING, of_one(listeners=WITH_X))

    assert "no security protocol" in refused(mapping(PLAIN), NOTHING, of_one(listeners=WITH_X))


def test_of_what_does_not_fit_any_more_each_can_be_taken_back() -> None:
    """And nothing can be added to it."""
    file, before = mapping(PLAIN), of_one(listeners=WITH_X, log_retention_ms="7")
    schema = SettingSchema(file)
    schema.check_broker(before, of_one(listeners=WITH_X))
    schema.check_broker(before, of_one(log_retention_ms="7"))
    assert "no security" in refused(file, before, of_one(listeners=WITH_X, log_retention_ms="8"))
    mapped = DynamicConfigs({}, {LISTENERS: WITH_X, MAP: f"{PLAIN},X:PLAINTEXT"})
    assert "no security" in refused(file, mapped, of_one(listeners=WITH_X))


def test_a_node_starts_with_what_fits() -> None:
    file = mapping(f"{PLAIN},X:PLAINTEXT")
    for dynamic in (NOTHING, of_one(listeners=WITH_X), of_one(listeners="no listener")):
        check_stored(file, dynamic, "/m")


def test_what_does_not_fit_a_changed_file_is_named_with_its_place_and_the_way_out() -> None:
    dynamic = DynamicConfigs({"num.io.threads": "9"}, {LISTENERS: WITH_X, "log.retention.ms": "7"})
    with pytest.raises(ConfigError) as caught:
        check_stored(mapping(PLAIN), dynamic, "/m")
    said = str(caught.value)
    assert "no security protocol for a listener in listener.security.protocol.map" in said
    assert "set over them at run time: listeners. " in said
    assert "`moldau storage unset listeners` and the --config" in said
    assert "kept_in='/m'" in said


def test_a_node_that_could_not_start_at_all_is_told_so_by_others() -> None:
    file = started_with(**{"create.topic.policy.class.name": "org.x.Y"})
    check_stored(file, of_one(listeners=WITH_X), "/m")


@pytest.mark.parametrize(
    ("of_all", "of_this", "expected"),
    [
        ({MIN: "1000"}, {MAX: "100"}, [StoredSetting(MAX, False)]),
        ({MIN: "1000", "num.io.threads": "9"}, {}, [StoredSetting(MIN, True)]),
        ({}, {LISTENERS: WITH_X, MAP: f"{PLAIN},Y:PLAINTEXT"}, [StoredSetting(LISTENERS, False)]),
        (
            {MIN: "1000"},
            {LISTENERS: WITH_X},
            [StoredSetting(MIN, True), StoredSetting(LISTENERS, False)],
        ),
    ],
)
def test_no_more_is_to_be_taken_back_than_must_be(
    of_all: Mapping[str, str], of_this: Mapping[str, str], expected: list[StoredSetting]
) -> None:
    file = started_with(**({} if MAX in of_this else {MAX: "100"}))
    dynamic = DynamicConfigs(of_all, of_this)
    assert problem_with(file, dynamic) is not None
    assert blamed(file, dynamic) == expected
