"""Whose clients can be members of a group, how each is started, and what it tells.

Most are programs of ours around a client, which tell in JSON (programs/members/member.py says
what). Kafka's verifiable consumer, its console consumer and kcat are taken as they are, and what
they print is read. `CAN` says who can which strategy; `consumer` is the protocol of KIP-848.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.built import go_program, node_modules
from tests.conformance.clients import HERE
from tests.conformance.kcat import find_kcat
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

SESSION_MS: Final = 6_000  # the least that brokers allow unless told otherwise
_HEARTBEAT_MS: Final = 300
_COMMIT_INTERVAL_MS: Final = 300
_FETCH_WAIT_MS: Final = "200"

CLASSIC: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
CAN: Final[Mapping[str, Sequence[str]]] = {
    "java": (*CLASSIC, "consumer"),
    "console": ("range", "consumer"),  # Java's client again: these two shall do
    "confluent": ("range", "roundrobin", "cooperative-sticky", "consumer"),
    "kcat": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": CLASSIC,
    "aiokafka": ("range", "roundrobin", "sticky"),
    "kafkajs": ("range", "roundrobin"),  # our program gives it these, as its users do
    "sarama": CLASSIC,
    "franz-go": (*CLASSIC, "consumer"),
    "moldau": (*CLASSIC, "consumer"),
}
STATIC: Final = ("aiokafka", "confluent", "franz-go", "java", "kafka-python", "moldau", "sarama")
"""Whose members can be static ones. In KIP-848 franz-go's does not say that it ends: nobody takes
its place, not even itself, until its session is over."""
BOTH_WAYS: Final = ("franz-go", "java", "moldau", "sarama")
"""Who takes an eager and a cooperative assignor at once; librdkafka and kafka-python do not."""
_JAVAS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """Which member to be; the same as the programs' own (programs/members/member.py)."""

    bootstrap: str
    topic: str
    group: str
    strategy: str
    name: str = ""
    session_ms: int = SESSION_MS
    heartbeat_ms: int = _HEARTBEAT_MS
    instance: str = ""

    def settings(self, assignor: str) -> dict[str, str]:
        """Kafka's names and values of what the programs in Java and C are to be given; `assignor`
        is the strategy as they call it."""
        settings = {
            "client.id": self.name,
            "auto.commit.interval.ms": str(_COMMIT_INTERVAL_MS),
        }
        if self.instance:
            settings["group.instance.id"] = self.instance
        if self.strategy == "consumer":
            return {**settings, "group.protocol": "consumer"}
        return {
            **settings,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": str(self.session_ms),
            "heartbeat.interval.ms": str(self.heartbeat_ms),
        }


@dataclass(frozen=True, slots=True)
class Owned:
    """All partitions that a member has from now on."""

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Read:
    """A record that a member has worked on."""

    partition: int
    offset: int


Fact = Owned | Read
# From a line that was printed, and what the member owned until then, to what it says.
Reader = Callable[[str, frozenset[int]], Iterable[Fact]]
Command = Sequence[str]


def check_owned(name: str, facts: Iterable[Fact]) -> None:
    """AssertionError if a member has worked on a record of a partition that it did not own."""
    owned: frozenset[int] = frozenset()
    for each in facts:
        if isinstance(each, Owned):
            owned = each.partitions
        else:
            assert each.partition in owned, f"{name} read {each}, and owned {sorted(owned)}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One client. `command` skips where this machine does not have it; its folder is for files
    that only that member reads."""

    command: Callable[[Wish, Path], Command]
    reads: Reader
    tells_owned: bool = True
    tells_in_order: bool = True  # what it owns and what it reads: not where these are two streams
    leaves_by_signal: bool = False  # else by the end of its input
    tells_before_it_commits: bool = True  # else records are lost when it is killed
    # Of what it takes while it is told to leave it commits one record that it does not print.
    drops_one_at_its_end: bool = False
    commits_with_its_first_epoch: bool = False  # of the leader: see group_log


# Programs of ours.


def _as_json(wish: Wish) -> str:
    return json.dumps(asdict(wish))


def _read_json(line: str, _: frozenset[int]) -> Iterable[Fact]:
    if not line.startswith("{"):
        return
    told = json.loads(line)
    if "owned" in told:
        yield Owned(frozenset(told["owned"]))
    for partition, offset in told.get("read", ()):
        yield Read(partition, offset)


def _python(module: str, needs: str) -> Kind:
    def command(wish: Wish, _: Path) -> Command:
        if find_spec(needs) is None:
            pytest.skip(f"{needs} is not installed (make peers)")
        return (
            sys.executable,
            "-m",
            f"tests.conformance.programs.members.{module}",
            _as_json(wish),
        )

    return Kind(command, _read_json)


def _go(name: str) -> Kind:
    return Kind(lambda wish, _: (go_program(name), _as_json(wish)), _read_json)


def _kafkajs(wish: Wish, _: Path) -> Command:
    node, modules = node_modules()
    return (node, str(HERE / "programs" / "kafkajs_member.js"), str(modules), _as_json(wish))


# Kafka's own.


def _java_settings(wish: Wish) -> Mapping[str, str]:
    names = [_JAVAS.get(each) for each in wish.strategy.split(",")]
    assignors = ",".join(f"org.apache.kafka.clients.consumer.{each}" for each in names)
    return {**wish.settings(assignors), "fetch.max.wait.ms": _FETCH_WAIT_MS}


def _verifiable(wish: Wish, folder: Path) -> Command:
    """The program that Kafka's system tests use."""
    kafka = fetch_or_skip()
    settings = _java_settings(wish)
    file = folder / f"{wish.name}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = kafka.command(*TOOL_JVM)
    command += ["org.apache.kafka.tools.VerifiableConsumer", "--verbose", "--enable-autocommit"]
    command += ["--bootstrap-server", wish.bootstrap, "--topic", wish.topic]
    command += ["--group-id", wish.group, "--command-config", str(file)]
    if wish.instance:
        command += ["--group-instance-id", wish.instance]
    if wish.strategy == "consumer":
        return [*command, "--group-protocol", "consumer"]
    command += ["--assignment-strategy", settings["partition.assignment.strategy"]]
    return [*command, "--session-timeout", str(wish.session_ms)]


