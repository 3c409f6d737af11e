"""Any decisions, any order, a log that rejects, commits slowly and changes hands: each answer comes
exactly once, and none tells of what can still be lost.

Checked when a ticket hears "fine", against the log at that moment:
* all that its decision could see is committed, in the very order in which it was replayed;
* so are its own records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.decision.outcome import Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from tests.broker.decision.fake_log import FINE, FakeLog, Owner, Tale

counts = st.integers(0, 3)
REFUSALS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@dataclass
class Asked:
    """A request, and what its decision saw and wrote."""

    name: str
    owner: Owner
    again: int = -1
    """How many records the decision has to which its answer leads. -1: it leads to none."""
    seen: list[str] = field(default_factory=list)
    records: tuple[str, ...] = ()
    heard: list[object] = field(default_factory=list)
    is_left_to_caller: bool = False


class Leaderships(RuleBasedStateMachine):
    """One log, and one runtime for each leadership of this node. A runtime hears late of what
    happens, in any order."""

    @initialize()
    def begin(self) -> None:
        self.log = FakeLog()
        self.log.records_max = 4
        self.owner = Owner(self.log, publishes=True)
        self.owners = [self.owner]
        self.asked: list[Asked] = []
        self.epoch = 1
        self.serial = 0

    # Requests.

    def ask(self, owner: Owner, again: int = -1) -> Asked:
        asked = Asked(f"{len(self.asked)}", owner, again)
        self.asked.append(asked)
        return asked

    def ticket(self, asked: Asked) -> Ticket:
        def answer(response: Response | KafkaError) -> None:
            asked.heard.append(response)
            assert len(asked.heard) == 1, "answered twice"
            assert not asked.is_left_to_caller
            if not isinstance(response, KafkaError):
                self.check_committed(asked)
            if asked.again >= 0:
                self.run_now(self.ask(asked.owner), asked.again)

        return answer

    def check_committed(self, asked: Asked) -> None:
        committed = self.log.entries[: self.log.high_watermark]
        told = [entry.record for entry in committed]
        assert told[: len(asked.seen)] == asked.seen, "it tells of what is not committed"
        own = [entry for entry in committed if entry.record in asked.records]
        epoch = asked.owner.decisions.leader_epoch
        assert own == [(epoch, record) for record in asked.records]

    def decide(self, asked: Asked, core: Tale, count: int, ticket: Ticket) -> Outcome[str]:
        asked.seen = list(core.replayed)
        self.serial += 1
        asked.records = tuple(f"{self.serial}.{number}" for number in range(count))
        return Outcome(asked.records, ((ticket, FINE),))

    def run_now(self, asked: Asked, count: int) -> None:
        ticket = self.ticket(asked)
        try:
            asked.owner.decisions.run(
                lambda core, now_ms: self.decide(asked, core, count, ticket), ticket
            )
        except ValueError:
            assert not asked.heard, "its caller answers it"
            asked.is_left_to_caller = True

    @rule(count=counts, again=st.integers(-1, 2))
    def run(self, count: int, again: int) -> None:
        self.run_now(self.ask(self.owner, again), count)

    @rule(count=counts, again=st.integers(-1, 2))
    def gather(self, count: int, again: int) -> None:
        asked = self.ask(self.owner, again)
        ticket = self.ticket(asked)
        asked.owner.decisions.gather(
            lambda core, now_ms: self.decide(asked, core, count, ticket), ticket
        )

    @rule()
    def raise_an_error(self) -> None:
        asked = self.ask(self.owner)

        def refuse(core: Tale, now_ms: int) -> Outcome[str]:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

        asked.owner.decisions.run(refuse, self.ticket(asked))

    @rule(count=counts, instead=st.booleans())
    def run_with_care(self, count: int, instead: bool) -> None:
        asked = self.ask(self.owner)
        ticket = self.ticket(asked)

        def on_failure(error: KafkaError, now_ms: int) -> Outcome[str]:
            asked.records = ()
            return Outcome((), ((ticket, FINE if instead else error),))

        asked.owner.decisions.run(
            lambda core, now_ms: self.decide(asked, core, count, ticket)._replace(
                on_failure=on_failure
            ),
            ticket,
        )

    @rule()
    def write_gathered(self) -> None:
        self.owner.decisions.write_gathered()

    # The log.

    @rule(code=st.sampled_from(REFUSALS))
    def reject_the_next_append(self, code: ErrorCode) -> None:
        self.log.rejections = [KafkaError(code)]

    @rule(share=st.integers(0, 3), is_told=st.booleans())
    def replicate(self, share: int, is_told: bool) -> None:
        log = self.log
        if log.leader_epoch is not None:
            log.high_watermark += (log.end_offset - log.high_watermark) * share // 3
        if is_told:
            self.tell()

    @rule()
    def tell(self) -> None:
        self.owner.decisions.on_commit()

    @precondition(lambda self: self.log.leader_epoch is not None)
    @rule(lost=st.integers(0, 4))
    def lose(self, lost: int) -> None:
        self.log.lose(self.log.end_offset - lost)

    @precondition(lambda self: self.log.leader_epoch is None)
    @rule(count=counts)
    def others_write(self, count: int) -> None:
        self.epoch += 1
        self.serial += 1
        self.log.others_wrote([f"other {self.serial}.{each}" for each in range(count)], self.epoch)

    @precondition(lambda self: self.log.leader_epoch is None)
    @rule(is_told=st.booleans())
    def win(self, is_told: bool) -> None:
        """The runtime of before goes on until its owner hears of it."""
        self.epoch += 1
        self.log.win(self.epoch)
        if is_told or not self.owner.decisions.is_open():
            self.elect()

    @precondition(lambda self: self.log.leader_epoch is not None)
    @rule(lost=st.integers(0, 4), count=counts)
    def lose_and_win(self, lost: int, count: int) -> None:
        """So fast that the runtime has heard of nothing."""
        self.lose(lost)
        self.others_write(count)
        self.win(is_told=False)

    @precondition(lambda self: self.log.leader_epoch is not None)
    @rule()
    def elect(self) -> None:
        self.owner.close()
        self.owner = Owner(self.log, self.epoch, publishes=True)
        self.owner.core.replayed = [entry.record for entry in self.log.entries]
        self.owners.append(self.owner)

    @precondition(lambda self: self.log.leader_epoch is None)
    @rule()
    def resign(self) -> None:
        self.owner.close()

    @precondition(lambda self: self.log.leader_epoch == self.owner.decisions.leader_epoch)
    @rule(count=st.integers(1, 3))
    def run_into_a_bug(self, count: int) -> None:
        self.log.rejections = []
        self.owner.breaks = True
        self.run_now(self.ask(self.owner), count)
        assert not self.owner.decisions.is_open()
        self.elect()

    # What must hold.

    @invariant()
    def the_state_is_its_log(self) -> None:
        decisions = self.owner.decisions
        if decisions.is_open() and decisions.leader_epoch == self.log.leader_epoch:
            assert self.owner.core.replayed == [entry.record for entry in self.log.entries]

    @invariant()
    def what_is_published_is_committed(self) -> None:
        for owner in self.owners:
            before = 0
            for records, end in owner.published:
                assert before <= end - len(records)
                before = end
                assert end <= self.log.high_watermark
                stands = self.log.entries[end - len(records) : end]
                assert tuple(entry.record for entry in stands) == records

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return
        self.owner.close()
        for asked in self.asked:
            assert len(asked.heard) == (0 if asked.is_left_to_caller else 1), asked


Leaderships.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLeaderships = Leaderships.TestCase
