"""What `/metrics` and the health checks see of a broker or a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.exposition.health import Health
from moldau.broker.exposition.scrape import ScrapedNode
from moldau.broker.server.lifecycle import BrokerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.broker.server.broker import Broker
    from moldau.broker.server.controller_node import ControllerNode
    from moldau.broker.server.hosted_services import HostedServices
    from moldau.link.http.hosted import RunningService

_NUMBERS: Final = {
    BrokerState.STARTING: 1,
    BrokerState.FENCED: 1,
    BrokerState.RUNNING: 3,
    BrokerState.STOPPING: 6,
    BrokerState.STOPPED: 7,
}
"""The numbers that Kafka's boards know."""
_NOBODY: Final = -1


class ObservedBroker:
    """A started node with the broker role, and the services in its process."""

    def __init__(self, broker: Broker, services: HostedServices | None = None) -> None:
        self._broker = broker
        self._services = services

    def health(self) -> Health:
        """Return whether it works, and whether it serves clients. A service that is down is only
        mentioned: the broker's clients are served."""
        broker = self._broker
        if broker.failure is not None:
            return Health(is_alive=False, is_ready=False, text=str(broker.failure))
        state = broker.state
        lines = [state.value]
        for name, service in self._states().items():
            lines.append(f"{name}: {'not up' if service is None else service.address}")
        is_ready = state is BrokerState.RUNNING
        return Health(is_alive=True, is_ready=is_ready, text="\n".join(lines))

    def _states(self) -> Mapping[str, RunningService | None]:
        return {} if self._services is None else self._services.states()

    def observed(self) -> ScrapedNode:
        """Return its parts."""
        broker = self._broker
        return ScrapedNode(
            node_id=broker.node.node_id,
            registry=broker.node.metrics,
            network=broker.network_metrics,
            controller=broker.controller,
            image=broker.node.image,
            state=_NUMBERS[broker.state],
            node=broker.node,
            tier=broker.remote_storage,
            services=self._states(),
        )


class ObservedController:
    """A started node that is only a controller. It is ready while it knows the quorum's leader."""

    def __init__(self, node: ControllerNode) -> None:
        self._node = node

    def health(self) -> Health:
        """Return whether it works, and whether the quorum does."""
        node = self._node
        if node.failure is not None:
            return Health(is_alive=False, is_ready=False, text=str(node.failure))
        leader = node.controller.raft.core.leader_id
        if leader == _NOBODY:
            return Health(is_alive=True, is_ready=False, text="the quorum has no leader")
        return Health(is_alive=True, is_ready=True, text=f"the quorum is led by {leader}")

    def observed(self) -> ScrapedNode:
        """Return its parts."""
        node = self._node
        return ScrapedNode(
            node_id=node.node_id,
            registry=node.registry,
            network=node.network_metrics,
            controller=node.controller,
            image=node.image,
            state=_NUMBERS[BrokerState.RUNNING],
        )
