"""A mirror with a transform copies its records one by one, and they are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import read
from tests.mirror.running import copied, create, fill, mirrored, read_some

ROUTED = {
    "transforms": "short",
    "transforms.short.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.short.regex": "(.*)\\.orders",
    "transforms.short.replacement": "$1.routed",
}


@pytest.mark.real
def test_records_that_a_transform_looks_at_are_the_same(tmp_path: Path) -> None:
    with SyncEmbeddedBroker() as first, SyncEmbeddedBroker() as second:
        source, target = first.bootstrap_servers, second.bootstrap_servers
        create(source, "orders", 1, retention_ms="-1")
        create(target, "source.routed", 1, retention_ms="-1")
        fill(source, "orders", range(60))
        read_some(source, "orders", "billing", 60)
        words = ["--from", source, "--to", target, "--topics", "orders", "--groups", "billing"]

        settings = [word for each in ROUTED.items() for word in ("--set", "=".join(each))]
        done = mirrored(tmp_path, *words, *settings, "--once")

        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("1 group, 1 offset set on the target\n")
        assert list(map(copied, read(target, "source.routed"))) == list(
            map(copied, read(source, "orders"))
        )
