"""One roll of a cluster at a time, wherever it is run: a member of the group `moldau-roll`.

Two rolls that do not know of each other may both look at the cluster, see all in sync, and each
restart another node. A look cannot prevent that, so a roll is a member of a group in which one
leads. The group is the marker: it is in the cluster, needs nothing but Kafka's protocol, and is
gone SESSION after its process was killed.

Invariant: the roll that leads keeps to lead when another one joins. While a coordinator restarts
the leader may be unknown, so it is asked again before each node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.cli.shell import pause
from moldau.errors import MoldauError
from moldau.folds.elected import Elected, Leader
from moldau.logging import Level, Loggers
from moldau.runtime.places import host_name, process_id

if TYPE_CHECKING:
    from moldau.cli.commands.cluster_connection import OpenClient
    from moldau.client import Admin, GenerationAssignment
    from moldau.runtime import Runtime

GROUP: Final = "moldau-roll"
_PROTOCOL: Final = "v0"
_SESSION: Final = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "2000"}
_LOOK_S: Final = 0.2
_WAIT_S: Final = 20.0
"""More than the session of a roll that was killed."""


class RollClaim:
    """The membership of one roll. It satisfies `moldau.client.Protocols`."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, object], tell: Callable[[str], object]
    ) -> None:
        """`tell` gets lines about a membership that fails."""
        self._runtime = runtime
        self._place = f"{host_name()}, process {process_id()}"
        log = Loggers(runtime.clock, tell, level=Level.ERROR).get("moldau.cli")
        self.elected = Elected(runtime, {**settings, **_SESSION}, (GROUP, GROUP), self, log)

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return where this roll runs, and whether it leads."""
        mine = {"place": self._place, "leads": self.elected.leads}
        return [(_PROTOCOL, json.dumps(mine).encode())]

    def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Tell all which roll leads: the one that did, else the first by member id."""
        found = {each: json.loads(data) for each, data in members.items()}
        first = min(found, key=lambda each: (not found[each]["leads"], each))
        told = {"leader": first, "place": found[first]["place"]}
        return dict.fromkeys(members, json.dumps(told).encode())

    def on_assigned(self, assigned: GenerationAssignment) -> None:
        """Take over which roll leads."""
        found = json.loads(assigned.assignment)
        self.elected.announce(Leader(found["place"], found["leader"] == assigned.member_id))

    def on_revoked(self) -> None:
        """Nothing to give up: the one that leads goes on."""

    def on_lost(self) -> None:
        """Another one may lead by now."""
        self.elected.announce(None)

    async def other(self) -> str | None:
        """Return where the roll that leads runs; None if it is this one. One that was killed leads
        for a while, so that is waited for. Raise MoldauError if the group does not tell."""
        until = self._runtime.clock.monotonic() + _WAIT_S
        while (left := until - self._runtime.clock.monotonic()) > 0:
            leader = await self.elected.leader_within(left)
            if leader is not None and leader.is_own:
                return None
            await pause(_LOOK_S)
        if leader is None:
            raise MoldauError(f"the group {GROUP} does not tell which roll leads")
        return leader.url


@contextmanager
def claimed(
    admin: OpenClient[Admin], settings: Mapping[str, object], tell: Callable[[str], object]
) -> Iterator[Callable[[], None]]:
    """Keep rolls elsewhere away during the block. Its value raises UsageError if another one leads,
    and tells it where that cannot be known."""
    claim = RollClaim(admin.runtime, settings, tell)

    def check() -> None:
        try:
            other = admin.run(lambda _: claim.other())
        except MoldauError as error:
            tell(f"moldau: whether another roll runs elsewhere is not known: {error}\n")
            return
        if other is not None:
            raise UsageError(f"another roll of this cluster runs: {other}")

    try:
        admin.run(lambda _: claim.elected.start())
        yield check
    finally:
        admin.run(lambda _: claim.elected.aclose())
