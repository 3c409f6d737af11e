"""What a mirror does not copy, and says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from moldau.client import ErrorCode, KafkaError
from moldau.client.sync import Admin
from moldau.mirror.copies import TopicCopies
from moldau.mirror.settings import SourceMirrorConfig
from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import read
from tests.mirror.running import create, fill, mirrored
from tests.mirror.tasks import settings

TOO_LONG = "long" * 62


@pytest.fixture
def clusters() -> Iterator[tuple[str, str]]:
    with SyncEmbeddedBroker() as first, SyncEmbeddedBroker() as second:
        yield first.bootstrap_servers, second.bootstrap_servers


@pytest.mark.real
def test_once_copies_the_rest_and_fails_if_a_copy_is_refused(
    clusters: tuple[str, str], tmp_path: Path
) -> None:
    source, target = clusters
    for topic in ("orders", TOO_LONG):
        create(source, topic, 1, retention_ms="-1")
        fill(source, topic, range(20))
    words = ["--topics", "orders,long.*", "--once", "--state", str(tmp_path / "state")]

    done = mirrored(tmp_path, "--from", source, "--to", target, *words)

    assert done.returncode == 1, done.stderr
    assert f"moldau: source->target: {TOO_LONG}: 1 topic is not copied" in done.stderr
    assert len(read(target, "source.orders")) == 20

    other = mirrored(tmp_path, "--from", target, "--to", target, *words)

    assert other.returncode != 0
    assert re.search("^moldau: .*another cluster called source.*--from-alias", other.stderr, re.M)
    assert "Traceback" not in other.stderr


@pytest.mark.real
def test_a_cluster_is_not_mirrored_into_itself_and_patterns_that_match_nothing_are_named(
    clusters: tuple[str, str], tmp_path: Path
) -> None:
    cluster, other = clusters
    create(cluster, "orders", 1)
    fill(cluster, "orders", range(5))
    words = ["--from", cluster, "--to", cluster, "--topics", "orders", "--identity"]

    refused = mirrored(tmp_path, *words, "--once")
    assert refused.returncode == 1
    assert re.search("^moldau: source and target are one cluster", refused.stderr, re.M)
    assert "Traceback" not in refused.stderr
    assert len(read(cluster, "orders")) == 5

    unmatched = mirrored(
        tmp_path, "--from", cluster, "--to", other, "--topics", "orders,nope", "--groups", "none",
        "--dry-run",
    )  # fmt: skip
    assert unmatched.stderr.splitlines() == [
        "moldau: source->target: topics that the source does not have: nope",
        "moldau: source->target: groups that the source does not have: none",
    ]

    nothing = mirrored(tmp_path, "--from", cluster, "--to", other, "--topics", "nope", "--once")
    assert nothing.returncode == 0
    assert "no topic of the source is chosen" in nothing.stderr


def test_a_topic_whose_copy_must_not_grow_is_copied_in_part(clusters: tuple[str, str]) -> None:
    source, target = clusters
    create(source, "orders", 3)
    create(source, "other", 1)
    create(target, "A.orders", 2)
    config = SourceMirrorConfig.of(settings(source, **{"replication.factor": "-1"}))
    with Admin(bootstrap_servers=source) as first, Admin(bootstrap_servers=target) as second:
        copies = TopicCopies(config, first, second)
        policy = KafkaError(ErrorCode.POLICY_VIOLATION, "two are enough")
        with patch.object(second, "create_partitions", side_effect=policy):
            assert copies.make(copies.topics()) == {"orders": 2, "other": 1}
        refusal = copies.refusal()
        assert refusal is not None
        assert "orders: partitions from 2 on: POLICY_VIOLATION: two are enough" in refusal
        assert copies.make(copies.topics()) == {"orders": 3, "other": 1}
        assert copies.refusal() is None
