"""A group's offsets: commits and fetches, with retries where they may help.

Invariants: an offset is reported as committed only if the coordinator has confirmed it. If a commit
is impossible because the membership is lost or another one, the error names the settings that may
be the cause. A commit is retried, also under a newer epoch, only while the partition stays the
member's without a break: once others may have read on, an older commit would undo theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import Coordinator
from moldau.client.group.member import NOBODY, Identity
from moldau.client.group.offset_requests import (
    MANY_GROUPS,
    NEWEST_WITH_NAMES,
    STABLE_OFFSETS,
    FetchedOffsets,
    commit_codes,
    commit_request,
    fetch_request,
    fetched,
)
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from
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
    """An error that is retriable, whatever the table of codes says."""

    @property
    def retriable(self) -> bool:
        return True


class _Never(KafkaError):
    """An error that is not retriable, although the table of codes says so."""

    @property
    def retriable(self) -> bool:
        return False


class GroupOffsets:
    """The offsets of one group, for its member or for manually assigned partitions."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        identity: Callable[[], Identity],
        on_refused: Callable[[Identity, ErrorCode], None],
        may_retry: Callable[[Identity, TopicPartition, ErrorCode], bool],
    ) -> None:
        """`identity` raises KafkaError if no member may commit, or not yet (`Later`). `may_retry`
        returns whether a commit rejected as outdated may be retried under a newer epoch, as the
        member still owns the partition, or as no member."""
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
        """Store the offsets in `left`, remove each stored one from it, and return when all are
        stored. KafkaError names the first one that cannot be stored. `ids` are the topics that the
        offsets are of, which may be deleted. Partitions given up meanwhile are dropped."""

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
        """Send each offset once, and remove the stored ones from `left`. Those with a topic id are
        sent by id if the broker supports that, even if others have none and are sent by name."""
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
            raise without_frames((fatal or problems)[0])

    async def _commit_some(
        self,
        chosen: Mapping[TopicPartition, OffsetAndMetadata],
        left: dict[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid] | None,
        is_given_up: Callable[[TopicPartition], bool],
    ) -> list[KafkaError]:
        """Send one request, by ids or by names, and return its errors."""
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
        """Return why this offset cannot be committed by the topic's name alone: the topic is
        unknown now, or another one has the name. None if it can."""
        topic = self._cluster.metadata.topics.get(where.topic)
        if known == ZERO_UUID or (topic is not None and topic.topic_id in (known, ZERO_UUID)):
            return None
        facts = self._facts(where, offset=offset)
        if topic is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **facts)
        return _Never(ErrorCode.UNKNOWN_TOPIC_ID, _TOPIC_IS_GONE, **facts)

    def _is_gone(self, where: TopicPartition, ids: Mapping[TopicPartition, Uuid]) -> bool:
        """Whether newer metadata do not have that topic any more."""
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
        refused = error_from("OffsetCommit", code, reason, **self._facts(where, offset=offset))
        return kind(code, refused.reason, **refused.context)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets; None where nothing is committed. If an open transaction may
        still change an offset, wait for it, at every isolation level (KIP-447)."""
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
        """Request the committed offsets once; the error of one partition does not affect the
        others. Raise KafkaError if there is no response, or the group is rejected."""
        answer = await self._fetch_once(wanted)
        refused = self._refused(answer)
        return {where: refused.get(where) or answer.offsets.get(where) for where in wanted}

    def _refused(self, answer: FetchedOffsets) -> dict[TopicPartition, KafkaError]:
        return {
            where: error_from("OffsetFetch", code, **self._facts(where))
            for where, code in answer.errors.items()
        }

    def _ids(self, topics: set[str]) -> dict[str, Uuid] | None:
        """Return the topic ids if all are known, else None."""
        known = self._cluster.metadata.topics
        ids = {name: known[name].topic_id for name in topics if name in known}
        return ids if len(ids) == len(topics) and ZERO_UUID not in ids.values() else None

    async def _fetch_once(self, wanted: list[TopicPartition]) -> FetchedOffsets:
        # By id if possible: the offset of a deleted topic has no meaning for a new one of its
        # name.
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
            raise error_from("OffsetFetch", answer.error_code, group=self._coordinator.group_id)
        return answer


class AutoCommit:
    """The schedule of auto commits: one at a time, the newest offsets last."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.due_at = 0.0
        """Before this time nothing is due."""
        self._task: asyncio.Task[None] | None = None

    def is_due(self, now: float) -> bool:
        """Whether a commit is to begin now; the first time, an interval after the first call."""
        if not self.due_at:
            self.due_at = now + self._interval_s
        if now < self.due_at or (self._task is not None and not self._task.done()):
            return False
        self.due_at = now + self._interval_s
        return True

    def due_in_s(self, now: float) -> float:
        """Return how long to wait before calling `is_due` again."""
        return self.due_at - now if self.due_at > now else self._interval_s

    def begin(self, task: asyncio.Task[None]) -> None:
        """Note the running commit. Its failure is not raised: the next one commits more."""
        self._task = task
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
