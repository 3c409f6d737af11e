"""A task's line to its worker, used from the task's thread and from threads of the connector.

Invariant: an `ask` ends with the answer, with the error that the worker tells, or with ConnectError
when the worker stays silent; commands that come meanwhile wait for `take`.
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


class Link:
    """`send` carries a message to the worker; `deliver` is called with each that comes back."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._commands: Mailbox[Message] = Mailbox()
        self._answers: dict[int, Mailbox[Message]] = {}
        self._numbers = count(1)
        self.stop_for: StopFor | None = None
        """Why the worker stops the task; None while it does not."""

    @property
    def is_stopping(self) -> bool:
        """Whether the worker wants the task to end."""
        return self.stop_for is not None

    def deliver(self, message: Message) -> None:
        """From the thread that reads what the worker sends."""
        if message["type"] == "answer":
            waiting = self._answers.get(message["id"])
            if waiting is not None:
                waiting.put(message)
            return
        if message["type"] == "stop":
            self.stop_for = StopFor(message["why"])
        self._commands.put(message)

    def take(self, timeout_s: float | None) -> Message | None:
        """The next command; None when none comes in time."""
        return self._commands.take(timeout_s)

    def tell(self, kind: str, **facts: Any) -> None:
        """A message that needs no answer."""
        self._send({"type": kind, **facts})

    def ask(self, what: str, *, timeout_s: float = ANSWER_S, **facts: Any) -> Any:
        """A question, and the answer's value."""
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
        if answer.get("error") is not None:
            raise ConnectError(str(answer["error"]), question=what)
        return answer.get("value")
