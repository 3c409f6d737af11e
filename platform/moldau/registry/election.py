"""Chooses the instance that writes: the members of a group, as in Confluent's registry.

The members have the protocol type `sr`. Their metadata and assignments are Confluent's JSON, with
one field more: `leads`, by which the leader stays the same when another instance joins. The group
decides which one should write; that only one can is ensured by the transactional id (`log`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.client import Assigned, GroupMember
from moldau.errors import MoldauError
from moldau.logging import Logger
from moldau.runtime import Runtime

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
SESSION: Final = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "2000"}
_REJOIN_S: Final = 1.0
_CLOSE_S: Final = 5.0


class Address(NamedTuple):
    """Where the instances reach one of them."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Election:
    """This instance's membership in the group of instances.

    `on_leader` is called with the URL of the leader, or None while there is none; for this
    instance itself the URL is its own.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        group: str,
        address: Address,
        on_leader: Callable[[str | None], Awaitable[None]],
        log: Logger,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._address = address
        self._on_leader = on_leader
        self._log = log
        self._leads = False
        self._watch: asyncio.Task[None] | None = None
        self._member = GroupMember(
            {**SESSION, **settings},
            group_id=group,
            protocol_type=PROTOCOL_TYPE,
            protocols=self,
            runtime=runtime,
        )

    async def start(self) -> None:
        """Join the group; `on_leader` is called later."""
        await self._member.start()
        self._watch = self._runtime.spawn(self._stay(), name="stay in the group")

    def stayed(self) -> asyncio.Task[None]:
        """Return the task that stays in the group. It does not end by itself."""
        assert self._watch is not None, "not started"
        return self._watch

    async def _stay(self) -> None:
        """Join again whenever the membership has ended."""
        while True:
            try:
                await self._member.wait()
                return
            except (MoldauError, TimeoutError) as error:
                self._log.error("out of the group of registries, joining again", error=str(error))
            await asyncio.sleep(_REJOIN_S)
            await self._member.rejoin("the membership had ended")

    async def again(self) -> None:
        """Ask for another election, because this instance does not write any more."""
        self._leads = False
        await self._member.rejoin("the leader has resigned")

    async def aclose(self) -> None:
        """Leave the group."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        await self._member.aclose(_CLOSE_S)

    # The group's protocol

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return the identity of this instance."""
        scheme, host, port = self._address
        identity = {
            "version": 1, "host": host, "port": port, "master_eligibility": True,
            "scheme": scheme, "leader": self._leads, "leads": self._leads,
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

    async def on_assigned(self, assigned: Assigned) -> None:
        """Follow the result of the election."""
        found = json.loads(assigned.assignment or b"{}")
        identity = found.get("master_identity")
        if found.get("error"):
            self._log.error("two registries have the same address: give each its own --advertised")
        self._leads = found.get("master") == assigned.member_id
        await self._on_leader(_url(identity) if identity else None)

    async def on_revoked(self) -> None:
        """Nothing to give up: a leader stays the leader unless another one is chosen."""

    async def on_lost(self) -> None:
        """Stop to lead: another instance may lead already."""
        self._leads = False
        await self._on_leader(None)


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
