"""The sticky assignor: each task once, even, few moves, standbys on other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.streams.assignors import MemberSpec, Work
from moldau.broker.coordinator.group.streams.assignors.sticky import assign
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks, ids_of

WORKS = st.builds(
    Work,
    st.dictionaries(st.sampled_from("0123"), st.integers(1, 9), min_size=1),
    st.sets(st.sampled_from("0123")).map(frozenset),
    st.integers(0, 2),
)


@st.composite
def members_of(draw: st.DrawFn) -> dict[str, MemberSpec]:
    """Members of some processes, each with tasks that it had. Some tasks are gone."""
    count = draw(st.integers(1, 7))
    places = st.builds(TaskId, st.sampled_from("0123"), st.integers(0, 10))
    owned = draw(st.dictionaries(places, st.integers(0, count - 1)))
    found = {}
    for number in range(count):
        active = frozenset(task for task, owner in owned.items() if owner == number)
        copies = frozenset(draw(st.sets(places, max_size=4))) - active
        process_id = draw(st.sampled_from("xyz"))
        found[f"m{number}"] = MemberSpec(process_id, active, copies)
    return found


def roles(assigned: Mapping[str, Tasks], role: Role) -> Counter[TaskId]:
    return Counter(task for tasks in assigned.values() for task in ids_of(tasks, role))


@given(members_of(), WORKS)
def test_each_task_is_active_once(members: dict[str, MemberSpec], work: Work) -> None:
    assert roles(assign(members, work), Role.ACTIVE) == Counter(work.tasks())


@given(members_of(), WORKS)
def test_members_have_the_same_number_of_active_tasks_or_one_more(
    members: dict[str, MemberSpec], work: Work
) -> None:
    counts = [len(ids_of(tasks, Role.ACTIVE)) for tasks in assign(members, work).values()]
    assert max(counts) - min(counts) <= 1


@given(members_of(), WORKS)
def test_a_process_has_a_task_once(members: dict[str, MemberSpec], work: Work) -> None:
    assigned = assign(members, work)
    held = Counter(
        (members[member_id].process_id, task)
        for member_id, tasks in assigned.items()
        for role in Role
        for task in ids_of(tasks, role)
    )
    assert not held or max(held.values()) == 1


@given(members_of(), WORKS)
def test_stateful_tasks_have_the_standbys_that_there_are_processes_for(
    members: dict[str, MemberSpec], work: Work
) -> None:
    standbys = roles(assign(members, work), Role.STANDBY)
    processes = len({each.process_id for each in members.values()})
    for task in work.tasks():
        is_stateful = task.subtopology_id in work.stateful
        wanted = min(work.standby_count, processes - 1) if is_stateful else 0
        assert standbys[task] == wanted


@given(members_of(), WORKS)
def test_no_even_spread_moves_fewer_tasks(members: dict[str, MemberSpec], work: Work) -> None:
    assigned = assign(members, work)
    existing = set(work.tasks())
    had = {member_id: existing & spec.active for member_id, spec in members.items()}
    kept = sum(len(had[each] & ids_of(assigned[each], Role.ACTIVE)) for each in members)
    least, extra = divmod(len(existing), len(members))
    fuller = sum(len(tasks) > least for tasks in had.values())
    assert kept == sum(min(len(tasks), least) for tasks in had.values()) + min(extra, fuller)


@given(members_of(), WORKS)
def test_a_second_assignment_changes_nothing(members: dict[str, MemberSpec], work: Work) -> None:
    first = assign(members, work)
    again = {
        member_id: MemberSpec(
            members[member_id].process_id, ids_of(tasks, Role.ACTIVE), ids_of(tasks, Role.STANDBY)
        )
        for member_id, tasks in first.items()
    }
    assert assign(again, work) == first


def task(partition: int) -> TaskId:
    return TaskId("0", partition)


def test_a_task_goes_to_the_member_with_its_standby() -> None:
    work = Work({"0": 4}, frozenset("0"), 1)
    gone = {
        "b": MemberSpec("y", frozenset((task(1),)), frozenset((task(3),))),
        "c": MemberSpec("z", frozenset((task(2),)), frozenset((task(0),))),
    }
    assigned = assign(gone, work)
    assert ids_of(assigned["b"], Role.ACTIVE) == {task(1), task(3)}
    assert ids_of(assigned["c"], Role.ACTIVE) == {task(2), task(0)}


def test_what_is_cheap_to_move_moves_to_a_new_member() -> None:
    """A task without state goes before one with a standby, and that before one without."""
    stateless, copied, alone = TaskId("1", 0), task(0), task(1)
    had = frozenset((stateless, copied, alone))
    work = Work({"0": 2, "1": 1}, frozenset("0"))
    members = {"a": MemberSpec("x", had), "b": MemberSpec("y", copies=frozenset((copied,)))}
    assigned = assign(members, work)
    assert ids_of(assigned["b"], Role.ACTIVE) == {stateless}
    members["c"] = MemberSpec("z")
    assigned = assign(members, work)
    assert ids_of(assigned["a"], Role.ACTIVE) == {alone}
    assert ids_of(assigned["b"], Role.ACTIVE) == {copied}


def test_a_new_member_gets_tasks_of_each_subtopology() -> None:
    work = Work({"0": 4, "1": 4}, frozenset("1"))
    assigned = assign({"a": MemberSpec("x", frozenset(work.tasks())), "b": MemberSpec("y")}, work)
    for tasks in assigned.values():
        of_each = Counter(each.subtopology_id for each in ids_of(tasks, Role.ACTIVE))
        assert of_each == {"0": 2, "1": 2}


def test_a_new_member_gets_tasks_of_each_subtopology_from_several_members() -> None:
    """Each of the two has too many by one, and as many of either subtopology."""
    work = Work({"0": 4, "1": 4}, frozenset("1"))
    members = {
        name: MemberSpec("x", frozenset(TaskId(sub, p) for sub in "01" for p in partitions))
        for name, partitions in (("a", (0, 2)), ("b", (1, 3)))
    }
    assigned = assign({**members, "c": MemberSpec("y")}, work)
    assert {each.subtopology_id for each in ids_of(assigned["c"], Role.ACTIVE)} == {"0", "1"}
