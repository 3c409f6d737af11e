"""A task's connection to its worker, used from the task's thread and from threads of the connector.

Invariant: an `ask` ends with the answer, with the error that the worker sends, with ConnectError if
the worker does not answer, or with `Stopping` if the worker stops the task meanwhile: it may answer
only when the task has stopped. Commands that arrive during an `ask` wait for `take`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message
from moldau.runtime.children import Mailbox

ANSWER_S = 60.0


class Stopping(ConnectError):
    """The worker stops the task, which waited for an answer."""


class Link:
    """`send` sends a message to the worker; `deliver` is called with each message from it.
    Questions are numbered from `first_question`: no other run of the task may use these numbers."""

    def __init__(self, send: Callable[[Message], None], *, first_question: int = 1) -> None:
        self._send = send
        self._commands: Mailbox[Message] = Mailbox()
        self._answers: dict[int, Mailbox[Message]] = {}
        self._numbers = count(first_question)
        self.stop_for: StopFor | None = None
        """Why the worker stops the task; None before it does."""

    @property
    def is_stopping(self) -> bool:
        """Whether the worker has sent a stop command."""
        return self.stop_for is not None

    def deliver(self, message: Message) -> None:
        """Handle a message from the worker. Called by the thread that reads the pipe."""
        if message["type"] == "answer":
            waiting = self._answers.get(message["id"])
            if waiting is not None:
                waiting.put(message)
            return
        if message["type"] == "stop":
            self.stop_for = StopFor(message["why"])
            for waiting in list(self._answers.values()):
                waiting.put(message)
        self._commands.put(message)

    def take(self, timeout_s: float | None) -> Message | None:
        """Return the next command; None if none arrives in time."""
        return self._commands.take(timeout_s)

    def notify(self, kind: str, **facts: Any) -> None:
        """Send a message that needs no answer."""
        self._send({"type": kind, **facts})

    def ask(self, what: str, *, timeout_s: float = ANSWER_S, **facts: Any) -> Any:
        """Send a question and return the value of the answer. Raise ConnectError if it is an error,
        RetriableError if it does not arrive in time, and Stopping if a stop comes first."""
        number = next(self._numbers)
        mailbox: Mailbox[Message] = Mailbox()
        self._answers[number] = mailbox
        try:
            self._send({"type": "ask", "id": number, "what": what, **facts})
            answer = mailbox.take(timeout_s)
        finally:
            del self._answers[number]
        if answer is None:
            raise RetriableError("the worker did not answer in time", question=what)
        if answer["type"] == "stop":
            raise Stopping("the worker stops the task", question=what)
        if answer.get("error") is not None:
            raise ConnectError(str(answer["error"]), question=what)
        return answer.get("value")
