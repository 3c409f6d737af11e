"""docs/tiered.md: its commands in fresh processes, by versitygw; docs/diskless.md: its numbers."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime.node_processes import free_ports
from tests.broker.tiered.s3_servers import ServerMissing, versitygw_program
from tests.client.guides import run_programs, text_of
from tests.e2e.terminal import Terminal, blocks
from tests.peers.eventually import eventually

GUIDE = "tiered.md"
WALK = "## In five commands"


def versitygw_folder() -> Path:
    try:
        return Path(versitygw_program()).parent
    except ServerMissing as missing:
        pytest.skip(str(missing))


def is_up(log: Path, sign: str) -> bool:
    return log.exists() and sign in log.read_text()


@pytest.mark.real
@pytest.mark.deep
def test_the_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    store_port, port, controller_port = free_ports(3)
    listeners = f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}"

    def here(text: str) -> str:
        return text.replace(":7070", f":{store_port}")

    terminal = Terminal(tmp_path, here)
    own = {"PATH": f"{versitygw_folder()}:{terminal.environment['PATH']}"}
    addresses = {"MOLDAU_BOOTSTRAP": f"localhost:{port}", "MOLDAU_LISTENERS": listeners}
    terminal.environment.update(own | addresses)
    store, broker, records = blocks(WALK, "sh", GUIDE)
    assert len([store, broker, *records.strip().splitlines(), "status"]) == 5

    def status() -> dict[str, Any]:
        (found,) = json.loads(terminal.do("moldau tier status orders --json"))
        assert isinstance(found, dict)
        return found

    folder, _, server = store.partition(" && ")
    terminal.do(folder)
    with (
        terminal.start(f"env {here(server)}"),
        terminal.start(f"env {here(broker)}") as said,
    ):
        eventually(lambda: is_up(said, "is up"), within_s=120)
        terminal.do(records)
        eventually(lambda: status()["segments"] >= 8 and not status()["copying"], within_s=120)
        eventually(lambda: status()["local_start"] > 0, within_s=120)
        (shown,) = blocks(WALK, "console", GUIDE)
        command, *lines = shown.splitlines()
        assert terminal.do(command[2:]).splitlines()[0] == lines[0]
        (shown,) = blocks("## What is remote, and what waits", "console", GUIDE)
        command, line = shown.splitlines()
        told = terminal.do(command[2:])
        assert told.strip().endswith(line.rpartition("; ")[2])
        assert "in s3://segments/demo: " in told
        assert len(terminal.do("moldau consume orders --count 1").strip()) == 500
        (change,) = blocks("## Settings of Kafka", "sh", GUIDE)
        terminal.do(change)
        (keys,) = blocks("## Encryption", "sh", GUIDE)
        terminal.do(keys)
        assert len((tmp_path / "segment-keys").read_text().split()) == 2
        (switches,) = blocks("## Switching a topic", "sh", GUIDE)
        for line in switches.strip().splitlines():
            terminal.do(line)
        eventually(lambda: status()["segments"] == 0, within_s=120)
        found = status()
        assert found["start"] == found["local_start"] > 0


def test_the_numbers_of_diskless_topics_are_those_of_its_program() -> None:
    page, out = text_of("diskless.md"), StringIO()
    with redirect_stdout(out):
        run_programs("diskless.md", {})
    numbers = out.getvalue().split()
    assert len(numbers) == 11
    before = page.partition("## How to check")[0]
    assert [each for each in numbers if not re.search(rf"(?<![\d,]){each}(?![\d,])", before)] == []
