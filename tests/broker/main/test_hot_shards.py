"""Which partition leaves a hot shard, when, and what ends a move."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.main.hot_shards import (
    LEADER_SECONDS,
    STAY_WINDOWS,
    STEP_SECONDS,
    UNDONE_SECONDS,
    HotShards,
    LedPartition,
    Limits,
    Move,
    Progress,
    Ready,
    ShardLoad,
)

WINDOW = 60.0
LIMITS = Limits(WINDOW, 0.8, 1 << 30)


@dataclass
class Place:
    """A partition of the host's shards: where it is, and what it costs its leader."""

    cost: float
    replicas: tuple[int, ...]
    """The first leads."""
    size_bytes: int = 1_000
    isr: tuple[int, ...] | None = None
    is_moving: bool = False


@dataclass
class Host:
    """Shards whose load follows their partitions, and the core that watches them. The broker of
    shard K is 10 + K."""

    count: int
    places: dict[str, Place]
    base: float = 0.0
    now: float = 0.0
    core: HotShards = field(init=False)
    moved: list[Move] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    looked_at: float = -1_000.0

    def __post_init__(self) -> None:
        self.core = HotShards(LIMITS, self.now)
        assert self.step() is None  # where measures begin

    def share(self, number: int) -> float:
        return self.base + sum(
            each.cost for each in self.places.values() if each.replicas[0] == 10 + number
        )

    def loads(self) -> dict[int, ShardLoad]:
        return {number: self.load(number) for number in range(self.count)}

    def load(self, number: int) -> ShardLoad:
        led = tuple(
            LedPartition(
                name,
                0,
                int(each.cost * 1_000_000),
                each.size_bytes,
                each.replicas,
                each.replicas if each.isr is None else each.isr,
            )
            for name, each in self.places.items()
            if each.replicas[0] == 10 + number
        )
        return ShardLoad(
            10 + number,
            self.now - self.looked_at,
            self.share(number),
            sum(each.work for each in led),
            takes_replicas=True,
            is_moving=any(each.is_moving for each in self.places.values()),
            led=led,
        )

    def ready(self) -> Ready:
        found = self.core.ready(self.now)
        self.notices += [each.text for each in found.notices]
        return found

    def step(self) -> Move | None:
        """Look, and return the move that begins."""
        assert self.ready().is_look_due
        loads = self.loads()
        self.looked_at = self.now
        self.core.on_load(loads, self.now)
        return self.ready().step

    def window(self) -> Move | None:
        """Wait for the next look, look, and carry a move out at once."""
        wake = self.ready().wake
        assert wake is not None
        self.now = max(self.now, wake)
        move = self.step()
        if move is not None:
            self.moved.append(move)
            self.places[move.place[0]].replicas = move.goal
            self.core.on_step(Progress.DONE, "", self.now)
            assert self.step() is None  # where the next window begins
        return move


def test_an_in_sync_replica_leads_before_any_is_copied() -> None:
    host = Host(
        2, {"copied": Place(0.4, (10,)), "led": Place(0.2, (10, 30, 11)), "c": Place(0.3, (10,))}
    )
    move = host.window()
    assert move is not None
    assert (move.place, move.kind, move.source, move.target) == (("led", 0), "leader", 0, 1)
    assert move.goal == (11, 10, 30)


def test_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    host = Host(2, {"t": Place(0.4, (10, 11), isr=(10,)), "u": Place(0.5, (10, 11), isr=(10,))})
    assert host.window() is None


def test_what_brings_the_shards_nearest_is_copied_to_the_same_host() -> None:
    host = Host(2, {f"t{n}": Place(cost, (10, 40)) for n, cost in enumerate((0.1, 0.5, 0.3))})
    move = host.window()
    assert move is not None
    assert (move.place, move.kind) == (("t1", 0), "replica")
    assert (move.before, move.goal) == ((10, 40), (11, 40))