def _read_verifiable(line: str, owned: frozenset[int]) -> Iterable[Fact]:
    if not line.startswith("{"):
        return
    told = json.loads(line)
    partitions = {each["partition"] for each in told.get("partitions", ())}
    match told["name"]:
        case "partitions_assigned":
            yield Owned(owned | partitions)
        case "partitions_revoked":
            yield Owned(owned - partitions)
        case "record_data":
            yield Read(told["partition"], told["offset"])


def _console(wish: Wish, _: Path) -> Command:
    kafka = fetch_or_skip()
    command = kafka.command(*TOOL_JVM)
    command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--from-beginning"]
    command += ["--bootstrap-server", wish.bootstrap, "--topic", wish.topic, "--group", wish.group]
    for name in ("partition", "offset"):
        command += ["--formatter-property", f"print.{name}=true"]
    for name, value in _java_settings(wish).items():
        command += ["--command-property", f"{name}={value}"]
    return command


def _read_console(line: str, _: frozenset[int]) -> Iterable[Fact]:
    found = re.match(r"Partition:(\d+)\tOffset:(\d+)\t", line)
    if found:
        yield Read(int(found[1]), int(found[2]))


# kcat.


def _kcat(wish: Wish, _: Path) -> Command:
    program = find_kcat()
    if program is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    settings = wish.settings(wish.strategy)
    settings |= {"auto.offset.reset": "earliest", "fetch.wait.max.ms": _FETCH_WAIT_MS}
    # -E: it would end when its only broker does.
    command = [program, "-b", wish.bootstrap, "-u", "-E", "-f", "%p %o\\n"]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    return [*command, "-G", wish.group, wish.topic]


def _read_kcat(line: str, owned: frozenset[int]) -> Iterable[Fact]:
    if re.fullmatch(r"\d+ \d+\n", line):
        yield Read(*map(int, line.split()))
    change = re.search(r" rebalanced.*?(assign|revo)\w*(?: of .*)?: (.*)$", line)
    if change:
        partitions = {int(each) for each in re.findall(r"\[(\d+)\]", change[2])}
        yield Owned(owned | partitions if change[1] == "assign" else owned - partitions)


KINDS: Final[Mapping[str, Kind]] = {
    "java": Kind(_verifiable, _read_verifiable, leaves_by_signal=True),
    "console": Kind(_console, _read_console, tells_owned=False, leaves_by_signal=True),
    "confluent": _python("confluent", "confluent_kafka"),
    "kcat": Kind(
        _kcat,
        _read_kcat,
        tells_in_order=False,
        leaves_by_signal=True,
        tells_before_it_commits=False,
        drops_one_at_its_end=True,
    ),
    "kafka-python": _python("kafka_python", "kafka"),
    "aiokafka": _python("aio_kafka", "aiokafka"),
    "kafkajs": Kind(_kafkajs, _read_json),
    "sarama": replace(_go("sarama"), commits_with_its_first_epoch=True),
    "franz-go": _go("franz"),
    "moldau": _python("moldau_client", "moldau.client"),
}
