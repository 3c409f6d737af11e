"""docs/from-kafka-streams.md: its Java apps stop, its apps take over, and give the same.

Each Java app runs twice. One stops between the two halves of the input and is taken over, one goes
on. In the end both have the same last result of each key, and the same rows in their changelogs.
"""

from __future__ import annotations

import re
import shlex
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.runtime.real import RealClock
from moldau.streams import Streams
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.joins import References
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.client.guides import programs, text_of
from tests.peers.apache_kafka import OLDER, SHORT_JVM, VERSION, ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker
from tests.spark import streams_apps as apps

pytestmark = [pytest.mark.real, pytest.mark.deep]

GUIDE: Final = "from-kafka-streams.md"
SOURCE: Final = Path(__file__).with_name("KafkaStreamsApps.java")
STAYS: Final = "-stays"
PARTITIONS: Final = 2
NOW_MS: Final = RealClock().wall_ms() // 3_600_000 * 3_600_000
"""Brokers delete records that are old by their time."""
PATIENCE_S: Final = 40.0


class Row(NamedTuple):
    """An input record; the time is in seconds after `NOW_MS`."""

    topic: str
    key: bytes
    value: bytes | None
    time_s: float


def lines(*given: tuple[str, float]) -> list[Row]:
    return [Row("lines", b"k%d" % at, line.encode(), time) for at, (line, time) in enumerate(given)]


def readings(*given: tuple[str, float, float]) -> list[Row]:
    return [Row("readings", key.encode(), struct.pack(">d", each), at) for key, each, at in given]


def clicks(*given: tuple[int, float]) -> list[Row]:
    return [Row("clicks", struct.pack(">q", key), b"click", at) for key, at in given]


def numbers(topic: str, *given: tuple[str, int, float]) -> list[Row]:
    return [Row(topic, key.encode(), struct.pack(">i", each), at) for key, each, at in given]


def texts(topic: str, *given: tuple[str, str | None, float]) -> list[Row]:
    return [
        Row(topic, key.encode(), None if each is None else each.encode(), at)
        for key, each, at in given
    ]


FIRST: Final = [
    *lines(("elbe moldau", 0), ("moldau eger moldau", 1), ("iser", 2)),
    *readings(("a", 3.5, 1), ("b", -1.0, 2), ("a", 2.0, 9), ("b", 4.0, 11), ("a", 7.0, 14)),
    *clicks((7, 0), (7, 3), (8, 1), (8, 20), (7, 21), (-9, 22)),
    *numbers("rates", ("eur", 2, 0), ("usd", 3, 0), ("eur", 5, 100)),
    *numbers("payments", ("eur", 10, 50), ("usd", 10, 50), ("eur", 11, 150)),
    *texts("customers", ("ada", "Ada", 0), ("bob", "Bob", 0), ("cyd", "Cyd", 0)),
    *texts(
        "orders", ("o1", "ada pen", 1), ("o2", "bob ink", 1), ("o3", "ada cap", 1),
        ("o4", "dan box", 1), ("o5", "cyd tin", 1), ("o5", None, 2),
    ),
]  # fmt: skip
SECOND: Final = [
    *lines(("moldau", 3), ("eger elbe new", 4)),
    # One in an open window, and for each key one in a window that was over before the move.
    *readings(("a", 9.0, 12), ("a", 99.0, 0), ("b", 99.0, 1), ("b", 5.0, 30)),
    # One joins a session from before, one is too late for it.
    *clicks((7, 24), (8, 23), (8, 2), (-9, 40), (7, 41)),
    # Records of times before and after a change of the rate.
    *numbers("rates", ("usd", 4, 200)),
    *numbers("payments", ("eur", 1, 60), ("eur", 1, 160), ("usd", 1, 60), ("usd", 1, 210)),
    # Rows of before: their customers change, come, and go; one changes its customer.
    *texts("customers", ("ada", "Ada L", 3), ("dan", "Dan", 3), ("cyd", "Cyd B", 3)),
    *texts("customers", ("bob", None, 4)),
    *texts("orders", ("o3", "dan cap", 5), ("o6", "cyd jar", 5), ("o1", None, 6)),
]


class App:
    """An app of the page."""

    def __init__(self, java: str, program: str) -> None:
        given: dict[str, Any] = {}
        exec(compile(program, GUIDE, "exec"), given)  # noqa: S102
        self.app: Streams = given["app"]
        self.program = program
        self.name = self.app.name
        plan = self.app.plan()
        own = {topic.name for topic in plan.repartitions}
        (self.out,) = plan.outputs() - own
        self.changelogs = [
            f"{self.name}-{store.name}-changelog"
            for part in plan.programs
            for step in part.steps
            for store in stores_of(step)
            if store.source_topic is None and not isinstance(step.operation, References)
        ]
        self.java = java.replace(f'"{self.out}"', f'"{self.out}" + suffix')


def page_apps() -> list[App]:
    java = re.findall(r"```java\n(.*?)```", text_of(GUIDE), re.DOTALL)
    return [App(*each) for each in zip(java, programs(GUIDE), strict=True)]


