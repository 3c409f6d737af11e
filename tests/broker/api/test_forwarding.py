"""The way to the controller: answers, new attempts, and the end of patience, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from moldau.broker.api.forwarding import RETRY_MS, submit
from moldau.broker.api.node import Node, OnAnswer
from moldau.broker.decision.context import RequestContext
from moldau.broker.replication.purgatory import Purgatory
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation, SimulationFailed

QUESTION = UpdateFeaturesRequest(feature_updates=[])
ANSWER = UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None)
CONTEXT = RequestContext("app", "/10.0.0.7", 2, "PLAINTEXT")
GONE = KafkaError(ErrorCode.NOT_CONTROLLER)


class Controller:
    """Gives back what it was told to: at once, or after `delay_s`; nothing for None. A bug in it
    is an ArithmeticError."""

    def __init__(
        self, *answers: Response | KafkaError | ArithmeticError | None, delay_s: float = 0
    ) -> None:
        self._answers = list(answers)
        self._delay_s = delay_s
        self.asked = 0
        self.contexts: list[RequestContext] = []

    def submit(self, request: Request, context: RequestContext, on_answer: OnAnswer) -> None:
        assert request is QUESTION
        self.contexts.append(context)
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if answer is None:
            return
        if isinstance(answer, ArithmeticError):
            raise answer
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, on_answer, answer)
        else:
            on_answer(answer)


class Heard(list[tuple[int, Response | KafkaError]]):
    """What the client heard, and after how many milliseconds."""

    start_ms = 0
    at_once = 0
    waiting_after = 0
    raised = False

    @property
    def codes(self) -> list[tuple[int, int]]:
        """When, and the error; 0 for an answer."""
        return [(at, each.code if isinstance(each, KafkaError) else 0) for at, each in self]


def ask(
    controller: Controller,
    timeout_ms: int,
    stop_after_s: float | None = None,
    hard_of_hearing: bool = False,
    into: Heard | None = None,
) -> Heard:
    """All that is heard in ten seconds; `at_once` of it before `submit` returned. Who is hard of
    hearing fails at the first answer."""
    heard = Heard() if into is None else into
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        purgatory = Purgatory(runtime.clock, loop)
        replicas = SimpleNamespace(purgatory=purgatory)
        log = Loggers(runtime.clock, lines.append).get("broker")
        parts = {"runtime": runtime, "controller": controller, "replicas": replicas, "log": log}
        node = cast(Node, SimpleNamespace(**parts))

        def hear(answer: Response | KafkaError) -> None:
            heard.append((round((loop.time() - start) * 1000), answer))
            if hard_of_hearing and len(heard) == 1:
                raise ArithmeticError("the answer cannot be written")

        heard.start_ms = runtime.clock.monotonic_ns() // 1_000_000
        try:
            submit(node, QUESTION, CONTEXT, hear, timeout_ms=timeout_ms)
        except ArithmeticError:
            heard.raised = True
        heard.at_once = len(heard)
        heard.waiting_after = len(purgatory)
        if stop_after_s is not None:
            loop.call_later(stop_after_s, purgatory.close)
        await asyncio.Event().wait()

    with Simulation(1, Options()) as world:
        world.add_node("a", main)
        world.run_for(10)
    assert bool(lines) == hard_of_hearing
    return heard


def test_an_answer_at_once_leaves_nothing_behind() -> None:
    controller = Controller(ANSWER)
    heard = ask(controller, 1000)
    assert heard == [(0, ANSWER)]
    assert (heard.at_once, heard.waiting_after, controller.asked) == (1, 0, 1)


def test_an_answer_in_time_is_the_only_one() -> None:
    heard = ask(Controller(ANSWER, delay_s=0.9), 1000)
    assert heard == [(900, ANSWER)]


def test_an_answer_that_comes_too_late_is_not_heard() -> None:
    heard = ask(Controller(ANSWER, delay_s=1.1), 1000)
    assert heard.codes == [(1000, ErrorCode.REQUEST_TIMED_OUT)]


def test_a_controller_that_never_answers_is_given_up() -> None:
    assert ask(Controller(None), 30).codes == [(30, ErrorCode.REQUEST_TIMED_OUT)]


def test_the_controller_gets_the_context_of_the_client_and_the_deadline() -> None:
    controller = Controller(GONE, GONE, ANSWER)
    heard = ask(controller, 1000)
    first = controller.contexts[0]
    assert first._replace(deadline_ms=None) == CONTEXT
    assert first.deadline_ms == heard.start_ms + 1000
    assert controller.contexts == [first] * 3


def test_while_there_is_no_controller_it_is_asked_again() -> None:
    controller = Controller(GONE, GONE, GONE, ANSWER)
    assert ask(controller, 1000) == [(3 * RETRY_MS, ANSWER)]
    assert controller.asked == 4


def test_nobody_asks_after_the_end() -> None:
    controller = Controller(GONE)
    patience_ms = 3 * RETRY_MS + 10
    heard = ask(controller, patience_ms)
    assert heard.codes == [(patience_ms, ErrorCode.REQUEST_TIMED_OUT)]
    assert controller.asked == 4
    assert "no controller has taken it: the metadata quorum has no leader" in str(heard[0][1])


def test_a_request_that_a_controller_may_have_taken_has_no_such_reason() -> None:
    for controller in (Controller(None), Controller(GONE, None)):
        [(_, error)] = ask(controller, 3 * RETRY_MS)
        assert "no controller has taken it" not in str(error)


def test_who_waits_hears_when_the_broker_stops_and_nobody_asks_again() -> None:
    controller = Controller(GONE)
    heard = ask(controller, 9000, stop_after_s=0.12)
    assert heard.codes == [(120, ErrorCode.REQUEST_TIMED_OUT)]
    assert controller.asked <= 4


def test_what_may_have_been_decided_is_not_asked_twice() -> None:
    controller = Controller(GONE, delay_s=0.1)
    assert ask(controller, 1000).codes == [(100, ErrorCode.NOT_CONTROLLER)]
    assert controller.asked == 1


def test_other_errors_are_answers() -> None:
    controller = Controller(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    heard = ask(controller, 1000)
    assert heard.codes == [(0, ErrorCode.UNSUPPORTED_VERSION)]
    assert controller.asked == 1


def test_without_time_nobody_is_asked() -> None:
    controller = Controller(ANSWER)
    heard = ask(controller, 0)
    assert heard.codes == [(0, ErrorCode.REQUEST_TIMED_OUT)]
    assert (heard.at_once, controller.asked) == (1, 0)


def test_a_controller_that_fails_at_once_is_the_callers_to_tell() -> None:
    heard = ask(Controller(ArithmeticError()), 1000)
    assert heard.raised
    assert (heard, heard.waiting_after) == ([], 0)


def test_a_controller_that_fails_later_leaves_nobody_without_an_answer() -> None:
    heard = Heard()
    with pytest.raises(SimulationFailed):
        ask(Controller(GONE, ArithmeticError("a bug")), 1000, into=heard)
    assert heard.codes == [(RETRY_MS, ErrorCode.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize("delay_s", [0, 0.1])
def test_an_answer_that_cannot_be_made_is_logged_and_told(delay_s: float) -> None:
    """The controller, which calls back in the middle of its work, hears nothing of it."""
    heard = ask(Controller(ANSWER, delay_s=delay_s), 1000, hard_of_hearing=True)
    at = round(delay_s * 1000)
    assert heard.codes == [(at, 0), (at, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert not heard.raised
