"""A task's connection to its worker."""

from __future__ import annotations

import pytest

from moldau.connect.task.link import Link, Stopping
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message


def test_a_stop_ends_a_question_that_the_worker_answers_only_afterwards() -> None:
    asked: list[Message] = []

    def send(message: Message) -> None:
        asked.append(message)
        if len(asked) == 1:
            link.deliver({"type": "stop", "why": StopFor.MOVE.value})
        else:
            link.deliver({"type": "answer", "id": message["id"], "value": 1})

    link = Link(send)

    with pytest.raises(Stopping):
        link.ask("tasks.fence")

    assert link.ask("offsets.write") == 1, "what is asked after the stop is answered"
    assert link.is_stopping
    assert link.take(0.0) == {"type": "stop", "why": StopFor.MOVE.value}