def commands() -> list[str]:
    return re.findall(r"^ *\$ moldau (.*)$", text_of(GUIDE), re.MULTILINE)


class Java:
    """The process with the Java apps."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait_for(self, said: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == said:
                return
        raise AssertionError(f"it ended before it said {said}")

    def move(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("move\n")
        self._process.stdin.flush()
        self.wait_for("MOVED")


@contextmanager
def java_apps(
    kafka: ApacheKafka, servers: str, folder: Path, found: Sequence[App], protocol: str
) -> Iterator[Java]:
    cases = "".join(f"case {at} -> {{\n{app.java}}}\n" for at, app in enumerate(found))
    source = folder / SOURCE.name
    source.write_text(SOURCE.read_text().replace("/* APPS */", cases))
    command = [*kafka.command("-Xmx512m", *SHORT_JVM), str(source), servers, str(folder / "java")]
    with (folder / "java.log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 - our own file, run by the java that was found
            [*command, protocol, *(app.name for app in found)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        java = Java(process)
        java.wait_for("STARTED")
        yield java
    finally:
        try:
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def write(servers: str, rows: Sequence[Row]) -> None:
    """Write the records of one topic before those of the next one."""
    with Producer(bootstrap_servers=servers) as producer:
        for _, group in groupby(rows, key=lambda row: row.topic):
            for row in group:
                time_ms = NOW_MS + int(row.time_s * 1000)
                producer.send(row.topic, row.value, key=row.key, timestamp_ms=time_ms)
            producer.flush()


def last(servers: str, topic: str) -> dict[bytes, bytes]:
    """The last committed value of each key, without deleted ones."""
    found: dict[Any, Any] = {}
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        ends = consumer.end_offsets(consumer.partitions(topic))
        consumer.assign(list(ends))
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(0.1):
                found.update({each.key: each.value for each in part.records})
    return {key: value for key, value in found.items() if value is not None}


def expected(app: App, rows: Sequence[Row]) -> dict[bytes, bytes]:
    """What our driver makes of these rows."""
    inputs = app.app.plan().source_topics()
    found: dict[Any, Any] = {}
    with closing(app.app.test(partitions=dict.fromkeys(inputs, PARTITIONS))) as driver:
        for row in rows:
            if row.topic in inputs:
                time_ms = NOW_MS + int(row.time_s * 1000)
                driver.pipe_bytes(row.topic, row.value, key=row.key, timestamp=time_ms)
        found.update({key: value for key, value, *_ in driver.read_bytes(app.out)})
    return {key: value for key, value in found.items() if value is not None}


def becomes(servers: str, topic: str, wanted: dict[bytes, bytes]) -> None:
    with suppress(AssertionError):
        eventually(lambda: last(servers, topic) == wanted, within_s=PATIENCE_S)
    assert last(servers, topic) == wanted, topic


@pytest.mark.parametrize(
    ("version", "protocol", "is_ours"),
    [(OLDER, "classic", True), (VERSION, "streams", True), (VERSION, "classic", False)],
)
def test_apps_of_java_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, protocol: str, *, is_ours: bool
) -> None:
    kafka, found = fetch_or_skip(version), page_apps()
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = SyncEmbeddedBroker({}) if is_ours else KafkaBroker.started(kafka, tmp_path / "broker")
    with ours as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            inputs = {topic for app in found for topic in app.app.plan().source_topics()}
            for topic in [*inputs, *(app.out + end for app in found for end in ("", STAYS))]:
                admin.create_topic(NewTopic(topic, PARTITIONS, 1))
        write(servers, FIRST)
        with java_apps(kafka, servers, tmp_path, found, protocol) as java:
            for app in found:
                half = expected(app, FIRST)
                becomes(servers, app.out + STAYS, half)
                becomes(servers, app.out, half)
            java.move()
            write(servers, SECOND)
            for app in found:
                take_over(servers, app, tmp_path)
                becomes(servers, app.out + STAYS, expected(app, [*FIRST, *SECOND]))
                assert last(servers, app.out) == last(servers, app.out + STAYS)
                for each in app.changelogs:
                    theirs = each.replace(app.name, app.name + STAYS, 1)
                    assert last(servers, each) == last(servers, theirs)


def take_over(servers: str, app: App, folder: Path) -> None:
    """Run the app of the page on what is there, after the commands of the page."""
    (folder / f"java_{app.name}.py").write_text(app.program)
    shell, adopt = Shell(servers), ("streams", "adopt", "--application-id", app.name)
    needed = [each for each in commands() if each.startswith(f"group reset {app.name} ")]
    for command in needed:
        done = shell(*adopt, f"java_{app.name}:app")
        assert (done.code, command in done.out) == (1, True), done
        shell.good(*shlex.split(command))
    assert "it can take over" in shell.good(*adopt, f"java_{app.name}:app").out
    apps.embedded(servers, app.app, folder / app.name)
