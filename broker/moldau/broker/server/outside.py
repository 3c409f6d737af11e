"""A node's access to other nodes: connections to the controllers, and a probe of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.server.probing import BrokerProbe
from moldau.broker.server.remote import RemoteController
from moldau.link import Address, ConnectionOptions, Peers

if TYPE_CHECKING:
    from moldau.broker.controller.active_controller import ActiveController
    from moldau.link.security import Security
    from moldau.logging import Logger
    from moldau.runtime import Runtime


class Outside:
    """The connections of one node to the others."""

    def __init__(
        self,
        ground: tuple[Runtime, Logger],
        node_id: int,
        addresses: Mapping[int, tuple[str, int]],
        active: Callable[[], ActiveController | None],
        terms: tuple[float, Security | None],
    ) -> None:
        """`addresses` are the addresses of the controllers. `active` returns the active controller
        while it is on this node, else None. `terms` are the timeout of requests in seconds, and the
        encryption and the login at controllers."""
        runtime, log = ground
        timeout_s, security = terms
        options = ConnectionOptions(
            client_id=f"controller-{node_id}",
            request_timeout_s=timeout_s,
            setup_timeout_s=timeout_s,
            security=security,
        )
        known = {each: Address(*at) for each, at in addresses.items()}
        self.peers = Peers(runtime, options, known)
        self.remote = RemoteController(runtime, self.peers, log)
        self.probe = BrokerProbe(runtime, active, log)

    def update(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Replace the addresses of the controllers."""
        known = {each: Address(*at) for each, at in addresses.items()}
        if known != self.peers.addresses:
            self.peers.update(known)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.probe.aclose()
        await self.peers.aclose()
