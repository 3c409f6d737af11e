"""How far a source may read while transactions are open, without a database."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from moldau.connectors.jdbc.late_commits import LateCommits, OpenTransaction

WAIT_S = 300.0


def transaction(key: str, number: int | None = None, *, prepared: bool = False) -> OpenTransaction:
    return OpenTransaction(key, f"the transaction of pid {key}", number, prepared)


def test_all_rows_are_read_at_once_when_nothing_is_open() -> None:
    late = LateCommits(WAIT_S)

    assert [late.look(bound, [], 0.0).value for bound in (5, 9)] == [5, 9]


def test_nothing_is_read_while_a_transaction_of_the_first_look_is_open() -> None:
    late = LateCommits(WAIT_S)

    assert late.look(5, [transaction("a")], 0.0).value is None
    assert late.look(9, [transaction("a")], 1.0).value is None
    assert late.look(9, [], 2.0).value == 9


def test_a_transaction_holds_back_what_came_after_the_look_before_it() -> None:
    late = LateCommits(WAIT_S)
    late.look(5, [], 0.0)

    assert late.look(9, [transaction("a")], 1.0).value == 5
    assert late.look(12, [transaction("a"), transaction("b")], 2.0).value == 5
    assert late.look(15, [transaction("b")], 3.0).value == 9
    assert late.look(15, [], 4.0).value == 15


def test_a_bound_that_sinks_keeps_what_was_read() -> None:
    late = LateCommits(WAIT_S)
    late.look(9, [], 0.0)

    assert late.look(5, [transaction("a")], 1.0).value == 9


def test_a_transaction_is_waited_for_for_a_bounded_time_and_reported_once() -> None:
    late = LateCommits(WAIT_S)
    late.look(5, [], 0.0)
    late.look(9, [transaction("a")], 10.0)

    held = late.look(9, [transaction("a"), transaction("b")], 309.0)
    expired = late.look(12, [transaction("a")], 310.0)
    after = late.look(15, [transaction("a")], 311.0)

    assert (held.value, held.oldest, held.oldest_s) == (5, transaction("a"), 299.0)
    assert (expired.value, expired.expired) == (12, ((transaction("a"), 300.0),))
    assert (after.value, after.expired, after.oldest) == (15, (), None)


def test_a_session_with_a_new_transaction_holds_back_less() -> None:
    late = LateCommits(WAIT_S)
    late.look(5, [], 0.0)
    late.look(9, [transaction("a")], 1.0)

    assert late.look(12, [transaction("a", 100)], 2.0).value == 5
    assert late.look(15, [transaction("a", 101)], 3.0).value == 12


def test_a_prepared_transaction_holds_back_what_its_session_did() -> None:
    late = LateCommits(WAIT_S)
    late.look(5, [], 0.0)
    late.look(9, [transaction("a")], 1.0)

    assert late.look(12, [transaction("prepared", prepared=True)], 2.0).value == 5
    assert late.look(12, [], 3.0).value == 12


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_no_row_is_skipped_and_all_are_read(seed: int, pause: int) -> None:
    """Transactions begin, take ids, prepare and commit at random; a source looks now and then."""
    chance = random.Random(seed)
    late, last = LateCommits(1e9), 0
    open_now: dict[str, list[int]] = {}
    committed: set[int] = set()
    read: list[int] = []
    ids = names = 0

    def look() -> None:
        nonlocal last
        bound = max(committed, default=0)
        found = [transaction(name, prepared=name.startswith("p")) for name in open_now]
        limit = late.look(bound, found, 0.0).value
        for each in sorted(committed):
            if limit is not None and last < each <= limit:
                read.append(each)
        last = max([last, *read])

    for step in range(60):
        action = chance.choice(["begin", "insert", "commit", "prepare"])
        if action == "begin":
            names += 1
            open_now[f"t{names}"] = []
        elif open_now:
            name = chance.choice(sorted(open_now))
            if action == "insert" and not name.startswith("p"):
                ids += 1
                open_now[name].append(ids)
            elif action == "prepare" and not name.startswith("p"):
                open_now[f"p{name}"] = open_now.pop(name)
            elif action == "commit":
                committed.update(open_now.pop(name))
        if step % pause == 0:
            look()
    for name in sorted(open_now):
        committed.update(open_now.pop(name))
    look()

    assert read == sorted(committed)
