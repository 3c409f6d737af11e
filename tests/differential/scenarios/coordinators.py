"""FindCoordinator: each kind of key, in both generations of versions."""

from __future__ import annotations

from collections.abc import Callable

from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.differential.group_requests import coordinated
from tests.differential.talk import Talk, versions

_KEYS_SINCE = 4


def find(*keys: str, kind: int = 0) -> Callable[[int], FindCoordinatorRequest]:
    """One key before version 4, all of them later."""

    def request(version: int) -> FindCoordinatorRequest:
        if version < _KEYS_SINCE:
            return FindCoordinatorRequest(key=keys[0], key_type=kind)
        return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=kind)

    return request


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    every = versions(FindCoordinatorRequest)
    await talk.ask("an unknown kind", find("g", kind=9), every[1:])
    await talk.ask("a negative kind", find("g", kind=-1), every[1:])
    await talk.ask("no keys", lambda version: FindCoordinatorRequest(), every[_KEYS_SINCE:])
    await talk.ask("the first group", find("g"), 0)
    await talk.ask("the first transaction", find("x", kind=1), 1)
    for _ in range(5):
        await talk.settled()
    await coordinated(talk)
    await talk.ask("a group", find("g"), every)
    await talk.ask("several groups", find("g", "h", ""), every[_KEYS_SINCE:])
    await talk.ask("a transaction", find("x", kind=1), every[1:])
