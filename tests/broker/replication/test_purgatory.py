"""Who waits is answered once: when what he waits for has come, or exactly when his time is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.log.rounds import rest
from moldau.broker.replication.purgatory import Purgatory
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.replication.turns import MS, HandTurned, Noted


class Scene:
    """A purgatory, its event loop, and notes of what was called."""

    def __init__(self, *, early_ns: int = 0) -> None:
        self.loop = HandTurned(early_ns=early_ns)
        self.purgatory = Purgatory(self.loop, self.loop)
        self.notes: list[str] = []

    def watch(self, name: str, *keys: str, timeout_ms: int = 500, ready: bool = False) -> Noted:
        operation = Noted(name, self.notes, is_ready=ready)
        self.purgatory.watch(operation, keys, timeout_ms)
        return operation

    def assert_empty(self) -> None:
        purgatory = self.purgatory
        assert len(purgatory) == 0
        assert not purgatory._watchers
        assert not purgatory._slots


def test_who_is_ready_is_done_in_the_next_turn_and_not_before() -> None:
    scene = Scene()
    scene.watch("a", "p", ready=True)
    scene.purgatory.moved("p")
    assert scene.notes == []
    scene.loop.turn()
    assert scene.notes == ["a done"]
    scene.assert_empty()
    scene.loop.advance(1000 * MS)
    assert scene.notes == ["a done"]


def test_who_is_not_ready_waits_on() -> None:
    scene = Scene()
    operation = scene.watch("a", "p", "q")
    scene.purgatory.moved("p")
    scene.loop.settle()
    assert len(scene.purgatory) == 1
    operation.is_ready = True
    scene.purgatory.moved("q")
    scene.loop.settle()
    assert scene.notes == ["a done"]
    scene.assert_empty()


def test_many_moves_of_one_turn_are_one_try() -> None:
    scene = Scene()
    tries: list[int] = []
    operation = scene.watch("a", "p")
    operation.on_try = lambda: tries.append(1)
    for _ in range(10):
        scene.purgatory.moved("p")
    scene.loop.settle()
    assert len(tries) == 1


@pytest.mark.parametrize("early_ns", [0, 400_000, 3 * MS])
def test_a_timeout_is_never_early_and_less_than_a_millisecond_late(early_ns: int) -> None:
    scene = Scene(early_ns=early_ns)
    start = scene.loop.now_ns
    scene.watch("a", "p", timeout_ms=500)
    scene.loop.advance(500 * MS - 1)
    assert scene.notes == []
    scene.loop.advance(MS)
    assert scene.notes == ["a late"]
    step_ns = 1000 if early_ns else 0  # by which a coarse loop gets there
    assert scene.loop.now_ns - start <= 501 * MS + step_ns
    scene.assert_empty()


def test_a_later_operation_with_a_shorter_time_is_over_first() -> None:
    scene = Scene()
    scene.watch("long", "p", timeout_ms=500)
    scene.watch("short", "p", timeout_ms=5)
    scene.loop.advance(6 * MS)
    assert scene.notes == ["short late"]
    scene.loop.advance(500 * MS)
    assert scene.notes == ["short late", "long late"]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_at_all_ends_soon_and_not_within_the_call(timeout_ms: int) -> None:
    scene = Scene()
    scene.watch("a", "p", timeout_ms=timeout_ms)
    assert scene.notes == []
    scene.loop.advance(MS)
    assert scene.notes == ["a late"]
    scene.assert_empty()


def test_what_has_moved_before_the_time_was_over_is_not_late() -> None:
    scene = Scene()
    scene.watch("a", "p", timeout_ms=5, ready=True)
    scene.loop.now_ns += 10 * MS
    scene.purgatory.moved("p")
    (timer,) = scene.loop.timers
    timer.callback()
    assert scene.notes == ["a done"]


def test_one_that_begins_to_wait_while_another_times_out_is_not_forgotten() -> None:
    scene = Scene()

    class Again(Noted):
        __slots__ = ()

        def on_timeout(self) -> None:
            scene.watch("second", "p", timeout_ms=0)
            self.notes.append("first late")

    scene.loop.now_ns = 7 * MS  # no part of a millisecond: the second has the deadline of the first
    scene.purgatory.watch(Again("first", scene.notes), ["p"], 0)
    scene.loop.advance(2 * MS)
    assert scene.notes == ["first late", "second late"]
    scene.assert_empty()


def test_one_that_begins_to_wait_while_another_times_out_makes_none_late() -> None:
    scene = Scene()

    class Retry(Noted):
        __slots__ = ()

        def on_timeout(self) -> None:
            self.notes.append("first late")
            scene.watch("retry", timeout_ms=200)

    scene.purgatory.watch(Retry("first", scene.notes), [], 10)
    scene.watch("between", "p", timeout_ms=50)
    scene.loop.advance(51 * MS)
    assert scene.notes == ["first late", "between late"]


def test_who_cancels_is_never_called() -> None:
    scene = Scene()
    first = scene.watch("first", "p", ready=True)
    second = scene.watch("second", "p", ready=True)
    first.on_try = lambda: scene.purgatory.cancel(second)
    scene.purgatory.moved("p")
    scene.loop.settle()
    scene.purgatory.cancel(first)
    scene.purgatory.cancel(Noted("never watched", scene.notes))
    scene.loop.advance(1000 * MS)
    assert scene.notes == ["first done"]
    scene.assert_empty()


def test_who_is_gone_is_dropped_without_a_call() -> None:
    scene = Scene()
    scene.watch("a", "p", ready=True).gone = True
    scene.watch("b", "q").gone = True
    scene.purgatory.moved("p")
    scene.loop.advance(1000 * MS)
    assert scene.notes == []
    scene.assert_empty()


def test_one_that_fails_is_reported_and_the_others_are_tried() -> None:
    scene = Scene()
    for name in "abc":
        scene.watch(name, "p", ready=True).fails = name == "a"
    scene.watch("d", "q", ready=True)
    scene.purgatory.moved("p")
    scene.purgatory.moved("q")
    scene.loop.settle()
    assert scene.notes == ["b done", "c done", "d done"]
    assert [str(each) for each in scene.loop.errors] == ["a"]
    scene.assert_empty()


def test_a_timeout_that_fails_keeps_none_from_his() -> None:
    scene = Scene()
    for name in "abc":
        scene.watch(name, "p", timeout_ms=5).fails = name == "a"
    scene.watch("d", "p", timeout_ms=9)
    scene.loop.advance(20 * MS)
    assert scene.notes == ["a late", "b late", "c late", "d late"]
    assert len(scene.loop.errors) == 1
    scene.assert_empty()


def test_closing_answers_all_and_lets_nobody_wait() -> None:
    scene = Scene()
    scene.watch("late", "p", timeout_ms=500)
    scene.watch("later", "p", timeout_ms=900)
    scene.watch("done", "q", ready=True)
    scene.purgatory.moved("q")
    scene.purgatory.close()
    assert scene.notes == ["done done", "late late", "later late"]
    scene.watch("after", "p", timeout_ms=500)
    scene.loop.advance(MS)
    assert scene.notes[-1] == "after late"
    scene.assert_empty()


def test_a_million_answered_produces_leave_nothing_in_the_wheel() -> None:
    scene = Scene()
    for number in range(3000):
        scene.loop.now_ns += MS
        operation = scene.watch("a", "p", timeout_ms=30_000 + number, ready=True)
        scene.purgatory.moved("p")
        scene.loop.settle()
        assert operation._keys is None
    scene.assert_empty()
    assert len(scene.purgatory._due) < 200
    assert len([each for each in scene.loop.timers if not each.is_cancelled]) == 1


# Against a model.

KEYS = "pqr"
TIMEOUTS = st.integers(-1, 6)
COMMANDS = st.one_of(
    st.tuples(
        st.just("watch"),
        st.sets(st.sampled_from(KEYS), max_size=3),
        TIMEOUTS,
        st.none() | TIMEOUTS,
    ),
    st.tuples(st.just("ready"), st.integers(0, 20)),
    st.tuples(st.just("move"), st.sampled_from(KEYS)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("turn")),
    st.tuples(st.just("advance"), st.integers(0, 3 * MS)),
)


class Retrying(Noted):
    """When its time is over, `child` begins to wait for `retry_ms`, unless that is None."""

    __slots__ = ("child", "retry_ms", "scene")

    def __init__(self, name: str, scene: Scene, retry_ms: int | None) -> None:
        super().__init__(name, scene.notes)
        self.scene = scene
        self.retry_ms = retry_ms
        self.child = Noted(f"{name}, again", scene.notes)

    def on_timeout(self) -> None:
        super().on_timeout()
        if self.retry_ms is not None:
            self.scene.purgatory.watch(self.child, KEYS[:1], self.retry_ms)


class Model:
    """The same in the plainest way: a list of who waits, asked in order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, list[str], Noted]] = []
        self.moved: list[str] = []
        self.notes: list[str] = []

    def watch(self, operation: Noted, keys: list[str], timeout_ms: int, now_ns: int) -> None:
        deadline = -(-(now_ns + max(0, timeout_ms) * MS) // MS) * MS
        self.waiting.append((deadline, keys, operation))

    def turn(self) -> None:
        moved, self.moved = self.moved, []
        for key in moved:
            for each in list(self.waiting):
                if key in each[1] and (each[2].is_gone or each[2].is_ready):
                    self.waiting.remove(each)
                    if not each[2].is_gone:
                        self.notes.append(f"{each[2].name} done")

    def expire(self, now_ns: int) -> None:
        while self.waiting:
            first = min(self.waiting, key=lambda each: each[0])
            deadline, _, operation = first
            if deadline > now_ns:
                break
            self.waiting.remove(first)
            if not operation.is_gone:
                self.notes.append(f"{operation.name} late")
                if isinstance(operation, Retrying) and operation.retry_ms is not None:
                    self.watch(operation.child, [KEYS[0]], operation.retry_ms, deadline)


@given(st.lists(COMMANDS, max_size=60))
@settings(max_examples=400)
def test_it_does_what_the_plain_model_does(commands: list[tuple[Any, ...]]) -> None:
    scene, model = Scene(), Model()
    made: list[Retrying] = []
    for command, *args in commands:
        if command == "watch":
            keys = sorted(args[0])
            made.append(Retrying(str(len(made)), scene, args[2]))
            scene.purgatory.watch(made[-1], keys, args[1])
            model.watch(made[-1], keys, args[1], scene.loop.now_ns)
        elif command == "move":
            scene.purgatory.moved(args[0])
            is_watched = any(args[0] in keys for _, keys, _ in model.waiting)
            if is_watched and args[0] not in model.moved:
                model.moved.append(args[0])
        elif command == "turn":
            scene.loop.settle()
            model.turn()
        elif command == "advance":
            scene.loop.advance(args[0])
            model.turn()
            model.expire(scene.loop.now_ns)
        elif args[0] < len(made):
            operation = made[args[0]]
            if command == "ready":
                operation.is_ready = True
            elif command == "leave":
                operation.gone = True
            else:
                scene.purgatory.cancel(operation)
                model.waiting = [each for each in model.waiting if each[2] is not operation]
        assert scene.notes == model.notes
        assert len(scene.purgatory) == len(model.waiting)
        for key in KEYS:
            assert scene.purgatory.is_watched(key) == any(key in each[1] for each in model.waiting)
    scene.loop.advance(100 * MS)
    scene.assert_empty()


def test_max_wait_is_exact_on_an_event_loop() -> None:
    """On the simulated loop, with others that come, go and are done meanwhile."""
    waited: list[tuple[int, float]] = []

    class Timed(Noted):
        __slots__ = ("began", "runtime", "timeout_ms")

        began: float
        runtime: Runtime
        timeout_ms: int

        def on_timeout(self) -> None:
            waited.append((self.timeout_ms, self.runtime.clock.monotonic() - self.began))

    async def main(runtime: Runtime) -> None:
        purgatory = Purgatory(runtime.clock, asyncio.get_running_loop())
        for number in range(200):
            operation = Timed("a", [], is_ready=number % 3 == 0)
            operation.runtime, operation.began = runtime, runtime.clock.monotonic()
            operation.timeout_ms = runtime.random.randrange(700)
            purgatory.watch(operation, ["p"], operation.timeout_ms)
            if number % 10 == 0:
                purgatory.moved("p")
            await rest(runtime.random.random() / 50)

    with Simulation(3) as world:
        world.add_node("node", main)
        world.run_for(10)
    assert len(waited) > 100
    for timeout_ms, seconds in waited:
        assert timeout_ms <= seconds * 1000 + 1e-6 < timeout_ms + 1