def test_topics_of_users_move_before_internal_ones() -> None:
    host = Host(
        2,
        {"__consumer_offsets": Place(0.45, (10,)), "t": Place(0.1, (10,)), "u": Place(0.35, (10,))},
    )
    moves = [host.window() for _ in range(3)]
    assert [each.place[0] for each in moves if each is not None] == ["u"]
    host.places["t"].cost = host.places["u"].cost = 0.0
    host.places |= {name: Place(0.45, (10,), size_bytes=1 << 40) for name in ("v",)}
    found = host.window()
    assert found is not None
    assert found.place[0] == "__consumer_offsets"


STAYS: dict[str, dict[str, Place]] = {
    "it is the whole load": {"t": Place(0.95, (10,))},
    "it would make the target as hot": {"t": Place(0.84, (10,)), "u": Place(0.005, (10,))},
    "it is too large": {"t": Place(0.4, (10,), 1 << 40), "u": Place(0.5, (10,), 1 << 40)},
    "the shard is not hot": {"t": Place(0.4, (10,)), "u": Place(0.4, (10,))},
    "no shard is cool": {"t": Place(0.5, (10,)), "u": Place(0.4, (10,)), "v": Place(0.65, (11,))},
}


@pytest.mark.parametrize("case", STAYS)
def test_a_partition_stays_where(case: str) -> None:
    host = Host(2, dict(STAYS[case]))
    assert [host.window() for _ in range(3)] == [None] * 3
    is_stuck = case.startswith("it ")
    assert len(host.notices) == is_stuck, "a hot shard that stays hot is named once"


def test_a_target_without_room_gets_leaders_and_no_replica() -> None:
    host = Host(2, {"t": Place(0.4, (10,)), "u": Place(0.5, (10,))})
    host.now += WINDOW
    full = {number: each._replace(takes_replicas=False) for number, each in host.loads().items()}
    host.core.on_load(full, host.now)
    assert host.ready().step is None


def hot() -> Host:
    return Host(2, {name: Place(0.3, (10,)) for name in "abc"})


def test_a_measure_that_is_shorter_than_a_window_decides_nothing() -> None:
    host = hot()
    host.now += WINDOW / 2
    host.core.on_load(host.loads(), host.now)
    assert host.ready().step is None
    assert host.core.shares == {0: pytest.approx(0.9), 1: 0}
    for number in (0, 1):  # a shard that has just started, or does not answer
        host = hot()
        host.now += WINDOW
        loads = host.loads()
        loads[number] = loads[number]._replace(elapsed_s=3.0)
        host.core.on_load(loads, host.now)
        assert host.ready().step is None
        host.now += WINDOW
        del loads[number]
        host.core.on_load(loads, host.now)
        assert host.ready().step is None


def test_nothing_moves_while_another_reassignment_goes_on_and_a_window_after() -> None:
    host = hot()
    host.places["other"] = Place(0.0, (10, 11), is_moving=True)
    assert host.window() is None
    host.places["other"].is_moving = False
    host.now += WINDOW
    loads = host.loads()
    loads[1] = loads[1]._replace(elapsed_s=2 * WINDOW)  # it did not answer while that went on
    host.core.on_load(loads, host.now)
    assert host.ready().step is None
    host.looked_at = host.now
    assert host.window() is not None


def begun() -> tuple[Host, Move]:
    host = hot()
    host.now += WINDOW
    move = host.step()
    assert move is not None
    return host, move


