"""A follower's fetch session: what it sends after each answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.replication.session import FollowerPosition, FollowerSession

TOPIC = b"t" * 16
A, B = (TOPIC, 0), (TOPIC, 1)


def wish(offset: int) -> FollowerPosition:
    return FollowerPosition(1, offset, 1, 0, 1000)


def test_only_changes_are_sent_once_the_leader_has_a_session() -> None:
    session = FollowerSession()
    first = session.next({A: wish(0), B: wish(0)})
    assert (first.session_id, first.epoch, set(first.wishes)) == (0, 0, {A, B})
    session.answered(77)
    second = session.next({A: wish(5), B: wish(0)})
    assert (second.session_id, second.epoch, dict(second.wishes)) == (77, 1, {A: wish(5)})
    session.answered(77)
    third = session.next({A: wish(5)}, [B])
    assert (third.epoch, dict(third.wishes), third.forgotten) == (2, {}, (B,))
    session.answered(77)
    assert dict(session.next({A: wish(5), B: wish(0)}).wishes) == {B: wish(0)}


def test_a_request_without_an_answer_ends_the_session() -> None:
    session = FollowerSession()
    session.next({A: wish(0)})
    session.answered(77)
    session.next({A: wish(0)})
    session.end(is_known=True)
    again = session.next({A: wish(0)})
    assert (again.session_id, again.epoch, set(again.wishes)) == (77, 0, {A})
    session.end()
    assert session.next({A: wish(0)}).session_id == 0


def test_without_room_at_the_leader_every_fetch_is_whole() -> None:
    session = FollowerSession()
    for _ in range(3):
        tell = session.next({A: wish(0)})
        assert (tell.epoch, set(tell.wishes)) == (0, {A})
        session.answered(0)


Steps = list[tuple[dict[int, int], list[int], str]]
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=3),
        st.lists(st.integers(0, 4), max_size=2),
        st.sampled_from(["answered", "answered", "no room", "lost", "given up"]),
    ),
    max_size=20,
)


@given(STEPS)
def test_the_leader_always_knows_what_is_wanted(steps: Steps) -> None:
    session = FollowerSession()
    wanted: dict[int, int] = {}
    known: dict[tuple[bytes, int], FollowerPosition] = {}
    epoch = 0
    for changes, gone, outcome in steps:
        gone = [index for index in gone if index not in changes]
        wanted.update(changes)
        for index in gone:
            wanted.pop(index, None)
        tell = session.next(
            {(TOPIC, index): wish(offset) for index, offset in changes.items()},
            [(TOPIC, index) for index in gone],
        )
        if tell.epoch == 0:
            known = {}
        else:
            assert tell.epoch == epoch
            assert not set(tell.forgotten) - set(known)
        known = {key: each for key, each in known.items() if key not in tell.forgotten}
        known.update(tell.wishes)
        assert known == {(TOPIC, index): wish(offset) for index, offset in wanted.items()}
        match outcome:
            case "answered":
                session.answered(77)
                epoch = tell.epoch + 1
            case "no room":
                session.answered(0)
            case _:
                session.end(is_known=outcome == "given up")
