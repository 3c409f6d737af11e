"""The one order in which coordinators and the controller carry out their decisions.

decide -> append the records as one batch -> replay them -> park the answers until everything
appended so far is committed in the leader epoch of the decision -> release them and the effects,
or refuse them.

Each decision has a name, for logs and metrics: that of its API, or of what caused it.

Decisions that do not depend on each other can be gathered: they share one batch. Before any other
decision the gathered records are appended and replayed. If a shared batch is rejected for an error
that may be the fault of one of them, each is appended alone.

Invariants:
- One decision is made at a time, after all records that were appended before are replayed.
  (Gathered decisions do not see each other's records.)
- An answer is released only when the records of its decision, and all before them, are committed
  in the leader epoch that this runtime serves. A runtime serves one leader epoch; the next one gets
  a new runtime, with a state that is loaded anew. The answers of another epoch are refused.
- Each answer is given once, and each effect released once, after the answers of its outcome. After
  `close` nothing waits.
- A rejected append changes nothing: none of its records was replayed. Its answers are given at
  once: those of `on_failure`, or the error. If the log closes the runtime within an append,
  `on_failure` is not called: the core has ended.
- An error that a decision raises is an answer like any other: it waits for the records that it may
  depend on.
- A record that is in the log and cannot be replayed is a bug. The state is not trusted again:
  everything that waits is refused, and `Hooks.on_broken` informs the owner. The exception goes to
  the caller. The caller of `run` must then answer the ticket that it passed.

Why records are replayed after the append, and not before it as Kafka does: a rejected append would
have to be reverted, and so every core would need snapshots of its state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from moldau.broker.decision.log import Append, DecisionLog
from moldau.broker.decision.outcome import (
    Answer,
    Effect,
    Outcome,
    ParkedOutcome,
    Ticket,
    give,
    give_all,
)
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import NO_PRODUCER

if TYPE_CHECKING:
    from moldau.broker.decision.context import RequestContext
    from moldau.records import Producer

GATHERED_MAX: Final = 1000
_OF_ONE_OF_THEM: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors of a shared batch that may be caused by only one of its outcomes."""
_REQUEST: Final = "request"
_OF_NO_REQUEST: Final = (None, NO_PRODUCER, None)
_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000


