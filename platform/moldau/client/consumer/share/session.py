"""A share session with one broker: what is read there, what is held of it, and the next request.
No IO.

A session is a sequence of requests (ShareFetch and ShareAcknowledge) with epochs 0, 1, 2 ..., one
at a time; -1 ends it. Records that arrive are held: the broker gives them to no other consumer
until their lock ends. Acknowledgements travel with the next fetch, or alone if none is made within
5 ms. Half of the lock's time before its end, a lock is renewed (KIP-1222), if the broker can.

A request without an answer, or a lost session, loses all that is held here: the broker releases it,
and acknowledgements of it would be refused.

Invariants: `held` has exactly the offsets that were acquired, for which no final acknowledgement
was given, and whose lock had not ended at the last `end_locks`; an acknowledgement leaves in one
request only, and has one outcome.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.consumer.share.acknowledgements import Acknowledgement, AcknowledgeType, batches
from moldau.client.group.member import Retries
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import Uuid
from moldau.protocol.messages import api_of, share_acknowledge, share_fetch
from moldau.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from moldau.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

NEW: Final = 0
FINAL: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
_BY_RECORDS: Final = 1
_BUSY_WAIT_MS: Final = 50
"""How long a broker may wait for records while acknowledgements may come to be sent."""
_RIDE_S: Final = 0.005
"""How long acknowledgements wait for a fetch to travel with: a quick consumer makes one meanwhile,
and a request of their own would hold that one up."""
_LOCK_S: Final = 30.0
"""Before a broker has said how long its locks last."""
_OF_SESSION: Final = frozenset(
    (
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    )
)


class SharePartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    partition: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a fetch may bring, and the member that it is for."""

    group_id: str
    member_id: str
    min_bytes: int = 1
    bytes_max: int = 52_428_800
    wait_ms_max: int = 500
    by_records: bool = True
    """Whether a fetch never brings more records than there is room for (KIP-1206)."""


