"""Kafka Streams with `group.protocol=streams`, and Kafka's tool for its groups, on our broker."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.peers.apache_kafka import OLDER, VERSION, ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

PROGRAM: Final = Path(__file__).with_name("WordCount.java")
GROUPS: Final = "org.apache.kafka.tools.streams.StreamsGroupCommand"
SETTINGS: Final = {
    "group.streams.min.session.timeout.ms": 6000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.num.standby.replicas": 1,
    "group.streams.initial.rebalance.delay.ms": 500,
}
PARTITIONS: Final = 4
WORDS: Final = ("elbe", "moldau", "eger", "moldau")
ROUND: Final = 250
TASKS: Final = frozenset(f"{part}_{number}" for part in "01" for number in range(PARTITIONS))
PATIENCE_S: Final = 300.0


class Instance:
    """One instance of the application."""

    def __init__(self, kafka: ApacheKafka, bootstrap: str, state: Path, threads: int) -> None:
        given = (bootstrap, "words", str(state), str(threads))
        command = [
            *kafka.command("-XX:TieredStopAtLevel=1", "-Xmx256m"),
            str(PROGRAM),
            *given,
        ]
        self._process = subprocess.Popen(  # noqa: S603 - our own file, run by the java that was found
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        self.active: frozenset[str] = frozenset()
        self.standby: frozenset[str] = frozenset()
        self.is_ended = False
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *told = line.strip().split(";")
            if kind == "TASKS":  # the JVM and Kafka may say other things
                _, active, standby = told
                self.active = frozenset(filter(None, active.split(",")))
                self.standby = frozenset(filter(None, standby.split(",")))

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        if not self.is_ended:
            self._end()

    def _end(self) -> None:
        try:
            self._process.wait(timeout=PATIENCE_S)
        finally:
            self._process.kill()
            self._listener.join()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self.active = self.standby = frozenset()
            self.is_ended = True


@contextmanager
def instance(kafka: ApacheKafka, bootstrap: str, state: Path, threads: int) -> Iterator[Instance]:
    made = Instance(kafka, bootstrap, state, threads)
    try:
        yield made
    finally:
        made.stop()


def counted(shell: Shell) -> dict[str, int]:
    """The last committed count of each word."""
    lines = shell.good("consume", "counted", "--committed", "--keys").out.splitlines()
    return {word: int(count) for word, _, count in (line.partition(":") for line in lines)}


def write(shell: Shell, rounds: int) -> Counter[str]:
    lines = "".join(f"{' '.join(WORDS)}\n" for _ in range(rounds))
    shell.good("produce", "lines", source=lines)
    return Counter({word: count * rounds for word, count in Counter(WORDS).items()})


@pytest.mark.parametrize(("version", "node_count"), [(OLDER, 1), (OLDER, 3), (VERSION, 3)])
def test_an_application_goes_on_exactly_once_when_an_instance_is_killed(
    tmp_path: Path, version: str, node_count: int
) -> None:
    kafka = fetch_or_skip(version)
    with Cluster(node_count, directory=str(tmp_path / "data"), settings=SETTINGS) as ours:
        bootstrap = ours.bootstrap_servers
        shell = Shell(bootstrap)

        def groups(*arguments: str) -> list[list[str]]:
            said = run_tool(kafka, GROUPS, "--bootstrap-server", bootstrap, *arguments)
            return [line.split() for line in said.splitlines() if line.strip()]

        for topic, count in (("lines", PARTITIONS), ("counted", 1)):
            shell.good("topic", "create", topic, "--partitions", str(count))
        expected = write(shell, ROUND)
        with (
            instance(kafka, bootstrap, tmp_path / "one", 1) as one,
            instance(kafka, bootstrap, tmp_path / "two", 2) as two,
        ):
            eventually(
                lambda: one.active | two.active == TASKS and not one.active & two.active,
                within_s=PATIENCE_S,
            )
            stateful = {each for each in TASKS if each.startswith("1_")}
            eventually(lambda: one.standby | two.standby == stateful, within_s=PATIENCE_S)
            eventually(lambda: counted(shell) == expected, within_s=PATIENCE_S)
            assert groups("--list") == [["words"]]
            members = groups("--describe", "--group", "words", "--members")
            assert len(members) == 1 + 3
            state = groups("--describe", "--group", "words", "--state")
            assert "Stable" in state[1]
            read = groups("--describe", "--group", "words")
            topics = Counter(row[1] for row in read[1:])
            assert topics == {"lines": PARTITIONS, "words-counts-repartition": PARTITIONS}

            described = json.loads(shell.good("group", "describe", "words", "--json").out)
            (ours_of_it,) = described
            assert ours_of_it["type"] == "streams"
            active = [name for each in ours_of_it["members"] for name in each["tasks"]["active"]]
            assert sorted(active) == sorted(TASKS)

            one.kill()
            expected += write(shell, ROUND)
            eventually(lambda: two.active == TASKS, within_s=PATIENCE_S)
            eventually(lambda: counted(shell) == expected, within_s=PATIENCE_S)

            with instance(kafka, bootstrap, tmp_path / "one", 1) as again:
                eventually(lambda: len(again.active) > 1, within_s=PATIENCE_S)
                expected += write(shell, ROUND)
                eventually(lambda: counted(shell) == expected, within_s=PATIENCE_S)
        every = ("--group", "words", "--all-input-topics")
        reset = groups("--reset-offsets", *every, "--to-earliest", "--execute")
        assert {row[3] for row in reset if row[:2] == ["words", "lines"]} == {"0"}
        stands = json.loads(shell.good("group", "describe", "words", "--json").out)[0]["offsets"]
        assert {each["committed"] for each in stands if each["topic"] == "lines"} == {0}
        shell.good("group", "reset", "words", "--topic", "lines", "--to-latest", "--execute")
        groups("--delete-offsets", *every)
        offsets = groups("--describe", "--group", "words", "--offsets")
        assert "lines" not in {row[1] for row in offsets[1:]}
        groups("--delete", "--group", "words")
        assert groups("--list") == []
