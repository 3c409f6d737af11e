"""Takes a backup of a running cluster.

In this order: group offsets; rules, quotas and users; where logs end; the logs, several at a time;
the manifest. So no group stands beyond its log, and a backup that is killed has only left chunks
that the next one uses or ignores.

Chunks of the newest backup are used again if their objects are there, in full size. Those of a
compacted topic only if that backup began less than `delete.retention.ms` ago: a tombstone that was
written since is still in the log then. Later the key's older record would be in the backup alone.

A log ends where consumers could read when the backup looked. A transaction that was open there is
in the backup without its end; a restore aborts it. Logs are looked at one after the other, so a
transaction over several partitions may be whole in one and open in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from moldau.backups.log_reader import LogReader
from moldau.backups.manifest import (
    BackupFailed,
    GroupOffset,
    LogBackup,
    Manifest,
    TopicBackup,
    chunk_name,
)
from moldau.backups.remote_topic import remote_copies
from moldau.backups.workers import Workers, all_of
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.base.offsets import EARLIEST, LATEST, list_offsets
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError, may_work_later
from moldau.link.metadata import Topic, TopicPartition
from moldau.operations import acls, quotas, users
from moldau.operations.hidden import check_all_visible
from moldau.operations.topics import own_of

if TYPE_CHECKING:
    from moldau.backups.backup_store import BackupStore
    from moldau.backups.remote_segments import RemoteCopies
    from moldau.client.admin.admin import Admin
    from moldau.runtime import Runtime

COMMITS: Final = "__consumer_offsets"
OWN_TOPICS: Final = frozenset(
    (
        COMMITS,
        "__transaction_state",
        "__share_group_state",
        "__remote_log_metadata",
        "__cluster_metadata",
    )
)
"""The brokers' own topics. They are about the cluster that has them, and are not restored."""
_OF_GROUPS: Final = ("classic", "consumer", "streams")
_CLEANUP: Final = "cleanup.policy"
_TOMBSTONES_MS: Final = "delete.retention.ms"
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(slots=True)
class TakenBackup:
    """What a backup has done."""

    name: str
    manifest: Manifest
    new_bytes: int = 0
    new_chunks: int = 0
    copied_bytes: int = 0
    copied_chunks: int = 0
    """Remote segments that the store copied itself."""
    not_copied: list[str] = field(default_factory=list)
    """Why remote segments in the same bucket were read instead."""
    gone: list[str] = field(default_factory=list)
    """Topics that were deleted meanwhile."""


async def take_backup(admin: Admin, store: BackupStore, runtime: Runtime) -> TakenBackup:
    """Take a backup, which stores what the newest one there does not have. Raise KafkaError,
    StoreError or BackupFailed; then there is no new backup."""
    begun_ms = runtime.clock.wall_ms()
    cluster_id = (await admin.describe_cluster()).cluster_id or ""
    newest = await _newest(store, cluster_id)
    await check_all_visible(admin)
    groups = await _groups(admin)
    rules = await _acls(admin)
    found_quotas = await quotas.found_quotas(admin)
    found_users = await users.found_users(admin)
    taken = TakenBackup("", Manifest(cluster_id, begun_ms, (), None, {}))
    topics = await admin.list_topics(internal=True)
    chosen = [each for each in topics if each.name not in OWN_TOPICS]
    commits = [each for each in topics if each.name == COMMITS]
    before = _EarlierBackup()
    if newest is not None:
        before = _EarlierBackup(newest.begun_ms, newest.by_id, await store.data_sizes())
    copies = await remote_copies(admin, store, runtime, topics, taken.not_copied)
    logs = _Logs(admin, store, before, taken, copies)
    backed_up = await logs.of_topics([*chosen, *commits])
    manifest = Manifest(
        cluster_id,
        begun_ms,
        tuple(backed_up[each.name] for each in chosen if each.name in backed_up),
        backed_up.get(COMMITS),
        groups,
        rules,
        tuple((tuple(entity), values) for entity, values in found_quotas.values()),
        found_users,
    )
    taken.manifest, taken.name = manifest, await store.put_manifest(manifest)
    return taken


async def _newest(store: BackupStore, cluster_id: str) -> Manifest | None:
    found = await store.manifests()
    if not found:
        return None
    name, (_, size_bytes) = list(found.items())[-1]
    manifest = await store.read_manifest(name, size_bytes)
    if manifest.cluster_id != cluster_id:
        raise BackupFailed(
            f"{store.where} has backups of another cluster: give each cluster its own prefix",
            cluster=cluster_id,
            found=manifest.cluster_id,
        )
    return manifest


async def _groups(admin: Admin) -> dict[str, tuple[GroupOffset, ...]]:
    groups = {}
    for group in await admin.list_groups(types=_OF_GROUPS):
        found = await admin.group_offsets(group.group_id)
        if found:
            groups[group.group_id] = tuple(
                GroupOffset(*where, each.offset, each.metadata, each.leader_epoch)
                for where, each in sorted(found.items())
            )
    return groups


