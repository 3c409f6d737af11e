"""What the members of the group of registries send to each other, as in Confluent's registry.

The members have the protocol type `sr`. Their metadata and assignments are Confluent's JSON, with
one field more: `leads`, by which the leader stays the same when another instance joins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.client import GenerationAssignment
from moldau.folds.elected import Elected, Leader
from moldau.folds.leader_writer import LeaderWriter
from moldau.logging import Logger
from moldau.runtime import Runtime

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
SESSION: Final = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "2000"}


class Address(NamedTuple):
    """Where the instances reach one of them."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Candidate:
    """One instance in the group. The elected one writes."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        group: str,
        address: Address,
        writer: LeaderWriter,
        log: Logger,
    ) -> None:  # fmt: skip
        self._address = address
        self._writer = writer
        self._log = log
        kind = (group, PROTOCOL_TYPE)
        self.elected = Elected(runtime, {**SESSION, **settings}, kind, self, log)
        writer.on_resigned = self.elected.resign

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return the identity of this instance."""
        scheme, host, port = self._address
        leads = self.elected.leads
        identity = {
            "version": 1, "host": host, "port": port, "master_eligibility": True,
            "scheme": scheme, "leader": leads, "leads": leads,
        }  # fmt: skip
        return [(PROTOCOL, json.dumps(identity).encode())]

    def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Choose the leader: the present one if there is one, else the first by address."""
        found = {member: _identity(data) for member, data in members.items()}
        chosen = choose(found)
        error = 0 if len({_url(each) for each in found.values()}) == len(found) else 1
        identity = None if chosen is None else found[chosen]
        made = {"error": error, "master": chosen, "master_identity": identity}
        return dict.fromkeys(members, json.dumps(made).encode())

    async def on_assigned(self, assigned: GenerationAssignment) -> None:
        """Follow the result of the election."""
        found = json.loads(assigned.assignment or b"{}")
        identity = found.get("master_identity")
        if found.get("error"):
            self._log.error("two registries have the same address: give each its own --advertised")
        is_own = found.get("master") == assigned.member_id
        leader = Leader(_url(identity), is_own) if identity else None
        if leader is not None and leader.is_own and not self._writer.is_claimed:
            await self._writer.claim()
            self._log.info("this instance writes now", url=leader.url)
        self.elected.announce(leader)
        if not self.elected.leads:
            await self._writer.step_down()

    async def on_revoked(self) -> None:
        """Nothing to give up: a leader stays the leader unless another one is chosen."""

    async def on_lost(self) -> None:
        """Stop to lead: another instance may lead already."""
        self.elected.announce(None)
        await self._writer.step_down()


def choose(members: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the member that leads, by member id; None if none is eligible."""
    eligible: Sequence[str] = [
        each for each, identity in members.items() if identity.get("master_eligibility", True)
    ]
    return min(
        eligible,
        key=lambda each: (not members[each].get("leads"), _url(members[each]), each),
        default=None,
    )


def _identity(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"master_eligibility": False}


def _url(identity: Mapping[str, Any]) -> str:
    scheme = "https" if identity.get("scheme") == "https" else "http"
    return Address(scheme, str(identity.get("host")), int(identity.get("port") or 0)).url
