"""`python -m tests.chaos.queues`: share consumers of two libraries on one partition, and kill -9 of
them and of brokers in turn, judged by their diaries (`tests.chaos.sharing`).

All accept what they get, and the limit of deliveries is out of reach, so:
- no record is lost: each was accepted by a consumer before the queue is empty;
- none is done twice: one whose acceptance was stored is not accepted again;
- delivery counts grow with what was killed, and no count comes twice unless a broker was killed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from moldau.client.sync import (
    Admin,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    ShareGroupAdmin,
    TopicPartition,
)
from moldau.errors.codes import KafkaError
from moldau.testing import Cluster
from tests.peers.apache_kafka import ApacheKafka, fetch

TOPIC: Final = "jobs"
GROUP: Final = "workers"
WHERE: Final = TopicPartition(TOPIC, 0)
NODES: Final = (1, 2, 3)
LIMIT: Final = 10
PATIENCE_S: Final = 300.0
LOOK_S: Final = 0.25
TRICKLE: Final = 50
SETTINGS: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "3",
}
OF_GROUP: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": f"{LIMIT}",
    "share.record.lock.duration.ms": "15000",
}
Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Crew:
    """How many processes of each library, and consumers in each of them."""

    ours: int
    java: int
    consumers: int


@dataclass(slots=True)
class Result:
    """What a run did, in numbers."""

    cycles: int = 0
    seconds: float = 0.0
    messages: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """Stored acceptances, by library."""
    again: int = 0
    """Deliveries that were not the first."""
    wrong: list[str] = field(default_factory=list)


class Worker:
    """A process with some consumers; killed and begun again as another one."""

    def __init__(self, library: str, words: Sequence[str], home: Path, number: int) -> None:
        self.library = library
        self._words = words
        self._path = home / f"{library}-{number}"
        self._lives = 0
        self._marks: dict[Path, int] = {}
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        self._lives += 1
        with Path(f"{self.name}.log").open("w") as log:
            self._process = subprocess.Popen(  # noqa: S603 (our own command, or java)
                [*self._words, self.name], stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """kill -9."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    @property
    def name(self) -> str:
        """The beginning of its files' names."""
        return f"{self._path}-{self._lives}"

    def _diaries(self) -> list[Path]:
        return list(self._path.parent.glob(f"{self._path.name}-{self._lives}-*.diary"))

    def mark(self) -> None:
        """Forget what it has done until now."""
        self._marks = {path: path.stat().st_size for path in self._diaries()}

    def has_done(self) -> bool:
        """Whether one of its consumers has had an acceptance stored since the mark."""
        for path in self._diaries():
            with path.open("rb") as diary:
                diary.seek(self._marks.get(path, 0))
                if b"\ndone " in b"\n" + diary.read():
                    return True
        return False

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(PATIENCE_S)
        assert code == 0, f"{self.name} ended with {code}"


def crew_of(kafka: ApacheKafka, servers: str, home: Path, crew: Crew) -> list[Worker]:
    words = (servers, TOPIC, GROUP, f"{crew.consumers}")
    source = Path(__file__).with_name("ShareWorkers.java")
    jvm = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    java = (*kafka.command(*jvm), str(source), *words)
    ours = (sys.executable, "-m", "tests.chaos.sharing", *words)
    workers = [Worker("ours", ours, home, number) for number in range(crew.ours)]
    return workers + [Worker("java", java, home, number) for number in range(crew.java)]


class Scene:
    """The cluster, the consumers, and a producer of work."""

    def __init__(self, home: Path, seed: int, on_end: ExitStack) -> None:
        self.home = home
        self.cluster = Cluster(
            brokers=len(NODES), directory=str(home / "cluster"), settings=SETTINGS
        )
        on_end.enter_context(self.cluster)
        servers = self.cluster.bootstrap_servers
        self.admin = on_end.enter_context(Admin(bootstrap_servers=servers))
        self.producer = on_end.enter_context(Producer(bootstrap_servers=servers, linger_ms=5))
        self.random = Random(seed)
        self.sent = 0

    def prepare(self) -> None:
        self.admin.create_topics([NewTopic(TOPIC, 1, len(NODES), {"min.insync.replicas": "2"})])
        self.admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=OF_GROUP)

    def send(self, count: int) -> None:
        for _ in range(count):
            self.producer.send(TOPIC, b"%d" % self.sent)
            self.sent += 1

    def await_all(self, workers: Sequence[Worker]) -> None:
        """Send a little until each process that runs has work done."""
        until, waiting = time.monotonic() + PATIENCE_S, Event()
        while idle := [each.name for each in workers if not each.has_done()]:
            if time.monotonic() > until:
                raise AssertionError(f"these get nothing done: {idle}")
            self.send(TRICKLE)
            self.producer.flush()
            waiting.wait(LOOK_S)

    def start_offset(self) -> int:
        """Where the group stands; -1 if that is not known now."""
        with suppress(KafkaError):
            found = ShareGroupAdmin(self.admin).offsets(GROUP).get(WHERE)
            return -1 if found is None or found.start is None else found.start
        return -1

    def await_start(self, offset: int) -> None:
        """Wait until all records before the offset are done."""
        until, waiting = time.monotonic() + PATIENCE_S, Event()
        while (at := self.start_offset()) < offset:
            if time.monotonic() > until:
                raise AssertionError(f"the group stands at {at}, and not at {offset}")
            waiting.wait(LOOK_S)


