"""docs/security.md, from nothing: its commands and programs as a user runs them, each a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from moldau.runtime.node_processes import free_ports_in_row
from moldau.spark.java import find_java
from tests.connect.processes import Worker, wait_until
from tests.e2e.terminal import Terminal, blocks

pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A cluster by the first block of the guide, and alice by the second."""
    port = free_ports_in_row(9)
    folder = tmp_path_factory.mktemp("secured")
    found = Terminal(folder, lambda text: text.replace("9092", str(port)))
    up, first, explained = blocks("## From nothing to a secured cluster in five minutes", "sh")[:3]
    with found.start(f"{up.strip()} --port {port}") as said:
        wait_until(lambda: "Ctrl-C" in said.read_text(), "the cluster is up", 120)
        variable = f"{found.folder}/cluster/secured/admin.properties"
        assert found.do(first).endswith("first\n")
        found.environment["MOLDAU_COMMAND_CONFIG"] = variable
        answer = found.do(explained)
        assert "allowed, by the rule: ALLOW User:alice WRITE topic:orders" in answer
        assert answer.endswith("alice may not\n")
        yield found


def test_a_streams_app_of_two_workers_counts_exactly_once(terminal: Terminal) -> None:
    title = "### Streams"
    prepare, run = blocks(title, "sh")
    (terminal.folder / "words.py").write_text(blocks(title, "python")[0])
    terminal.do(prepare)
    with terminal.start(run.strip()) as said:
        terminal.do("echo 'to be or not to be' | moldau produce lines")

        def counted() -> bool:
            lines = terminal.do("moldau consume counted --keys --committed").split()
            return {"to:2", "be:2", "or:1", "not:1"} <= set(lines)

        wait_until(counted, f"all words are counted: {said.read_text()}", 120)
        assert "AUTHORIZATION_FAILED" not in said.read_text()


def test_connectors_copy_a_file_through_a_topic(terminal: Terminal) -> None:
    prepare, run = blocks("### Connect", "sh")
    terminal.do(prepare)
    given, copied = terminal.folder / "given.txt", terminal.folder / "copied.txt"
    given.write_text("one\ntwo\nthree\n")
    port, often = free_ports_in_row(1), "--set offset.flush.interval.ms=1000"
    strings = "org.apache.kafka.connect.storage.StringConverter"
    own = {"value.converter": strings, "key.converter": strings, "tasks.max": "1"}
    files = f"--set connect.file.directories={terminal.folder}"
    start = f"{run.strip()} {often} {files} --listen 127.0.0.1:{port}"
    with terminal.start(start) as said, ExitStack() as stack:
        wait_until(lambda: "Ctrl-C" in said.read_text(), "the worker is up", 120)
        worker = Worker(None, f"http://127.0.0.1:{port}")  # type: ignore[arg-type]
        stack.callback(worker.client.close)
        source = {"connector.class": "FileStreamSource", "file": str(given), "topic": "copied"}
        sink = {"connector.class": "FileStreamSink", "file": str(copied), "topics": "copied"}
        worker.create("lines-in", {**own, **source})
        worker.create("lines-out", {**own, **sink})

        def lines() -> list[str]:
            return sorted(copied.read_text().split()) if copied.exists() else []

        wait_until(lambda: lines() == ["one", "three", "two"], "the lines are copied", 120)
        assert "Nothing reads" not in said.read_text()


def test_tokens_can_be_made_from_the_first_minute(terminal: Terminal) -> None:
    (commands,) = blocks("## Delegation tokens", "sh")
    assert "seen" in terminal.do(f"moldau topic create seen\n{commands}")
    (key,) = (terminal.folder / "cluster" / "secured" / "token-key.properties").read_text().split()
    for path in (terminal.folder / "cluster").glob("*.properties"):
        assert key.removeprefix("key=") not in path.read_text()


@pytest.mark.spark
@pytest.mark.skipif(find_java() is None, reason="Spark needs Java")
def test_spark_reads_with_the_settings_of_a_user(terminal: Terminal) -> None:
    (program,) = blocks("### Spark", "python")
    (terminal.folder / "job.py").write_text(program)
    assert terminal.do("python job.py 2>/dev/null").strip().endswith("1 orders")


def test_five_commands_make_a_secure_cluster_with_a_user() -> None:
    up, first = blocks("## From nothing to a secured cluster in five minutes", "sh")[:2]
    prepare = [line for line in f"{up}{first}".splitlines() if line.startswith("moldau ")]
    assert [each.split()[1] for each in prepare[:5]] == ["cluster", "topic", "user", "acl", "acl"]
    assert prepare[5].startswith("moldau consume"), "alice reads and writes"
