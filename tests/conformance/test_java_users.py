"""Users that Kafka's own tools make, and ours beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.command import Exit
from tests.broker.main.command_line import command
from tests.broker.main.scram_users import ADD, users_of
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.peers.apache_kafka import OLDER, fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real


def test_kafkas_tool_writes_the_same_users(tmp_path: Path) -> None:
    """Kafka 4.4 has them in the first snapshot of the metadata log, and no longer in the file."""
    kafka = fetch_or_skip(OLDER)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert command("storage", "format", "--data", str(ours), *ADD, home=tmp_path)[0] == Exit.DONE
    server = tmp_path / "server.properties"
    server.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@127.0.0.1:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        f"log.dirs={theirs}\n"
    )
    run_tool(
        kafka,
        *("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAw"),
        *("-c", str(server), *ADD),
    )
    assert users_of(theirs) == users_of(ours)


def test_kafka_configs_sets_and_removes_users(moldau: MoldauBroker) -> None:
    kafka = fetch_or_skip()
    tool = "org.apache.kafka.tools.ConfigCommand"
    configs = (tool, "--bootstrap-server", moldau.bootstrap_servers)
    user = ("--entity-type", "users", "--entity-name", "tool-user")
    scram = "SCRAM-SHA-512=[password=a secret]"
    run_tool(kafka, *configs, *user, "--alter", "--add-config", scram)
    told = run_tool(kafka, *configs, *user, "--describe")
    assert "SCRAM credential configs for user-principal 'tool-user' are" in told
    assert "SCRAM-SHA-512=iterations=4096" in told
    run_tool(kafka, *configs, *user, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM-SHA-512" not in run_tool(kafka, *configs, *user, "--describe")
