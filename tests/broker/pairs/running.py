"""Runs a case: a copy from topic to topic by a group of two, while the cluster changes or fails."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from moldau.client import EARLIEST, LATEST, KafkaError, NewTopic, TopicPartition
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.admin.quotas import QuotaEntity
from moldau.client.admin.sync.quotas import QuotaAdmin
from moldau.client.base.offsets import EARLIEST_LOCAL
from moldau.client.sync import Admin, Consumer
from moldau.ids import Uuid
from moldau.testing import Cluster
from moldau.testing.cluster import Layout
from tests.broker.pairs.client import PATIENCE_S, Client, ClientFailed
from tests.broker.pairs.copiers import Job, number_of
from tests.broker.pairs.door import PREFIX, Door, admin_settings, opened_door
from tests.broker.pairs.ends import EndsWatch
from tests.broker.pairs.model import (
    PARTITIONS,
    RECORDS,
    Ends,
    Piece,
    ends_problems,
    pieces,
    problems,
    wanted,
)
from tests.broker.pairs.shards import ShardedHost

_ENDS_MS: Final = 60_000
_LOOK_S: Final = 0.2
_PAUSE_S: Final = 3.0
_CUTS: Final = 4
_NEW_TOPICS: Final = 8
_SETTINGS: Final = {
    "auto.create.topics.enable": "false",  # a reader would make a deleted topic again, its own way
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "log.initial.task.delay.ms": "100",
}
_TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "usual": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "small segments": {"segment.bytes": "1048576", "segment.ms": "100"},
    "short retention": {"segment.bytes": "1048576", "segment.ms": "100"},
    "tiered": {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "1000",
        "local.retention.bytes": "1",
        "file.delete.delay.ms": "0",
    },
}
_RESTING: Final = threading.Event()
"""Never set: a rest between two looks."""
_numbers: Final = count(1)


class Scene:
    """A cluster, and the way to it."""

    def __init__(self, nodes: str, *, is_secure: bool, home: str) -> None:
        self.cluster: Cluster | ShardedHost
        store = Path(home, "remote")
        store.mkdir()
        settings = {**_SETTINGS, "remote.storage": f"file://{store}"}
        if nodes == "2 shards":
            self.cluster = ShardedHost(home, settings, is_secure=is_secure)
        else:
            layout = Layout(is_secure=is_secure)
            self.cluster = Cluster(int(nodes), directory=home, settings=settings, layout=layout)
        self.home = home
        self.replicas = 3 if nodes == "3" else 1
        self.door: Door
        self.admin: Admin

    def open(self, on_end: ExitStack) -> None:
        on_end.enter_context(self.cluster)
        self.door = opened_door(self.cluster)
        self.admin = on_end.enter_context(Admin(admin_settings(self.cluster)))

    def victim(self, topic: str) -> int:
        """The node that leads the first partition."""
        found = self.admin.describe_topics([topic])[topic]
        assert not isinstance(found, KafkaError), found
        leader = found.partitions[0].leader
        return leader if leader in self.cluster.broker_ids else self.cluster.broker_ids[0]


class Scenes:
    """The clusters of all cases, each made when a case first needs it."""

    def __init__(self, on_end: ExitStack) -> None:
        self._on_end = on_end
        self._made: dict[tuple[str, str], Scene] = {}

    def of(self, case: Mapping[str, str]) -> Scene:
        """Return the cluster of a case."""
        key = case["nodes"], case["door"]
        if key not in self._made:
            home = self._on_end.enter_context(tempfile.TemporaryDirectory(prefix="moldau-pairs-"))
            scene = Scene(key[0], is_secure=key[1] == "secure", home=home)
            scene.open(self._on_end)
            self._made[key] = scene
        return self._made[key]


def run_case(scene: Scene, case: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the copy."""
    name = f"{PREFIX}{next(_numbers)}"
    other = (f"{name}-other",) if case["change"] == "other topic made anew" else ()
    job = Job(case, scene.door, f"{name}-source", f"{name}-target", name, other)
    found: list[str] = []
    with ExitStack() as on_end:
        client = Client(job, Path(scene.home) / f"{name}.log")
        on_end.enter_context(client)
        on_end.enter_context(_topics(scene, case, job))
        try:
            found += _copied_wrong(scene, case, job, client)
        except (ClientFailed, KafkaError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def _copied_wrong(scene: Scene, case: Mapping[str, str], job: Job, client: Client) -> list[str]:
    sent = pieces(case)
    half = len(sent) // 2
    client.send(sent[:half])
    if case["topic"] == "tiered":
        _await_remote(scene, job)
    client.copy()
    is_whole = case["topic"] == "short retention" or case["change"] == "source made anew"
    _await(scene, job, _seen(case, half) if is_whole else _seen(case)[: RECORDS // 8])
    if case["topic"] == "short retention":
        _retire(scene, job)
    is_anew = case["change"] == "source made anew"
    if is_anew:
        _make_source_anew(scene, case, job, client, sent[half:])
    else:
        _change(scene, case, job)
    found = _placement_problems(scene, job) if case["change"] == "new topics" else []
    found += _fault(scene, case, job, client)
    if not is_anew:
        client.send(sent[half:])
    copied = _await(scene, job, _seen(case))
    errors = client.stop()
    found += problems(case, _copied(scene, job, dict.fromkeys(copied, ())))
    if errors and case["fault"] == "none" and case["change"] == "none":
        found += [f"an error without a fault: {each}" for each in errors[:3]]
    if found and errors:
        found.append(f"errors of the library: {errors[:5]}")
    return found


def _seen(case: Mapping[str, str], count: int | None = None) -> list[int]:
    """The numbers that have to come, in the order of the source; those of the first pieces."""
    last = max(number for piece in pieces(case)[:count] for number in piece.numbers)
    every = [number for numbers in wanted(case).values() for number in numbers]
    return sorted(number for number in every if number <= last)


@contextmanager
def _topics(scene: Scene, case: Mapping[str, str], job: Job) -> Iterator[None]:
    settings = _settings(scene, case)
    names = (job.source, job.target, *job.also_read)
    made = scene.admin.create_topics(
        [NewTopic(each, PARTITIONS, scene.replicas, settings) for each in names]
    )
    assert not [each for each in made.values() if isinstance(each, KafkaError)], made
    if case["group"] == "share":
        earliest = {"share.auto.offset.reset": "earliest"}
        scene.admin.alter_configs(Resource(ResourceType.GROUP, job.name), set_to=earliest)
    limited = QuotaEntity(client_id=job.name)
    if case["quota"] == "bytes":
        QuotaAdmin(scene.admin).alter(limited, {"producer_byte_rate": 50_000.0})
    try:
        yield
    finally:
        if case["quota"] == "bytes":
            QuotaAdmin(scene.admin).alter(limited, {}, unset=["producer_byte_rate"])
        scene.admin.delete_topics(list(names))


def _settings(scene: Scene, case: Mapping[str, str]) -> dict[str, str]:
    """The settings of the topics of a case."""
    enough = "2" if scene.replicas == 3 else "1"
    return {**_TOPICS[case["topic"]], "min.insync.replicas": enough}


def _change(scene: Scene, case: Mapping[str, str], job: Job) -> None:
    """Change the cluster under the copiers."""
    admin, change = scene.admin, case["change"]
    if change == "partitions":
        for each in (job.source, job.target):
            admin.create_partitions(each, PARTITIONS + 2)
    elif change == "settings":
        for each in (job.source, job.target):
            admin.alter_configs(
                Resource(ResourceType.TOPIC, each), set_to={"index.interval.bytes": "1024"}
            )
    elif change == "other topic made anew":
        (other,) = job.also_read
        _make_anew(admin, NewTopic(other, PARTITIONS, scene.replicas))
    elif change == "leader":
        ids = list(scene.cluster.broker_ids)
        replicas = {
            TopicPartition(topic, index): [
                ids[(index + n) % len(ids)] for n in range(scene.replicas)
            ]
            for topic in (job.source, job.target)
            for index in range(PARTITIONS)
        }
        admin.alter_partition_reassignments(replicas)
        admin.elect_leaders(list(replicas))


def _placement_problems(scene: Scene, job: Job) -> list[str]:
    """Make small topics, one after the other. Return those that do not begin on a broker which led
    the fewest partitions, by their preferred leaders."""
    names = [f"{job.name}-new-{each}" for each in range(_NEW_TOPICS)]
    found, before = [], _preferred(scene)
    for name in names:
        scene.admin.create_topic(NewTopic(name, 1, scene.replicas))
        after = _preferred(scene, name)
        (leader,) = after.pop(name)
        counts = dict.fromkeys(scene.cluster.broker_ids, 0)
        for each in (each for leaders in after.values() for each in leaders):
            counts[each] += 1
        if after.keys() == before.keys() and counts[leader] > min(counts.values()):
            found.append(f"{name} begins on {leader}: {counts}")
        before = {**after, name: [leader]}
    scene.admin.delete_topics(names)
    return found


def _preferred(scene: Scene, newest: str | None = None) -> dict[str, list[int]]:
    """Return the preferred leader of each partition of all topics, as soon as the broker that is
    asked knows the newest one."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = {
            topic.name: [each.replicas[0] for each in topic.partitions]
            for topic in scene.admin.list_topics(internal=True)
        }
        if newest is None or newest in found:
            return found
        assert time.monotonic() < until, f"{newest} does not come up"
        _RESTING.wait(_LOOK_S)


def _retire(scene: Scene, job: Job) -> None:
    """Let retention delete what the source has. It was copied, and its offsets may be committed or
    not: the copiers go on behind it."""
    admin, source = scene.admin, Resource(ResourceType.TOPIC, job.source)
    where = [TopicPartition(job.source, index) for index in range(PARTITIONS)]
    admin.alter_configs(source, set_to={"retention.ms": "1"})
    until = time.monotonic() + PATIENCE_S
    ends = {each: found.offset for each, found in _offsets(admin, where, LATEST).items()}
    while ends != {each: found.offset for each, found in _offsets(admin, where, EARLIEST).items()}:
        assert time.monotonic() < until, "retention has not deleted the records"
        _RESTING.wait(_LOOK_S)
    admin.alter_configs(source, unset=["retention.ms"])


def _await_remote(scene: Scene, job: Job) -> None:
    """Wait until no broker has the first records of the source: the copiers get them from the
    remote store."""
    where = [TopicPartition(job.source, index) for index in range(PARTITIONS)]
    until = time.monotonic() + PATIENCE_S
    while any(not each.offset for each in _offsets(scene.admin, where, EARLIEST_LOCAL).values()):
        assert time.monotonic() < until, "segments stay on the brokers"
        _RESTING.wait(_LOOK_S)


def _offsets(admin: Admin, where: Sequence[TopicPartition], which: int) -> Any:
    return admin.list_offsets(dict.fromkeys(where, which))


def _make_anew(admin: Admin, topic: NewTopic) -> None:
    """Delete a topic, and create it; a reader that asks for it may have the broker do that."""
    before = _id_of(admin, topic.name)
    admin.delete_topic(topic.name)
    until = time.monotonic() + PATIENCE_S
    why: KafkaError | None = None
    while _id_of(admin, topic.name) in (before, None):
        assert time.monotonic() < until, f"the topic is not made anew: {why}"
        try:
            admin.create_topic(topic)
        except KafkaError as error:
            why = error
        _RESTING.wait(_LOOK_S)


def _make_source_anew(
    scene: Scene, case: Mapping[str, str], job: Job, client: Client, sent: Sequence[Piece]
) -> None:
    """Make the source anew, and send as many records as it had, before a copier looks at it: its
    position is one in the new topic, too."""
    topic = NewTopic(job.source, PARTITIONS, scene.replicas, _settings(scene, case))
    with client.paused(), Client(job, Path(scene.home) / f"{job.name}-sender.log") as sender:
        _make_anew(scene.admin, topic)
        sender.send(sent)


def _id_of(admin: Admin, topic: str) -> Uuid | None:
    found = admin.describe_topics([topic])[topic]
    return None if isinstance(found, KafkaError) else found.topic_id


def _fault(scene: Scene, case: Mapping[str, str], job: Job, client: Client) -> list[str]:
    """The node that leads the target is away for a while, or all nodes, or the client. Return what
    is wrong with the ends that nodes tell then."""
    cluster, fault = scene.cluster, case["fault"]
    if fault == "none":
        return []
    if fault == "kill client":
        client.begin_again()
        return []
    if fault == "disconnect":
        _disconnect(client)
        return []
    before = _ends(scene, job)
    victim = scene.victim(job.target)
    found: list[str]
    if fault == "kill all":
        with EndsWatch(*_reader_of_ends(scene, job)) as watch:
            _kill_all(scene)
        found = watch.problems
    elif fault == "pause":
        cluster.pause(victim)
        _RESTING.wait(_PAUSE_S)
        cluster.resume(victim)
        found = ends_problems(before, _ends(scene, job))
    else:
        (cluster.kill if fault == "kill" else cluster.stop)(victim)
        found = ends_problems(before, _ends(scene, job)) if scene.replicas > 1 else []
        cluster.start(victim)
        found += ends_problems(before, _ends(scene, job))
    if isinstance(cluster, Cluster) and scene.replicas > 1:
        for each in (job.source, job.target):
            cluster.await_in_sync(each, within=PATIENCE_S)
    return found


def _disconnect(client: Client) -> None:
    """End the client's connections several times: some while requests are in flight."""
    found = client.disconnect()
    for _ in range(_CUTS - 1):
        _RESTING.wait(_LOOK_S)
        found += client.disconnect()
    assert found, "it has no connection"


def _kill_all(scene: Scene) -> None:
    """Kill all nodes together, and start them again."""
    cluster = scene.cluster
    if isinstance(cluster, ShardedHost):
        cluster.kill_all()
        cluster.launch_all()
        return
    for each in cluster.broker_ids:
        cluster.kill(each)
    for each in cluster.broker_ids:
        cluster.launch(each)
    for each in cluster.broker_ids:
        cluster.await_up(each)


def _ends(scene: Scene, job: Job) -> Ends:
    """Return the ends of the source: nothing is sent to it meanwhile."""
    settings, where = _reader_of_ends(scene, job)
    with Consumer(settings) as consumer:
        return {each.partition: end for each, end in consumer.end_offsets(where).items()}


def _reader_of_ends(scene: Scene, job: Job) -> tuple[dict[str, str], list[TopicPartition]]:
    """The settings of a consumer that asks for ends, and what it asks for."""
    settings = {
        **admin_settings(scene.cluster),
        "isolation.level": job.case["isolation"],
        "default.api.timeout.ms": str(_ENDS_MS),
    }
    return settings, [TopicPartition(job.source, index) for index in range(PARTITIONS)]


def _await(scene: Scene, job: Job, numbers: Sequence[int]) -> dict[int, list[int]]:
    """Wait until these records are in the target, and return those that are there."""
    until, copied = time.monotonic() + PATIENCE_S, dict[int, list[int]]()
    while True:
        copied = _copied(scene, job, {})
        if not set(numbers) - {number for each in copied.values() for number in each}:
            return copied
        if time.monotonic() > until:
            return copied
        _RESTING.wait(_LOOK_S)


def _copied(scene: Scene, job: Job, more: Mapping[int, Any]) -> dict[int, list[int]]:
    """Return the committed records of the target, by partition."""
    found: dict[int, list[int]] = {index: [] for index in more}
    settings = {
        **admin_settings(scene.cluster),
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        where = consumer.partitions(job.target)
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in consumer.poll(1.0):
                numbers = [number_of(each.value) for each in part.records]
                found.setdefault(part.partition, []).extend(numbers)
    return found
