"""All replicas of a node: found by name or id, and started and stopped according to the metadata.

Invariants:
* For each name there is a replica that can serve, or an error with the reason why it cannot. One
  dictionary decides: a partition that failed, was deleted or has another leader is not in it.
* When a directory fails, its partitions go out of service and nothing else; a request that waits
  for one of them gets KAFKA_STORAGE_ERROR. An empty log is never created in place of one in a
  directory that is out of service.
* A log whose topic id differs from the metadata's is not opened for that topic: it is set aside
  with its files, or removed if its topic is known to have been deleted. A deleted log may come back
  after a crash: its new name becomes durable a little later than the deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from moldau.broker.log.checkpoint_job import POINTS, CheckpointWriter
from moldau.broker.log.cleaner import Cleaner
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.group_commit import GroupCommits
from moldau.broker.log.log_settings import cleaner_options, move_options, upkeep_options
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.open_files import advice
from moldau.broker.log.upkeep import Upkeep
from moldau.broker.replication.log_maker import LogMaker, MadeLog, MakeableLog
from moldau.broker.replication.moves import Moves
from moldau.broker.replication.partition import NOBODY, Leadership, Partition
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.quota import ReplicationQuotas
from moldau.broker.replication.topic_config import TopicConfig
from moldau.broker.replication.traffic import Traffic
from moldau.broker.replication.wanted_replicas import WantedReplica
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.logging import Logger
from moldau.runtime import Runtime

LOGS_MADE: Final = "logs made"
"""The key in the purgatory of operations that wait for the logs of new partitions."""
_UNIQUE_BYTES: Final = 16
_NS_PER_MS: Final = 1_000_000

Name = tuple[str, int]


class Replicas:
    """The replicas of one node. Created after `LogDirectories.load`, which may run in a thread;
    used on the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        node_id: int,
        purgatory: Purgatory,
        log: Logger,
    ) -> None:
        """Log the problems that loading found. `purgatory` is `Purgatory(runtime.clock, loop)`."""
        self.purgatory = purgatory
        self.directories = directories
        self.on_directory_failure: Callable[[LogDirectory], None] = lambda directory: None
        """Called after the partitions of a failed directory are out of service. The owner decides
        what a failure of the last directory means: see `directories.in_service()`."""
        self.deleted_topics: Callable[[], Mapping[Uuid, str | None]] = dict
        """Returns the topics that are known to have been deleted, at least recently, with their
        names if known. Called when a log is found that belongs to no topic."""
        self._runtime = runtime
        self._node_id = node_id
        self._log = log
        self._serving: dict[Name, Partition] = {}
        self._hosted: dict[Name, Partition] = {}
        self.hosted: Mapping[Name, Partition] = self._hosted
        """All partitions of which this node has a replica, by topic and number."""
        self._reasons: dict[Name, ErrorCode] = {}
        """The reason why a partition that is in the metadata does not serve."""
        self._ids: dict[Name, Uuid] = {}
        self._topics: dict[str, dict[int, None]] = {}
        self._names: dict[Uuid, str] = {}
        self._counts: dict[Uuid, int] = {}
        """The number of partitions of each topic id."""
        self.quotas = ReplicationQuotas()
        self.traffic = Traffic()
        self._commits = GroupCommits(runtime)
        writer = CheckpointWriter(runtime, log)
        self.upkeep = Upkeep(runtime, directories, self._commits, writer, log, self._on_log_starts)
        self.cleaner = Cleaner(runtime, directories, self._commits, writer, log)
        self.moves = Moves(runtime, directories, self._commits, writer, log)
        self.moves.on_moved = self._on_moved
        self.on_placed: Callable[[Partition, Uuid], None] = lambda partition, directory_id: None
        """Called when a replica is in another directory than in the metadata."""
        self.on_followed: Callable[[Partition], None] = lambda partition: None
        """Called when a partition begins to follow `leader_id`, or follows it in another epoch."""
        self.on_unfollowed: Callable[[Partition], None] = lambda partition: None
        """Called when a partition follows no leader any more."""
        self.on_made: Callable[[Partition], None] = lambda partition: None
        """Called when a partition begins to lead or follow some time after its metadata was
        published, because its log had to be made."""
        self._writer = writer
        self._maker = LogMaker(runtime, directories, writer, self._choose, self._on_round)
        directories.on_failure(self._on_failure)
        self._report()

    def _report(self) -> None:
        """Log the problems that loading has found."""
        for path, error in self.directories.unopened.items():
            self._log.failure("a log directory cannot be used", error, directory=path)
        for directory in self.directories.directories:
            for note in directory.notes:
                self._log.warn(note, directory=directory.path)
            if directory.failure is not None:
                self._report_failure(directory)

    # Called by handlers.

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this node leads. Raise UNKNOWN_TOPIC_OR_PARTITION,
        KAFKA_STORAGE_ERROR or NOT_LEADER_OR_FOLLOWER."""
        found = self._serving.get((topic, index))
        if found is None:
            code = self._reasons.get((topic, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise KafkaError(code, topic=topic, partition=index)
        return found

    def partition_by_id(self, topic_id: Uuid, index: int) -> Partition:
        """Return a partition like `partition`. Raise UNKNOWN_TOPIC_ID for an unknown id."""
        topic = self._names.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id.hex(), partition=index)
        return self.partition(topic, index)

    def readable(self, topic: str, index: int) -> Partition:
        """Return a partition like `partition`, or one that follows its leader: consumers may read
        there (KIP-392)."""
        place = topic, index
        found = self._serving.get(place)
        if found is None:
            found = self._hosted.get(place)
            if found is None or not found.is_following:
                return self.partition(topic, index)
        return found

    def readable_by_id(self, topic_id: Uuid, index: int) -> Partition:
        """Return a partition like `readable`. Raise UNKNOWN_TOPIC_ID for an unknown id."""
        topic = self._names.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id.hex(), partition=index)
        return self.readable(topic, index)

    def is_making(self, topics: Iterable[str]) -> bool:
        """Whether logs of these topics are still to be made. If so, operations that wait for
        LOGS_MADE are tried when some are made."""
        wanted = self._maker.wanted
        return bool(wanted) and any(map(wanted.has_any_of, topics))

    def find(self, topic: str, index: int) -> Partition | None:
        """Return a partition like `partition`, but None instead of an error."""
        return self._serving.get((topic, index))

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over all partitions that this node leads, in the order in which they came."""
        return iter(self._serving.values())

    async def log_starts_durable(self, partitions: Iterable[Partition]) -> None:
        """Wait until the current log starts are durable, so that they survive a loss of power. A
        disk that fails takes its directory out of service; its partitions then report the error."""
        known = list(dict.fromkeys(partitions))
        directories: dict[LogDirectory, None] = {}
        for each in known:
            await self.moves.settled(each)
            place = TopicPartition(each.topic, each.index)
            directory = self.directories.directory_of(place)
            if directory is None:
                continue
            directories[directory] = None
            if not each.log.durability.is_home_durable:
                with suppress(KafkaError):
                    await self._commits.of(directory).durable(each.log)
        for directory in directories:
            await self._writer.write(directory, *POINTS)
        for each in known:
            if each.log.failure is None:
                each.log.retention.forget_epochs()

    # Called when metadata is published.

    def lead(self, leadership: Leadership, config: TopicConfig) -> None:
        """Lead a partition: open its log, or create one if it is new. May be called again, with
        another epoch or ISR. A failure (a directory out of service) is not raised here, but by
        `partition`. If many logs are to be created, it leads later: see `LogMaker`. Until then
        handlers answer NOT_LEADER_OR_FOLLOWER, as Kafka does for a topic that is in the metadata
        but not on its disk."""
        partition = self._host(WantedReplica(leadership, config, is_led=True))
        if partition is not None:
            self._lead(partition, leadership, config)

    def _lead(self, partition: Partition, leadership: Leadership, config: TopicConfig) -> None:
        name = leadership.topic, leadership.index
        self.on_unfollowed(partition)
        partition.configure(config)
        partition.lead(leadership, self._node_id, self._runtime.clock.monotonic_ns() // _NS_PER_MS)
        self._serving[name] = partition
        self._reasons.pop(name, None)

    def follow(self, leadership: Leadership, config: TopicConfig) -> None:
        """Follow the leader on another broker: keep a copy of its log, perhaps a little later, as
        `lead` does. Without a leader, only note the partition. Handlers answer
        NOT_LEADER_OR_FOLLOWER."""
        name = leadership.topic, leadership.index
        if leadership.leader == NOBODY:
            self.resign(*name, leadership.topic_id, leadership.leader_epoch)
            return
        partition = self._host(WantedReplica(leadership, config, is_led=False))
        if partition is not None:
            self._follow(partition, leadership, config)

    def _follow(self, partition: Partition, leadership: Leadership, config: TopicConfig) -> None:
        self._refuse((leadership.topic, leadership.index), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.configure(config)
        partition.follow(leadership, self._node_id)
        self.on_followed(partition)

    def resign(self, topic: str, index: int, topic_id: Uuid, leader_epoch: int) -> None:
        """Stop leading or following: another broker leads, or none. Handlers answer
        NOT_LEADER_OR_FOLLOWER."""
        name = topic, index
        self._know(name, topic_id)
        if self._reasons.get(name) is ErrorCode.KAFKA_STORAGE_ERROR:
            return
        self._maker.wanted.withdraw(name)
        self._refuse(name, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._hosted.get(name)
        if partition is not None:
            self.on_unfollowed(partition)
            partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch)

    def remove(self, topic: str, index: int) -> None:
        """Remove a deleted partition: its log goes out of service now, and is deleted later. If its
        log is being made, it is deleted when it is there."""
        name = topic, index
        topic_id = self._ids.get(name)
        if topic_id is None:
            return
        self._forget(name)
        place = TopicPartition(topic, index)
        self.moves.call_off(place)
        directory = self.directories.directory_of(place)
        if directory is None or directory.failure is not None:
            return  # a log in a failed directory is set aside when the directory comes back
        if directory.topic_ids.get(place) == topic_id:
            self._delete(directory, place)

    def _delete(self, directory: LogDirectory, place: TopicPartition) -> None:
        try:
            directory.partitions.delete(place, self._unique(), self._now_ms())
        except KafkaError as error:
            self._log.failure("a deleted log cannot be removed", error, partition=str(place))

    def configure(self, topic: str, config: TopicConfig) -> None:
        """Use other settings of the topic, from the next append on."""
        for index in self._topics.get(topic, ()):
            partition = self._hosted.get((topic, index))
            if partition is not None:
                partition.configure(config)
            else:
                self._maker.wanted.configure((topic, index), config)

    def set_aside_strays(self) -> None:
        """Set aside unknown logs. Call it once at start, after `lead` or `resign` for every
        partition of the metadata. Unknown logs are renamed to `-stray` and kept for the operator;
        logs of deleted topics are deleted."""
        self.moves.call_off_unknown(lambda place: (place.topic, place.partition) in self._ids)
        for directory in self.directories.in_service():
            for place in list(directory.logs):
                topic_id = self._ids.get((place.topic, place.partition))
                known = directory.topic_ids.get(place, topic_id)
                if topic_id is None or known != topic_id:
                    self._set_aside(directory, place)

    # Called by the server.

    def start(self, settings: Settings) -> None:
        """Begin the periodic work on the logs: retention, flushes, checkpoints, compaction."""
        self.quotas.start(settings)
        self.upkeep.start(upkeep_options(settings))
        self.cleaner.start(cleaner_options(settings))
        self.moves.configure(move_options(settings), is_start=True)

    def reconfigure(self, settings: Settings) -> None:
        """Apply other broker settings to that work. `configure` applies topics' settings."""
        self.quotas.configure(settings)
        self.upkeep.configure(upkeep_options(settings))
        self.cleaner.configure(cleaner_options(settings))
        self.moves.configure(move_options(settings))

    async def logs_made(self) -> None:
        """Wait until each partition that was led or followed has its log, or cannot have one."""
        await self._maker.idle()

    async def aclose(self) -> None:
        """Stop the periodic work, wait for running flushes, and answer all waiting requests. Call
        it when no more requests come. The caller closes the directories after it."""
        await self._maker.aclose()
        await self.moves.aclose()
        await self.cleaner.aclose()
        await self.upkeep.aclose()
        await self._commits.idle()
        self.purgatory.close()

    # Logs.

    def _host(self, wanted: WantedReplica) -> Partition | None:
        """Return the partition with its log, opened or created; None if it is out of service, or if
        its log is created later."""
        leadership, name = wanted.leadership, wanted.name
        self._know(name, leadership.topic_id)
        partition = self._hosted.get(name)
        if partition is not None:
            return partition if partition.log.failure is None else None
        try:
            directory = self._find_log(leadership)
            if directory is None:
                if name in self._maker.wanted or not self._maker.may_make_at_once():
                    self._refuse(name, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    self._maker.want(wanted)
                    return None
                directory = self._create(wanted)
            return self._serve(leadership, directory)
        except KafkaError as error:
            self._put_out_of_service(name, error)
            return None

    def _serve(self, leadership: Leadership, directory: LogDirectory) -> Partition:
        """Return the partition of a log. Raise KafkaError if it is out of service."""
        if directory.failure is not None:
            raise _out_of_service(directory.path)
        place = TopicPartition(leadership.topic, leadership.index)
        log = directory.logs[place]
        traffic = self.traffic.of(leadership.topic)
        commit = self._commits.of(directory)
        partition = Partition(leadership, log, commit, self.purgatory, traffic)
        self._hosted[leadership.topic, leadership.index] = partition
        self.moves.resume(partition)
        self._check_place(partition, leadership.directory_id)
        return partition

    def _put_out_of_service(self, name: Name, error: KafkaError) -> None:
        self._log.failure("a partition is out of service", error, **_facts(name))
        self._refuse(name, ErrorCode.KAFKA_STORAGE_ERROR)

    def _find_log(self, leadership: Leadership) -> LogDirectory | None:
        """Return the directory that has the partition's log, bound to its topic. None if there is
        no log; one of another topic is set aside."""
        place = TopicPartition(leadership.topic, leadership.index)
        topic_id = leadership.topic_id
        directory = self.directories.directory_of(place)
        if directory is not None and directory.failure is None:
            known = directory.topic_ids.get(place)
            if known is None:
                directory.partitions.bind(place, topic_id)
            elif known != topic_id:
                self._set_aside(directory, place)
                return None
        return directory

    # Creating logs.

    def _create(self, wanted: WantedReplica) -> LogDirectory:
        """Create a log at once, and return its directory."""
        leadership = wanted.leadership
        directory = self._choose(wanted)
        place = TopicPartition(leadership.topic, leadership.index)
        directory.partitions.create(place, leadership.topic_id, wanted.config.log, self._now_ms())
        return directory

    def _choose(self, wanted: WantedReplica) -> LogDirectory:
        """Return the directory for a new log. Raise KafkaError if the log may be in a directory
        that cannot be read: none is created in its place."""
        leadership = wanted.leadership
        directory_id = leadership.directory_id
        if directory_id is not None and self._is_replaced(directory_id, leadership):
            self._log.warn(
                "the log directory of a replica is gone; the replica is copied from its leader",
                topic=leadership.topic,
                partition=leadership.index,
            )
            directory_id = None
        if directory_id is None and not leadership.is_new:
            for path in self._unavailable():
                raise _out_of_service(path)
        place = TopicPartition(leadership.topic, leadership.index)
        return self.directories.choose(place, directory_id)

    def _on_round(self, round_: Sequence[MadeLog]) -> None:
        """Serve the replicas whose logs were made in threads."""
        for wanted, made in round_:
            self._on_made(wanted, made)
        self.purgatory.moved(LOGS_MADE)

    def _on_made(self, wanted: WantedReplica, made: MakeableLog | KafkaError) -> None:
        """Put a log into service that was made in a thread, with the newest metadata of its
        replica. Remove it if its partition was removed meanwhile."""
        name, topic_id = wanted.name, wanted.leadership.topic_id
        now_wanted = self._maker.wanted.end(name, topic_id)
        is_known = self._ids.get(name) == topic_id
        try:
            if isinstance(made, KafkaError):
                raise made
            made.directory.partitions.end(made.new)
            if not is_known:
                self._delete(made.directory, TopicPartition(*name))
            if now_wanted is None:
                return
            partition = self._serve(now_wanted.leadership, made.directory)
        except KafkaError as error:
            if is_known:
                self._put_out_of_service(name, error)
            return
        if now_wanted.is_led:
            self._lead(partition, now_wanted.leadership, now_wanted.config)
        else:
            self._follow(partition, now_wanted.leadership, now_wanted.config)
        self.on_made(partition)

    def _is_replaced(self, directory_id: Uuid, leadership: Leadership) -> bool:
        """Whether a replica may begin without records in another directory than this one: all
        directories of the settings are there, this one is none of them, and the replicas in sync,
        without this node, have all committed records."""
        known = {each.directory_id for each in self.directories.directories}
        others = set(leadership.isr) - {self._node_id}
        is_follower = leadership.leader in others and self._node_id not in leadership.isr
        return is_follower and directory_id not in known and not self._unavailable()

    def _unavailable(self) -> list[str]:
        """Return the paths of the directories that cannot be read now."""
        failed = [each.path for each in self.directories.directories if each.failure is not None]
        return [*self.directories.unopened, *failed]

    def _set_aside(self, directory: LogDirectory, place: TopicPartition) -> None:
        try:
            if self._was_deleted(place, directory.topic_ids.get(place)):
                directory.partitions.delete(place, self._unique(), self._now_ms())
                return
            directory.partitions.set_aside(place, self._unique())
        except KafkaError as error:
            self._log.failure("a stray log cannot be set aside", error, partition=str(place))
            return
        self._log.warn(
            "set aside a log that the cluster does not know; remove it when it is not missed",
            partition=str(place),
            directory=directory.path,
        )

    def _was_deleted(self, place: TopicPartition, topic_id: Uuid | None) -> bool:
        """Whether the log's topic was deleted. A loss of power can remove the id of a log that was
        never flushed; then its name decides."""
        if topic_id is not None:
            return topic_id not in self._names and topic_id in self.deleted_topics()
        return place.topic not in self._topics and place.topic in self.deleted_topics().values()

    def _on_failure(self, directory: LogDirectory) -> None:
        """Take a failed directory's partitions out of service. Called once for each directory."""
        for place in directory.logs:
            name = place.topic, place.partition
            partition = self._hosted.get(name)
            if partition is not None:
                partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)
                self._refuse(name, ErrorCode.KAFKA_STORAGE_ERROR)
        self._report_failure(directory)
        self.on_directory_failure(directory)

    def _report_failure(self, directory: LogDirectory) -> None:
        failure = directory.failure
        assert failure is not None
        self._log.error(
            f"a log directory is out of service: {advice(failure)}, then start this broker again",
            directory=directory.path,
            error=str(failure),
            partitions=len(directory.logs),
            directories_left=len(self.directories.in_service()),
        )

    def _on_log_starts(self, places: Collection[TopicPartition]) -> None:
        """Retention has moved the starts of these logs up."""
        for place in places:
            partition = self._hosted.get((place.topic, place.partition))
            if partition is not None:
                partition.on_moved()

    def _on_moved(self, partition: Partition, directory: LogDirectory) -> None:
        self.on_placed(partition, directory.directory_id)

    def _check_place(self, partition: Partition, directory_id: Uuid | None) -> None:
        """Report the replica's directory if it is not `directory_id`, the one in the metadata."""
        found = self.directories.directory_of(TopicPartition(partition.topic, partition.index))
        if found is not None and found.directory_id != directory_id:
            self.on_placed(partition, found.directory_id)

    # Names.

    def _know(self, name: Name, topic_id: Uuid) -> None:
        """Register a partition of the metadata. A partition of the same name with another id is
        obsolete, and is removed."""
        known = self._ids.get(name)
        if known == topic_id:
            return
        if known is not None:
            self.remove(*name)
        self._ids[name] = topic_id
        self._topics.setdefault(name[0], {})[name[1]] = None
        self._names[topic_id] = name[0]
        self._counts[topic_id] = self._counts.get(topic_id, 0) + 1

    def _forget(self, name: Name) -> None:
        topic, index = name
        topic_id = self._ids.pop(name)
        self._serving.pop(name, None)
        self._reasons.pop(name, None)
        self._maker.wanted.withdraw(name)
        partition = self._hosted.pop(name, None)
        if partition is not None:
            self.on_unfollowed(partition)
            partition.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        indexes = self._topics[topic]
        del indexes[index]
        self._counts[topic_id] -= 1
        if not self._counts[topic_id]:
            del self._counts[topic_id], self._names[topic_id]
        if not indexes:
            del self._topics[topic]

    def _refuse(self, name: Name, reason: ErrorCode) -> None:
        self._serving.pop(name, None)
        self._reasons[name] = reason

    def _unique(self) -> bytes:
        return self._runtime.random.randbytes(_UNIQUE_BYTES)

    def _now_ms(self) -> int:
        return self._runtime.clock.wall_ms()


def _facts(name: Name) -> dict[str, object]:
    return {"topic": name[0], "partition": name[1]}


def _out_of_service(path: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is out of service", directory=path
    )