async def _acls(admin: Admin) -> tuple[tuple[str, ...], ...] | None:
    try:
        found = await acls.found_acls(admin)
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        return None
    return tuple(
        (
            each.principal,
            each.operation.name,
            each.name,
            each.type.name,
            each.pattern.name,
            each.permission.name,
            each.host,
        )
        for each in found.values()
    )


@dataclass(frozen=True, slots=True)
class _EarlierBackup:
    """What the newest backup has, and the sizes of the objects that are there."""

    begun_ms: int = 0
    topics: Mapping[bytes, TopicBackup] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def log(self, topic_id: bytes, number: int) -> LogBackup | None:
        """Return a log as that backup has it, up to the first chunk that is missing or torn."""
        topic = self.topics.get(topic_id)
        if topic is None or number >= len(topic.logs):
            return None
        log = topic.logs[number]
        whole = takewhile(
            lambda each: self.sizes.get(chunk_name(topic_id, number, each)) == each.size_bytes,
            log.chunks,
        )
        return replace(log, chunks=tuple(whole))

    def has_all_deletions(
        self, topic_id: bytes, settings: Mapping[str, str | None], now_ms: int
    ) -> bool:
        """Whether the topic's log still has a tombstone for each record that was deleted since that
        backup. `settings` are those in force."""
        topic = self.topics.get(topic_id)
        if topic is None:
            return True
        policies = settings.get(_CLEANUP) or "", topic.settings.get(_CLEANUP, "")
        if not any("compact" in each for each in policies):
            return True
        kept_ms = settings.get(_TOMBSTONES_MS), topic.settings.get(_TOMBSTONES_MS)
        shortest_ms = min((int(each) for each in kept_ms if each is not None), default=0)
        return 0 <= now_ms - self.begun_ms < shortest_ms


class _Logs:
    """The logs of topics, a few at a time."""

    def __init__(
        self,
        admin: Admin,
        store: BackupStore,
        before: _EarlierBackup,
        taken: TakenBackup,
        copies: RemoteCopies | None,
    ) -> None:
        self._admin = admin
        self._cluster = admin._cluster
        self._store = store
        self._before = before
        self._taken = taken
        self._copies = copies
        self._workers = Workers()

    async def of_topics(self, topics: Iterable[Topic]) -> dict[str, TopicBackup]:
        """Return the backups of the topics that are still there at the end."""
        chosen = list(topics)
        found = await all_of(map(self._of_topic, chosen))
        return {each.name: each for each in found if each is not None}

    async def _of_topic(self, topic: Topic) -> TopicBackup | None:
        try:
            async with self._workers.room():
                resource = Resource(ResourceType.TOPIC, topic.name)
                entries = await self._admin.describe_configs(resource)
                starts, ends = await self._ends(topic)
            in_force = {each.name: each.value for each in entries}
            logs = await all_of(
                self._of_log(topic, number, (starts[number], ends[number]), in_force)
                for number in range(len(topic.partitions))
            )
        except KafkaError as error:
            if error.code not in _GONE:
                if may_work_later(error):
                    raise BackupFailed(
                        f"topic {topic.name} cannot be read, so no backup was made: {error}. Start "
                        "the brokers that have its partitions, or delete the topic if they are lost"
                    ) from error
                raise
            self._taken.gone.append(topic.name)
            return None
        return TopicBackup(
            topic.name,
            topic.topic_id,
            max((len(each.replicas) for each in topic.partitions), default=1),
            {name: value or "" for name, value in own_of(entries).items()},
            tuple(logs),
        )

    async def _ends(self, topic: Topic) -> tuple[list[int], list[int]]:
        places = [TopicPartition(topic.name, each.index) for each in topic.partitions]
        found: list[list[int]] = []
        for wanted in (EARLIEST, LATEST):
            offsets = await list_offsets(self._cluster, dict.fromkeys(places, wanted))
            found.append([offsets[each].offset for each in places])
        return found[0], found[1]

    async def _of_log(
        self,
        topic: Topic,
        number: int,
        ends: tuple[int, int],
        settings: Mapping[str, str | None],
    ) -> LogBackup:
        earlier = self._before.log(topic.topic_id, number)
        where = TopicPartition(topic.name, number)
        epoch = topic.partitions[number].leader_epoch
        async with self._workers.room():
            reader = LogReader(self._cluster, self._store, topic.topic_id, where)
            if not self._has_all_deletions(topic, settings):
                earlier = None
            log = await reader.read(*ends, epoch, earlier, self._copies)
            if earlier is not None and not self._has_all_deletions(topic, settings):
                log = await reader.read(*ends, epoch, None)  # it took too long
        self._taken.new_bytes += reader.new_bytes
        self._taken.new_chunks += reader.new_chunks
        self._taken.copied_bytes += reader.copied_bytes
        self._taken.copied_chunks += reader.copied_chunks
        return log

    def _has_all_deletions(self, topic: Topic, settings: Mapping[str, str | None]) -> bool:
        now_ms = self._cluster.runtime.clock.wall_ms()
        return self._before.has_all_deletions(topic.topic_id, settings, now_ms)


def unread_users(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each user that needs a new password after a restore."""
    return [f"{name} ({', '.join(sorted(mechanisms))})" for name, mechanisms in found.items()]
