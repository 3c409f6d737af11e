"""The HTTP API of a worker under a supervisor: one more path, for the number of workers.

    GET /workers                        the name of the supervisor
    POST /workers?count=4               the supervisor runs four workers from now on

The answer to the second one does not wait for them. A request is passed on as it is: what becomes
of it is decided by the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.errors.amounts import counted
from moldau.streams.query.http import Answer, Request, json_answer, refusal
from moldau.streams.query.server import Answers

WORKERS: Final = ("workers",)
NO_SUPERVISOR: Final = "has no supervisor: stop it, and start it with --workers 2 or more"
WORKERS_MAX: Final = 1000


def change_of_count(before: int, after: int) -> str:
    """Return for people that a number of workers becomes another."""
    return f"{counted(before, 'worker')} {'becomes' if before == 1 else 'become'} {after}"


class SupervisorLink(NamedTuple):
    """What a worker knows of its supervisor."""

    name: str
    """A name that no other supervisor has."""
    ask: Callable[[int], object]
    """Asks it to run so many workers. Raises OSError if that fails."""


class SupervisedApi:
    """Answers requests about the supervisor, and all others by the API of the worker."""

    def __init__(self, api: Answers, supervisor: SupervisorLink) -> None:
        self._api = api
        self._supervisor = supervisor

    async def answer(self, request: Request) -> Answer:
        """Answer a request. A bad one gives an error answer."""
        if request.path != WORKERS:
            return await self._api.answer(request)
        if request.method == "GET":
            return json_answer({"supervisor": self._supervisor.name})
        if request.method != "POST":
            return refusal(405, f"{request.method} is not for /workers: it takes GET and POST")
        text = request.options.get("count", "")
        if not text.isdecimal() or not 1 <= int(text) <= WORKERS_MAX:
            return refusal(400, f"count={text!r}: it must be a number from 1 to {WORKERS_MAX}")
        try:
            self._supervisor.ask(int(text))
        except OSError as error:
            return refusal(503, f"the supervisor does not listen: {error}", is_retryable=True)
        return json_answer({"supervisor": self._supervisor.name, "count": int(text)})
