"""`moldau tier status` against Apache Kafka and moldau, where nothing is remote."""

from __future__ import annotations

import pytest

from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.shell import Shell
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker


@pytest.mark.real
def test_a_topic_without_remote_storage_has_its_offsets_and_nothing_else(shell: Shell) -> None:
    shell.good("topic", "create", "not-tiered", "--partitions", "2")
    eventually(lambda: shell("topic", "describe", "not-tiered").code == 0)
    shell.good("produce", "not-tiered", "--partition", "1", source="a\nb\nc\n")
    first, second = shell.good("tier", "status", "not-tiered", "--json").json
    assert (first["end"], second["end"]) == (0, 3)
    assert (second["start"], second["local_start"]) == (0, 0)
    assert second["local_bytes"] > 0
    for each in (first, second):
        assert (each["first_not_remote"], each["segments"], each["last_copy_ms"]) == (None, 0, None)
    table = shell.good("tier", "status", "not-tiered").out
    assert table.count("not-tiered") == 2
