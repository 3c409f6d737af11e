"""Shares among workers: complete, even, and nothing in two places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.herder.assignment import Assignor
from moldau.connect.herder.connect_protocol import EMPTY, union, without
from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.keys import TaskId

DELAY_MS = 1_000


def work(connectors: int, tasks: int = 2) -> Assignment:
    names = [f"c{number}" for number in range(connectors)]
    return Assignment(
        frozenset(names), frozenset(TaskId(name, task) for name in names for task in range(tasks))
    )


class Group:
    """Workers that do what the leader says."""

    def __init__(self, delay_ms: int = 0) -> None:
        self.assignor = Assignor(delay_ms)
        self.owned: dict[str, Assignment] = {}
        self.now_ms = 0
        self.delay_ms = 0

    def round(self, configured: Assignment) -> bool:
        """Whether another round has to follow."""
        found = self.assignor.share(configured, self.owned, self.now_ms)
        before = dict(self.owned)
        for member in self.owned:
            kept = without(self.owned[member], found.revoked[member])
            self.owned[member] = union([kept, found.assigned[member]])
            new = found.assigned[member]
            for other, had in before.items():
                if other != member:
                    assert not new.connectors & had.connectors, "still runs elsewhere"
                    assert not new.tasks & had.tasks, "still runs elsewhere"
        self.delay_ms = found.delay_ms
        return any(each != EMPTY for each in found.revoked.values())

    def settle(self, configured: Assignment) -> None:
        for _ in range(10):
            if not self.round(configured):
                return
        raise AssertionError("it never ends")

    def check(self, configured: Assignment) -> None:
        assert union(self.owned.values()) == configured
        assert sum(len(each.tasks) for each in self.owned.values()) == len(configured.tasks)
        counts = [len(each.tasks) for each in self.owned.values()]
        assert max(counts) - min(counts) <= 1
        counts = [len(each.connectors) for each in self.owned.values()]
        assert max(counts) - min(counts) <= 1


def test_the_first_worker_gets_everything_and_a_second_one_half() -> None:
    group = Group()
    group.owned["a"] = EMPTY
    group.settle(work(4))
    group.check(work(4))

    group.owned["b"] = EMPTY
    assert group.round(work(4)), "the first gives up half"
    assert group.owned["b"] == EMPTY, "nothing moves before it has stopped"
    group.settle(work(4))

    group.check(work(4))


def test_what_stays_where_it_is_is_not_touched() -> None:
    group = Group()
    group.owned = {"a": EMPTY, "b": EMPTY}
    group.settle(work(4))
    before = dict(group.owned)

    group.settle(work(5))

    for member, had in before.items():
        assert had.connectors <= group.owned[member].connectors
        assert had.tasks <= group.owned[member].tasks


def test_a_vanished_workers_share_waits_and_is_then_given_to_others() -> None:
    group = Group(DELAY_MS)
    group.owned = {"a": EMPTY, "b": EMPTY}
    group.settle(work(4))
    left = group.owned.pop("b")

    group.round(work(4))
    assert group.delay_ms == DELAY_MS
    assert not group.owned["a"].tasks & left.tasks
    group.now_ms = 400
    group.round(work(4))
    assert group.delay_ms == 600
    group.now_ms = DELAY_MS
    group.settle(work(4))

    group.check(work(4))


def test_a_worker_that_comes_back_gets_what_was_lost_at_once() -> None:
    group = Group(DELAY_MS)
    group.owned = {"a": EMPTY, "b": EMPTY}
    group.settle(work(4))
    kept, left = group.owned["a"], group.owned.pop("b")
    group.round(work(4))

    group.owned["b2"] = EMPTY
    group.settle(work(4))

    assert group.owned == {"a": kept, "b2": left}


def test_a_new_leader_shares_out_at_once_what_nobody_runs() -> None:
    group = Group(DELAY_MS)
    group.owned = {"a": EMPTY, "b": EMPTY}
    group.settle(work(4))
    del group.owned["b"]

    group.assignor.forget()
    group.settle(work(4))

    group.check(work(4))


def test_what_is_deleted_is_given_up() -> None:
    group = Group()
    group.owned = {"a": EMPTY, "b": EMPTY}
    group.settle(work(4))

    group.settle(work(1))

    group.check(work(1))


def test_what_two_workers_run_is_left_to_one() -> None:
    group = Group()
    group.owned = {"a": work(1), "b": work(1)}

    group.settle(work(1))

    group.check(work(1))


@given(
    st.lists(
        st.tuples(st.sampled_from(["join", "leave", "configure", "wait"]), st.integers(0, 5)),
        max_size=15,
    )
)
def test_whatever_happens_it_ends_complete_and_even(events: list[tuple[str, int]]) -> None:
    group, configured = Group(DELAY_MS), work(3)
    group.owned = {"w0": EMPTY}
    for number, (what, count) in enumerate(events):
        if what == "join":
            group.owned[f"x{number}"] = EMPTY
        elif what == "leave" and len(group.owned) > 1:
            group.owned.pop(sorted(group.owned)[count % len(group.owned)])
        elif what == "configure":
            configured = work(count)
        else:
            group.now_ms += 300
        group.round(configured)
    group.settle(configured)
    group.now_ms += 2 * DELAY_MS
    group.settle(configured)
    group.check(configured)
