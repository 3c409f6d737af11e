"""Where this node finds the voters of the metadata quorum.

A voter may have several controllers' listeners, for example while a cluster changes from plaintext
to TLS node by node. This node connects to the one that its own settings name first; another node
may prefer another one.

Invariant: an address that a response names never replaces one of the settings or of the log. The
node that answers may know another listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.raft.voters import Voter

BOOTSTRAP_FROM: Final = -2
"""Controllers whose ids are not known get ids that count down from here."""


class VoterAddresses:
    """The addresses of voters, from the settings, the log, and the responses of other nodes."""

    def __init__(
        self,
        listener: str,
        configured: tuple[Mapping[int, tuple[str, int]], Sequence[tuple[str, int]]],
        voters: Callable[[], Sequence[Voter]],
        image: Callable[[], Image],
    ) -> None:
        """`configured` are the voters and the bootstrap servers of the settings, `listener` is the
        one to connect to. `voters` returns those that the log names."""
        self._listener = listener
        self._configured, self._bootstrap = configured
        self._voters = voters
        self._image = image
        self._heard: dict[int, tuple[str, int]] = {}

    def hear(self, node_id: int, host: str, port: int) -> bool:
        """Note the address of a leader from a response. Return whether it is new."""
        if self._heard.get(node_id) == (host, port) or node_id < 0:
            return False
        self._heard[node_id] = host, port
        return True

    def all(self) -> dict[int, tuple[str, int]]:
        """Return the addresses to connect to, of the voters and the bootstrap servers."""
        found = dict(self._heard)
        for number, at in enumerate(self._bootstrap):
            found[BOOTSTRAP_FROM - number] = at
        found.update(self._configured)
        for voter in self._voters():
            own = _at_listener(voter, self._listener)
            if own is not None:
                found[voter.voter_id] = own
            elif voter.endpoints:
                found[voter.voter_id] = voter.endpoints[0][1:]
        return found

    def at(self, node_id: int, listener: str) -> tuple[str, int] | None:
        """Return the address of a voter for a node that uses this listener; None if it is not
        known."""
        if listener in ("", self._listener):
            return self.all().get(node_id)
        voter = next((each for each in self._voters() if each.voter_id == node_id), None)
        if voter is not None and voter.endpoints:
            return _at_listener(voter, listener)
        registered = self._image().brokers.controllers.get(node_id)
        endpoints = () if registered is None else registered.endpoints
        return next(((each.host, each.port) for each in endpoints if each.name == listener), None)


def _at_listener(voter: Voter, listener: str) -> tuple[str, int] | None:
    return next(((host, port) for name, host, port in voter.endpoints if name == listener), None)
