"""Errors of a client that is used after its end, or in another event loop or process."""

from __future__ import annotations

import asyncio

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError


class ClientClosed(KafkaError):
    """A client was used after it was closed. Retrying does not help, though the code allows it."""

    @property
    def retriable(self) -> bool:
        return False


class WrongLoop(MoldauError):
    """An asyncio client was used in another event loop than the one that it was started in."""


def wrong_loop(home: asyncio.AbstractEventLoop) -> WrongLoop:
    """Return the error for a call from another event loop. A client's work is done in its own loop:
    a call from elsewhere would wait for ever, or change state in the middle of a step."""
    home_is = "has ended" if home.is_closed() else "is not the one that runs here"
    return WrongLoop(
        f"the client belongs to the event loop that it was started in, which {home_is}: start and "
        "close one in each loop (asyncio.run makes a new loop each time), or take "
        "moldau.client.sync, whose clients serve all threads"
    )


class WrongProcess(MoldauError):
    """A client was used in a process that was forked from the one that started it."""


def wrong_process(kind: str, cure: str) -> WrongProcess:
    """Return the error for a call in a forked process. Two processes on one connection would mix
    their requests, and two producers with one sequence would lose records as repeated ones."""
    return WrongProcess(
        f"this process was forked from the one that started the {kind}, whose thread and "
        f"connections are not here: {cure}"
    )


def closed(kind: str) -> ClientClosed:
    """Return the error for a call of a client that is closed."""
    return ClientClosed(ErrorCode.NETWORK_EXCEPTION, f"the {kind} is closed")
