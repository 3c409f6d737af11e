"""Kafka's own share consumer and its tool for share groups, against our broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.conformance.filled import COUNT, TOPIC, fill
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS: Final = "org.apache.kafka.tools.ConfigCommand"
DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
HALF: Final = COUNT // 2


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


@pytest.mark.parametrize("node_count", [1, 3])
def test_java_reads_a_queue_and_sees_where_it_stands(
    kafka: ApacheKafka, tmp_path: Path, node_count: int
) -> None:
    with Cluster(node_count, directory=str(tmp_path)) as ours:
        bootstrap = ("--bootstrap-server", ours.bootstrap_servers)

        def consume(count: int) -> list[int]:
            said = run_tool(
                kafka,
                CONSUMER,
                *(*bootstrap, "--topic", TOPIC, "--group", "mailer"),
                *("--max-messages", str(count), "--timeout-ms", "60000"),
            )
            return [int(word) for word in said.split()]

        def groups(*arguments: str) -> list[list[str]]:
            said = run_tool(kafka, SHARE_GROUPS, *bootstrap, *arguments)
            return [line.split() for line in said.splitlines() if line.strip()]

        fill(ours.bootstrap_servers)
        earliest = ("--entity-type", "groups", "--entity-name", "mailer")
        setting = ("--add-config", "share.auto.offset.reset=earliest")
        run_tool(kafka, CONFIGS, *bootstrap, "--alter", *earliest, *setting)
        first = consume(HALF)
        rest = consume(COUNT - HALF)
        assert sorted((*first, *rest)) == list(range(COUNT)), "each record once"

        assert groups("--list") == [["mailer"]]
        rows = groups("--describe", "--group", "mailer")
        head = rows[0]
        lag = [row[head.index("LAG")] for row in rows[1:]]
        assert set(lag) == {"0"}
        reset = ("--reset-offsets", "--group", "mailer", "--topic", TOPIC, "--to-earliest")
        groups(*reset, "--execute")
        assert sorted(consume(COUNT)) == list(range(COUNT))
        groups("--delete", "--group", "mailer")
        assert groups("--list") == []
        assert sorted(consume(1)), "a group of that name begins anew"
    data = Path(ours.data_of(1))  # each node has a replica
    logs = [str(path) for path in data.glob("__share_group_state-*/*.log")]
    told = run_tool(kafka, DUMP, "--share-group-state-decoder", "--files", ",".join(logs))
    assert '"groupId":"mailer"' in told


def test_java_and_ours_read_each_others_file_of_offsets(tmp_path: Path) -> None:
    """Kafka's tool has files of offsets for share groups since 4.4 (KIP-1323)."""
    kafka = fetch_or_skip()
    file = tmp_path / "offsets.csv"
    with Cluster(1, directory=str(tmp_path / "data")) as ours:
        fill(ours.bootstrap_servers)
        shell = Shell(ours.bootstrap_servers)

        def reset(*arguments: str) -> list[str]:
            words = ("--bootstrap-server", ours.bootstrap_servers, "--reset-offsets")
            said = run_tool(kafka, SHARE_GROUPS, *words, *arguments)
            return [line for line in said.splitlines() if line.startswith(("mailer", TOPIC))]

        def starts(group: str) -> list[tuple[int, int]]:
            rows = shell.good("share", "offsets", group, "--json").json
            return sorted((row["partition"], row["start"]) for row in rows)

        shell.good("share", "reset", "mailer", "--topic", TOPIC, "--to-offset", "3", "--execute")
        shell.good(
            "share", "reset", "mailer", "--topic", f"{TOPIC}:1", "--to-offset", "7", "--execute"
        )
        exported = reset(
            "--group", "mailer", "--all-topics", "--to-current", "--dry-run", "--export"
        )
        assert sorted(exported) == [f"{TOPIC},0,3", f"{TOPIC},1,7"]
        file.write_text("\n".join(exported), encoding="utf-8")
        shell.good("share", "reset", "printer", "--from-file", str(file), "--execute")
        assert starts("printer") == [(0, 3), (1, 7)]

        file.write_text(f"{TOPIC},0,5\n{TOPIC},1,2\n", encoding="utf-8")
        planned = reset("--group", "mailer", "--from-file", str(file), "--dry-run")
        assert sorted(line.split() for line in planned) == [
            ["mailer", TOPIC, "0", "5"],
            ["mailer", TOPIC, "1", "2"],
        ]
        assert starts("mailer") == [(0, 3), (1, 7)]
        reset("--group", "mailer", "--from-file", str(file), "--execute")
        assert starts("mailer") == [(0, 5), (1, 2)]
        mine = shell.good("share", "reset", "mailer", "--to-current", "--export").out
        file.write_text(mine, encoding="utf-8")
        reset("--group", "printer", "--from-file", str(file), "--execute")
        assert starts("printer") == [(0, 5), (1, 2)]
