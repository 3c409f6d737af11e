"""A row for which a table's function fails is not in that table, wherever its rows are found."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import Streams, Table, dead_letter, retry
from moldau.streams.testing.driver import Driver

POLICIES = ["skip", dead_letter("dead"), retry(1, backoff=1, then="skip")]


def strict(row: str) -> str:
    if row == "bad":
        raise ValueError(row)
    return row


def is_good(row: str) -> bool:
    return bool(strict(row))


def parity(_: str, row: str) -> tuple[str, str]:
    return str(len(row) % 2), row


def rows(app: Streams, policy: Any, operator: str) -> Table[Any, Any]:
    table: Table[Any, Any] = app.table("rows", str, key=str)
    if operator == "map_values":
        return table.map_values(strict, on_error=policy)
    if operator == "filter":
        return table.filter(is_good, on_error=policy)
    return table.filter_not(lambda row: not is_good(row), on_error=policy)


def piped(driver: Driver, *updates: str | None) -> None:
    """Pipe updates of one row, with pauses in which an attempt is made again."""
    for value in updates:
        driver.pipe("rows", value, key="k", timestamp=1)
        for _ in range(3):  # several operators may try it again, one after the other
            driver.advance(1_000)


OPERATORS = ["map_values", "filter", "filter_not"]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_update_after_a_row_that_failed_is_passed_on(policy: Any, operator: str) -> None:
    app = Streams("app")
    rows(app, policy, operator).changes().to("out")
    driver = app.test()
    piped(driver, "one", "bad", "two")
    assert [each.value for each in driver.read("out")] == ["one", None, "two"]
    assert sum(driver.counters()[each] for each in ("skipped", "dead-lettered")) == 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_row_that_was_not_there_before_is_no_update(operator: str) -> None:
    app = Streams("app")
    rows(app, "skip", operator).changes().to("out")
    driver = app.test()
    piped(driver, "bad", "bad", "two")
    assert [each.value for each in driver.read("out")] == ["two"]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_groups_of_rows_lose_a_row_that_fails(policy: Any, operator: str) -> None:
    app = Streams("app", emit="every")
    rows(app, policy, operator).group_by(parity).count(name="groups")
    driver = app.test()
    piped(driver, "one", "bad")
    assert driver.store("groups") == {"1": 0}
    piped(driver, "four", "bad", "six")
    assert driver.store("groups") == {"1": 1, "0": 0}


def names_first(app: Streams, table: Table[Any, Any], kind: str) -> None:
    names = app.table("names", str, key=str)
    if kind == "lookup":
        names.changes().left_join(table, lambda name, row: f"{name} {row}").to("out")
    elif kind == "tables":
        names.left_join(table, lambda name, row: f"{name} {row}").changes().to("out")
    else:
        on: Any = {"on": lambda _: "k", "name": "joined"}
        names.left_join(table, lambda name, row: f"{name} {row}", **on).changes().to("out")


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", ["lookup", "tables", "foreign key"])
def test_a_join_finds_no_row_that_fails(policy: Any, operator: str, kind: str) -> None:
    app = Streams("app")
    names_first(app, rows(app, policy, operator), kind)
    driver = app.test()
    piped(driver, "one", "bad")
    driver.read("out")
    driver.pipe("names", "ada", key="k", timestamp=2)
    assert [each.value for each in driver.read("out")] == ["ada None"]


def test_the_left_rows_of_a_foreign_key_are_found_without_one_that_fails() -> None:
    app = Streams("app")
    left = rows(app, "skip", "map_values")
    names = app.table("names", str, key=str)
    joined = left.join(names, lambda row, name: f"{row} {name}", on=lambda _: "n", name="joined")
    joined.changes().to("out")
    driver = app.test()
    driver.pipe("names", "ada", key="n", timestamp=1)
    piped(driver, "one", "bad")
    driver.pipe("names", "bob", key="n", timestamp=2)
    piped(driver, "two")
    assert [each.value for each in driver.read("out")] == ["one ada", None, "two bob"]


def test_rows_emitted_at_commits_go_on_after_one_that_fails() -> None:
    app = Streams("app", on_error="skip")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    counts.map_values(lambda count: 1 // (count - 2)).changes().to("out")
    driver = app.test()
    for _ in range(4):
        driver.pipe("in", "x", key="k")
    assert [each.value for each in driver.read("out", type=int)] == [-1, None, 1, 0]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("own", [True, False], ids=["operator's", "app's"])
def test_groups_of_rows_emitted_at_commits_lose_a_row_that_fails(policy: Any, own: bool) -> None:
    app = Streams("app") if own else Streams("app", on_error=policy)
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    quotients = counts.map_values(lambda count: 1 // (count - 2), on_error=policy if own else None)
    quotients.group_by(lambda _, quotient: ("all", quotient)).count(name="groups")
    driver = app.test()
    found = []
    for _ in range(4):
        driver.pipe("in", "x", key="k")
        driver.advance(1_000)
        found.append(driver.store("groups")["all"])
    assert found == [1, 0, 1, 1]
    assert sum(driver.counters()[each] for each in ("skipped", "dead-lettered")) == 1


def test_a_policy_to_fail_ends_the_app_at_a_join_too() -> None:
    app = Streams("app")
    names_first(app, rows(app, None, "map_values"), "tables")
    with pytest.raises(Exception, match="bad"):
        piped(app.test(), "one", "bad")


def groups(app: Streams, policy: Any) -> None:
    def strict_parity(_: str, row: str) -> tuple[str, str]:
        return parity(_, strict(row))

    grouped = app.table("rows", str, key=str).group_by(strict_parity, on_error=policy)
    counts: Any = grouped.count(name="groups")
    counts.changes().map_values(str).to("out")


def joined_by_key(app: Streams, policy: Any) -> None:
    table, names = app.table("rows", str, key=str), app.table("names", str, key=str)
    joined = table.left_join(names, lambda row, _: strict(row), on_error=policy)
    joined.group_by(parity).count(name="groups").changes().map_values(str).to("out")


def joined_by_foreign_key(app: Streams, policy: Any) -> None:
    table, names = app.table("rows", str, key=str), app.table("names", str, key=str)
    on: Any = {"on": strict, "name": "joined", "on_error": policy}
    joined = table.left_join(names, lambda row, _: row, **on)
    joined.group_by(parity).count(name="groups").changes().map_values(str).to("out")


def joined_with_a_strict_function(app: Streams, policy: Any) -> None:
    table, names = app.table("rows", str, key=str), app.table("names", str, key=str)
    on: Any = {"on": lambda _: "n", "name": "joined", "on_error": policy}
    joined = table.left_join(names, lambda row, _: strict(row), **on)
    joined.group_by(parity).count(name="groups").changes().map_values(str).to("out")


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize(
    "build", [groups, joined_by_key, joined_by_foreign_key, joined_with_a_strict_function]
)
def test_what_is_made_of_rows_never_counts_one_that_fails(build: Any, policy: Any) -> None:
    app = Streams("app", emit="every")
    build(app, policy)
    driver = app.test()
    piped(driver, "one", "bad")
    assert driver.store("groups") == {"1": 0}
    piped(driver, "four", "bad", "bad", "six")
    assert driver.store("groups") == {"1": 1, "0": 0}
    piped(driver, "bad", None, "four")
    assert driver.store("groups") == {"1": 0, "0": 1}
