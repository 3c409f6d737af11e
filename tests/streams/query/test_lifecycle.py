"""The states of an app: Kafka Streams' names and transitions, listeners, answers of a handler."""

from __future__ import annotations

import pytest

from moldau.streams import AppState, Streams, StreamsError, TopologyError
from moldau.streams.query.lifecycle import Lifecycle, OnFailure


def heard_by(life: Lifecycle) -> list[str]:
    heard: list[str] = []
    life.listen(lambda new, old: heard.append(f"{old.value} {new.value}"))
    return heard


def test_a_run_goes_through_the_states_of_kafka_streams_twice() -> None:
    life = Lifecycle()
    heard = heard_by(life)
    for is_failure in (False, True):
        life.begin()
        for is_running in (False, True, True, False):
            life.settle(is_running=is_running)
        life.end(is_failure=is_failure)
        life.settle(is_running=True)  # a turn that was under way
    to_running = ["CREATED REBALANCING", "REBALANCING RUNNING", "RUNNING REBALANCING"]
    assert heard == [
        *to_running, "REBALANCING PENDING_SHUTDOWN", "PENDING_SHUTDOWN NOT_RUNNING",
        *to_running, "REBALANCING PENDING_ERROR", "PENDING_ERROR ERROR",
    ]  # fmt: skip
    assert life.state is AppState.ERROR


def test_a_failure_of_an_app_that_stops_leaves_it_not_running() -> None:
    life = Lifecycle()
    life.begin()
    life.stop()
    heard = heard_by(life)
    life.fail()
    life.end(is_failure=True)
    assert heard == ["PENDING_SHUTDOWN NOT_RUNNING"]


def test_a_handler_chooses_and_another_answer_is_an_error_that_names_both() -> None:
    app = Streams("app")
    assert app.running.life.choice(ValueError("x")) is None
    app.on_exception(lambda error: "replace" if isinstance(error, ValueError) else "restart")
    assert app.running.life.choice(ValueError("x")) is OnFailure.REPLACE
    with pytest.raises(StreamsError, match=r"'restart'.*stop-app.*no such row"):
        app.running.life.choice(KeyError("no such row"))


def test_spark_refuses_what_only_workers_have() -> None:
    paused, watched = Streams("paused"), Streams("watched")
    paused.pause()
    watched.on_state_change(lambda new, old: None)
    for app in (paused, watched):
        with pytest.raises(TopologyError, match="embedded engine"):
            app.on_spark(None, checkpoint="there")


def test_a_driver_that_is_paused_processes_nothing_and_no_timer_fires() -> None:
    calls: list[int] = []

    class Timed:
        def __init__(self, context: object) -> None:
            context.schedule("1s", calls.append, by="wall")  # type: ignore[attr-defined]

        def process(self, record: object) -> None: ...

    app = Streams("app")
    lines = app.stream("lines", str)
    lines.to("out")
    lines.process(Timed, name="timed")
    driver = app.test()
    driver.pipe("lines", "a")
    driver.pause()
    driver.pipe("lines", "b")
    driver.advance(5_000)
    assert ([each.value for each in driver.read("out")], calls) == (["a"], [])
    driver.resume()
    driver.advance(0)
    assert ([each.value for each in driver.read("out")], calls) == (["b"], [5_000])
