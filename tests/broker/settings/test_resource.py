"""Topics and groups over the broker: what they say wins, what they leave out follows the broker."""

from __future__ import annotations

import pytest

from moldau.broker.settings import (
    bounded,
    broker_settings,
    client_metrics_settings,
    dynamic_layers,
    group,
    group_conflicts,
    group_settings,
    topic,
    topic_settings,
)
from moldau.config import BadSettings, Settings
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer


def broker(values: dict[str, str] | None = None) -> Settings:
    return broker_settings(file_layer({**BASE, **(values or {})}))


def test_what_a_topic_says_wins_over_the_broker() -> None:
    settings = topic_settings("t", {"retention.ms": "5"}, broker({"log.retention.ms": "9"}))

    assert settings[topic.retention_ms] == 5
    assert settings.is_given(topic.retention_ms)


@pytest.mark.parametrize(
    ("file", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-9"}, -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_was_given(
    file: dict[str, str], retention_ms: int
) -> None:
    settings = topic_settings("t", {}, broker(file))

    assert settings[topic.retention_ms] == retention_ms


def test_a_dynamic_change_of_the_broker_reaches_topics_that_say_nothing() -> None:
    before = broker({"log.segment.bytes": "2000000"})
    silent = topic_settings("silent", {}, before)
    firm = topic_settings("firm", {"segment.bytes": "3000000"}, before)
    after = before.overlaid(*dynamic_layers({"log.segment.bytes": "4000000"}, {}))

    assert silent[topic.segment_bytes] == 2_000_000
    assert silent.with_broker(after)[topic.segment_bytes] == 4_000_000
    assert firm.with_broker(after)[topic.segment_bytes] == 3_000_000


def test_what_only_topics_have_comes_from_its_row() -> None:
    settings = topic_settings("t", {}, broker())

    assert settings[topic.remote_storage_enable] is False
    assert settings[topic.leader_replication_throttled_replicas] == ()


def test_a_bad_value_of_a_topic_is_told_with_its_name() -> None:
    with pytest.raises(BadSettings, match=r"segment\.bytes") as told:
        topic_settings("orders", {"segment.bytes": "5"}, broker())

    assert "orders" in str(told.value)


def test_stored_values_of_a_group_move_to_bounds_that_came_later() -> None:
    later = broker({"group.consumer.max.session.timeout.ms": "50000"})
    settings = group_settings("g", {"consumer.session.timeout.ms": "55000"}, later)

    assert group_conflicts(settings) != ()
    assert bounded(settings, group.consumer_session_timeout_ms) == 50_000
    assert bounded(settings, group.share_session_timeout_ms) == 45_000


def test_stored_values_of_a_group_move_up_to_a_bound() -> None:
    later = broker({"group.share.min.delivery.count.limit": "4"})
    settings = group_settings("g", {"share.delivery.count.limit": "3"}, later)

    assert bounded(settings, group.share_delivery_count_limit) == 4


def test_a_setting_without_bounds_stays_as_it_is() -> None:
    settings = group_settings("g", {"streams.initial.rebalance.delay.ms": "99"}, broker())

    assert bounded(settings, group.streams_initial_rebalance_delay_ms) == 99


def test_a_subscription_needs_a_name() -> None:
    with pytest.raises(BadSettings, match="needs a name"):
        client_metrics_settings("", {})


def test_stored_values_that_this_version_cannot_use_are_left_out() -> None:
    stored = {"segment.bytes": "5", "of.a.newer.version": "1", "retention.ms": "7"}

    settings = topic_settings("t", stored, broker(), is_stored=True)

    assert settings[topic.retention_ms] == 7
    assert settings[topic.segment_bytes] == 1 << 30
    assert group_settings("g", {"x": "1"}, broker(), is_stored=True)[group.share_isolation_level]
    assert (
        client_metrics_settings("s", {"x": "1"}, is_stored=True).differences(
            client_metrics_settings("s", {})
        )
        == ()
    )


def test_a_group_has_dead_letters_in_one_way() -> None:
    ours, kafkas = "share.dlq.topic", "errors.deadletterqueue.topic.name"
    for values in ({ours: "dlq.a"}, {kafkas: "dlq.a"}, {ours: "dlq.a", kafkas: ""}):
        assert group_conflicts(group_settings("g", values, broker())) == ()
    both = group_settings("g", {ours: "dlq.a", kafkas: "dlq.a"}, broker())
    (conflict,) = group_conflicts(both)
    assert ours in conflict
    assert kafkas in conflict


def test_a_streams_group_has_an_assignor_of_the_broker() -> None:
    settings = group_settings("g", {"streams.assignor.name": "mine"}, broker())
    (conflict,) = group_conflicts(settings)
    assert "'mine'" in conflict
    assert "sticky" in conflict
    named = group_settings("g", {"streams.assignor.name": "sticky"}, broker())
    assert group_conflicts(named) == ()
    assert group_settings("g", {}, broker())[group.streams_assignor_name] == "sticky"
    with pytest.raises(BadSettings, match=r"group\.streams\.assignors"):
        broker({"group.streams.assignors": "org.example.Mine"})
