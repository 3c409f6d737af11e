"""Restores a backup into an empty cluster.

In this order: the backup is checked; topics are made, with their ids, settings and leader epochs;
their logs are filled, several at a time, transactions that are open in a whole log are aborted, and
each topic takes producers again as soon as it is whole; rules and quotas; group offsets, so that no
group begins before its records are there.

Each step may be done again, so a killed restore is started again with the same words. A topic
remembers which backup fills it, so newer backups change nothing for that run. A topic that is whole
belongs to the cluster's producers: its log is not changed any more. A group that has committed
meanwhile keeps its offset.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING

from moldau.backups.committed import CommittedOffsets
from moldau.backups.manifest import (
    BackupFailed,
    GroupOffset,
    LogBackup,
    Manifest,
    TopicBackup,
    cut_in,
)
from moldau.backups.restored_log import LogPlan, RestoredLog
from moldau.backups.restored_topic import TIMEOUT_MS, made, question
from moldau.backups.taking import OWN_TOPICS, unread_users
from moldau.backups.workers import Workers, all_of
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.admin.quotas import QuotaEntity
from moldau.client.admin.security import Acl
from moldau.client.admin.transactions import TransactionAdmin
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.offsets import LATEST, list_offsets
from moldau.deferred import dataclass
from moldau.errors.amounts import counted
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Topic, TopicPartition
from moldau.operations import acls, quotas
from moldau.operations.plan import Action
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.restore_topic import (
    RESTORING,
    RestorableConfig,
    RestoreTopicRequest,
)
from moldau.records import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moldau.backups.backup_store import BackupStore
    from moldau.client.admin.admin import Admin


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """What a cluster is restored from: a backup, and the time if not all of it."""

    backup: str
    time_ms: int | None = None

    @property
    def text(self) -> str:
        """The form in which topics remember it until they are whole."""
        return self.backup if self.time_ms is None else f"{self.backup} {self.time_ms}"

    @classmethod
    def of(cls, text: str) -> RestoreSource:
        """Return what `text` was made of."""
        backup, _, time_ms = text.partition(" ")
        return cls(backup, int(time_ms) if time_ms else None)


@dataclass(slots=True)
class RestoreResult:
    """What a restore has done."""

    name: str
    manifest: Manifest
    sent_bytes: int = 0
    """The bytes of batches that were sent; less than all if an earlier run had sent some."""
    aborted: int = 0
    kept: int = 0
    """The topics that were there and whole, and are left as they were."""
    groups: int = 0
    rules: int = 0
    quotas: int = 0
    notes: list[str] = field(default_factory=list)
    """What the user must do, or should know."""


async def choose_backup(
    store: BackupStore, time_ms: int | None, begun: RestoreSource | None = None
) -> tuple[str, Manifest]:
    """Return the backup with which a restore began that was killed; else the newest one, or the
    first one that began at that time or later. Raise BackupFailed if there is none, or if it is
    damaged."""
    found = await store.manifests()
    if not found:
        raise BackupFailed(f"there is no backup in {store.where}: check the address")
    if begun is not None:
        if begun.backup not in found or begun.time_ms != time_ms:
            when = "" if begun.time_ms is None else f" --at @{begun.time_ms}"
            raise BackupFailed(
                f"the cluster is half restored from {begun.backup}{when}: run that command again, "
                "with the address of that backup, or delete the cluster's topics to begin anew"
            )
        return begun.backup, await store.read_manifest(begun.backup, found[begun.backup][1])
    wanted = [
        (name, size)
        for name, (begun_ms, size) in found.items()
        if time_ms is None or begun_ms >= time_ms
    ]
    if not wanted:
        raise BackupFailed(
            f"no backup in {store.where} was begun at that time or later, so what came before it "
            "is not all there: give an earlier time, or none for the last backup"
        )
    name, size = wanted[-1] if time_ms is None else wanted[0]
    return name, await store.read_manifest(name, size)


async def restore_backup(
    admin: Admin, store: BackupStore, time_ms: int | None = None
) -> RestoreResult:
    """Restore the newest backup, or the cluster as of a time. Raise BackupFailed, KafkaError or
    StoreError; the same call then goes on."""
    if RestoreTopicRequest.spec.key not in await admin.describe_api_versions():
        raise BackupFailed("these brokers cannot keep offsets: restore into a cluster of moldau")
    topics = [
        each for each in await admin.list_topics(internal=True) if each.name not in OWN_TOPICS
    ]
    name, manifest = await choose_backup(store, time_ms, await _begun(admin, topics))
    cluster_id = (await admin.describe_cluster()).cluster_id
    if cluster_id and cluster_id == manifest.cluster_id:
        raise BackupFailed(
            "this is the cluster that was backed up: restore into a new one", cluster=cluster_id
        )
    await store.check_objects(manifest.objects)
    _check_topics(topics, manifest)
    restored = RestoreResult(name, manifest)
    restore = _Restore(admin, store, restored, time_ms)
    await restore.run(is_empty=not topics)
    return restored


async def _begun(admin: Admin, topics: Sequence[Topic]) -> RestoreSource | None:
    """Return what a killed restore was filling topics with; None if there was none."""
    workers = Workers()

    async def asked(topic: Topic) -> str:
        async with workers.room():
            answer = await made(admin, question(topic))
        return answer.backup if answer.is_restoring else ""

    found = sorted(set(await all_of(map(asked, topics))) - {""})
    if len(found) > 1:
        raise BackupFailed(
            f"the cluster is half restored from several backups ({', '.join(found)}): delete its "
            "topics to begin anew"
        )
    return RestoreSource.of(found[0]) if found else None


def _check_topics(topics: Sequence[Topic], manifest: Manifest) -> None:
    """Raise BackupFailed if the cluster has topics that are not restored."""
    ids = {each.name: each.topic_id for each in manifest.topics}
    for topic in topics:
        if ids.get(topic.name) != topic.topic_id:
            raise BackupFailed(
                f"the cluster is not empty: it has topic {topic.name}. Restore into a new cluster, "
                "or delete its topics first"
            )


class _Restore:
    """One run of a restore."""

    def __init__(
        self, admin: Admin, store: BackupStore, restored: RestoreResult, time_ms: int | None
    ) -> None:
        self._admin = admin
        self._cluster = admin._cluster
        self._store = store
        self._restored = restored
        self._manifest = restored.manifest
        self._time_ms = time_ms
        self._source = RestoreSource(restored.name, time_ms)
        self._workers = Workers()
        self._ends: dict[TopicPartition, int] = {}
        self._next_producer_ids: list[int] = []

    async def run(self, *, is_empty: bool) -> None:
        """Do all that is not done yet. `is_empty`: the cluster has no topic yet."""
        manifest = self._manifest
        await all_of(map(self._restore_topic, manifest.topics))
        if self._restored.kept:
            self._restored.notes.append(
                f"{counted(self._restored.kept, 'topic')} that were there and whole are left "
                "as they were"
            )
        if is_empty and min(self._next_producer_ids, default=0):
            self._restored.notes.append(
                "producers had ids in this cluster before the restore, which may be in restored "
                "batches as well: restart all that were running"
            )
        await self._restore_rules()
        await self._restore_quotas()
        await self._restore_groups()
        lost = unread_users(manifest.users)
        if lost:
            self._restored.notes.append(
                "the keys of users cannot be read from a cluster: set these passwords again "
                f"(moldau user add): {', '.join(lost)}"
            )

    # Topics.

    async def _restore_topic(self, topic: TopicBackup) -> None:
        async with self._workers.room():
            is_restoring = await self._make(topic)
        plans = [await self._plan(topic, number, log) for number, log in enumerate(topic.logs)]
        self._ends.update((each.where, each.end_offset) for each in plans)
        if not is_restoring:
            await self._check_whole(plans)
            self._restored.kept += 1
            return
        logs = await all_of(map(self._fill, plans))
        await self._abort_open(logs)
        resource = Resource(ResourceType.TOPIC, topic.name)
        await self._admin.alter_configs(resource, unset=[RESTORING])

    async def _make(self, topic: TopicBackup) -> bool:
        """Make the topic; return whether it takes records of the restore."""
        request = RestoreTopicRequest(
            name=topic.name,
            topic_id=topic.topic_id,
            replication_factor=topic.replication,
            leader_epochs=[each.epoch_after for each in topic.logs],
            configs=[
                RestorableConfig(name=name, value=value) for name, value in topic.settings.items()
            ],
            producer_id_end=self._manifest.producer_id_end,
            backup=self._source.text,
            timeout_ms=TIMEOUT_MS,
        )
        answer = await made(self._admin, request)
        if answer.is_restoring and answer.backup != self._source.text:
            raise BackupFailed(
                f"another restore is filling {topic.name}, from {answer.backup}: wait until it is "
                "done"
            )
        self._next_producer_ids.append(answer.next_producer_id)
        return answer.is_restoring

    async def _plan(self, topic: TopicBackup, number: int, log: LogBackup) -> LogPlan:
        where = TopicPartition(topic.name, number)
        end = await self._end_of(topic, number, log)
        chunks = [each for each in log.chunks if each.base_offset < end]
        start, epoch = min(log.start_offset, end), log.epoch_after - 1
        return LogPlan(topic.topic_id, where, start, end, epoch, chunks)

    async def _end_of(self, topic: TopicBackup, number: int, log: LogBackup) -> int:
        """Return where a log ends as of the time of the restore."""
        if self._time_ms is None:
            return log.end_offset
        end = log.start_offset
        for chunk in log.chunks:
            if chunk.max_timestamp >= self._time_ms:
                async with self._workers.room():
                    async for data in self._store.read_chunk(topic.topic_id, number, chunk):
                        end, is_cut = cut_in(data, self._time_ms, end)
                        if is_cut:
                            return end
            end = chunk.next_offset
        return log.end_offset

    async def _fill(self, plan: LogPlan) -> RestoredLog:
        async with self._workers.room():
            log = RestoredLog(self._cluster, self._store, plan)
            await log.fill()
        self._restored.sent_bytes += log.sent_bytes
        return log

    async def _check_whole(self, plans: Iterable[LogPlan]) -> None:
        """Raise BackupFailed if a topic that takes producers lacks records of the backup. It may
        have more: those of its producers."""
        wanted = {each.where: each.end_offset for each in plans}
        async with self._workers.room():
            found = await list_offsets(self._cluster, dict.fromkeys(wanted, LATEST))
        for where, end_offset in wanted.items():
            if found[where].offset < end_offset:
                raise BackupFailed(
                    f"{where} is restored already and ends at {found[where].offset}, but at "
                    f"{end_offset} in {self._source.text}: the cluster was restored from another "
                    "backup, or has lost records. Delete the topic to restore it from this one"
                )

    async def _abort_open(self, logs: Iterable[RestoredLog]) -> None:
        """Abort the transactions of a topic that do not end in the backup: nothing else ever
        would, and readers of committed records would stop there."""
        transactions = TransactionAdmin(self._admin)
        left = {each.where: each for each in logs}
        wall_ms = self._cluster.runtime.clock.wall_ms()
        while left:
            for where, found in (await transactions.producers(left)).items():
                if isinstance(found, KafkaError):
                    raise found
                opened = [each for each in found if each.transaction_start_offset >= 0]
                if opened:
                    self._restored.aborted += await left[where].abort(opened, wall_ms)
                else:
                    del left[where]

    # Rules, quotas, groups.

    async def _restore_rules(self) -> None:
        if not self._manifest.acls:
            return
        rules = [_rule_of(each) for each in self._manifest.acls]
        noun = acls.Acls({acls.rule_name(each): each for each in rules}, prunes=False)
        try:
            steps = await noun.plan(self._admin)
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            self._restored.notes.append(
                f"left out {counted(len(rules), 'rule')}: these brokers decide by none "
                "(authorizer.class.name)"
            )
            return
        for step in steps:
            if step.action is Action.CREATE:
                await noun.do(self._admin, step)
        self._restored.rules = len(rules)

    async def _restore_quotas(self) -> None:
        wanted = {}
        for fields, values in self._manifest.quotas:
            entity = QuotaEntity(*fields)
            wanted[quotas.quota_name(entity)] = entity, values
        noun = quotas.Quotas(wanted, prunes=False)
        for step in await noun.plan(self._admin) if wanted else ():
            if step.action is not Action.KEEP:
                await noun.do(self._admin, step)
        self._restored.quotas = len(wanted)

    async def _restore_groups(self) -> None:
        groups = self._manifest.groups
        if self._time_ms is not None:
            groups = await self._groups_at(self._time_ms)
        for group, offsets in groups.items():
            wanted = {
                TopicPartition(each.topic, each.partition): each
                for each in offsets
                if TopicPartition(each.topic, each.partition) in self._ends
            }
            there = await self._admin.group_offsets(group)
            new = {
                where: OffsetAndMetadata(
                    min(each.offset, self._ends[where]), each.metadata, each.leader_epoch
                )
                for where, each in wanted.items()
                if where not in there
            }
            if new:
                await self._admin.alter_group_offsets(group, new)
            self._restored.groups += bool(wanted)

    async def _groups_at(self, time_ms: int) -> Mapping[str, tuple[GroupOffset, ...]]:
        commits = self._manifest.commits
        found: dict[str, list[GroupOffset]] = defaultdict(list)
        for number, log in enumerate(() if commits is None else commits.logs):
            assert commits is not None
            plan = await self._plan(commits, number, log)
            offsets = CommittedOffsets()
            for chunk in plan.chunks:
                async for data in self._store.read_chunk(commits.topic_id, number, chunk):
                    offsets.replay(
                        each for each in walk(data) if each.header.base_offset < plan.end_offset
                    )
            for (group, topic, partition), each in offsets.offsets.items():
                found[group].append(
                    GroupOffset(topic, partition, each.offset, each.metadata, each.leader_epoch)
                )
        return {group: tuple(offsets) for group, offsets in sorted(found.items())}


def _rule_of(fields: tuple[str, ...]) -> Acl:
    principal, operation, name, kind, pattern, permission, host = fields
    return Acl(
        principal,
        AclOperation[operation],
        name,
        AclResource[kind],
        AclPattern[pattern],
        AclPermission[permission],
        host,
    )
