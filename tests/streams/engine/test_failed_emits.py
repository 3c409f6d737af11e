"""Functions that fail at a commit or by the clock: each policy, and nothing is lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import (
    Stream,
    Streams,
    dead_letter,
    retry,
    session,
    sliding,
    tumbling,
    until_time,
)
from moldau.streams.problems import OperatorFailed
from moldau.streams.testing.driver import Driver


class Flaky:
    """Fails so many times at a word."""

    def __init__(self, failures: int, at: str = "b") -> None:
        self.left = failures
        self.at = at

    def __call__(self, key: str, count: int) -> str:
        if key == self.at and self.left:
            self.left -= 1
            raise ValueError("not now")
        return f"{key}={count}"


def driver_of(function: Any, on_error: Any) -> Driver:
    app = Streams("app")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    counts.changes().map_values(function, on_error=on_error).to("out")
    return app.test()


def pipe(driver: Driver, *keys: str) -> None:
    driver.pipe_all("in", [(key, "x", 5) for key in keys])


def test_an_emit_is_tried_again_and_the_commit_waits_for_it() -> None:
    driver = driver_of(Flaky(2), retry(3, backoff="100ms"))
    pipe(driver, "a", "b", "c")

    assert [each.value for each in driver.read("out")] == ["a=1", "c=1"]
    assert not driver.changelogs, "what is committed may not be ahead of what was emitted"
    pipe(driver, "a")
    driver.advance(99)
    assert not driver.changelogs
    driver.advance(1)
    assert driver.read("out") == []
    driver.advance(200)
    assert [each.value for each in driver.read("out")] == ["b=1", "a=2"]
    assert driver.changelogs["counts"].keys == [b"a", b"b", b"c", b"a"]
    assert driver.counters()["skipped"] == 0


def test_when_no_attempt_is_left_the_next_policy_decides() -> None:
    driver = driver_of(Flaky(5), retry(1, backoff="100ms", then="skip"))
    pipe(driver, "b")
    driver.advance(100)
    assert driver.read("out") == []
    assert driver.counters()["skipped"] == 1
    pipe(driver, "c")
    assert [each.value for each in driver.read("out")] == ["c=1"]


def test_the_row_goes_to_a_dead_letter_topic() -> None:
    driver = driver_of(Flaky(1), dead_letter("dead"))
    pipe(driver, "a", "b")

    assert [each.value for each in driver.read("out")] == ["a=1"]
    [dead] = driver.read("dead", key=str, type=int)
    assert (dead.key, dead.value, dead.timestamp) == ("b", 1, 5)
    facts = {name: (text or b"").decode() for name, text in dead.headers}
    operator = facts.pop("moldau.error.operator")
    assert operator.startswith("map_values(")
    assert facts == {
        "moldau.error.app": "app",
        "moldau.error.partition": "0",
        "moldau.error.exception": "ValueError",
        "moldau.error.message": "not now",
    }
    assert driver.counters()["dead-lettered"] == 1


def test_a_failure_that_stays_is_told_whole() -> None:
    driver = driver_of(Flaky(9), retry(1, backoff="1ms"))
    pipe(driver, "b")
    with pytest.raises(OperatorFailed) as failed:
        driver.advance(5)
    operator = failed.value.operator
    assert str(failed.value) == (
        f"app=app partition=0 operator={operator}: ValueError: not now; this was emitted at a "
        "commit or by the clock, after topic=in offset=0, so no single record is to blame: "
        "repair the function, or set "
        'on_error="skip", retry(...) or, for what has a row, dead_letter(...) on the operator'
    )


Build = Callable[["Stream[str, str]"], "Stream[Any, Any]"]

# Each gives out results that no single record makes: here those of a, b and c at time 100,000.
BY_OTHERS: dict[str, Build] = {
    "tumbling": lambda stream: (
        stream.group_by_key().window(tumbling("10s"), emit="close").count(name="c").changes()
    ),
    "session": lambda stream: (
        stream.group_by_key().window(session("10s"), emit="close").count(name="c").changes()
    ),
    "sliding": lambda stream: (
        stream.group_by_key().window(sliding("10s"), emit="close").count(name="c").changes()
    ),
    "suppress": lambda stream: (
        stream.to_table(name="t", emit="every").suppress(until_time("10s"), name="s").changes()
    ),
    "left join": lambda stream: stream.left_join(
        stream.filter(lambda _: False), within="10s", name="j"
    ),
}


def closing(build: Build, function: Any, on_error: Any, batch: int) -> Driver:
    app = Streams("app")
    results = build(app.stream("in", str, key=str))
    results.map(function, on_error=on_error).map_values(lambda _: 1).to("out")
    driver = app.test(batch=batch)
    begun = [("a", "x", 1), ("b", "x", 2), ("c", "x", 3), ("later", "x", 100_000)]
    driver.pipe_all("in", [*begun, ("later", "x", 100_001)])
    return driver


def failing_at(word: str, times: int = 1_000_000) -> Callable[[Any, Any], tuple[str, Any]]:
    left = [times]

    def function(key: Any, value: Any) -> tuple[str, Any]:
        name = key if isinstance(key, str) else key.key
        if name == word and left[0]:
            left[0] -= 1
            raise ValueError("not now")
        return name, value

    return function


@pytest.mark.parametrize("batch", [1, 500])
@pytest.mark.parametrize("name", BY_OTHERS)
def test_a_result_that_fails_keeps_back_no_other(name: str, batch: int) -> None:
    driver = closing(BY_OTHERS[name], failing_at("b"), "skip", batch)

    assert {each.key for each in driver.read("out")} - {"later"} == {"a", "c"}
    driver.pipe_all("in", [("end", "x", 300_000), ("end", "x", 500_000)])

    assert {each.key for each in driver.read("out")} >= {"later"}
    assert driver.counters()["skipped"] == 1


@pytest.mark.parametrize("batch", [1, 500])
@pytest.mark.parametrize("name", BY_OTHERS)
def test_a_retry_makes_the_failed_result_alone(name: str, batch: int) -> None:
    driver = closing(BY_OTHERS[name], failing_at("b", 2), retry(2, backoff="1s"), batch)
    driver.advance(1_000)
    driver.advance(2_000)
    assert sorted(each.key for each in driver.read("out") if each.key != "later") == ["a", "b", "c"]

    driver.pipe_all("in", [("end", "x", 300_000), ("end", "x", 500_000)])

    later = [each for each in driver.read("out") if each.key == "later"]
    assert len(later) <= 3, "the record that let time go on was processed once"
    assert driver.counters()["skipped"] == 0


@pytest.mark.parametrize("name", BY_OTHERS)
def test_a_failed_result_may_be_sent_to_a_dead_letter_topic(name: str) -> None:
    driver = closing(BY_OTHERS[name], failing_at("b"), dead_letter("dead"), 500)

    assert len(driver.read_bytes("dead")) == 1


@pytest.mark.parametrize("name", BY_OTHERS)
def test_a_failed_result_ends_the_app_by_the_policy_of_its_own_operator(name: str) -> None:
    with pytest.raises(OperatorFailed, match="ValueError: not now"):
        closing(BY_OTHERS[name], failing_at("b"), None, 500)
