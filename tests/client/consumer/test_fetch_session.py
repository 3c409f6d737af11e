"""A fetch session tells the broker each thing once, and never leaves it with a wrong picture."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.fetch import FetchPosition, FetchSession
from moldau.link.metadata import TopicPartition

ID = b"i" * 16
OTHER = b"o" * 16


def wish(offset: int, topic_id: bytes = ID) -> FetchPosition:
    return FetchPosition(topic_id, offset, 1, 100)


def where(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def test_the_first_fetch_tells_all_and_the_next_only_what_is_new() -> None:
    session = FetchSession()
    first = session.next({where(0): wish(0), where(1): wish(0)})
    assert (first.session_id, first.epoch, session.names_all) == (0, 0, True)
    session.answered(7)
    second = session.next({where(0): wish(5), where(2): wish(0)})
    assert (second.session_id, second.epoch, session.names_all) == (7, 1, False)
    assert dict(second.wishes) == {where(0): wish(5), where(2): wish(0)}
    assert dict(second.forgotten) == {where(1): ID}
    session.answered(7)
    assert session.next({where(0): wish(5), where(2): wish(0)}).wishes == {}


def test_a_topic_that_came_back_under_another_id_is_forgotten_and_told() -> None:
    session = FetchSession()
    session.next({where(0): wish(0)})
    session.answered(7)
    tell = session.next({where(0): wish(0, OTHER)})
    assert dict(tell.forgotten) == {where(0): ID}
    assert dict(tell.wishes) == {where(0): wish(0, OTHER)}


def test_after_an_end_all_is_told_again() -> None:
    session = FetchSession()
    session.next({where(0): wish(0)})
    session.answered(7)
    session.end()
    tell = session.next({where(0): wish(0)})
    assert (tell.session_id, tell.epoch, dict(tell.wishes)) == (0, 0, {where(0): wish(0)})
    session.answered(0)
    assert session.next({where(0): wish(0)}).epoch == 0, "a broker without sessions"


def test_epochs_begin_again_after_the_last_one() -> None:
    session = FetchSession(session_id=7, epoch=2**31 - 1)
    session.answered(7)
    assert session.epoch == 1


WISHES = st.dictionaries(
    st.integers(0, 5).map(where), st.builds(wish, st.integers(0, 3), st.sampled_from([ID, OTHER]))
)


@given(st.lists(st.tuples(WISHES, st.sampled_from(["ok", "lost", "none"]))))
def test_the_broker_always_knows_what_is_wanted(
    steps: list[tuple[dict[TopicPartition, FetchPosition], str]],
) -> None:
    session = FetchSession()
    known: dict[TopicPartition, FetchPosition] = {}
    for wanted, outcome in steps:
        tell = session.next(wanted)
        if tell.epoch == 0:
            known = {}
        for each in tell.forgotten:
            del known[each]
        known |= tell.wishes
        assert known == wanted
        if outcome == "ok":
            session.answered(7)
        elif outcome == "none":
            session.answered(0)
        else:
            session.end()
