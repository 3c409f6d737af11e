"""A tenant of the loop's thread, and the threads that there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.runtime.loop_thread import LoopThread, enter, leave


class Guest:
    """A tenant that does nothing."""

    def finish(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def entered() -> Iterator[LoopThread]:
    guest = Guest()
    thread = enter(guest)
    try:
        yield thread
    finally:
        leave(guest)


def threads() -> set[str]:
    return {each.name for each in threading.enumerate()}


async def ident() -> int:
    return threading.get_ident()
