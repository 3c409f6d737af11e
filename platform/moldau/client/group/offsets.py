"""A group's offsets: committed and fetched, tried again where that may help.

Invariants: an offset is reported as committed only when the coordinator has said so; what cannot be
committed any more, since the member is none or another one, is told with the settings that bring
that about. It is tried again, also under a newer epoch, only as long as the partition is the
member's without a break: once others may have read on, what was begun before would undo theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moldau.client.group.coordinator import Coordinator
from moldau.client.group.member import NOBODY, Identity
from moldau.client.group.offset_requests import (
    MANY_GROUPS,
    NEWEST_WITH_NAMES,
    STABLE_OFFSETS,
    Fetched,
    commit_codes,
    commit_request,
    fetch_request,
    fetched,
)
from moldau.client.settings.arguments import OffsetAndMetadata
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_NOT_A_MEMBER: Final = (
    "not committed: this consumer is no member of the group any more, and others may have its "
    "partitions. Mostly the handler takes longer than max.poll.interval.ms: make it faster, make "
    "max.poll.records smaller or max.poll.interval.ms larger. Or nothing was heard of it for the "
    "session timeout: the event loop must not be blocked that long"
)
_BY_HAND_BESIDE_MEMBERS: Final = (
    "not committed: the group has members, and only these may commit. A consumer that assigns "
    "partitions itself needs a group.id of its own"
)
_REASONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: _NOT_A_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: _NOT_A_MEMBER,
    ErrorCode.STALE_MEMBER_EPOCH: "not committed: the group has rebalanced meanwhile. Poll, and "
    "commit then what is still assigned",
    ErrorCode.FENCED_INSTANCE_ID: "not committed: another consumer has joined with this "
    "group.instance.id",
    ErrorCode.REBALANCE_IN_PROGRESS: "not committed: the group rebalances. Poll, which finishes "
    "that, and commit then what is still assigned",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "not committed: the metadata beside the offset is larger "
    "than the broker's offset.metadata.max.bytes",
}


_GIVEN_UP: Final = (
    "not committed: the partition was given up before the coordinator had answered, and others may "
    "have gone on with it; what was read of it since its last commit is read again"
)
_TOPIC_IS_GONE: Final = "not committed: the topic was deleted; one of its name is another one"
_OUTDATED: Final = frozenset(
    (
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)


class Later(KafkaError):
    """What may work later, whatever the table of codes says."""

    @property
    def retriable(self) -> bool:
        return True


class _Never(KafkaError):
    """What the table of codes gives a chance, and has none."""

    @property
    def retriable(self) -> bool:
        return False


class GroupOffsets:
    """The offsets of one group, for its member or for a consumer that assigns by hand."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        identity: Callable[[], Identity],
        on_refused: Callable[[Identity, ErrorCode], None],
        may_retry: Callable[[Identity, TopicPartition, ErrorCode], bool],
    ) -> None:
        """`identity` raises KafkaError when no member may commit, or not yet (`Later`).
        `may_retry`: whether one that was refused as outdated may commit under a newer epoch, as it
        is still the partition's owner, or as no member."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._identity = identity
        self._on_refused = on_refused
        self._may_retry = may_retry

    async def commit(
        self,
        left: dict[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid],
        is_given_up: Callable[[TopicPartition], bool],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Takes out of `left` what is stored, and returns when all is; KafkaError names the first
        one that cannot be. `ids` are those of the topics that the offsets are of, which may not be
        there any more. What is given up since is not tried any more."""

        async def attempt() -> None:
            if left:
                await self._commit_once(left, ids, is_given_up)

        await self._cluster.retry(attempt, timeout_s=timeout_s)

    async def _commit_once(
        self,
        left: dict[TopicPartition, OffsetAndMetadata],
        known: Mapping[TopicPartition, Uuid],
        is_given_up: Callable[[TopicPartition], bool],
    ) -> None:
        """Takes out of `left` what is stored. What has an id goes by it where the broker takes
        that: another partition that has none does not take it back to its name."""
        connection = await self._coordinator.connection()
        takes_ids = connection.version_of(OffsetCommitRequest) > NEWEST_WITH_NAMES
        by_id, by_name = {}, {}
        problems: list[KafkaError] = []
        for where, each in left.items():
            if known[where] != ZERO_UUID and takes_ids:
                by_id[where] = each
            elif (stale := self._stale(where, each.offset, known[where])) is not None:
                problems.append(stale)
            else:
                by_name[where] = each
        if by_id:
            problems += await self._commit_some(by_id, left, known, is_given_up)
        if by_name:
            problems += await self._commit_some(by_name, left, None, is_given_up)
        fatal = [each for each in problems if not each.retriable]
        if problems:
            raise (fatal or problems)[0]

    async def _commit_some(
        self,
        chosen: Mapping[TopicPartition, OffsetAndMetadata],
        left: dict[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid] | None,
        is_given_up: Callable[[TopicPartition], bool],
    ) -> list[KafkaError]:
        """One request, by ids or by names: what it was refused with."""
        given_up = {where: each for where, each in chosen.items() if is_given_up(where)}
        chosen = {where: each for where, each in chosen.items() if where not in given_up}
        problems = [
            KafkaError(
                ErrorCode.ILLEGAL_GENERATION, _GIVEN_UP, **self._facts(where, offset=each.offset)
            )
            for where, each in given_up.items()
        ]
        if not chosen:
            return problems
        member = self._identity()
        answer = await self._coordinator.call(
            commit_request(self._coordinator.group_id, member, chosen, ids),
            OffsetCommitResponse,
            at_most=None if ids else NEWEST_WITH_NAMES,
        )
        for where, code in commit_codes(answer, ids).items():
            if not code:
                left.pop(where, None)
            elif where in left:
                problem = self._problem(where, left[where].offset, ErrorCode(code), member)
                is_gone = code == ErrorCode.UNKNOWN_TOPIC_ID and ids and self._is_gone(where, ids)
                if is_gone:
                    problem = _Never(problem.code, _TOPIC_IS_GONE, **problem.context)
                problems.append(problem)
        return problems

    def _facts(self, where: TopicPartition, **more: object) -> dict[str, object]:
        group = self._coordinator.group_id
        return {"group": group, "topic": where.topic, "partition": where.partition, **more}

    def _stale(self, where: TopicPartition, offset: int, known: Uuid) -> KafkaError | None:
        """What keeps an offset of that topic from being committed under its name alone: the
        topic is unknown now, or another one has the name."""
        topic = self._cluster.metadata.topics.get(where.topic)
        if known == ZERO_UUID or (topic is not None and topic.topic_id in (known, ZERO_UUID)):
            return None
        facts = self._facts(where, offset=offset)
        if topic is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **facts)
        return _Never(ErrorCode.UNKNOWN_TOPIC_ID, _TOPIC_IS_GONE, **facts)

    def _is_gone(self, where: TopicPartition, ids: Mapping[TopicPartition, Uuid]) -> bool:
        """Whether metadata that came since do not have that topic any more."""
        return self._cluster.metadata.name_of(ids[where]) != where.topic

    def _problem(
        self, where: TopicPartition, offset: int, code: ErrorCode, member: Identity
    ) -> KafkaError:
        self._coordinator.note(code)
        self._on_refused(member, code)
        is_outdated = code in _OUTDATED and self._may_retry(member, where, code)
        kind = Later if is_outdated else KafkaError
        is_beside_members = member == NOBODY and code is ErrorCode.UNKNOWN_MEMBER_ID
        reason = _BY_HAND_BESIDE_MEMBERS if is_beside_members else _REASONS.get(code, "")
        return kind(code, reason, **self._facts(where, offset=offset))

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is committed; None where nothing is. An offset that an open transaction may still
        change is waited for, at every isolation level (KIP-447)."""
        wanted = list(dict.fromkeys(partitions))

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            answer = await self._fetch_once(wanted)
            for problem in self._refused(answer).values():
                raise problem
            return {where: answer.offsets.get(where) for where in wanted}

        if not wanted:
            return {}
        return await self._cluster.retry(attempt, timeout_s=timeout_s)

    async def look_up(
        self, wanted: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | KafkaError | None]:
        """As `committed`, asked once: what the coordinator refuses is that partition's alone.
        KafkaError when it gives no answer, or refuses the group."""
        answer = await self._fetch_once(wanted)
        refused = self._refused(answer)
        return {where: refused.get(where) or answer.offsets.get(where) for where in wanted}

    def _refused(self, answer: Fetched) -> dict[TopicPartition, KafkaError]:
        return {
            where: KafkaError(code, **self._facts(where)) for where, code in answer.errors.items()
        }

    def _ids(self, topics: set[str]) -> dict[str, Uuid] | None:
        """As known now, if all are."""
        known = self._cluster.metadata.topics
        ids = {name: known[name].topic_id for name in topics if name in known}
        return ids if len(ids) == len(topics) and ZERO_UUID not in ids.values() else None

    async def _fetch_once(self, wanted: list[TopicPartition]) -> Fetched:
        # By id where that can be: what was committed of a deleted topic says nothing of another one
        # that has its name.
        ids = self._ids({where.topic for where in wanted})
        newest = None if ids else NEWEST_WITH_NAMES
        connection = await self._coordinator.connection()
        version = connection.version_of(OffsetFetchRequest, at_most=newest)
        new, old = fetch_request(
            self._coordinator.group_id,
            wanted,
            require_stable=version >= STABLE_OFFSETS,
            ids=ids,
        )
        request = new if version >= MANY_GROUPS else old
        answer = fetched(
            await self._coordinator.call(request, OffsetFetchResponse, at_most=newest), ids
        )
        if answer.error_code:
            self._coordinator.note(answer.error_code)
            raise KafkaError(answer.error_code, group=self._coordinator.group_id)
        return answer


class AutoCommit:
    """Offsets that are committed by themselves: one commit at a time, the newest offsets last."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None

    def is_due(self, now: float) -> bool:
        """Whether a commit is to begin now; the first one an interval after the first question."""
        if not self._next:
            self._next = now + self._interval_s
        if now < self._next or (self._task is not None and not self._task.done()):
            return False
        self._next = now + self._interval_s
        return True

    def due_in_s(self, now: float) -> float:
        """How long to wait before `is_due` is worth asking again."""
        return self._next - now if self._next > now else self._interval_s

    def begin(self, task: asyncio.Task[None]) -> None:
        """It is under way; its failure is not raised: the next one commits more."""
        self._task = task
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
