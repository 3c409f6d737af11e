"""Steps of logins that read files, beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from moldau.errors import without_frames
from moldau.link.login.one_thread import OneThread
from moldau.link.login.sasl import Work

if TYPE_CHECKING:
    from moldau.broker.security.login import Away, Step
    from moldau.runtime import Runtime


def in_a_thread(runtime: Runtime, name: str) -> Away:
    """Return what does steps of logins in a thread, one at a time: what they share, such as the
    keys of tokens and the system's record of tickets, needs no lock. `name` is that of their
    tasks."""
    thread = OneThread()

    async def work(step: Step, then: Callable[[Step], object]) -> None:
        try:
            answer = await thread.result(runtime, Work(step).result)
        except Exception as error:  # the login waits for an answer, whatever went wrong
            then(partial(_fail, without_frames(error)))
        else:
            then(lambda: answer)

    return lambda step, then: runtime.spawn(work(step, then), name=name)


def _fail(error: Exception) -> NoReturn:
    raise error
