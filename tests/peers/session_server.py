"""A server that all tests of a session share, whoever imports its fixture.

pytest takes a fixture for another one in each module that imports it, so the session keeps the
server. It ends behind the last test, before the session does: from then on another run of pytest
may remove the directories of this one, the server's among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest


class Server(Protocol):
    """Anything that is started and stopped."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


_S = TypeVar("_S", bound=Server)


def of_session(
    request: pytest.FixtureRequest, key: pytest.StashKey[_S], make: Callable[[], _S]
) -> _S:
    """Return the session's server with this key. The first who asks makes and starts it."""
    stash = request.session.stash
    if key in stash:
        return stash[key]
    server = make()

    def end() -> None:
        if key in stash:
            del stash[key]
        server.stop()

    request.session.addfinalizer(end)
    server.start()
    stash[key] = server
    return server