def test_one_partition_moves_at_a_time_and_then_a_whole_window_is_measured() -> None:
    host, move = begun()
    assert host.ready().is_first_step
    host.core.on_step(Progress.UNCHANGED, "", host.now)
    assert host.ready().step is None
    assert host.ready().wake == host.now + STEP_SECONDS
    host.now += WINDOW - 1
    host.core.on_step(Progress.GOES_ON, "", host.now)
    host.now += 1
    assert host.step() == move
    assert not host.ready().is_first_step, "no other move begins"
    host.core.on_step(Progress.DONE, "", host.now)
    host.places[move.place[0]].replicas = move.goal
    host.places["d"] = Place(0.4, (10,))
    host.now += 1
    assert host.step() is None  # what was measured was disturbed
    host.now += WINDOW - 1
    assert not host.ready().is_look_due
    host.now += 1
    assert host.step() is not None
    assert host.core.moves == {"leader": 0, "replica": 1}


def test_a_step_that_is_not_answered_is_repeated() -> None:
    host, move = begun()
    for _ in range(3):
        host.core.on_step(None, "", host.now)
        host.now += STEP_SECONDS
        ready = host.ready()
        assert (ready.step, ready.is_first_step) == (move, True)
    host.core.on_step(Progress.UNCHANGED, "", host.now)
    assert not host.ready().is_first_step


ENDS: dict[str, tuple[Progress, str, float, str]] = {
    "rejected": (Progress.UNCHANGED, "INVALID_REPLICA_ASSIGNMENT", 0, "does not move"),
    "cancelled": (Progress.UNCHANGED, "", UNDONE_SECONDS, "does not move"),
    "replaced": (Progress.OVERTAKEN, "", 0, "replaced by another change"),
    "stuck": (Progress.GOES_ON, "", 2 * 600 + LEADER_SECONDS, "does not end"),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_move_that_does_not_succeed_is_named_and_the_partition_stays(case: str) -> None:
    progress, refusal, seconds, text = ENDS[case]
    host, move = begun()
    host.core.on_step(Progress.UNCHANGED, "", host.now)
    host.now += seconds
    host.core.on_step(progress, refusal, host.now)
    assert host.ready().step is None
    assert text in host.notices[-1]
    assert host.core.moves.total() == 0
    assert host.step() is None
    again = host.window()
    assert again is not None
    assert again.place != move.place


def test_a_partition_that_was_moved_stays_for_ten_windows() -> None:
    host = Host(2, {"a": Place(0.5, (10,)), "b": Place(0.4, (10,))})
    first = host.window()
    assert first is not None
    moved_at = host.now
    moved, other = host.places[first.place[0]], ({"a", "b"} - {first.place[0]}).pop()
    host.places["c"] = Place(0.45, (moved.replicas[0],), size_bytes=1 << 40)
    host.places[other].cost = 0.01  # the moved one should go back
    while (move := host.window()) is None:
        assert host.now < moved_at + 20 * WINDOW
    assert move.place == first.place
    assert host.now >= moved_at + STAY_WINDOWS * WINDOW


SHARES = st.floats(0, 0.6)
PLACES = st.lists(st.tuples(SHARES, st.integers(0, 3), st.booleans()), max_size=12)


@given(st.integers(2, 4), PLACES, st.floats(0, 0.3))
def test_moves_end_and_never_make_the_hottest_shard_hotter(
    count: int, costs: list[tuple[float, int, bool]], base: float
) -> None:
    places = {
        f"t{number}": Place(
            cost, (10 + at % count, 10 + (at + 1) % count) if has_two else (10 + at % count,)
        )
        for number, (cost, at, has_two) in enumerate(costs)
    }
    host = Host(count, places, base)
    last_moved: dict[str, float] = {}
    windows = 0
    quiet = 0
    while quiet <= STAY_WINDOWS + 1:
        hottest = max(map(host.share, range(count)))
        move = host.window()
        windows += 1
        assert windows < 500, "it does not end"
        quiet = 0 if move is not None else quiet + 1
        if move is None:
            continue
        assert max(map(host.share, range(count))) <= hottest + 1e-6
        name = move.place[0]
        assert host.now - last_moved.get(name, -1e9) >= STAY_WINDOWS * WINDOW
        last_moved[name] = host.now
        assert len(set(move.goal)) == len(move.before)
