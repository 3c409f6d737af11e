"""The window of a share partition: the records that members of one share group may hold now. Pure.

    window = Window(start_offset=0)
    window.acquire("a", read, wanted, settings, now_ms)         # what the member may work on
    window.on_acknowledge("a", batches, ticket, settings, now_ms)
    ready = window.ready()                                   # a change to store, answers to give
    window.on_stored(None, now_ms, settings)

The window is a row of pieces without gaps, from the start offset to the next offset. Before it
everything is done; behind it nothing was delivered yet.

Invariants:
- A record is acquired by one member at a time. Only that member acknowledges it, and only until its
  lock ends.
- A record whose acknowledgement is being stored is neither acquired nor acknowledged again.
- An acknowledgement is answered when it is stored. If it cannot be stored, the member has the
  record again, until the lock ends.
- No record is delivered more often than the limit. After the last delivery it is acknowledged or
  archived.
- At most `lock_limit` records are in the window. (Kafka hands out whole batches beyond it.)
- The start offset never falls, and never passes a record that is not done. Except: records that the
  log has deleted are done.
- With a dead letter topic, what is given up is written there first. Until then it is neither stored
  as archived nor passed by the start offset. A change that cannot be stored then is tried again
  without a second letter.
- One change is stored at a time. What comes meanwhile is stored together after it.

Pieces are as large as what was acquired, and are split only where an acknowledgement splits them,
so that the cost depends on batches and not on records.

A record that was released may rest: it is not delivered before a time, and does not hold up those
behind it. It stays in the window, and counts there.

Poison records: from half of the limit on, only half of a piece is delivered, then a quarter, and
the last delivery is of one record alone. So a record that kills its consumer ends up alone, and
the others of its batch get another chance.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from moldau.broker.share.piece import (
    FINAL,
    NO_MEMBER,
    AcknowledgeType,
    AcquiredRange,
    Letter,
    Piece,
    RecordState,
    StoredRun,
)
from moldau.broker.share.settings import ShareSettings
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError

Ticket: TypeAlias = object
_FIRST: Final = attrgetter("first")
_FEWEST_DELIVERIES: Final = 2
"""With this limit or less there is nothing to halve."""

REJECTED: Final = "Offset rejected by client."
TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
"""The reasons in dead letters, as Kafka words them."""
ARCHIVING: Final = 3
"""A state that only Kafka stores: the record is given up, and its letter is not written yet."""
BURIED_AGAIN_MS: Final = 1000
"""When a letter is tried again that could not be written."""

_STATE_OF: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class ReadBatch(NamedTuple):
    """A batch that was read from the log."""

    first: int
    last: int
    is_aborted: bool = False
    """Whether it belongs to an aborted transaction that the group must not see."""
    due_ms: int = 0
    """Before when its records are not delivered the first time."""


class AcquireLimits(NamedTuple):
    """How much a member wants."""

    records: int
    batch_records: int = 2**31 - 1
    """The size of the pieces that it prefers. Pieces end where batches do."""
    is_strict: bool = False
    """Whether `records` is a limit that is never exceeded (KIP-1206), and not where to stop after a
    whole batch."""


class Acknowledgement(NamedTuple):
    """What a member says of a run of offsets: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]
    delay_ms: int = -1
    """How long what is released rests; -1 leaves it to the group."""
    reason: str | None = None
    """Why records are rejected."""

    def type_at(self, offset: int) -> int:
        return self.types[0] if len(self.types) == 1 else self.types[offset - self.first]


class Store(NamedTuple):
    """A change to store: the start offset after it, how many records behind that are done, and the
    runs that changed."""

    start_offset: int
    complete_count: int
    runs: tuple[StoredRun, ...]


