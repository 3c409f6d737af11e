"""`python -m tests.chaos.copies`: one topic copied by transactional programs of four libraries on
three nodes, with kill -9 of copiers and brokers in turn.

Each copier writes a record into the partition that it comes from, and commits its offset with it.
So whatever is killed, a reader of committed records sees the source in each copy: each record once,
and in its order.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.errors.codes import KafkaError
from moldau.testing import Cluster
from tests.chaos.queues import Tell, say
from tests.conformance.built import go_program
from tests.peers.apache_kafka import fetch

SOURCE: Final = "source"
PARTITIONS: Final = 4
NODES: Final = (1, 2, 3)
WORKERS: Final = 2
PATIENCE_S: Final = 300.0
LOOK_S: Final = 0.25
SETTINGS: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
LIBRARIES: Final = ("ours", "librdkafka", "java", "franz")


@dataclass(slots=True)
class Result:
    """What a run did, in numbers."""

    kills: Counter[str] = field(default_factory=Counter)
    records: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def words_of(library: str) -> list[str]:
    """What a copier's command line begins with."""
    if library == "java":
        kafka = fetch()
        jvm = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        source = Path(__file__).with_name("TransactionalCopier.java")
        return [*kafka.command(*jvm), str(source)]
    if library == "franz":
        return [go_program("copier")]
    return [sys.executable, "-m", "tests.chaos.copying", library]


class Copier:
    """A process that copies; killed and begun again under its name."""

    def __init__(self, library: str, words: Sequence[str], servers: str, path: Path) -> None:
        self.library = library
        self._words = [*words, servers, SOURCE, target_of(library), path.name]
        self._log = path.with_suffix(".log")
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)  # noqa: S603

    def check(self) -> None:
        code = self._process.poll()
        assert code is None, f"a copier ended with {code}: {self._log.read_text()[-2000:]}"

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()


def target_of(library: str) -> str:
    """The topic that a library writes, and the name of its group."""
    return f"copy-by-{library}"


class Scene:
    """The cluster, the copiers, and the producer of what they copy."""

    def __init__(self, home: Path, libraries: Sequence[str], on_end: ExitStack) -> None:
        self.cluster = Cluster(
            brokers=len(NODES), directory=str(home / "cluster"), settings=SETTINGS
        )
        on_end.enter_context(self.cluster)
        self.servers = self.cluster.bootstrap_servers
        self.libraries = libraries
        self.admin = on_end.enter_context(Admin(bootstrap_servers=self.servers))
        self.producer = on_end.enter_context(Producer(bootstrap_servers=self.servers))
        topics = (SOURCE, *map(target_of, libraries))
        kept = {"min.insync.replicas": "2"}
        self.admin.create_topics([NewTopic(name, PARTITIONS, len(NODES), kept) for name in topics])
        self.copiers = [
            Copier(library, words, self.servers, home / f"{library}-{number}")
            for library, words in [(each, words_of(each)) for each in libraries]
            for number in range(WORKERS)
        ]
        for each in self.copiers:
            on_end.callback(each.kill)
        self.sent = 0

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self.producer.send(SOURCE, b"%d" % number, partition=number % PARTITIONS)
        self.sent += count
        self.producer.flush()

    def _copied(self, library: str) -> int:
        """How many records the group has committed; 0 if that is not known now."""
        with suppress(KafkaError):
            found = self.admin.group_offsets(target_of(library), require_stable=True)
            return sum(each.offset for each in found.values())
        return 0

    def await_copied(self, count: int) -> None:
        """Wait until every library has committed so many records."""
        until, waiting = time.monotonic() + PATIENCE_S, Event()
        for library in self.libraries:
            while (copied := self._copied(library)) < count:
                for each in self.copiers:
                    each.check()
                if time.monotonic() > until:
                    raise AssertionError(f"{library} has copied {copied} of {count} records")
                waiting.wait(LOOK_S)


def run_copy_chaos(
    home: Path, libraries: Sequence[str], *, kills: int, records: int, tell: Tell
) -> Result:
    """So many kills, of a copier and of a broker in turn."""
    result, began, random = Result(), time.monotonic(), Random(kills)
    with ExitStack() as on_end:
        scene = Scene(home, libraries, on_end)
        part = records // kills // 2
        for kill in range(kills):
            scene.send(part)
            scene.await_copied(scene.sent - part // 2)
            what = _strike(scene, kill, part, random)
            result.kills[what.split()[0]] += 1
            tell(f"{kill + 1:>3} of {kills}: {what}, {scene.sent} records sent")
        scene.await_copied(scene.sent)
        for library in libraries:
            result.wrong += _differences(scene, library)
        result.records = scene.sent
    result.seconds = time.monotonic() - began
    return result


def _strike(scene: Scene, kill: int, part: int, random: Random) -> str:
    """Kill a copier or a broker, and send so many records meanwhile. Return its name."""
    if kill % 2 == 0:
        copier = scene.copiers[kill // 2 * WORKERS % len(scene.copiers) + kill % 4 // 2]
        copier.kill()
        scene.send(part)
        copier.start()
        return f"copier by {copier.library}"
    victim = random.choice(NODES)
    scene.cluster.kill(victim)
    scene.send(part)
    scene.cluster.start(victim)
    scene.cluster.await_in_sync(SOURCE, within=PATIENCE_S)
    return f"broker {victim}"


def _differences(scene: Scene, library: str) -> list[str]:
    """What a reader of committed records sees that is not the source."""
    topic = target_of(library)
    found: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    with Consumer(
        bootstrap_servers=scene.servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        where = consumer.partitions(topic)
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in consumer.poll(1.0):
                found[part.partition] += [int(each) for each in part.values()]
    wrong = []
    for index, numbers in found.items():
        wanted = list(range(index, scene.sent, PARTITIONS))
        if numbers != wanted:
            times = Counter(numbers)
            lost = [each for each in wanted if each not in times]
            twice = [each for each, count in times.items() if count > 1]
            wrong.append(
                f"{topic}-{index}: {len(lost)} lost {lost[:9]}, {len(twice)} twice {twice[:9]},"
                f" {'not ' * (numbers != sorted(numbers))}in order"
            )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.copies", description=__doc__)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--of", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-copies-") as home:
        result = run_copy_chaos(
            Path(home), given.of, kills=given.kills, records=given.records, tell=say
        )
    say(f"{result.records} records, {dict(result.kills)} killed, {result.seconds:.0f} s")
    for line in result.wrong:
        say(line)
    say("wrong" if result.wrong else "each copy is the source, each record once")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
