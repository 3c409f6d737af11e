"""Three real nodes that are killed, paused, cut off and refused by their disks, singly and in
pairs, under load from idempotent producers of three libraries; judged by their history.

What is promised with acks=all, three replicas and two in sync: nothing that was acknowledged is
lost, nothing stands twice, and each producer's records keep their order. Replicas are equal in the
end. Not repeatable as a simulation is: the seed draws the faults, the machine the rest.

A disk that is full: the process may not write to its files any more (RLIMIT_FSIZE), so that every
write is refused, also those of its log.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from moldau.client.sync import Admin, Consumer, NewTopic, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Topic
from moldau.records import walk
from moldau.testing import Cluster, history
from moldau.testing.anomalies import Anomaly, find_anomalies
from moldau.testing.history import Copy, Read, ReadAll, events_of
from tests.chaos.proxy import HOST, Proxies

TOPIC: Final = "chaos"
PARTITIONS: Final = 6
NODES: Final = (1, 2, 3)
HEAL_S: Final = 180.0
LOOK_S: Final = 0.25
SETTINGS: Final = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
"""The proxies accept for a node that is gone, so only its silence tells."""
AUDITOR: Final = "auditor"
MODULES: Final = {"ours": "moldau", "librdkafka": "confluent_kafka", "aiokafka": "aiokafka"}
Undo = Callable[[], None]
Tell = Callable[[str], object]


class NotHealed(AssertionError):
    """The cluster did not get going again."""


@dataclass(slots=True)
class Result:
    """What a run did, in numbers."""

    cycles: int = 0
    seconds: float = 0.0
    records: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    heal_seconds: list[float] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)


class Load:
    """A producer process, and its history."""

    def __init__(self, library: str, servers: str, home: Path, rate: float) -> None:
        self.library = library
        self._path = home / library
        words = [library, servers, TOPIC, str(PARTITIONS), str(rate), str(self._path)]
        with (home / f"{library}.log").open("a") as errors:
            self._process = subprocess.Popen(  # noqa: S603 (our own command)
                [sys.executable, "-m", "tests.chaos.producing", *words],
                stdin=subprocess.PIPE,
                stderr=errors,
            )

    def events(self, index: int) -> Iterator[history.Event]:
        path = Path(f"{self._path}-{index}.jsonl")
        with path.open() as lines:
            yield from events_of(lines)

    def settled_bytes(self) -> int:
        """Grows while records are acknowledged."""
        paths = (Path(f"{self._path}-{index}.jsonl") for index in range(PARTITIONS))
        return sum(path.stat().st_size for path in paths if path.exists())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(HEAL_S + 60)
        assert code == 0, f"{self.library} ended with {code}"

    def abandon(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Nodes:
    """The cluster behind its proxies, and what may happen to a node."""

    def __init__(self, home: Path, on_end: ExitStack) -> None:
        self.cluster = cluster = Cluster(
            brokers=len(NODES), directory=str(home / "cluster"), settings=SETTINGS
        )
        self.proxies = on_end.enter_context(Proxies())
        cluster.prepare()
        on_end.callback(cluster.close)
        count = len(NODES)
        self._ports = {
            number: (cluster.ports[number - 1], cluster.ports[count + number - 1])
            for number in NODES
        }
        ways = {
            number: [self.proxies.add(port) for port in ports]
            for number, ports in self._ports.items()
        }
        voters = ",".join(f"{number}@{HOST}:{way[1]}" for number, way in ways.items())
        for number, (clients, controllers) in ways.items():
            cluster.own_settings[number] = {
                "advertised.listeners": f"PLAINTEXT://{HOST}:{clients},"
                f"CONTROLLER://{HOST}:{controllers}",
                "controller.quorum.voters": voters,
            }
        self.bootstrap_servers = ",".join(f"{HOST}:{way[0]}" for way in ways.values())
        self._starting: dict[int, None] = {}
        for number in NODES:
            self._launch(number)
        self.await_up()

    def kill(self, number: int) -> Undo:
        self.cluster.kill(number)
        return lambda: self._launch(number)

    def pause(self, number: int) -> Undo:
        self.cluster.pause(number)
        return lambda: self.cluster.resume(number)

    def cut(self, number: int) -> Undo:
        """Nobody reaches the node; it reaches the others."""
        for port in self._ports[number]:
            self.proxies.cut(port)

        def mend() -> None:
            for port in self._ports[number]:
                self.proxies.reset(port)
                self.proxies.mend(port)

        return mend

    def fill(self, number: int) -> Undo:
        """Its disk takes nothing more."""
        limits = (1, resource.RLIM_INFINITY)
        resource.prlimit(self.cluster.process_id(number), resource.RLIMIT_FSIZE, limits)

        def empty() -> None:
            self.cluster.kill(number)
            self._launch(number)

        return empty

    def _launch(self, number: int) -> None:
        self.cluster.launch(number)
        self._starting[number] = None

    def await_up(self) -> None:
        """Every node has a process and takes clients; one that ended by itself is started."""
        for number in NODES:
            if number not in self._starting and self.cluster.exit_code(number) is not None:
                self._launch(number)
        for number in list(self._starting):
            self.cluster.await_up(number)
            del self._starting[number]


def run_cluster_chaos(
    home: Path, seed: int, cycles: int, tell: Tell, *, rate: float = 300.0
) -> Result:
    """So many cycles, each with one or two faults at a time. NotHealed if the cluster does not get
    going again; anomalies of the history are in the result."""
    random, result, began = Random(seed), Result(), time.monotonic()
    with ExitStack() as on_end:
        nodes = Nodes(home, on_end)
        with Admin(bootstrap_servers=nodes.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(NODES))])
        loads = [
            Load(library, nodes.bootstrap_servers, home, rate)
            for library, module in MODULES.items()
            if find_spec(module) is not None
        ]
        for load in loads:
            on_end.callback(load.abandon)
        await_more(loads)
        for _ in range(cycles):
            faults = _strike(nodes, random)
            result.faults.update(faults)
            healed_s = _await_whole(nodes)
            await_more(loads)
            result.cycles += 1
            result.heal_seconds.append(healed_s)
            tell(
                f"{result.cycles:>3} of {cycles}: {' and '.join(faults)},"
                f" whole again in {healed_s:.1f} s"
            )
        for load in loads:
            load.end()
        _await_whole(nodes)
        for index in range(PARTITIONS):
            judge(nodes.bootstrap_servers, loads, index, result)
        for number in NODES:
            nodes.cluster.stop(number)
        for index in range(PARTITIONS):
            result.anomalies += find_anomalies(copies(nodes.cluster, index))
    result.seconds = time.monotonic() - began
    return result


def _strike(nodes: Nodes, random: Random) -> list[str]:
    """One fault, or two at a time on two nodes, for a while; their names."""
    waiting = Event()
    kinds = (nodes.kill, nodes.pause, nodes.cut, nodes.fill)
    victims = random.sample(NODES, random.choice((1, 1, 2)))
    names: list[str] = []
    undos: list[Undo] = []
    for victim in victims:
        kind = random.choice(kinds)
        undos.append(kind(victim))
        names.append(f"{kind.__name__} {victim}")
        waiting.wait(random.random())
    waiting.wait(random.choice((0.5, 2.0, 12.0)) * random.random())
    for undo in undos:
        undo()
    return names


def _await_whole(nodes: Nodes) -> float:
    """Until all replicas are in sync; the seconds that it took."""
    began, waiting = time.monotonic(), Event()
    with Admin(bootstrap_servers=nodes.bootstrap_servers, request_timeout_ms=5000) as admin:
        nodes.await_up()
        while not _is_whole(admin):
            nodes.await_up()
            if time.monotonic() - began > HEAL_S:
                raise NotHealed(f"not whole after {HEAL_S} s; logs in {nodes.cluster.directory}")
            waiting.wait(LOOK_S)
    return time.monotonic() - began


def _is_whole(admin: Admin) -> bool:
    with suppress(KafkaError):
        found = admin.describe_topics([TOPIC])[TOPIC]
        if isinstance(found, Topic):
            return all(len(each.isr) == len(NODES) for each in found.partitions)
    return False


def await_more(loads: list[Load]) -> None:
    """Every producer gets something acknowledged."""
    before = {load.library: load.settled_bytes() for load in loads}
    until, waiting = time.monotonic() + HEAL_S, Event()
    while stuck := [each.library for each in loads if each.settled_bytes() <= before[each.library]]:
        if time.monotonic() > until:
            raise NotHealed(f"producers get nothing done: {stuck}")
        waiting.wait(LOOK_S)


def judge(servers: str, loads: list[Load], index: int, result: Result) -> None:
    """One partition: its records take memory."""
    sent: list[history.Event] = []
    for load in loads:
        own = list(load.events(index))
        told = sum(1 for each in own if getattr(each, "offset", -1) >= 0)
        result.acknowledged[load.library] += told
        sent += own
    last = max((getattr(each, "offset", -1) for each in sent), default=-1)
    read: list[history.Event] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, index)])
        while not read or getattr(read[-1], "offset", -1) < last:
            for part in consumer.poll(1.0):
                read.extend(
                    Read(
                        AUDITOR, f"{TOPIC}-{index}", each.offset, bytes(each.value or b"").decode()
                    )
                    for each in part.records
                )
    result.records += len(read)
    result.anomalies += find_anomalies([*sent, *read, ReadAll(AUDITOR)])


def copies(cluster: Cluster, index: int) -> Iterator[Copy]:
    """The batches of each replica, from the files of stopped nodes."""
    for number in NODES:
        folder = Path(cluster.data_of(number)) / f"{TOPIC}-{index}"
        for segment in sorted(folder.glob("*.log")):
            for batch in walk(segment.read_bytes()):
                digest = hashlib.blake2b(batch.data, digest_size=8).hexdigest()
                yield Copy(f"b{number}", f"{TOPIC}-{index}", batch.header.base_offset, digest)
