"""docs/queues.md: its programs and commands, in fresh processes, and a worker that is killed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.fresh import moldau as command
from tests.cli.groups import Cluster
from tests.cli.shell import Shell
from tests.peers.either_broker import either
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "queues.md").read_text(encoding="utf-8")
PROGRAMS: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
STEPS: Final = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
COMMANDS: Final = [line.strip() for line in PAGE.splitlines() if line.startswith("    moldau ")]
COUNT: Final = 200
SHORT_SESSIONS: Final = {
    "group.share.min.session.timeout.ms": "2000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "500",
}
pytestmark = pytest.mark.real


@pytest.fixture
def moldau_with_short_sessions() -> Iterator[SyncEmbeddedBroker]:
    with SyncEmbeddedBroker(SHORT_SESSIONS) as broker:
        yield broker


cluster = either("kafka_broker", "moldau_with_short_sessions")


class Worker:
    """A program of the page as a process; its output goes to a file."""

    def __init__(self, program: Path, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(  # noqa: S603 - ours
                [sys.executable, str(program)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def lines(self) -> list[str]:
        """The whole lines that it has written."""
        text = self._output.read_text(encoding="utf-8", errors="replace")
        return text.rpartition("\n")[0].splitlines()

    def sent(self) -> list[str]:
        """What it says that it has sent; anything else fails the test once it has ended."""
        return [line.split()[1] for line in self.lines() if line.startswith("sent ")]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)


@contextmanager
def workers(cluster: Cluster, folder: Path, program: str, count: int = 1) -> Iterator[list[Worker]]:
    """Run the program so many times, against this cluster."""
    path = folder / "program.py"
    path.write_text(program.replace("localhost:9092", cluster.bootstrap_servers))
    running = []
    try:
        for number in range(count):
            running.append(Worker(path, folder / f"output-{number}"))
        yield running
    finally:
        for each in running:
            each.stop()


def renamed(text: str, prefix: str) -> str:
    """The text with names of this test's own: brokers are shared."""
    return text.replace("orders", f"{prefix}-orders").replace("mailer", f"{prefix}-mailer")


def do(cluster: Cluster, line: str) -> str:
    """Run a line of the page in a fresh process."""
    source, _, words = line.rpartition(" | ")
    given = ""
    if source:
        seq, last = source.split()
        assert seq == "seq"
        given = "".join(f"{number}\n" for number in range(1, int(last) + 1))
    name, *arguments = shlex.split(words)
    assert name == "moldau"
    done = command(*arguments, bootstrap=cluster.bootstrap_servers, source=given)
    assert done.code == 0, (line, done)
    return done.out


def test_the_page_shows_the_examples() -> None:
    folder = ROOT / "examples" / "queue"
    files = [folder / f"{name}.py" for name in ("worker", "retrying", "threads")]
    assert [each.read_text(encoding="utf-8") for each in files] == PROGRAMS
    assert len(STEPS) == 4
    assert len(COMMANDS) > 10


def test_every_message_is_handled_though_a_worker_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Two workers on two partitions. The killed one had a partition of its own, so the other one
    gets its messages when its session has ended."""
    create, configure, fill, describe = (renamed(each, "killed") for each in STEPS)
    do(cluster, create)
    do(cluster, configure)
    shell = Shell(cluster.bootstrap_servers)

    def are_assigned() -> bool:
        done = shell("share", "describe", "killed-mailer", "--json")
        members = done.json[0]["members"] if done.code == 0 else []
        return [len(each["assignment"]) for each in members] == [1, 1]

    program = renamed(PROGRAMS[0], "killed")
    with workers(cluster, tmp_path, program, count=2) as both:
        eventually(are_assigned)
        do(cluster, fill)
        more = {"0": ["a", "b", "c"], "1": ["x", "y", "z"]}
        for partition, values in more.items():
            lines = "".join(f"{value}\n" for value in values)
            shell.good("produce", "killed-orders", "--partition", partition, source=lines)
        eventually(lambda: both[0].sent() or both[1].sent())
        killed, other = both if both[0].sent() else reversed(both)
        killed.stop()
        everything = {str(number) for number in range(1, COUNT + 1)}
        everything.update(*more.values())
        eventually(lambda: {*killed.sent(), *other.sent()} == everything, within_s=200.0)
        assert len(other.sent()) == len(set(other.sent())), "one worker gets a message once"
        assert "killed-mailer: Stable" in do(cluster, describe)

        def lag() -> int:
            (found,) = shell.good("share", "describe", "killed-mailer", "--json").json
            return int(found["lag"])

        eventually(lambda: lag() == 0)


@pytest.mark.parametrize("number", [1, 2], ids=["retrying", "threads"])
def test_the_other_programs_send_everything(
    number: int, moldau_with_short_sessions: Cluster, tmp_path: Path
) -> None:
    cluster = moldau_with_short_sessions
    create, configure, fill, _ = STEPS
    for line in (create, configure, fill):
        do(cluster, line)
    with workers(cluster, tmp_path, PROGRAMS[number]) as (worker,):
        eventually(lambda: len(set(worker.sent())) == COUNT)
        attempts = {line.partition(" at attempt ")[2] for line in worker.lines()} - {""}
        assert attempts == ({"2"} if number == 1 else set())


def test_every_command_of_the_page_does_what_it_says(
    moldau_with_short_sessions: SyncEmbeddedBroker,
) -> None:
    shell = Shell(moldau_with_short_sessions.bootstrap_servers)
    shell.good("topic", "create", "orders", "--partitions", "2")
    shell.good("produce", "orders", source="one\ntwo\n")
    shell.good("group", "reset", "old-mailer", "--topic", "orders", "--to-latest", "--execute")
    shell.good("share", "reset", "mailer", "--topic", "orders", "--to-earliest", "--execute")
    told: dict[str, str] = {}
    for line in COMMANDS:
        words = shlex.split(line)[1:]
        if words[:2] == ["broker", "start"]:
            continue
        done = shell(*words)
        assert done.code == 0, (line, done)
        told[line] = done.out
    assert "mailer" in told["moldau share list"]
    assert "one" in told["moldau share peek mailer --count 5"]
    assert "dry run" in told["moldau share reset mailer --to-earliest"]
    (row,) = [each for each in shell.good("share", "list").rows if each[0] == "mailer"]
    assert row == ["mailer", "Empty"]
