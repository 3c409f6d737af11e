"""`moldau cluster roll`, `check` and `balance` on three real nodes that clients use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.runtime.node_processes import MAIN, free_ports_in_row
from moldau.runtime.places import host_name
from tests.cli.cluster_logs import ends_of_logs
from tests.cli.running_cluster import pid_of, running
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]

TOPIC = "rolled"
PARTITIONS = 6
HEAVY = 6
"""Partitions of the topic that is too much for one broker."""
IDS = (1, 2, 3)
PAUSE_S_MAX = 10.0
"""Of a write; 0.43 s was measured on two busy cores."""


class Three(NamedTuple):
    data: Path
    servers: str
    shell: Shell


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    data, port = tmp_path_factory.mktemp("roll") / "cluster", free_ports_in_row(6)
    servers = ",".join(f"localhost:{port + each}" for each in range(3))
    with running(data, port, 3):
        yield Three(data, servers, Shell(servers))


class Writing:
    """A producer that waits for each record; when each was acknowledged."""

    def __init__(self, servers: str) -> None:
        self.places: dict[bytes, TopicPartition] = {}
        self.pause_s_longest = 0.0
        self._servers = servers
        self._is_ending = Event()
        self._thread = Thread(target=self._run)
        self.error: Exception | None = None

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._servers, acks="all") as producer:
                while not self._is_ending.is_set():
                    value = b"%d" % len(self.places)
                    begun = monotonic()
                    sent = producer.send_and_wait(
                        TOPIC, value, partition=len(self.places) % PARTITIONS
                    )
                    self.places[value] = TopicPartition(TOPIC, sent.partition)
                    if len(self.places) > PARTITIONS:  # connections are there
                        self.pause_s_longest = max(self.pause_s_longest, monotonic() - begun)
        except Exception as error:  # told by the test
            self.error = error


class Reading:
    """A member of a group that counts what it reads."""

    def __init__(self, servers: str) -> None:
        self.seen: Counter[bytes] = Counter()
        self._servers = servers
        self._is_ending = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Reading:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def _run(self) -> None:
        with Consumer(
            bootstrap_servers=self._servers,
            group_id="readers",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_ending.is_set():
                self.seen.update(values_of(consumer, 0.2))


@contextmanager
def own_topic(three: Three, topic: NewTopic) -> Iterator[None]:
    """A topic of one test: others find none of it, in whatever order they run."""
    with Admin(bootstrap_servers=three.servers) as admin:
        admin.create_topics([topic])
        try:
            yield
        finally:
            admin.delete_topics([topic.name])


def values_of(consumer: Consumer[bytes, bytes], seconds: float) -> list[bytes]:
    return [bytes(r.value or b"") for part in consumer.poll(seconds) for r in part.records]


def roll(three: Three, progress: Path) -> subprocess.Popen[str]:
    words = ["cluster", "roll", "--bootstrap", three.servers, "--data", str(three.data)]
    return subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, *words, "--progress", str(progress)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_roll_that_is_killed_goes_on_and_costs_no_record(three: Three, tmp_path: Path) -> None:
    progress = tmp_path / "roll.json"
    with Admin(bootstrap_servers=three.servers) as admin:
        eventually(lambda: three.shell("cluster", "check").code == 0)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        active = admin.describe_quorum().leader_id
    before = {each: pid_of(three.data, each) for each in IDS}
    dry = three.shell.good("cluster", "roll", "--data", str(three.data), "--dry-run", "--json").json
    order = [each["node"] for each in dry["steps"]]
    assert (sorted(order), order[-1], dry["pauses"]) == (list(IDS), active, [])
    with Reading(three.servers) as reading, Writing(three.servers) as writing:
        eventually(lambda: len(writing.places) > PARTITIONS)
        with roll(three, progress) as first:
            assert first.stdout is not None
            said = ""
            while "(2 of 3): restarts" not in said:
                line = first.stdout.readline()
                assert line, said + ends_of_logs(three.data)
                said += line
            first.kill()
        kept = json.loads(progress.read_text())
        assert (len(kept["done"]), kept["current"]) == (1, order[1])
        with roll(three, progress) as second:
            said, _ = second.communicate(timeout=300)
        assert second.returncode == 0, said + ends_of_logs(three.data)
        assert not progress.exists()
        assert writing.error is None, writing.error
        after = {each: pid_of(three.data, each) for each in IDS}
        assert all(after[each] != before[each] for each in IDS), "each has another process"
        written = {*list(writing.places)}
        eventually(lambda: len(writing.places) > len(written))
        eventually(lambda: reading.seen.keys() >= written)  # the group has read on
    assert writing.error is None
    with Consumer(bootstrap_servers=three.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, each) for each in range(PARTITIONS)])
        values: Counter[bytes] = Counter()
        while len(values) < len(writing.places):
            values.update(values_of(consumer, 5.0))
    assert values == Counter(writing.places.keys()), "nothing is lost, and nothing is doubled"
    print(f"longest pause of a write: {writing.pause_s_longest:.2f} s")
    assert writing.pause_s_longest < PAUSE_S_MAX
    leaders = three.shell.good("topic", "describe", TOPIC, "--json").json[0]["partitions"]
    assert all(each["leader"] == each["replicas"][0] for each in leaders), "preferred leaders"


def test_a_roll_waits_for_what_is_not_in_sync_and_names_it(three: Three, tmp_path: Path) -> None:
    words = ("cluster", "roll", "--restart", "false", "--nodes", "1", "--within", "2")
    with own_topic(three, NewTopic("waits", 1, 3)):
        os.kill(pid_of(three.data, 3), signal.SIGSTOP)
        try:
            eventually(lambda: "down" in three.shell.good("cluster", "describe").out)
            found = three.shell(*words, "--progress", str(tmp_path / "p"))
        finally:
            os.kill(pid_of(three.data, 3), signal.SIGCONT)
        assert found.code == 1
        assert "node 1 waits: broker 3 is down; " in found.err
        assert "not in sync on 3" in found.err
        assert not (tmp_path / "p").exists(), "no node was touched"
        eventually(lambda: three.shell("cluster", "check").code == 0)


def test_a_roll_refuses_what_cannot_work(three: Three, tmp_path: Path) -> None:
    words = ("cluster", "roll", "--progress", str(tmp_path / "p"))
    with own_topic(three, NewTopic("two", 1, 2)):
        refused = three.shell(*words, "--data", str(three.data))
    assert refused.code == 1
    assert "two 0 is unwritable: 1 in sync would be left, min.insync.replicas is 2" in refused.err
    eventually(lambda: three.shell("cluster", "check").code == 0)  # each node has heard: it is gone
    failed = three.shell(*words, "--restart", "false {id}", "--nodes", "2")
    assert failed.code == 1
    assert "node 2: false 2 ended with 1" in failed.err
    unknown = three.shell("cluster", "roll", "--restart", "true {name}", "--nodes", "2")
    assert "'name' is not known" in unknown.err


def test_rolls_of_two_hosts_see_each_other_in_the_cluster(three: Three, tmp_path: Path) -> None:
    """Each has its own file of progress, and neither knows the directory of the other."""
    goes_on = tmp_path / "goes-on"
    waits = f"sh -c 'until [ -e {goes_on} ]; do sleep 0.1; done'"
    other = ("cluster", "roll", "--restart", "true {id}", "--nodes", "2")
    words = ["cluster", "roll", "--bootstrap", three.servers, "--restart", waits, "--nodes", "1"]

    def begin(name: str) -> subprocess.Popen[str]:
        given = [sys.executable, "-c", MAIN, *words, "--progress", str(tmp_path / name)]
        begun = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert begun.stdout is not None
        assert begun.stdout.readline() == "node 1 (1 of 1): restarts\n"
        return begun

    eventually(lambda: three.shell("cluster", "check").code == 0)
    with begin("first") as first:
        refused = three.shell(*other, "--progress", str(tmp_path / "second"))
        place = f"{host_name()}, process {first.pid}"
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == f"moldau: another roll of this cluster runs: {place}\n"
        goes_on.touch()
        said, _ = first.communicate(timeout=300)
        assert (first.returncode, said.splitlines()[-1]) == (0, "restarted 1 node"), said
    assert three.shell.good(*other, "--progress", str(tmp_path / "second")).code == 0
    goes_on.unlink()
    with begin("third") as killed:
        killed.kill()
    goes_on.touch()
    assert three.shell.good(*other, "--progress", str(tmp_path / "second")).code == 0


def test_check_tells_what_a_dead_node_takes_away(three: Three) -> None:
    eventually(lambda: three.shell("cluster", "check").code == 0)
    with own_topic(three, NewTopic("alone", 1, 1)):
        found = three.shell("cluster", "check", "--json")
    assert found.code == 1
    risks = [each for each in found.json["risks"] if each["what"] == "alone"]
    assert [(each["kind"], each["partitions"]) for each in risks] == [
        ("unwritable", [0]),  # min.insync.replicas is 2
        ("unreadable", [0]),
    ]


def test_balance_moves_what_one_broker_has_too_much(three: Three) -> None:
    with own_topic(three, NewTopic("heavy", assignments=[[1]] * HEAVY)):
        with Producer(bootstrap_servers=three.servers) as producer:
            for number in range(500 * HEAVY):  # partitions of one size can be level
                producer.send("heavy", bytes(1000), partition=number % HEAVY)
            producer.flush()
        planned = three.shell.good("cluster", "balance", "--json").json
        assert planned["moved_replicas"] > 0
        again = three.shell.good("cluster", "balance", "--json").json
        assert again["plan"] == planned["plan"], "dry"
        done = three.shell(
            "cluster", "balance", "--execute", "--throttle", "50000000", "--at-once", "2"
        )
        assert done.code == 0, done
        again = three.shell.good("cluster", "balance", "--json").json
        assert (again["moved_replicas"], again["level"]) == (0, True)
        rate = "leader.replication.throttled.rate"
        assert _rate_of(three, rate) is None
        # What a call that died leaves behind.
        three.shell.good("config", "set", "broker", "1", f"{rate}=1000", "--force")
        eventually(lambda: _rate_of(three, rate) == "1000")
        assert three.shell("cluster", "balance", "--execute").code == 0
        eventually(lambda: _rate_of(three, rate) is None)


def _rate_of(three: Three, name: str) -> str | None:
    entries = three.shell.good("config", "describe", "broker", "1", "--json").json
    return next((each["value"] for each in entries if each["name"] == name), None)
