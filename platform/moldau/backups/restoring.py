"""Restores a backup into an empty cluster.

In this order: the backup is checked; topics are made, with their ids, settings and leader epochs;
their logs are filled, several at a time, and each topic takes producers again as soon as it is
whole; transactions that were open are aborted; rules and quotas; group offsets, so that no group
begins before its records are there. Each step may be done again, so a killed restore is started
again with the same words. A group that has committed meanwhile keeps its offset.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.backups.committed import CommittedOffsets
from moldau.backups.manifest import (
    BackupFailed,
    GroupOffset,
    LogBackup,
    Manifest,
    TopicBackup,
    chunk_of_cut,
    cut_in,
)
from moldau.backups.restored_log import LogPlan, RestoredLog
from moldau.backups.taking import OWN_TOPICS, unread_users
from moldau.backups.workers import Workers, all_of
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.admin.quotas import QuotaEntity
from moldau.client.admin.security import Acl
from moldau.client.admin.transactions import TransactionAdmin
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import CONTROLLER
from moldau.link.metadata import TopicPartition
from moldau.operations import acls, quotas
from moldau.operations.plan import Action
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.restore_topic import (
    RestorableConfig,
    RestoreTopicRequest,
    RestoreTopicResponse,
)
from moldau.records import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.backups.backup_store import BackupStore
    from moldau.client.admin.admin import Admin

MARK: Final = "moldau.restoring"
"""The setting that marks a topic on the broker's side; its removal ends the restore."""
_RESTORE_TOPIC: Final = 20001
_TIMEOUT_MS: Final = 15_000


@dataclass(slots=True)
class Restored:
    """What a restore has done."""

    name: str
    manifest: Manifest
    sent_bytes: int = 0
    """The bytes of batches that were sent; less than all if an earlier run had sent some."""
    aborted: int = 0
    groups: int = 0
    rules: int = 0
    quotas: int = 0
    notes: list[str] = field(default_factory=list)
    """What the user must do, or should know."""


async def choose_backup(store: BackupStore, time_ms: int | None) -> tuple[str, Manifest]:
    """Return the newest backup, or the first one that began at that time or later. Raise
    BackupFailed if there is none, or if it is damaged."""
    found = await store.manifests()
    if not found:
        raise BackupFailed(f"there is no backup in {store.where}: check the address")
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


async def restore_backup(admin: Admin, store: BackupStore, time_ms: int | None = None) -> Restored:
    """Restore the newest backup, or the cluster as of a time. Raise BackupFailed, KafkaError or
    StoreError; the same call then goes on."""
    name, manifest = await choose_backup(store, time_ms)
    await store.check_objects(manifest.objects)
    await _check_target(admin, manifest)
    restored = Restored(name, manifest)
    await _Restore(admin, store, restored, time_ms).run()
    return restored


async def _check_target(admin: Admin, manifest: Manifest) -> None:
    """Raise BackupFailed unless the cluster is moldau's and has nothing but what is restored."""
    if _RESTORE_TOPIC not in await admin.describe_api_versions():
        raise BackupFailed("these brokers cannot keep offsets: restore into a cluster of moldau")
    ids = {each.name: each.topic_id for each in manifest.topics}
    for topic in await admin.list_topics(internal=True):
        if topic.name not in OWN_TOPICS and ids.get(topic.name) != topic.topic_id:
            raise BackupFailed(
                f"the cluster is not empty: it has topic {topic.name}. Restore into a new cluster, "
                "or delete its topics first"
            )


class _Restore:
    """One run of a restore."""

    def __init__(
        self, admin: Admin, store: BackupStore, restored: Restored, time_ms: int | None
    ) -> None:
        self._admin = admin
        self._cluster = admin._cluster
        self._store = store
        self._restored = restored
        self._manifest = restored.manifest
        self._time_ms = time_ms
        self._workers = Workers()
        self._ends: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Do all that is not done yet."""
        manifest = self._manifest
        await all_of(map(self._restore_topic, manifest.topics))
        await self._abort_open()
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
            return
        await all_of(map(self._fill, plans))
        resource = Resource(ResourceType.TOPIC, topic.name)
        await self._admin.alter_configs(resource, unset=[MARK])

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
            timeout_ms=_TIMEOUT_MS,
        )

        async def attempt() -> bool:
            answer = await self._cluster.call(request, RestoreTopicResponse, node_id=CONTROLLER)
            if answer.error_code:
                raise KafkaError(
                    ErrorCode(answer.error_code), answer.error_message or "", topic=topic.name
                )
            return answer.is_restoring

        return await self._cluster.retry(attempt)

    async def _plan(self, topic: TopicBackup, number: int, log: LogBackup) -> LogPlan:
        where, end = TopicPartition(topic.name, number), log.end_offset
        chunk = None if self._time_ms is None else chunk_of_cut(log, self._time_ms)
        if chunk is not None:
            assert self._time_ms is not None
            async with self._workers.room():
                data = await self._store.read_chunk(topic.topic_id, number, chunk)
            end = cut_in(data, self._time_ms)
        chunks = [each for each in log.chunks if each.base_offset < end]
        return LogPlan(topic.topic_id, where, min(log.start_offset, end), end, chunks)

    async def _fill(self, plan: LogPlan) -> None:
        async with self._workers.room():
            log = RestoredLog(self._cluster, self._store, plan)
            await log.fill()
        self._restored.sent_bytes += log.sent_bytes

    async def _abort_open(self) -> None:
        """Abort the transactions whose ends are not in the backup: nothing else ever would, and
        readers of committed records would stop there. Those of this cluster's own producers have
        higher ids."""
        transactions = TransactionAdmin(self._admin)
        if not self._ends:
            return
        for where, found in (await transactions.producers(self._ends)).items():
            if isinstance(found, KafkaError):
                raise found
            for each in found:
                is_old = each.producer_id < self._manifest.producer_id_end
                if is_old and each.transaction_start_offset >= 0:
                    await transactions.abort(
                        where,
                        each.producer_id,
                        each.epoch,
                        max(0, each.coordinator_epoch),
                    )
                    self._restored.aborted += 1

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
                f"left out {len(rules)} rules: these brokers decide by none (authorizer.class.name)"
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
                data = await self._store.read_chunk(commits.topic_id, number, chunk)
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
