"""What the settings of a topic and a node mean for their remote work."""

from __future__ import annotations

import pytest

from moldau.broker.settings import topic_conflicts, topic_settings
from moldau.broker.settings.resource import ResourceSettings
from moldau.broker.tiered.copying import CopyLag
from moldau.broker.tiered.tier_settings import store_config, tier_settings, work_limits
from moldau.config import BadSettings
from moldau.objects.store_address import StoreAddress, StoreConfig, StoreKind
from moldau.runtime.backoff import Backoff
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import broker

SYSTEM = {"remote.log.storage.system.enable": "true", "remote.storage": "file:///tiers"}


def of_topic(own: dict[str, str], **node: str) -> ResourceSettings:
    file = {**BASE, **SYSTEM, **{name.replace("_", "."): value for name, value in node.items()}}
    remote = {"remote.storage.enable": "true"}
    return topic_settings("orders", {**remote, **own}, broker({"file": file}))


@pytest.mark.parametrize(
    ("own", "lag"),
    [
        ({}, CopyLag(0, -1)),
        ({"remote.copy.lag.ms": "5"}, CopyLag(5, -1)),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "700"}, CopyLag(700, -1)),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "900"}, CopyLag(900, -1)),
        ({"remote.copy.lag.ms": "-1", "retention.ms": "-1"}, CopyLag(-1, -1)),
        ({"remote.copy.lag.bytes": "-1", "local.retention.bytes": "8"}, CopyLag(0, 8)),
        ({"remote.copy.lag.bytes": "8"}, CopyLag(0, 8)),
    ],
)
def test_a_lag_of_minus_one_is_as_long_as_segments_stay_local(
    own: dict[str, str], lag: CopyLag
) -> None:
    if "local.retention.bytes" in own:
        own = {"retention.bytes": "100", **own}
    found = tier_settings(of_topic(own))
    assert found is not None
    assert found.lag == lag


def test_a_topic_without_a_lag_has_that_of_the_broker() -> None:
    found = tier_settings(of_topic({}, log_remote_copy_lag_ms="7", log_remote_copy_lag_bytes="9"))
    assert found is not None
    assert found.lag == CopyLag(7, 9)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_what_is_remote_goes_only_if_the_topic_itself_is_off(policy: str) -> None:
    """A broker's default that makes a topic compacted does not switch its remote storage off."""
    removed = {"remote.log.delete.on.disable": "true"}
    assert tier_settings(of_topic(removed, log_cleanup_policy=policy)) is None
    off = {**removed, "remote.storage.enable": "false", "cleanup.policy": policy}
    found = tier_settings(of_topic(off))
    assert found is not None
    assert not found.is_remote


def test_a_lag_beyond_the_local_retention_is_refused_for_a_topic_and_a_broker() -> None:
    late = {"local.retention.ms": "10", "remote.copy.lag.ms": "11"}
    (problem,) = topic_conflicts(of_topic(late))
    assert "remote.copy.lag.ms must not exceed local.retention.ms" in problem
    assert not topic_conflicts(of_topic({**late, "remote.copy.lag.ms": "10"}))
    far = {"retention.bytes": "10", "remote.copy.lag.bytes": "11"}
    assert len(topic_conflicts(of_topic(far))) == 1
    with pytest.raises(BadSettings, match=r"log\.remote\.copy\.lag\.ms must not exceed"):
        of_topic({}, log_local_retention_ms="10", log_remote_copy_lag_ms="11")


@pytest.mark.parametrize(
    ("own", "node", "named"),
    [
        (
            {"cleanup.policy": "compact"},
            {},
            "Remote log storage is unsupported for the compacted topics",
        ),
        (
            {},
            {"remote_log_storage_system_enable": "false"},
            "remote.log.storage.system.enable=true",
        ),
        ({"local.retention.ms": "11", "retention.ms": "10"}, {}, "local.retention.ms must not"),
        (
            {"remote.log.copy.disable": "true", "local.retention.bytes": "5"},
            {},
            "local.retention.bytes must be the same as retention.bytes",
        ),
    ],
)
def test_settings_that_remote_storage_cannot_take_are_named(
    own: dict[str, str], node: dict[str, str], named: str
) -> None:
    (problem,) = topic_conflicts(of_topic(own, **node))
    assert named in problem


def test_a_topic_that_leaves_the_remote_tier_says_what_becomes_of_its_records() -> None:
    before, off = of_topic({}), {"remote.storage.enable": "false"}
    (problem,) = topic_conflicts(of_topic(off), before)
    assert "remote.log.delete.on.disable=true" in problem
    assert not topic_conflicts(of_topic({**off, "remote.log.delete.on.disable": "true"}), before)


def test_pauses_after_failures_are_those_of_the_settings() -> None:
    given = {
        "remote.log.manager.task.retry.backoff.ms": "7",
        "remote.log.manager.task.retry.backoff.max.ms": "70",
        "remote.log.manager.task.retry.jitter": "0.5",
    }
    settings = broker({"file": {**BASE, **given}})
    assert work_limits(settings).retry == Backoff(7, 70, 0.5)


def test_the_settings_say_how_a_store_is_reached() -> None:
    given = {
        "remote.storage": "s3://bucket/a",
        "remote.storage.endpoint": "http://127.0.0.1:7070",
        "remote.storage.region": "eu-central-1",
        "remote.storage.path.style": "false",
    }
    found = store_config(broker({"file": {**BASE, **given}}))

    address = StoreAddress(StoreKind.S3, "bucket", "a")
    assert found == StoreConfig(address, "http://127.0.0.1:7070", "eu-central-1", False)
    assert store_config(broker({"file": BASE})) is None
