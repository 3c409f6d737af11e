"""Records of partitions: where they begin and end, and deleting them from the front."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moldau.client.admin.requests import Requests, at_once, by_topic
from moldau.client.consumer.offsets import Found, list_offsets
from moldau.client.settings import arguments
from moldau.client.settings.arguments import ByPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.backoff import may_work_later
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages import delete_records as deleting

TO_THE_END: Final = -1
"""As the offset to delete up to: all records that are there."""


@dataclass(slots=True)
class _Deletion:
    """Records that are being deleted. What is deleted cannot be had back, so that what is known of
    one partition is told, whatever becomes of the others."""

    before: dict[TopicPartition, int]
    results: dict[TopicPartition, int | KafkaError] = field(default_factory=dict)
    asked: set[TopicPartition] = field(default_factory=set)
    """Those whose leader has a request, and has not answered it."""

    def open_ones(self) -> list[TopicPartition]:
        """The partitions that have no answer yet, or one that may become another."""
        found = ((where, self.results.get(where)) for where in self.before)
        return [
            where
            for where, result in found
            if result is None or (isinstance(result, KafkaError) and may_work_later(result))
        ]

    def outcome(self) -> dict[TopicPartition, int | KafkaError]:
        """What each partition ended with."""
        return {where: self._of(where) for where in self.before}

    def _of(self, where: TopicPartition) -> int | KafkaError:
        result = self.results.get(where)
        if result is not None and where not in self.asked:
            return result
        code = ErrorCode.REQUEST_TIMED_OUT
        reason = "its leader is not known yet: nothing was deleted"
        if where in self.asked:
            reason = "its leader has not answered: its records may be deleted or not"
        return _not_deleted(code, where, self.before[where], reason)


class Records:
    """Looks for offsets in logs, and deletes what comes before one."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def offsets(self, wanted: ByPartition[int], is_committed: bool = False) -> Found:
        chosen = {
            where: arguments.timestamp_of(each, where)
            for where, each in arguments.by_partition(wanted).items()
        }
        arguments.flag(is_committed, "is_committed")
        return await list_offsets(
            self._requests.cluster, chosen, is_committed=is_committed, waits_for_topics=False
        )

    async def delete(self, before: ByPartition[int]) -> dict[TopicPartition, int | KafkaError]:
        deletion = _Deletion(arguments.offsets_to_keep_from(before))
        self._requests.cluster.look_at({where.topic for where in deletion.before})

        async def attempt() -> None:
            await self._delete(deletion)
            for where in deletion.open_ones():
                found = deletion.results[where]
                assert isinstance(found, KafkaError)
                raise found

        try:
            await self._requests.cluster.retry(attempt)
        except KafkaError:
            if not deletion.results:
                raise  # no leader was reached
        return deletion.outcome()

    async def _delete(self, deletion: _Deletion) -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for where in deletion.open_ones():
            try:
                leader = await self._requests.cluster.leader(where)
            except KafkaError as error:
                deletion.results[where] = error
            else:
                by_leader.setdefault(leader, {})[where] = deletion.before[where]

        async def ask(leader: int) -> None:
            chosen = by_leader[leader]
            deletion.asked |= chosen.keys()
            deletion.results.update(await self._delete_from(leader, chosen))
            deletion.asked -= chosen.keys()

        # Each answer is kept as it comes: the time may be over while another leader is silent.
        await at_once(by_leader, ask)

    async def _delete_from(
        self, leader: int, before: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        def wanted(where: TopicPartition) -> deleting.DeleteRecordsPartition:
            number, offset = where.partition, before[where]
            return deleting.DeleteRecordsPartition(partition_index=number, offset=offset)

        topics = [
            deleting.DeleteRecordsTopic(name=name, partitions=each)
            for name, each in by_topic(before, wanted).items()
        ]
        request = deleting.DeleteRecordsRequest(topics=topics, timeout_ms=self._requests.timeout_ms)
        try:
            answer = await self._requests.ask_once(request, deleting.DeleteRecordsResponse, leader)
        except KafkaError as error:
            return dict.fromkeys(before, error)
        results: dict[TopicPartition, int | KafkaError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                results[where] = each.low_watermark
                if each.error_code:
                    refused = _not_deleted(each.error_code, where, before[where])
                    self._requests.cluster.note(refused)
                    results[where] = refused
        silence = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "left out of the broker's answer")
        return {where: results.get(where, silence) for where in before}


_NOT_DELETED: Final = {
    ErrorCode.POLICY_VIOLATION: "records can be deleted only where cleanup.policy includes delete",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log ends before that offset",
}


def _not_deleted(
    code: int, where: TopicPartition, offset: int, reason: str | None = None
) -> KafkaError:
    known = KafkaError(code)
    reason = reason or _NOT_DELETED.get(known.code, known.reason)
    asked = "end" if offset == TO_THE_END else offset
    return KafkaError(code, reason, topic=where.topic, partition=where.partition, before=asked)
