"""Settings of the connectors: those that would do nothing are refused, with what to do instead."""

from __future__ import annotations

import pytest

from moldau.connect.plugins import Catalogue, validate
from moldau.mirror.clusters import client_settings
from moldau.mirror.settings import CheckpointConfig, SourceMirrorConfig

GIVEN = {
    "name": "m",
    "connector.class": "MirrorSource",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


@pytest.mark.parametrize(
    ("changes", "named", "said"),
    [
        ({"source.cluster.bootstrap.servers": ""}, "source.cluster.bootstrap.servers", "brokers"),
        ({"target.cluster.alias": "A"}, "source.cluster.alias", "its own"),
        ({"source.cluster.alias": "a/b"}, "source.cluster.alias", "name of a topic"),
        ({"topics": "orders,["}, "topics", "not closed"),
        ({"topics.blacklist": "x"}, "topics.blacklist", "topics.exclude"),
        ({"topic.filter.class": "com.shop.Mine"}, "topic.filter.class", "topics.exclude"),
        ({"replication.policy.class": "Mine"}, "replication.policy.class", "Identity"),
        ({"offset.lag.max": "-1"}, "offset.lag.max", "at least 0"),
        ({"source.consumer.max.pol.records": "1"}, "source.consumer.max.pol.records", "unknown"),
    ],
)
def test_a_setting_that_cannot_be_served_is_refused(
    changes: dict[str, str], named: str, said: str
) -> None:
    infos = validate(Catalogue.installed(), {**GIVEN, **changes})

    errors = {info.name: " ".join(info.errors) for info in infos.configs if info.errors}
    assert said in errors[named]


def test_an_unknown_setting_is_a_warning() -> None:
    infos = validate(Catalogue.installed(), {**GIVEN, "topcs": "orders"})

    assert [each.key for each in infos.warnings] == ["topcs"]
    assert not infos.error_count


def test_a_client_takes_of_its_cluster_what_it_knows() -> None:
    props = {
        **GIVEN,
        "source.cluster.ssl.protocol": "TLSv1.3",
        "source.cluster.offset.storage.partitions": "9",
        "source.cluster.fetch.min.bytes": "2",
        "consumer.fetch.min.bytes": "3",
        "source.consumer.fetch.min.bytes": "4",
        "consumer.poll.timeout.ms": "100",
        "admin.timeout.ms": "5000",
    }

    consumer = client_settings(props, "source", "consumer")
    assert consumer == {
        "bootstrap.servers": "a:9092",
        "ssl.protocol": "TLSv1.3",
        "fetch.min.bytes": "4",
    }
    admin = client_settings(props, "source", "admin")
    assert admin == {"bootstrap.servers": "a:9092", "ssl.protocol": "TLSv1.3"}


def test_the_topic_of_offset_syncs_is_named_after_the_other_cluster() -> None:
    assert SourceMirrorConfig.of(GIVEN).syncs_topic == "mm2-offset-syncs.B.internal"
    moved = CheckpointConfig.of({**GIVEN, "offset-syncs.topic.location": "target"})
    assert moved.syncs_topic == "mm2-offset-syncs.A.internal"
