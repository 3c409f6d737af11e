"""How far a mirror is, what a run reports of it, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from moldau.client import ErrorCode, KafkaError, TopicPartition
from moldau.client.base.unknown_topic import final
from moldau.connect.api import ConnectError
from moldau.mirror.progress import (
    FAILED_S,
    LINE_S,
    LOOK_S,
    CopyProgress,
    FlowLook,
    SessionCore,
    SessionReady,
)
from moldau.mirror.progress import Ready as Progress
from moldau.mirror.rounds import Schedule

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_what_is_copied_counts_from_where_the_run_began() -> None:
    progress = CopyProgress()
    begins, ends = {FIRST: 10, SECOND: 0}, {FIRST: 30, SECOND: 5}

    progress.on_look(begins, ends, {FIRST: 20})
    assert (progress.ready().copied, progress.ready().left) == (0, 15)
    progress.on_look(begins, ends, {FIRST: 30, SECOND: 3})
    ready = progress.ready()

    assert (ready.copied, ready.left) == (13, 2)
    assert ready.line(2.0) == "1 topic, 2 partitions: 13 copied (6/s), 2 to go"
    assert not ready.is_done


def test_a_partition_that_rests_before_its_end_is_unsure_until_it_was_looked_into() -> None:
    progress = CopyProgress()
    for _ in range(2):
        progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 9})
    assert progress.ready().unsure == (FIRST,)

    progress.on_end_reached(FIRST, 10)

    assert progress.ready().is_done


def test_a_fixed_end_does_not_run_away() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {})
    progress.on_look({FIRST: 0}, {FIRST: 99}, {FIRST: 10})

    assert progress.ready().is_done


def test_a_topic_that_was_created_anew_is_left_whole() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 8})
    progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 10})
    assert progress.ready().is_done

    progress.on_look({FIRST: 0}, {FIRST: 3}, {})
    assert (progress.ready().copied, progress.ready().left) == (2, 3)
    progress.on_look({FIRST: 0}, {FIRST: 3}, {FIRST: 3})

    assert (progress.ready().copied, progress.ready().left) == (5, 0)


def test_an_end_that_moves_back_is_the_goal_then() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {})
    progress.on_look({FIRST: 0}, {FIRST: 4}, {FIRST: 4})

    assert progress.ready().is_done


def test_a_job_is_due_once_in_each_interval() -> None:
    schedule = Schedule({"often": 1.0, "rarely": 3.0}, 10.0)

    assert schedule.ready(10.5) == []
    assert schedule.ready(11.0) == ["often"]
    assert schedule.ready(11.0) == []
    assert schedule.ready(14.0) == ["often", "rarely"]


@dataclass
class Session:
    """A core, and what it had written; a look each half second from the time 0 on."""

    is_once: bool = True
    is_terminal: bool = False
    now: float = 0.0
    err: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.core = SessionCore(0.0, is_once=self.is_once, is_terminal=self.is_terminal)

    def wait(self) -> None:
        """Wait for the next look."""
        ready = self.core.ready(self.now)
        assert ready == SessionReady(self.now + LOOK_S)
        self.now = ready.wake
        assert self.core.ready(self.now).is_look_due

    def act(self) -> bool:
        """Write what there is to write. Return whether the run is over."""
        ready = self.core.ready(self.now)
        self.err += ready.err.splitlines()
        self.out += ready.out.splitlines()
        if ready.failure is not None:
            raise ready.failure
        return ready.is_over

    def look(self, *looks: FlowLook) -> bool:
        """Wait and look. Return whether the run is over then."""
        self.wait()
        self.core.on_look(looks, self.now)
        return self.act()

    def look_until_over(self, *looks: FlowLook) -> None:
        """Look again and again."""
        while not self.look(*looks):
            pass

    def fail(self, error: KafkaError) -> bool:
        """Wait, and look without success. Return whether the run is over then."""
        self.wait()
        self.core.on_error(error, self.now)
        return self.act()


def seen(left: int = 0, copied: int = 5, name: str = "A->B", **more: Any) -> FlowLook:
    """A look at a flow with one topic."""
    return FlowLook(name, Progress(1, 2, copied, left, ()), **more)


def test_once_ends_when_all_tasks_ran_and_nothing_is_left() -> None:
    session = Session()

    assert not session.look(seen(1), seen(name="B->A"))
    assert not session.look(seen(), seen(name="B->A", is_running=False))
    assert session.look(seen(), seen(name="B->A"))
    assert session.now == 3 * LOOK_S
    assert session.out == [
        "A->B: 1 topic, 2 partitions: 5 copied (10/s), 1 to go",
        "B->A: 1 topic, 2 partitions: 5 copied (10/s), 0 to go",
        "A->B: 1 topic, 2 partitions: 5 copied (3/s), 0 to go",
    ]


def test_a_mirror_without_an_end_goes_on_and_reports_changes_every_ten_seconds() -> None:
    session = Session(is_once=False)
    times = []
    for number in range(100):
        before = len(session.out)
        assert not session.look(seen(copied=min(number, 30)))
        times += [session.now] * (len(session.out) - before)

    assert times == [LOOK_S, LOOK_S + LINE_S, LOOK_S + 2 * LINE_S]
    assert session.err == []


def test_a_connector_that_stays_failed_ends_once_and_not_a_mirror_without_an_end() -> None:
    failed = seen(1, is_running=False, failures=["A->B: it has failed"])
    lasting, endless = Session(), Session(is_once=False)
    with pytest.raises(ConnectError, match="nothing more is copied: A->B: it has failed"):
        lasting.look_until_over(failed)
    assert lasting.now == LOOK_S + FAILED_S + LOOK_S
    assert lasting.err == ["moldau: A->B: it has failed"]
    for _ in range(100):
        assert not endless.look(failed)
    assert endless.err == ["moldau: A->B: it has failed"]


def test_a_restart_that_works_begins_the_wait_anew() -> None:
    session = Session()
    for _ in range(3):
        for _ in range(int(FAILED_S / LOOK_S)):
            session.look(seen(1, is_running=False, failures=["failed"]))
        session.look(seen(1))

    assert session.look(seen())


def test_a_look_without_an_answer_decides_nothing_and_comes_again() -> None:
    session = Session()
    for error in (
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        final(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        final(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)),
    ):
        assert not session.fail(error)
    assert (session.out, session.err) == ([], [])
    assert session.look(seen())
    assert session.now == 4 * LOOK_S


def test_an_error_that_cannot_pass_ends_the_run() -> None:
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        Session(is_once=False).fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def test_each_problem_is_reported_once() -> None:
    session = Session(is_once=False)
    empty = FlowLook("B->A", Progress(0, 0, 0, 0, ()))
    for refused in (["A->B: x: not copied"], [], ["A->B: x: not copied", "A->B: y: not copied"]):
        session.look(seen(refused=refused), empty)

    assert [line[:24] for line in session.err] == [
        "moldau: A->B: x: not cop",
        "moldau: B->A: no topic o",
        "moldau: A->B: y: not cop",
    ]


def test_on_a_terminal_a_line_is_overwritten_until_the_end() -> None:
    session = Session(is_terminal=True)
    clear = "\r\x1b[K"
    session.core.on_look([seen(3)], 0.5)
    ready = session.core.ready(0.5)
    assert ready.err == f"{clear}A->B: 1 topic, 2 partitions: 5 copied (10/s), 3 to go"
    assert ready.out == ""

    session.core.on_look([seen(failures=["failed"])], 1.0)
    ready = session.core.ready(1.0)
    assert ready.err == f"{clear}moldau: failed\n{clear}"
    assert ready.out == "A->B: 1 topic, 2 partitions: 5 copied (5/s), 0 to go\n"
    assert ready.is_over