class Burial(NamedTuple):
    """What waits until letters are in the dead letter topic: a request, or the end of a lock."""

    pieces: list[Piece]
    ticket: Ticket | None
    letters: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do, in this order: write the letters, store the change, give the answers,
    and if records became available, try waiting fetches. Then wake the window at `due_ms`."""

    burials: tuple[Burial, ...] = ()
    store: Store | None = None
    answers: tuple[tuple[Ticket, KafkaError | None], ...] = ()
    is_available: bool = False
    due_ms: int | None = None


class Window:
    """The window of one share partition; see the module."""

    def __init__(self, start_offset: int, stored: Iterable[StoredRun] = (), limit: int = 0) -> None:
        """`stored` are the runs of the loaded state, sorted. What they do not mention before their
        last offset was not delivered, or that was not stored: it is available."""
        self.start_offset = start_offset
        self.next_offset = start_offset
        """The offset after the last one in the window."""
        self.pieces: list[Piece] = []
        self._locks: list[tuple[int, int, Piece]] = []
        """A heap of ends of locks. An entry counts if its piece still ends then."""
        self._sequence = 0
        self._unstored: list[Piece] = []
        """Pieces that wait until their change is stored. They are never split meanwhile."""
        self._lapsed: list[StoredRun] = []
        """What became of records whose lock ended, to be stored; nothing waits for it."""
        self._must_store = False
        self._owes_start = False
        """Whether the start was chosen here, and no change was stored since."""
        self._tickets: list[Ticket] = []
        self._storing: tuple[list[Piece], list[StoredRun], list[Ticket]] | None = None
        self._answers: list[tuple[Ticket, KafkaError | None]] = []
        self._has_more = False
        self._unburied: list[Burial] = []
        self._burying: list[Burial] = []
        for run in (each for each in stored if each.last >= start_offset):
            piece = _loaded(run, start_offset)
            if piece.first > self.next_offset:
                self._append(Piece(self.next_offset, piece.first - 1, RecordState.AVAILABLE, 0))
            self._append(piece)
            self._rest(piece, run.rest_ms)
            if piece.pending is not None:
                self._end_request([piece], [_late_letter(piece, limit)], None)
        self._advance()

    def _append(self, piece: Piece) -> None:
        assert piece.first == self.next_offset
        self.pieces.append(piece)
        self.next_offset = piece.last + 1

    # Questions.

    def __len__(self) -> int:
        """Return how many records are in the window."""
        return self.next_offset - self.start_offset

    @property
    def fetch_offset(self) -> int:
        """The offset to read from: of the first record that a member can have."""
        for piece in self.pieces:
            # `is_available`, without a call for each piece
            if piece.state is RecordState.AVAILABLE and piece.pending is None and not piece.due_ms:
                return piece.first
        return self.next_offset

    @property
    def is_storing(self) -> bool:
        """Whether a change is being stored, or is to be."""
        return self._storing is not None or bool(self._unstored or self._burying)

    def can_acquire(self, settings: ShareSettings) -> bool:
        """Whether a member could have a record, if the log has one."""
        count = self.next_offset - self.start_offset
        return count < settings.lock_limit or any(each.is_available for each in self.pieces)

    @property
    def complete_count(self) -> int:
        """How many records of the window are done."""
        return sum(len(each) for each in self.pieces if each.is_final)

    @property
    def acquired_count(self) -> int:
        """How many records members hold."""
        return sum(len(each) for each in self.pieces if each.state is RecordState.ACQUIRED)

    def _index_of(self, offset: int) -> int:
        """Return the index of the piece that holds the offset."""
        return bisect_right(self.pieces, offset, key=_FIRST) - 1

    def _cut(self, offset: int) -> int:
        """Let a piece begin at this offset of the window, or at its end. Return its index."""
        if offset >= self.next_offset:
            return len(self.pieces)
        index = self._index_of(offset)
        piece = self.pieces[index]
        if piece.first == offset:
            return index
        rest = piece.split(offset)
        self.pieces.insert(index + 1, rest)
        if rest.state is RecordState.ACQUIRED or rest.is_resting:
            self._lock(rest)
        return index + 1

    # Acquiring.

    def acquire(
        self,
        member_id: str,
        read: Sequence[ReadBatch],
        wanted: AcquireLimits,
        settings: ShareSettings,
        now_ms: int,
    ) -> list[AcquiredRange]:
        """Give a member records among those that were read from `fetch_offset`. Their locks begin
        now."""
        if not read or wanted.records <= 0:
            return []
        self._skip_missing(read, now_ms)
        taken = self._take_available(read, wanted, settings)
        count = sum(len(each) for each in taken)
        is_alone = any(_is_suspect(each.deliveries, settings) for each in taken)
        if count < wanted.records and not is_alone:
            taken += self._take_new(read, wanted, wanted.records - count, settings, now_ms)
        found: list[AcquiredRange] = []
        for piece in taken:
            piece.state = RecordState.ACQUIRED
            piece.member_id = member_id
            if not piece.deliveries:
                piece.batch_size = len(piece)
            piece.deliveries += 1
            piece.due_ms = now_ms + settings.lock_ms
            self._lock(piece)
            before = found[-1] if found else None
            if (
                before is not None
                and before.last + 1 == piece.first
                and before.deliveries == piece.deliveries
                and piece.deliveries > 1
            ):
                found[-1] = before._replace(last=piece.last)
            else:
                found.append(AcquiredRange(piece.first, piece.last, piece.deliveries))
        if found and self._owes_start and self._storing is None:
            self._must_store = True
        self._advance()
        return found

    def _skip_missing(self, read: Sequence[ReadBatch], now_ms: int) -> None:
        """Archive available offsets that the log does not have, and aborted batches. Let records
        rest until the time that they name."""
        at = self.fetch_offset
        for batch in read:
            if batch.first > at:
                _archive(self._free_pieces(at, batch.first - 1))
            if batch.is_aborted:
                _archive(self._free_pieces(batch.first, batch.last))
            elif batch.due_ms > now_ms:
                for piece in self._free_pieces(batch.first, batch.last):
                    if piece.is_available and not piece.deliveries:
                        self._rest(piece, batch.due_ms)
            at = max(at, batch.last + 1)

    def _free_pieces(self, first: int, last: int) -> Iterator[Piece]:
        """Iterate over the pieces of these offsets that are available, or rest, cut at both ends.
        Pieces that wait for a store or for letters are neither returned nor cut."""
        first, last = max(first, self.start_offset), min(last, self.next_offset - 1)
        while first <= last:
            piece = self.pieces[self._index_of(first)]
            after = piece.last + 1
            if piece.state is RecordState.AVAILABLE and piece.pending is None:
                piece = self.pieces[self._cut(first)]
                self._cut(last + 1)
                yield piece
            first = after

    def _take_available(
        self, read: Sequence[ReadBatch], wanted: AcquireLimits, settings: ShareSettings
    ) -> list[Piece]:
        """Return available pieces of the window that were read, until there are enough records."""
        first = max(read[0].first, self.start_offset)
        last = min(read[-1].last, self.next_offset - 1)
        taken: list[Piece] = []
        count = 0
        while first <= last and count < wanted.records:
            index = self._index_of(first)
            piece = self.pieces[index]
            first = piece.last + 1
            if piece.is_available and piece.deliveries >= settings.delivery_limit:
                self._give_up(piece, settings)  # the limit was lowered
            if not piece.is_available:
                continue
            is_suspect = _is_suspect(piece.deliveries, settings)
            if is_suspect and taken:
                break
            size = min(len(piece), last - piece.first + 1)
            if is_suspect:
                size = min(size, _suspect_size(piece, settings))
            if wanted.is_strict:
                size = min(size, wanted.records - count)
            self._cut(piece.first + size)
            taken.append(piece)
            count += size
            if is_suspect:
                break
            first = piece.last + 1
        return taken

    def _take_new(
        self,
        read: Sequence[ReadBatch],
        wanted: AcquireLimits,
        left: int,
        settings: ShareSettings,
        now_ms: int,
    ) -> list[Piece]:
        """Return new pieces behind the window, until there are enough records or locks."""
        taken: list[Piece] = []
        for batch in read:
            if batch.last < self.next_offset:
                continue
            room = settings.lock_limit - len(self)
            if room <= 0 or left <= 0:
                break
            if batch.first > self.next_offset:
                gap_last = min(batch.first - 1, self.next_offset + room - 1)
                self._append(Piece(self.next_offset, gap_last, RecordState.ARCHIVED, 0))
                self._advance()
                room = settings.lock_limit - len(self)
                if gap_last < batch.first - 1 or room <= 0:
                    break
            size = min(batch.last - self.next_offset + 1, room)
            if batch.is_aborted:
                self._append(
                    Piece(self.next_offset, self.next_offset + size - 1, RecordState.ARCHIVED, 0)
                )
                self._advance()
                continue
            if batch.due_ms > now_ms:
                early = Piece(
                    self.next_offset, self.next_offset + size - 1, RecordState.AVAILABLE, 0
                )
                self._append(early)
                self._rest(early, batch.due_ms)
                continue
            if wanted.is_strict:
                size = min(size, left)
            last = taken[-1] if taken else None
            if (
                last is not None
                and last.last + 1 == self.next_offset
                and len(last) < wanted.batch_records
            ):
                last.last += size
                self.next_offset += size
            else:
                piece = Piece(
                    self.next_offset, self.next_offset + size - 1, RecordState.AVAILABLE, 0
                )
                self._append(piece)
                taken.append(piece)
            left -= size
        return taken

    # Acknowledgements.

    def on_acknowledge(
        self,
        member_id: str,
        batches: Sequence[Acknowledgement],
        ticket: Ticket,
        settings: ShareSettings,
        now_ms: int,
    ) -> None:
        """Note what a member says. All counts, or nothing. `ticket` is answered by `ready`."""
        self.on_time(now_ms, settings)
        try:
            if len(batches) > 1:
                _check_apart(batches)
            for batch in batches:
                self._check(member_id, batch, settings)
        except KafkaError as error:
            self._answers.append((ticket, without_frames(error)))
            return
        pieces: list[Piece] = []
        letters: list[Letter] = []
        for batch in batches:
            self._apply(batch, settings, now_ms, pieces, letters)
        self._end_request(pieces, letters, ticket)

    def _check(self, member_id: str, batch: Acknowledgement, settings: ShareSettings) -> None:
        """Raise KafkaError unless the member holds all of these records. Records before the start
        are done, and may be acknowledged again."""
        if batch.last < self.start_offset:
            return
        if not self.pieces:
            raise _invalid_state("the records are not acquired", batch)
        if batch.last >= self.next_offset:
            text = "the records are behind the acquired ones"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text, first=batch.first, last=batch.last)
        index = self._index_of(max(batch.first, self.start_offset))
        while index < len(self.pieces) and self.pieces[index].first <= batch.last:
            piece = self.pieces[index]
            if piece.state is not RecordState.ACQUIRED or piece.pending is not None:
                raise _invalid_state("the records are not acquired", batch)
            if piece.member_id != member_id:
                raise _invalid_state("another member has acquired the records", batch)
            index += 1
        if not settings.may_renew and AcknowledgeType.RENEW in batch.types:
            raise _invalid_state("this group does not renew locks", batch)

    def _apply(
        self,
        batch: Acknowledgement,
        settings: ShareSettings,
        now_ms: int,
        pieces: list[Piece],
        letters: list[Letter],
    ) -> None:
        """Carry out an acknowledgement that was checked. Add the pieces that must be stored, and
        what is to be buried."""
        first = max(batch.first, self.start_offset)
        while first <= batch.last:
            kind, last = batch.types[0], batch.last
            if len(batch.types) > 1:
                kind, last = batch.type_at(first), first
                while last < batch.last and batch.type_at(last + 1) == kind:
                    last += 1
            for piece in self.pieces[self._cut(first) : self._cut(last + 1)]:
                if kind == AcknowledgeType.RENEW:
                    piece.due_ms = now_ms + settings.lock_ms
                    self._lock(piece)
                    continue
                letter = _begin(piece, _STATE_OF[AcknowledgeType(kind)], settings)
                pieces.append(piece)
                if kind == AcknowledgeType.REJECT:
                    letter = _letter(piece, batch.reason or REJECTED)
                if letter is not None and settings.dead_letter_topic and not piece.is_buried:
                    letters.append(letter)
                if piece.pending is not RecordState.AVAILABLE:
                    continue
                rest_ms = batch.delay_ms
                if rest_ms < 0:
                    rest_ms = settings.rest_after(piece.deliveries)
                if rest_ms > 0:
                    piece.pending_due_ms = now_ms + rest_ms
            first = last + 1

    def _end_request(
        self, pieces: list[Piece], letters: Sequence[Letter], ticket: Ticket | None
    ) -> None:
        """Store the changes of a request, after its letters are written."""
        if letters:
            burial = Burial(pieces, ticket, tuple(letters))
            self._unburied.append(burial)
            self._burying.append(burial)
            for piece in pieces:
                piece.is_burying = True
            return
        self._unstored += pieces
        if ticket is None:
            return
        if pieces:
            self._tickets.append(ticket)
        else:
            self._answers.append((ticket, None))

    def on_left(self, member_id: str, ticket: Ticket | None, settings: ShareSettings) -> None:
        """Release all records of a member that has gone. `ticket` is answered by `ready`."""
        held = [
            each
            for each in self.pieces
            if each.state is RecordState.ACQUIRED
            and each.member_id == member_id
            and each.pending is None
        ]
        letters: list[Letter] = []
        for piece in held:
            letter = _begin(piece, RecordState.AVAILABLE, settings)
            if letter is not None and settings.dead_letter_topic and not piece.is_buried:
                letters.append(letter)
        self._end_request(held, letters, ticket)

    def on_buried(
        self, burial: Burial, error: KafkaError | None, now_ms: int, settings: ShareSettings
    ) -> None:
        """The letters of a burial are written, or they could not be."""
        if burial not in self._burying:
            return
        self._burying.remove(burial)
        for piece in burial.pieces:
            piece.is_burying = False
        if error is None:
            written = {letter.last for letter in burial.letters}
            for piece in burial.pieces:
                piece.is_buried |= piece.last in written
            self._end_request(burial.pieces, (), burial.ticket)
            return
        for piece in burial.pieces:
            piece.pending = None
            if piece.state is not RecordState.ACQUIRED:
                continue
            if burial.ticket is None:  # its lock is over: only this window can end it
                piece.member_id = NO_MEMBER
                piece.due_ms = now_ms + BURIED_AGAIN_MS
            self._lock(piece)
        if burial.ticket is not None:
            self._answers.append((burial.ticket, without_frames(error)))
        self.on_time(now_ms, settings)

    def _give_up(self, piece: Piece, settings: ShareSettings) -> None:
        """Archive a piece after its last delivery."""
        if settings.dead_letter_topic:
            piece.pending, piece.pending_due_ms = RecordState.ARCHIVED, 0
            letters = [] if piece.is_buried else [_letter(piece, TOO_OFTEN)]
            self._end_request([piece], letters, None)
        else:
            piece.move(RecordState.ARCHIVED)
            self._note_lapsed(piece)

    # Time, the log, and what was stored.

    def _lock(self, piece: Piece) -> None:
        self._sequence += 1
        heappush(self._locks, (piece.due_ms, self._sequence, piece))

    def _rest(self, piece: Piece, until_ms: int) -> None:
        """Let an available piece rest until then, if that is a time."""
        if piece.state is RecordState.AVAILABLE and until_ms > 0:
            piece.due_ms = until_ms
            self._lock(piece)

    def on_time(self, now_ms: int, settings: ShareSettings) -> bool:
        """End the rests and the locks that are over, and return whether there were any. Records are
        available again when their rest ends. After a lock they are available again, or archived if
        that was the last delivery; that is stored, but nothing waits for it."""
        locks = self._locks
        if not locks or locks[0][0] > now_ms:
            return False
        while locks and locks[0][0] <= now_ms:
            due_ms, _, piece = heappop(locks)
            if not _is_due(piece, due_ms, self.start_offset):
                continue
            if piece.is_resting:
                piece.due_ms = 0
            elif piece.deliveries >= settings.delivery_limit:
                self._give_up(piece, settings)
            else:
                piece.move(RecordState.AVAILABLE)
                rest_ms = settings.rest_after(piece.deliveries)
                if due_ms + rest_ms > now_ms:
                    self._rest(piece, due_ms + rest_ms)
                self._note_lapsed(piece)
            self._has_more = True
        self._advance()
        return True

    def _note_lapsed(self, piece: Piece) -> None:
        due_ms, count = piece.due_ms if piece.is_resting else 0, piece.deliveries
        self._lapsed.append(StoredRun(piece.first, piece.last, piece.state, count, due_ms))
        self._must_store = True

    def on_log_start(self, offset: int) -> bool:
        """The log has deleted the records before `offset`: they are done, even if they are held.
        Return whether there were any."""
        if offset <= self.start_offset:
            return False
        if offset >= self.next_offset:
            self.pieces.clear()
            self.start_offset = self.next_offset = offset
        else:
            del self.pieces[: self._index_of(offset)]
            self.pieces[0].first = self.start_offset = offset
        self._must_store = True
        self._has_more = True
        self._advance()
        return True

    def store_start(self) -> None:
        """Store where the window starts, although nothing has changed: it was chosen just now. If
        that fails, it is tried again when records are acquired."""
        self._must_store = self._owes_start = True

    def on_stored(self, error: KafkaError | None, now_ms: int, settings: ShareSettings) -> None:
        """The change that `ready` returned was stored, or it could not be."""
        assert self._storing is not None
        pieces, lapsed, tickets = self._storing
        self._storing = None
        if error is not None:
            self._lapsed[:0] = lapsed  # stored with the next change
        else:
            self._owes_start = False
        for piece in pieces:
            pending, piece.pending = piece.pending, None
            assert pending is not None
            if error is None:
                piece.move(pending)
                if piece.pending_due_ms:
                    self._rest(piece, piece.pending_due_ms)
                self._has_more |= piece.is_available
                continue
            if piece.is_buried and piece.state is RecordState.ACQUIRED and piece.due_ms <= now_ms:
                piece.member_id = NO_MEMBER  # its lock is over: only this window can end it
                piece.due_ms = now_ms + BURIED_AGAIN_MS
            self._lock(piece)  # the member has it again, unless its lock is over
        for ticket in tickets:
            self._answers.append((ticket, without_frames(error)))
        self._advance()
        self.on_time(now_ms, settings)

    def ready(self) -> Ready:
        """Return what there is to do, each thing once."""
        burials, self._unburied = tuple(self._unburied), []
        store = None
        if self._storing is None and (self._unstored or self._must_store):
            store = self._next_store()
        answers, self._answers = tuple(self._answers), []
        has_more, self._has_more = self._has_more, False
        return Ready(burials, store, answers, has_more, self._due_ms())

    def _due_ms(self) -> int | None:
        locks = self._locks
        while locks:
            due_ms, _, piece = locks[0]
            if _is_due(piece, due_ms, self.start_offset):
                return due_ms
            heappop(locks)  # a piece that is pending is locked anew if it cannot be stored
        return None

    def _next_store(self) -> Store:
        pieces, lapsed, tickets = self._unstored, self._lapsed, self._tickets
        self._unstored, self._lapsed, self._tickets = [], [], []
        self._storing = pieces, lapsed, tickets
        self._must_store = False
        start, done = _start_after(self.start_offset, self.pieces)
        runs = [run for run in lapsed if run.last >= start]
        for each in pieces:
            assert each.pending is not None
            if each.last >= start:
                due_ms, count = each.pending_due_ms, each.deliveries
                runs.append(StoredRun(each.first, each.last, each.pending, count, due_ms))
        return Store(start, done, tuple(runs))

    def _advance(self) -> None:
        """Move the start over the records that are done."""
        count = 0
        for piece in self.pieces:
            if piece.state not in FINAL:
                break
            self.start_offset = piece.last + 1
            count += 1
        if count:
            del self.pieces[:count]

    def on_fenced(self, error: KafkaError) -> None:
        """End the window: another node leads the partition, or its state was deleted."""
        tickets, self._tickets = self._tickets, []
        if self._storing is not None:
            tickets = [*self._storing[2], *tickets]
            self._storing = None
        tickets += [each.ticket for each in self._burying if each.ticket is not None]
        self._burying, self._unburied = [], []
        self._unstored, self._lapsed = [], []
        self._locks.clear()
        self._must_store = False
        self._answers += ((ticket, error) for ticket in tickets)


def _start_after(start: int, pieces: Iterable[Piece]) -> tuple[int, int]:
    """Return the start offset, and how many records behind it are done, after the store."""
    done, is_front = 0, True
    for piece in pieces:
        state = piece.state
        if piece.pending is not None and not piece.is_burying:
            state = piece.pending
        is_done = state in FINAL
        if is_front and is_done:
            start = piece.last + 1
        else:
            is_front = False
            done += len(piece) if is_done else 0
    return start, done


def _archive(pieces: Iterable[Piece]) -> None:
    for piece in pieces:
        piece.move(RecordState.ARCHIVED)


def _begin(piece: Piece, state: RecordState, settings: ShareSettings) -> Letter | None:
    """Begin the change of an acquired piece, which counts when it is stored. Return why it is given
    up, if its last delivery was this one."""
    letter = None
    if state is RecordState.AVAILABLE and piece.deliveries >= settings.delivery_limit:
        state, letter = RecordState.ARCHIVED, _letter(piece, TOO_OFTEN)
    piece.pending, piece.pending_due_ms = state, 0
    return letter


def _is_due(piece: Piece, due_ms: int, start_offset: int) -> bool:
    """Whether an entry of the heap still says when something ends."""
    if piece.due_ms != due_ms or piece.last < start_offset:
        return False
    return (piece.state is RecordState.ACQUIRED and piece.pending is None) or piece.is_resting


def _loaded(run: StoredRun, start_offset: int) -> Piece:
    """Return the piece of a stored run. One that waited for its letter is given up anew."""
    is_archiving = run.state == ARCHIVING
    state = RecordState.ACQUIRED if is_archiving else RecordState(run.state)
    piece = Piece(max(run.first, start_offset), run.last, state, run.delivery_count)
    if is_archiving:
        piece.pending = RecordState.ARCHIVED
    return piece


def _late_letter(piece: Piece, limit: int) -> Letter:
    """Return the letter for which a piece waited when its state was stored. The delivery limit of
    the group says why, as with Kafka."""
    return _letter(piece, TOO_OFTEN if piece.deliveries >= limit else REJECTED)


def _letter(piece: Piece, reason: str) -> Letter:
    return Letter(piece.first, piece.last, piece.deliveries, reason)


def _check_apart(batches: Sequence[Acknowledgement]) -> None:
    """Raise INVALID_RECORD_STATE if a record is acknowledged twice: the first one is its end."""
    for before, after in pairwise(batches):
        if after.first <= before.last:
            raise _invalid_state("a record is acknowledged twice", after)


def _is_suspect(deliveries: int, settings: ShareSettings) -> bool:
    """Whether records that were delivered this often are delivered in smaller pieces: the half of
    their batch, then the half of that, and one by one at last. So the poison among them is found,
    and the others are not given up with it."""
    half = max(_FEWEST_DELIVERIES, -(-settings.delivery_limit // 2))
    return settings.delivery_limit > _FEWEST_DELIVERIES and deliveries >= half


def _suspect_size(piece: Piece, settings: ShareSettings) -> int:
    half = max(_FEWEST_DELIVERIES, -(-settings.delivery_limit // 2))
    if piece.deliveries >= settings.delivery_limit - 1:
        return 1
    return max(1, piece.batch_size >> (piece.deliveries - half + 1))


def _invalid_state(text: str, batch: Acknowledgement) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, text, first=batch.first, last=batch.last)