@dataclass(frozen=True, slots=True)
class AcquiredFetch:
    """Records that have arrived, and the runs of offsets that were acquired: first, last and how
    often they were delivered."""

    where: SharePartition
    data: bytes | memoryview
    acquired: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of acknowledgements; no error: they are durable."""

    where: SharePartition
    acknowledgements: tuple[Acknowledgement, ...]
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class SessionReady:
    """All there is to do: note what has arrived and what became of acknowledgements, look leaders
    up after `moved`, send the request, and come back at `wake` or when something happens."""

    request: ShareFetchRequest | ShareAcknowledgeRequest | None = None
    wake: float | None = None
    fetched: tuple[AcquiredFetch, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    moved: tuple[KafkaError, ...] = ()


@dataclass(slots=True)
class _News:
    fetched: list[AcquiredFetch] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    moved: list[KafkaError] = field(default_factory=list)


class ShareSession:
    """The session with one broker."""

    def __init__(self, limits: FetchLimits, backoff: Backoff, random: Random) -> None:
        self.limits = limits
        self.epoch = NEW
        self.held: dict[SharePartition, dict[int, float]] = {}
        """Offsets that were acquired and not acknowledged yet, with the end of their lock."""
        self.can_renew = False
        """Whether the broker renews locks; the shell finds out by its version."""
        self._renews_from = -math.inf
        """No lock is renewed before: the broker has refused to, as the group does not allow it."""
        self._ends_from = math.inf
        """No lock of what is held ends before."""
        self.is_closed = False
        self.error: KafkaError | None = None
        """What a retry does not heal, for the shell to take."""
        self.lock_s = _LOCK_S
        self._retries = Retries(backoff, random)
        self._wanted: frozenset[SharePartition] = frozenset()
        self._inside: set[SharePartition] = set()
        self._asking: set[SharePartition] = set()
        """What the session has after the pending request."""
        self._acknowledged: dict[SharePartition, list[Acknowledgement]] = {}
        self._leaves_at = -math.inf
        """When the acknowledgements that wait for a fetch leave without one."""
        self._asked: ShareFetchRequest | ShareAcknowledgeRequest | None = None
        self._sent: dict[SharePartition, list[Acknowledgement]] = {}
        self._is_closing = False
        self._news = _News()

    # Calls of the shell

    @property
    def held_count(self) -> int:
        """How many records are held."""
        return sum(map(len, self.held.values()))

    @property
    def is_settled(self) -> bool:
        """Whether no acknowledgement waits or is under way."""
        return not (self._acknowledged or self._sent)

    def _may_renew(self, now: float) -> bool:
        return self.can_renew and now >= self._renews_from

    def want(self, partitions: Iterable[SharePartition]) -> None:
        """Read exactly these partitions."""
        self._wanted = frozenset(partitions)

    def acknowledge(self, where: SharePartition, given: Acknowledgement, now: float) -> bool:
        """Say what becomes of held records; return whether they were held, else nothing is sent.
        After the end of a lock its record is not held: another consumer may have it."""
        self.end_locks(now)
        held = self.held.get(where, {})
        offsets = range(given.first, given.last + 1)
        if not all(map(held.__contains__, offsets)):
            return False
        if len(held) == len(offsets):
            del self.held[where]
        else:
            for offset in offsets:
                del held[offset]
        if not self._acknowledged:
            self._leaves_at = now + _RIDE_S
        self._acknowledged.setdefault(where, []).append(given)
        return True

    def end_locks(self, now: float) -> None:
        """Give up what is held no longer, because its lock has ended."""
        if now < self._ends_from:
            return
        left = {
            where: {offset: end for offset, end in held.items() if end > now}
            for where, held in self.held.items()
        }
        self.held = {where: held for where, held in left.items() if held}
        self._ends_from = self._first_end()

    def _first_end(self) -> float:
        return min((end for held in self.held.values() for end in held.values()), default=math.inf)

    def hurry(self) -> None:
        """Send acknowledgements now: a call waits for their outcome."""
        self._leaves_at = -math.inf

    def close(self) -> None:
        """End the session with the next request; the broker releases what is still held."""
        self._is_closing = True

    # What to do

    def ready(self, now: float, room: int) -> SessionReady:
        """Return what there is to do, if `room` more records may be held."""
        request, wake = None, None
        if self._asked is None and not self.is_closed:
            if now >= self._retries.not_before or self._is_closing:
                request = self._asked = self._next(now, room)
                wake = None if request else self._next_due(now)
            else:
                wake = self._retries.not_before
        news, self._news = self._news, _News()
        return SessionReady(
            request, wake, tuple(news.fetched), tuple(news.outcomes), tuple(news.moved)
        )

    def _next(self, now: float, room: int) -> ShareFetchRequest | ShareAcknowledgeRequest | None:
        if self._is_closing:
            if self.epoch == NEW:
                self._closed()
                return None
            return self._acknowledge_request(FINAL)
        renewals = self._due_renewals(now)
        if renewals:
            for where, each in renewals.items():
                self._acknowledged.setdefault(where, []).extend(each)
            return self._acknowledge_request(self.epoch, renews=True)
        if room > 0 and self._wanted:
            return self._fetch_request(room)
        if self._acknowledged and now >= self._leaves_at:
            return self._acknowledge_request(self.epoch)
        return None

    def _due_renewals(self, now: float) -> dict[SharePartition, list[Acknowledgement]]:
        """Return a renewal of each lock that has passed half of its time."""
        due = now + self.lock_s / 2
        if due < self._ends_from or self.epoch == NEW or not self._may_renew(now):
            return {}
        found = {
            where: [
                Acknowledgement(offset, offset, AcknowledgeType.RENEW)
                for offset, end in held.items()
                if now < end <= due
            ]
            for where, held in self.held.items()
            if any(now < end <= due for end in held.values())
        }
        if not found:
            self._ends_from = self._first_end()
        return found

    def _next_due(self, now: float) -> float | None:
        """Return when a lock is to be renewed or ends, or acknowledgements are to leave."""
        first = self._first_end()
        if self.can_renew and not math.isinf(first):
            first = max(first - self.lock_s / 2, min(self._renews_from, first))
        if self._acknowledged:
            first = min(first, self._leaves_at)
        return None if math.isinf(first) else first

    def _fetch_request(self, room: int) -> ShareFetchRequest:
        limits = self.limits
        busy = self._acknowledged.keys() | self.held.keys()
        forgotten = set() if self.epoch == NEW else self._inside - self._wanted - busy
        added = set(self._wanted) if self.epoch == NEW else self._wanted - self._inside
        self._asking = (self._inside | added) - forgotten
        self._sent, self._acknowledged = self._acknowledged, {}
        return ShareFetchRequest(
            group_id=limits.group_id,
            member_id=limits.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=min(limits.wait_ms_max, _BUSY_WAIT_MS) if self.held else limits.wait_ms_max,
            min_bytes=limits.min_bytes,
            max_bytes=limits.bytes_max,
            max_records=room,
            batch_size=room,
            share_acquire_mode=_BY_RECORDS if limits.by_records else 0,
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_fetch.FetchPartition(
                            partition_index=each.partition,
                            acknowledgement_batches=batches(
                                share_fetch.AcknowledgementBatch, self._sent.get(each, ())
                            ),
                        )
                        for each in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(added | self._sent.keys()).items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(
                    topic_id=topic_id, partitions=[each.partition for each in partitions]
                )
                for topic_id, partitions in _by_topic(forgotten).items()
            ],
        )

    def _acknowledge_request(self, epoch: int, *, renews: bool = False) -> ShareAcknowledgeRequest:
        self._asking = self._inside
        self._sent, self._acknowledged = self._acknowledged, {}
        return ShareAcknowledgeRequest(
            group_id=self.limits.group_id,
            member_id=self.limits.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=each.partition,
                            acknowledgement_batches=batches(
                                share_acknowledge.AcknowledgementBatch, self._sent[each]
                            ),
                        )
                        for each in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(self._sent).items()
            ],
        )

    # Answers

    def on_answer(
        self, answer: ShareFetchResponse | ShareAcknowledgeResponse | KafkaError, now: float
    ) -> None:
        """Apply the broker's answer, or the failure to get one."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        if isinstance(answer, KafkaError):
            self._broken(answer, now)
        elif answer.error_code:
            self._broken(
                error_from(api_of(answer), answer.error_code, answer.error_message or ""), now
            )
        else:
            self._retries.worked()
            if answer.acquisition_lock_timeout_ms:
                self.lock_s = answer.acquisition_lock_timeout_ms / 1000
            if isinstance(answer, ShareFetchResponse):
                self._came(answer, now)
            else:
                codes = {
                    SharePartition(topic.topic_id, data.partition_index): data.error_code
                    for topic in answer.responses
                    for data in topic.partitions
                }
                self._settle_all(codes, now)
            self._inside = set(self._asking)
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        if asked.share_session_epoch == FINAL:
            self._closed()

    def _closed(self) -> None:
        self.is_closed = True
        self.held.clear()

    def _broken(self, error: KafkaError, now: float) -> None:
        """Begin a new session: what was held of the old one is released by the broker."""
        for where in list(self._acknowledged):
            self._sent.setdefault(where, []).extend(self._acknowledged.pop(where))
        for where in list(self._sent):
            self._settled(where, error, now)
        self.held.clear()
        self._inside.clear()
        self.epoch = NEW
        if error.code not in _OF_SESSION:
            self._retries.put_off(now)
        if error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            self._news.moved.append(without_frames(error))
        else:
            self.error = without_frames(error)

    def _came(self, answer: ShareFetchResponse, now: float) -> None:
        told = {
            SharePartition(topic.topic_id, data.partition_index): data
            for topic in answer.responses
            for data in topic.partitions
        }
        self._settle_all({where: data.acknowledge_error_code for where, data in told.items()}, now)
        end = now + self.lock_s
        for where, data in told.items():
            if data.error_code:
                error = error_from("ShareFetch", data.error_code, data.error_message or "")
                self._refused(where, error, now)
                continue
            if not data.acquired_records:
                continue
            acquired = tuple(
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in data.acquired_records
            )
            held = self.held.setdefault(where, {})
            self._ends_from = min(self._ends_from, end)
            for first, last, _ in acquired:
                held.update(dict.fromkeys(range(first, last + 1), end))
            self._news.fetched.append(AcquiredFetch(where, data.records or b"", acquired))

    def _settle_all(self, codes: Mapping[SharePartition, int], now: float) -> None:
        """Settle what was sent, by the partitions' error codes. None means that it is stored."""
        for where in list(self._sent):
            code = codes.get(where, ErrorCode.NONE)
            facts = {"partition": where.partition}
            error = error_from("ShareAcknowledge", code, **facts) if code else None
            self._settled(where, error, now)

    def _settled(self, where: SharePartition, error: KafkaError | None, now: float) -> None:
        """Note what became of the acknowledgements of a partition. Locks that were renewed last
        longer; after a refusal none is renewed for the time of a lock."""
        sent = self._sent.pop(where)
        renewed = [each for each in sent if each.type is AcknowledgeType.RENEW]
        final = tuple(each for each in sent if each.type is not AcknowledgeType.RENEW)
        held = self.held.get(where, {})
        for each in renewed:
            if each.first in held and error is None:
                held[each.first] = now + self.lock_s
        if renewed and error is not None:
            if not error.retriable:
                self._renews_from = now + self.lock_s
            self._retries.put_off(now)
        if final:
            self._news.outcomes.append(Outcome(where, final, without_frames(error)))
        if error is not None and error.code.refreshes_metadata:
            self._lost(where, error)

    def _refused(self, where: SharePartition, error: KafkaError, now: float) -> None:
        """Read the partition later, after an error that the broker has answered at once."""
        self._lost(where, error)
        self._retries.put_off(now)
        if not (error.retriable or error.code.refreshes_metadata):
            self.error = without_frames(error)

    def _lost(self, where: SharePartition, error: KafkaError) -> None:
        """Give up what is held of a partition that this broker does not lead any more."""
        self._news.moved.append(without_frames(error))
        self.held.pop(where, None)
        self._asking.discard(where)
        waiting = self._acknowledged.pop(where, [])
        if waiting:
            self._news.outcomes.append(Outcome(where, tuple(waiting), without_frames(error)))


def _by_topic(partitions: Iterable[SharePartition]) -> Mapping[Uuid, list[SharePartition]]:
    found: dict[Uuid, list[SharePartition]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic_id, []).append(each)
    return found