def run_queue_chaos(
    home: Path, kafka: ApacheKafka, crew: Crew, *, cycles: int, messages: int, tell: Tell
) -> Result:
    """So many kills, of a process of consumers and of a broker in turn."""
    result, began = Result(), time.monotonic()
    with ExitStack() as on_end:
        scene = Scene(home, cycles, on_end)
        scene.prepare()
        workers = crew_of(kafka, scene.cluster.bootstrap_servers, home, crew)
        for each in workers:
            on_end.callback(each.kill)
        scene.await_all(workers)
        for cycle in range(cycles):
            at = scene.start_offset()
            scene.send(messages // cycles // 2)
            what = _strike(scene, workers, cycle, messages // cycles // 2)
            result.kills[what.split()[0]] += 1
            result.cycles += 1
            scene.await_start(at + 1)
            for each in workers:
                each.mark()
            scene.await_all(workers)
            tell(f"{result.cycles:>3} of {cycles}: {what}, {scene.sent} sent")
        scene.producer.flush()
        scene.await_start(scene.sent)
        for each in workers:
            each.end()
        result.messages = scene.sent
    _judge(home, result)
    result.seconds = time.monotonic() - began
    return result


def _strike(scene: Scene, workers: list[Worker], cycle: int, count: int) -> str:
    """Kill a worker or a broker while so many records are sent. Return its name."""
    if cycle % 2 == 0:
        worker = workers[cycle // 2 % len(workers)]
        worker.kill()
        scene.send(count)
        worker.start()
        return f"consumers of {worker.library}"
    leader = scene.cluster.leader_of(TOPIC)
    victim = leader if cycle % 4 == 1 else scene.random.choice(NODES)
    scene.cluster.kill(victim)
    scene.send(count)
    scene.producer.flush()
    scene.cluster.start(victim)
    scene.cluster.await_in_sync(TOPIC, within=PATIENCE_S)
    return f"broker {victim}" + ", the leader" * (victim == leader)


def _judge(home: Path, result: Result) -> None:
    """Read the diaries."""
    said: set[int] = set()
    done: Counter[int] = Counter()
    got: Counter[tuple[int, int]] = Counter()
    for path in home.glob("*.diary"):
        library = path.name.split("-")[0]
        for word, offsets in _lines(path):
            if word == "got":
                got.update((int(at), int(count)) for at, _, count in map(_parted, offsets))
            elif word == "said":
                said.update(map(int, offsets))
            else:
                done.update(map(int, offsets))
                result.done[library] += len(offsets)
    kills = result.kills.total()
    result.again = sum(times for (_, count), times in got.items() if count > 1)
    lost = [at for at in range(result.messages) if at not in said]
    twice = [at for at, times in done.items() if times > 1]
    high = [pair for pair in got if not 1 <= pair[1] <= min(LIMIT, kills + 1)]
    same = [pair for pair, times in got.items() if times > result.kills["broker"] + 1]
    for name, found in (
        ("lost", lost),
        ("accepted twice", twice),
        ("counted beyond what was killed", high),
        ("given twice with one count", same),
        ("not sent", [at for at in said if at >= result.messages]),
    ):
        if found:
            result.wrong.append(f"{len(found)} {name}: {found[:10]}")


def _parted(word: str) -> tuple[str, str, str]:
    return word.partition(":")


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The lines of a diary; the last one may have been cut by a kill, and then its end is left."""
    with path.open() as lines:
        for line in lines:
            word, *offsets = line.split()
            yield word, offsets if line.endswith("\n") else offsets[:-1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.queues", description=__doc__)
    parser.add_argument("--cycles", type=int, default=25)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--ours", type=int, default=2, help="processes of our consumers")
    parser.add_argument("--java", type=int, default=2, help="processes of Java's consumers")
    parser.add_argument("--consumers", type=int, default=5, help="in each process")
    given = parser.parse_args()
    crew = Crew(given.ours, given.java, given.consumers)
    with tempfile.TemporaryDirectory(prefix="moldau-queues-") as home:
        result = run_queue_chaos(
            Path(home), fetch(), crew, cycles=given.cycles, messages=given.messages, tell=say
        )
    say(f"{result.messages} messages, {result.cycles} kills, {result.seconds:.0f} s")
    say(f"accepted: {dict(result.done)}; {result.again} deliveries after the first")
    for line in result.wrong:
        say(line)
    say("wrong" if result.wrong else "none lost, none accepted twice, delivery counts are right")
    return 1 if result.wrong else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