class Core(Protocol):
    """The state that decisions read and change."""

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to do."""
        ...

    def settle(self, now_ms: int) -> Outcome[Any] | None:
        """Tidy up and return the next outcome to carry out. Called after each outcome unless
        `is_settled`, until it returns None."""
        ...


C = TypeVar("C", bound=Core)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Hooks(Generic[R]):
    """The functions in which the owners of a runtime differ."""

    replay: Callable[[int, Append[R], int], None]
    """Applies appended records. The arguments are the first offset, the append, the time."""
    as_answer: Callable[[KafkaError], KafkaError]
    """Return the error that clients get for an error of the log."""
    on_broken: Callable[[str], None]
    """Called if the state no longer matches the log, with the name of the decision. The owner
    closes the runtime."""
    on_parked: Callable[[], None] = lambda: None
    """Called when answers begin to wait, and none did before. The owner then calls `on_commit` when
    the high watermark or the leadership moves."""
    on_gathered: Callable[[], None] = lambda: None
    """Called when the first outcome is gathered. The owner calls `write_gathered` soon."""
    on_settled: Callable[[], None] = lambda: None
    """Called when the core has settled. Its next deadline may have changed."""
    on_committed: Callable[[tuple[R, ...], int], None] | None = None
    """Called once for each outcome with records, in order, when they are committed, just before
    their answers are given. The other argument is the offset after the last record. It may close
    the runtime, which refuses these answers too; it raises no error."""
    on_effects: Callable[[tuple[Effect, ...]], None] = lambda effects: None
    """Called with the effects of an outcome when its records are committed, after its answers."""
    processed: Callable[[str, float], None] = lambda name, seconds: None
    """Receives the name of each decision, and its duration with its append, in seconds."""
    waited: Callable[[float], None] = lambda seconds: None
    """Receives the time for which the answers of one outcome were parked, in seconds."""


class DecisionRuntime(Generic[C, R]):
    """Carries out the decisions about one state in one leader epoch of its log."""

    __slots__ = (
        "_gathered",
        "_gathered_name",
        "_hooks",
        "_is_releasing",
        "_left_to_caller",
        "_log",
        "_monotonic_ns",
        "_on_committed",
        "_parked",
        "_processed",
        "_replay",
        "core",
        "leader_epoch",
        "refusal",
    )

    def __init__(
        self,
        core: C,
        log: DecisionLog[R],
        hooks: Hooks[R],
        leader_epoch: int,
        monotonic_ns: Callable[[], int],
        refusal: ErrorCode | None = None,
    ) -> None:
        """`refusal` is the reason why nothing can be decided yet; see `open`."""
        self.core = core
        self.leader_epoch = leader_epoch
        self.refusal = refusal
        """The reason why nothing can be decided now. None: decisions are made."""
        self._log = log
        self._hooks = hooks
        self._replay = hooks.replay
        self._processed = hooks.processed
        self._on_committed = hooks.on_committed
        self._monotonic_ns = monotonic_ns
        self._gathered: deque[Outcome[R]] = deque()
        self._gathered_name = _REQUEST
        self._parked: deque[ParkedOutcome[R]] = deque()
        self._is_releasing = False
        self._left_to_caller: Ticket | None = None

    # Life.

    def is_open(self) -> bool:
        """Whether decisions are made."""
        return self.refusal is None

    def open(self, now_ms: int) -> None:
        """Make decisions from now on: the state is loaded. Let the core settle."""
        self.refusal = None
        self.settle(now_ms)

    def close(self, refusal: ErrorCode, tickets: tuple[Ticket, ...] = ()) -> None:
        """Make no more decisions. Refuse all waiting answers, and then the tickets from the core,
        for this reason."""
        self.refusal = refusal
        answers: list[Answer] = []
        for parked in self._parked:
            answers += parked.answers
            parked.answers = ()
        for outcome in self._gathered:
            answers += outcome.answers
        self._parked.clear()
        self._gathered.clear()
        waiting = [ticket for ticket, _ in answers]
        waiting += tickets
        self._refuse_tickets(waiting, KafkaError(refusal))

    # Decisions.

    def run(
        self,
        decide: Callable[[C, int], Outcome[R]],
        ticket: Ticket,
        producer: Producer = NO_PRODUCER,
        origin: RequestContext | None = None,
        name: str = _REQUEST,
    ) -> None:
        """Decide now. `ticket` also gets a KafkaError that the decision raises, or the reason why
        nothing can be decided now."""
        if self._gathered:
            self.write_gathered()
        if self.refusal is not None:
            give(ticket, KafkaError(self.refusal))
            return
        began_ns = self._monotonic_ns()
        now_ms = began_ns // _MS
        outcome: Outcome[R] | None = None
        try:
            outcome = decide(self.core, now_ms)
        except KafkaError as error:
            outcome = Outcome((), ((ticket, without_frames(error)),))
        finally:
            # a bug: the exception reaches the caller; let the core drop what it created for the
            # request
            if outcome is None:
                self.settle(now_ms)
        if outcome.records:
            self._write(outcome, now_ms, name, (ticket, producer, origin))
        else:
            self._park(outcome)
        if not self.core.is_settled:
            self.settle(now_ms)
        self._processed(name, (self._monotonic_ns() - began_ns) / _SECOND)

    def gather(
        self, decide: Callable[[C, int], Outcome[R]], ticket: Ticket, name: str = _REQUEST
    ) -> None:
        """Decide like `run`, but independently of the other gathered decisions. The outcome may
        share its batch with theirs, so its records belong to no transaction."""
        if self.refusal is not None:
            give(ticket, KafkaError(self.refusal))
            return
        try:
            outcome = decide(self.core, self._monotonic_ns() // _MS)
        except KafkaError as error:
            self._park(Outcome((), ((ticket, without_frames(error)),)))
            return
        gathered = self._gathered
        gathered.append(outcome)
        if len(gathered) == 1:
            self._gathered_name = name
            self._hooks.on_gathered()
        elif len(gathered) >= GATHERED_MAX:
            self.write_gathered()

    def write_gathered(self) -> None:
        """Append the gathered outcomes, as one batch if the log accepts it."""
        gathered = self._gathered
        if not gathered:
            return
        began_ns = self._monotonic_ns()
        now_ms = began_ns // _MS
        if len(gathered) == 1:
            self.perform(gathered.popleft(), now_ms, self._gathered_name)
        else:
            self._write_together(now_ms)
        self._processed(self._gathered_name, (self._monotonic_ns() - began_ns) / _SECOND)

    def each(self, decide: Callable[[C, int], Iterable[Outcome[R]]], name: str = "each") -> None:
        """Carry out one outcome after the other: each is done before the next is requested. Do
        nothing if no decision can be made now."""
        if self._gathered:
            self.write_gathered()
        if not self.is_open():
            return
        now_ms = self._monotonic_ns() // _MS
        for outcome in decide(self.core, now_ms):
            self.perform(outcome, now_ms, name)
            if not self.is_open():
                return
        self.settle(now_ms)

    def perform(self, outcome: Outcome[R], now_ms: int, name: str = "deadline") -> None:
        """Carry out an outcome that no request caused, or that was gathered. The core has decided
        it on the current state."""
        self._carry_out(outcome, now_ms, name)
        if not self.core.is_settled:
            self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Let the core tidy up, and carry out the outcomes that it returns."""
        while self.refusal is None:
            more = self.core.settle(now_ms)
            if more is None:
                self._hooks.on_settled()
                return
            self._carry_out(more, now_ms, "settle")

    # Outcomes.

    def _carry_out(self, outcome: Outcome[R], now_ms: int, name: str) -> None:
        """Append, replay and park an outcome that no request waits for."""
        if outcome.records:
            self._write(outcome, now_ms, name, _OF_NO_REQUEST)
        else:
            self._park(outcome)

    def _write(
        self,
        outcome: Outcome[R],
        now_ms: int,
        name: str,
        asked: tuple[Ticket | None, Producer, RequestContext | None],
    ) -> None:
        """Append, replay and park an outcome with records. If a bug prevents that, `run`'s caller
        answers the ticket in `asked`."""
        ticket, producer, origin = asked
        rejected = None
        is_known = False
        try:
            # Each write makes an Append. Its class would take twice as long.
            fields = (outcome.records, self.leader_epoch, producer, origin)
            append: Append[R] = tuple.__new__(Append, fields)
            try:
                offset = self._log.append(append)
            except KafkaError as error:
                rejected = without_frames(error)
            else:
                self._replay(offset, append, now_ms)
            is_known = True
        finally:
            if not is_known:
                self._break(outcome.answers, ticket, name)
        if rejected is not None:
            self._refuse(outcome, rejected, now_ms)
            return
        self._park(outcome)

    def _write_together(self, now_ms: int) -> None:
        gathered = self._gathered
        outcomes = tuple(gathered)
        gathered.clear()

        def on_failure(error: KafkaError, now_ms: int) -> Outcome[R]:
            if error.code in _OF_ONE_OF_THEM:
                gathered.extend(outcomes)
                self._write_one_by_one(now_ms)
            else:
                self._refuse_each(outcomes, error, now_ms)
            return Outcome()

        together = Outcome(
            tuple(record for outcome in outcomes for record in outcome.records),
            tuple(answer for outcome in outcomes for answer in outcome.answers),
            tuple(chain.from_iterable(each.effects for each in outcomes if each.effects)),
            on_failure,
        )
        self.perform(together, now_ms, self._gathered_name)

    def _write_one_by_one(self, now_ms: int) -> None:
        """Append each gathered outcome alone. An answer may cause another decision, which writes
        the rest first."""
        gathered = self._gathered
        try:
            while gathered:
                self._carry_out(gathered.popleft(), now_ms, self._gathered_name)
        finally:
            if gathered:
                self._hooks.on_gathered()

    def _break(self, answers: tuple[Answer, ...], ticket: Ticket | None, name: str) -> None:
        """Stop after a bug: the state does not match the log. Refuse all that waits."""
        self.refusal = ErrorCode.UNKNOWN_SERVER_ERROR
        self._left_to_caller = ticket
        try:
            self._hooks.on_broken(name)
        finally:
            waiting = [each for each, _ in answers]
            self._refuse_tickets(waiting, KafkaError(self.refusal))
            self._left_to_caller = None

    def _refuse_tickets(self, tickets: Iterable[Ticket], error: KafkaError) -> None:
        left = self._left_to_caller
        give_all(tuple((ticket, error) for ticket in tickets if ticket is not left))

    def _refuse(self, outcome: Outcome[R], error: KafkaError, now_ms: int) -> None:
        """Answer an outcome whose append the log has rejected."""
        # A failing disk closes the runtime during the append. Then `on_failure` cannot decide.
        if outcome.on_failure is None or self.refusal is not None:
            heard = self._hooks.as_answer(error)
            give_all(tuple((ticket, heard) for ticket, _ in outcome.answers))
            return
        instead = outcome.on_failure(error, now_ms)
        assert not instead.records, "what follows a refused append must not need another"
        self._park(instead)

    def _refuse_each(
        self, outcomes: tuple[Outcome[R], ...], error: KafkaError, now_ms: int
    ) -> None:
        """Refuse all outcomes, even if an answer raises an error."""
        done = 0
        try:
            for outcome in outcomes:
                done += 1
                self._refuse(outcome, error, now_ms)
        finally:
            if done < len(outcomes):
                self._refuse_each(outcomes[done:], error, now_ms)

    # Answers.

    @property
    def is_waiting(self) -> bool:
        """Whether any answers are parked, so that `on_commit` must be called."""
        return bool(self._parked)

    @property
    def waiting_since_ns(self) -> int:
        """The monotonic time since which one of the parked answers has waited for the longest."""
        return min(each.since_ns for each in self._parked)

    def _park(self, outcome: Outcome[R]) -> None:
        """Give the answers when everything that is in the log now is committed."""
        records, answers, effects, _ = outcome
        if (
            self._parked
            or self._is_releasing
            or (records and self._on_committed is not None)
            or not self._log.is_level(self.leader_epoch)
        ):
            self._park_on(records, answers, effects)
        elif effects:
            try:
                give_all(answers)
            finally:
                self._hooks.on_effects(effects)
        else:
            give_all(answers)

    def _park_on(
        self, records: tuple[R, ...], answers: tuple[Answer, ...], effects: tuple[Effect, ...]
    ) -> None:
        """Give the answers later, or an error if this runtime has lost its log."""
        if not answers and not effects and (self._on_committed is None or not records):
            return
        if self.refusal is not None or self._log.leader_epoch != self.leader_epoch:
            error = self._lost() if self.refusal is None else KafkaError(self.refusal)
            give_all(tuple((ticket, error) for ticket, _ in answers))
            return
        parked = self._parked
        end_offset, since_ns = self._log.end_offset, self._monotonic_ns()
        parked.append(
            ParkedOutcome(self.leader_epoch, end_offset, records, answers, since_ns, effects)
        )
        if len(parked) == 1:
            self._hooks.on_parked()
        if self._on_committed is not None:
            self.on_commit()

    def _lost(self) -> KafkaError:
        return self._hooks.as_answer(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def on_commit(self) -> None:
        """React to a move of the high watermark or of the leadership: release the answers that are
        committed, and refuse all if this node leads in another epoch, or no longer."""
        if self._is_releasing:
            return  # an answer has called this; the call that gave it continues
        self._is_releasing = True
        try:
            self._release()
        finally:
            self._is_releasing = False

    def _release(self) -> None:
        log, waiting, on_committed = self._log, self._parked, self._on_committed
        while waiting:
            first = waiting[0]
            if not first.is_committed(log.leader_epoch, log.high_watermark):
                if log.leader_epoch == self.leader_epoch:
                    return
                waiting.popleft()
                first.refuse(self._lost())
                continue
            if on_committed is not None and first.records:
                on_committed(first.records, first.end_offset)
            if waiting and waiting[0] is first:
                waiting.popleft()
            self._hooks.waited((self._monotonic_ns() - first.since_ns) / _SECOND)
            effects, first.effects = first.effects, ()
            try:
                first.release()
            finally:
                if effects:
                    self._hooks.on_effects(effects)

    def expire(self, since_ns: int, error: KafkaError) -> None:
        """Refuse the answers that have been parked since this time or longer. Their effects wait
        on: the records are in the log, and it may still commit them."""
        waiting, now_ns = self._parked, self._monotonic_ns()
        late = [each for each in waiting if each.since_ns <= since_ns]
        kept = [each for each in waiting if each.effects or each.since_ns > since_ns]
        waiting.clear()
        waiting.extend(kept)
        answers: list[Answer] = []
        for each in late:
            each.since_ns = now_ns
            answers += each.answers
            each.answers = ()
        self._refuse_tickets([ticket for ticket, _ in answers], error)
