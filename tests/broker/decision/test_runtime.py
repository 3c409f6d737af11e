"""The runtime of decisions, over a log that rejects, is truncated, and changes hands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.outcome import Effect, Outcome
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.records import NO_PRODUCER, Producer
from tests.broker.decision.fake_log import FINE, NS_OF_MS, FakeLog, Owner, Tale

GONE = ErrorCode.NOT_COORDINATOR


def test_records_are_appended_replayed_and_answered_when_committed() -> None:
    owner = Owner(FakeLog())
    owner.run("a", "1", "2")
    owner.run("reads what a wrote")
    assert owner.core.replayed == ["1", "2"]
    assert owner.heard == []
    owner.commit(1)
    assert owner.heard == [], "an outcome is committed as a whole"
    owner.commit()
    assert owner.heard == [("a", "fine"), ("reads what a wrote", "fine")]
    assert owner.waits == 1, "its owner is told once that answers wait"
    assert len(owner.processed) == len(owner.waited) == 2


def test_what_is_committed_at_once_is_answered_at_once() -> None:
    owner = Owner(FakeLog(is_replicated=False))
    owner.run("a", "1")
    owner.run("b")
    assert owner.heard == [("a", "fine"), ("b", "fine")]
    assert owner.waits == 0


def test_an_append_says_its_epoch_its_producer_and_its_request() -> None:
    log = FakeLog(is_replicated=False)
    log.win(7)
    owner = Owner(log, 7)
    producer = Producer(4000, 3, -1, True)
    context = RequestContext("app", "/10.0.0.1", 5, "PLAINTEXT", Principal("User", "alice"))
    outcome, ticket = owner.decided("txn", "1")
    owner.decisions.run(lambda core, now_ms: outcome, ticket, producer, context)
    owner.run("plain", "2")
    owner.gather("together", "3")
    owner.gather("with it", "4")
    owner.decisions.write_gathered()

    assert log.appends == [
        (("1",), 7, producer, context),
        (("2",), 7, NO_PRODUCER, None),
        (("3", "4"), 7, NO_PRODUCER, None),
    ]


def test_a_raised_error_waits_for_what_it_may_depend_on() -> None:
    owner = Owner(FakeLog())

    def refuse(core: Tale, now_ms: int) -> Outcome[str]:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    owner.decisions.run(refuse, owner.ticket("early"))
    assert owner.heard == [("early", ErrorCode.UNKNOWN_MEMBER_ID)]
    owner.run("leaves", "1")
    owner.decisions.run(refuse, owner.ticket("run"))
    owner.decisions.gather(refuse, owner.ticket("gather"))
    assert len(owner.heard) == 1
    owner.commit()
    assert owner.heard[1:] == [
        ("leaves", "fine"),
        ("run", ErrorCode.UNKNOWN_MEMBER_ID),
        ("gather", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


def test_what_was_truncated_is_never_confirmed() -> None:
    """1. "mine" is appended at offset 0, 2. the leadership is lost, and the record with it,
    3. another leader commits its own record at offset 0, 4. this node leads again. Whether the
    runtime hears of each step or only of the last: the request is refused."""
    for hears_of_loss in (True, False):
        log = FakeLog()
        owner = Owner(log)
        owner.run("mine", "1")
        log.lose(0)
        if hears_of_loss:
            owner.decisions.on_commit()
        log.others_wrote(["theirs", "too"], 2)
        log.win(3)
        owner.decisions.on_commit()
        assert owner.heard == [("mine", GONE)]


def test_a_state_of_another_leadership_decides_nothing() -> None:
    """Its owner has not heard yet that the leadership was lost and won again."""
    log = FakeLog()
    owner = Owner(log)
    owner.run("before", "1")
    owner.commit()
    log.lose(1)
    owner.run("lost", "2")
    owner.run("lost, no records")
    log.win(3)
    owner.run("won again", "3")
    owner.run("won again, no records")
    assert [entry.record for entry in log.entries] == ["1"]
    assert owner.core.replayed == ["1"]
    assert owner.heard[1:] == [
        ("lost", GONE),
        ("lost, no records", GONE),
        ("won again", GONE),
        ("won again, no records", GONE),
    ]


def test_a_rejected_append_changes_nothing_and_is_answered_at_once() -> None:
    log = FakeLog()
    owner = Owner(log)
    told: list[tuple[ErrorCode, int]] = []

    def on_failure(error: KafkaError, now_ms: int) -> Outcome[str]:
        told.append((error.code, now_ms))
        return Outcome((), ((owner.ticket("instead"), FINE),))

    too_few = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    log.rejections = [too_few, too_few]
    owner.run("plain", "1")
    outcome, ticket = owner.decided("with care", "2")
    owner.decisions.run(lambda core, now_ms: outcome._replace(on_failure=on_failure), ticket)
    assert owner.core.replayed == []
    assert log.entries == []
    assert told == [(ErrorCode.NOT_ENOUGH_REPLICAS, 1)]
    assert owner.heard == [("plain", ErrorCode.NOT_ENOUGH_REPLICAS), ("instead", "fine")]


def test_what_replaces_a_rejected_outcome_waits_for_what_is_before_it() -> None:
    log = FakeLog()
    owner = Owner(log)
    owner.run("before", "1")
    log.rejections = [KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)]
    outcome, ticket = owner.decided("with care", "2")
    instead = Outcome[str]((), ((owner.ticket("instead"), FINE),))
    outcome = outcome._replace(on_failure=lambda error, now_ms: instead)
    owner.decisions.run(lambda core, now_ms: outcome, ticket)
    assert owner.heard == []
    owner.commit()
    assert owner.heard == [("before", "fine"), ("instead", "fine")]


def test_a_log_that_closes_the_runtime_within_the_append_asks_the_core_nothing() -> None:
    log = FakeLog()
    owner = Owner(log)
    owner.run("before", "1")
    owner.parked_in_core.append(owner.ticket("parked in the core"))
    log.on_append = owner.close
    log.rejections = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    outcome, ticket = owner.decided("with care", "2")
    asked: list[int] = []

    def on_failure(error: KafkaError, now_ms: int) -> Outcome[str]:
        asked.append(now_ms)
        return Outcome()

    owner.decisions.run(lambda core, now_ms: outcome._replace(on_failure=on_failure), ticket)
    assert asked == []
    assert owner.heard == [("before", GONE), ("parked in the core", GONE), ("with care", GONE)]


def test_gathered_decisions_share_a_batch_and_come_before_any_other() -> None:
    log = FakeLog()
    owner = Owner(log)
    for name in ("a", "b", "c"):
        owner.gather(name, name)
    assert owner.core.replayed == []
    assert owner.gathering == 1, "its owner is told once to write them"
    owner.run("d", "d")
    owner.gather("e", "e")
    owner.decisions.each(lambda core, now_ms: [Outcome(("f",)), Outcome(("g",))])
    assert [append.records for append in log.appends] == [
        ("a", "b", "c"),
        ("d",),
        ("e",),
        ("f",),
        ("g",),
    ]
    owner.decisions.write_gathered()
    owner.commit()
    assert owner.heard == [(name, "fine") for name in "abcde"]


def test_one_of_the_gathered_that_is_too_large_harms_no_other() -> None:
    log = FakeLog()
    log.records_max = 3
    owner = Owner(log)
    owner.gather("a", "1", "2")
    owner.gather("too large", "3", "4", "5", "6")
    owner.gather("b", "7", "8")
    owner.gather("c")
    owner.decisions.write_gathered()
    assert owner.heard == [("too large", ErrorCode.MESSAGE_TOO_LARGE)]
    assert owner.core.replayed == ["1", "2", "7", "8"]
    owner.commit()
    assert owner.heard[1:] == [("a", "fine"), ("b", "fine"), ("c", "fine")]


def test_an_answer_that_leads_to_a_decision_does_not_overtake_what_is_gathered() -> None:
    """1. "large" alone is refused, 2. its client asks for something else in the same moment, 3. the
    decision about that must see the record of "last", which was gathered before it."""
    log = FakeLog()
    log.records_max = 1
    owner = Owner(log)
    seen: list[list[str]] = []

    def again(response: Response | KafkaError) -> None:
        def look(core: Tale, now_ms: int) -> Outcome[str]:
            seen.append(list(core.replayed))
            return owner.decided("again")[0]

        owner.heard.append(("large", "refused"))
        owner.decisions.run(look, owner.ticket("again"))

    owner.gather("first", "1")
    owner.decisions.gather(lambda core, now_ms: Outcome(("2", "3"), ((again, FINE),)), again)
    owner.gather("last", "4")
    owner.decisions.write_gathered()
    assert seen == [["1", "4"]]
    owner.commit()
    assert sorted(name for name, _ in owner.heard) == ["again", "first", "large", "last"]


def test_gathered_decisions_are_all_refused_where_the_log_takes_nothing() -> None:
    log = FakeLog()
    log.rejections = [KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)]
    owner = Owner(log)
    owner.gather("a", "1")
    owner.gather("b", "2")
    owner.decisions.write_gathered()
    assert owner.heard == [(name, ErrorCode.NOT_ENOUGH_REPLICAS) for name in "ab"]
    assert log.entries == []


def test_too_many_gathered_decisions_are_written_at_once() -> None:
    log = FakeLog(is_replicated=False)
    log.records_max = 10_000
    owner = Owner(log)
    for number in range(1000):
        owner.gather(str(number), str(number))
    assert len(owner.heard) == 1000
    assert len(log.appends) == 1


def test_a_record_that_cannot_be_replayed_ends_the_runtime() -> None:
    """The caller of `run` hears the exception, and answers its own request. All others are refused:
    those that were parked, gathered ones, those of the same outcome, and those in the core."""
    log = FakeLog()
    owner = Owner(log)
    owner.run("parked", "1")
    owner.parked_in_core.append(owner.ticket("in the core"))
    own, other = owner.ticket("own"), owner.ticket("other")
    owner.breaks = True
    outcome = Outcome(("2",), ((own, FINE), (other, FINE)))
    with pytest.raises(ValueError, match="a bug"):
        owner.decisions.run(lambda core, now_ms: outcome, own)

    assert owner.broken == 1
    assert owner.heard == [("parked", GONE), ("in the core", GONE), ("other", GONE)]
    owner.commit()
    owner.run("later")
    assert owner.heard[3:] == [("later", GONE)]


def test_a_ticket_that_is_left_to_the_caller_is_not_refused_by_the_core_either() -> None:
    owner = Owner(FakeLog())
    own = owner.ticket("own")
    owner.parked_in_core.append(own)
    owner.breaks = True
    with pytest.raises(ValueError, match="a bug"):
        owner.decisions.run(lambda core, now_ms: Outcome(("1",)), own)
    assert owner.heard == []


def test_gathered_records_that_cannot_be_replayed_are_refused_to_all() -> None:
    owner = Owner(FakeLog())
    owner.gather("a", "1")
    owner.gather("b", "2")
    owner.breaks = True
    with pytest.raises(ValueError, match="a bug"):
        owner.decisions.write_gathered()
    assert owner.heard == [("a", GONE), ("b", GONE)]
    assert owner.broken == 1


def test_an_append_with_an_unknown_end_ends_the_runtime() -> None:
    """It is not known whether the log holds the records."""
    log = FakeLog()
    log.rejections = [ZeroDivisionError()]
    owner = Owner(log)
    owner.gather("a", "1")
    with pytest.raises(ZeroDivisionError):
        owner.decisions.write_gathered()
    assert owner.heard == [("a", GONE)]
    assert owner.broken == 1


def test_closing_refuses_everything_once() -> None:
    log = FakeLog()
    owner = Owner(log)
    owner.run("parked", "1")
    owner.gather("gathered", "2")
    owner.parked_in_core.append(owner.ticket("in the core"))
    owner.close()
    assert owner.heard == [(each, GONE) for each in ("parked", "gathered", "in the core")]
    owner.close()
    owner.decisions.write_gathered()
    owner.commit()
    owner.decisions.each(lambda core, now_ms: [Outcome(("3",))])
    assert len(owner.heard) == 3
    assert [entry.record for entry in log.entries] == ["1"]
    assert not owner.decisions.is_waiting


def test_nothing_is_decided_before_the_state_is_loaded() -> None:
    owner = Owner(FakeLog())
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    owner.decisions.refusal = loading
    owner.run("run", "1")
    owner.gather("gather", "2")
    assert owner.heard == [("run", loading), ("gather", loading)]
    owner.core.more = [Outcome(("settled",))]
    owner.decisions.open(0)
    assert owner.core.replayed == ["settled"]
    owner.run("then")
    owner.commit()
    assert owner.heard[2:] == [("then", "fine")]


def test_what_settling_asks_for_is_done_until_nothing_is_left() -> None:
    owner = Owner(FakeLog(is_replicated=False))
    owner.core.is_settled = False
    owner.core.more = [Outcome(("2",), ((owner.ticket("more"), FINE),)), Outcome(("3",))]
    owner.run("a", "1")
    assert owner.core.replayed == ["1", "2", "3"]
    assert owner.heard == [("a", "fine"), ("more", "fine")]


def test_a_ticket_that_fails_keeps_no_other_from_its_answer() -> None:
    owner = Owner(FakeLog())

    def fails(response: Response | KafkaError) -> None:
        raise ConnectionError

    outcome = Outcome(("1",), ((owner.ticket("a"), FINE), (fails, FINE), (owner.ticket("b"), FINE)))
    owner.decisions.run(lambda core, now_ms: outcome, owner.ticket("unused"))
    owner.run("c", "2")
    with pytest.raises(ConnectionError):
        owner.commit()
    assert owner.heard == [("a", "fine"), ("b", "fine")]
    owner.decisions.on_commit()
    assert owner.heard[2:] == [("c", "fine")]


def test_records_are_published_in_order_before_their_answers() -> None:
    """Also of outcomes that nobody waits for, and where an answer leads to another decision."""
    log = FakeLog(is_replicated=False)
    owner = Owner(log, publishes=True)

    def again(response: Response | KafkaError) -> None:
        owner.heard.append(("a", len(owner.published)))
        owner.run("b", "3")
        owner.heard.append(("a is done", len(owner.published)))

    outcome = Outcome(("1", "2"), ((again, FINE),))
    owner.decisions.run(lambda core, now_ms: outcome, again)
    owner.decisions.perform(Outcome(("4",)), 0)
    assert owner.published == [(("1", "2"), 2), (("3",), 3), (("4",), 4)]
    assert owner.heard == [("a", 1), ("a is done", 1), ("b", "fine")]


def test_what_waits_for_too_long_is_refused_and_the_rest_goes_on() -> None:
    owner = Owner(FakeLog())
    owner.run("a", "1")
    first_ns = owner.now_ns
    owner.now_ns += 5 * NS_OF_MS
    owner.run("b", "2")
    assert owner.decisions.waiting_since_ns == first_ns
    owner.decisions.expire(first_ns, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert owner.heard == [("a", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    owner.commit()
    assert owner.heard[1:] == [("b", "fine")]


# Effects.


@dataclass(frozen=True, slots=True)
class Ring(Effect):
    """Something to do outside."""

    number: int


def rung(owner: Owner, name: str, number: int, *records: str) -> None:
    ticket = owner.ticket(name)
    outcome: Outcome[str] = Outcome(records, ((ticket, FINE),), (Ring(number),))
    owner.decisions.run(lambda core, now_ms: outcome, ticket)


def test_effects_are_released_after_the_answers_when_the_records_are_committed() -> None:
    owner = Owner(FakeLog())
    released_at: list[int] = []
    owner.decisions._hooks = replace(
        owner.decisions._hooks, on_effects=lambda effects: released_at.append(len(owner.heard))
    )
    rung(owner, "one", 1, "a")
    rung(owner, "two", 2)
    assert (owner.heard, released_at) == ([], [])
    owner.commit()
    assert owner.heard == [("one", "fine"), ("two", "fine")]
    assert released_at == [1, 2]
    owner.commit()
    assert released_at == [1, 2], "once"


def test_effects_of_gathered_decisions_are_released_too() -> None:
    owner = Owner(FakeLog())
    outcomes: list[Outcome[str]] = [Outcome((str(at),), (), (Ring(at),)) for at in (1, 2)]
    for _ in range(2):
        owner.decisions.gather(lambda core, now_ms: outcomes.pop(0), owner.ticket("x"))
    owner.decisions.write_gathered()
    owner.commit()
    assert owner.released == [Ring(1), Ring(2)]


def test_effects_of_another_leadership_are_dropped() -> None:
    for end in ("close", "leadership", "refused"):
        owner = Owner(FakeLog())
        if end == "refused":
            owner.log.rejections.append(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
        rung(owner, end, 1, "a")
        if end == "close":
            owner.close()
        owner.log.leader_epoch = 2 if end == "leadership" else owner.log.leader_epoch
        owner.commit()
        assert owner.released == [], end
        assert [name for name, told in owner.heard if told != "fine"] == [end]


def test_effects_outlive_their_answers_that_waited_for_too_long() -> None:
    """The records are in the log: what they ask for has to happen if they are committed."""
    owner = Owner(FakeLog())
    rung(owner, "one", 1, "a")
    owner.run("two", "b")
    late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    owner.now_ns += NS_OF_MS
    owner.decisions.expire(owner.now_ns, late)
    assert [told for _, told in owner.heard] == [late.code, late.code]
    assert owner.decisions.is_waiting
    assert owner.released == []
    assert owner.decisions.waiting_since_ns == owner.now_ns, "not overdue at once again"
    owner.commit()
    assert owner.released == [Ring(1)]
    assert not owner.decisions.is_waiting


def test_what_is_behind_an_effect_that_waits_on_is_refused_in_time() -> None:
    """The effect of the first outcome stays at its place, and begins to wait anew."""
    owner = Owner(FakeLog())
    late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    rung(owner, "one", 1, "a")
    first_ns = owner.now_ns
    owner.now_ns += NS_OF_MS
    owner.run("two", "b")
    second_ns = owner.now_ns
    owner.now_ns += NS_OF_MS
    owner.decisions.expire(first_ns, late)
    assert owner.heard == [("one", late.code)]
    assert owner.decisions.waiting_since_ns == second_ns
    owner.decisions.expire(second_ns, late)
    assert owner.heard[1:] == [("two", late.code)]
    assert owner.decisions.waiting_since_ns == owner.now_ns
    owner.commit()
    assert owner.released == [Ring(1)]
    assert len(owner.heard) == 2


def test_an_answer_that_fails_holds_no_effect_back() -> None:
    owner = Owner(FakeLog())

    def fails(response: object) -> None:
        raise ConnectionError("gone")

    outcome: Outcome[str] = Outcome(("a",), ((fails, FINE),), (Ring(1),))
    owner.decisions.run(lambda core, now_ms: outcome, fails)
    with pytest.raises(ConnectionError):
        owner.commit()
    assert owner.released == [Ring(1)]


def test_a_decision_has_a_name() -> None:
    owner = Owner(FakeLog())
    names: list[str] = []
    owner.decisions._processed = lambda name, seconds: names.append(name)
    done: Outcome[str] = Outcome()
    owner.decisions.run(lambda core, now_ms: done, owner.ticket("x"), name="JoinGroup")
    owner.decisions.gather(lambda core, now_ms: done, owner.ticket("x"), "OffsetCommit")
    owner.decisions.write_gathered()
    assert names == ["JoinGroup", "OffsetCommit"]
