"""A running broker: every part of it, wired together.

    broker = await Broker.start(runtime, settings, log=log)
    ...
    await broker.aclose()

- the wiring          `broker.Broker`: start and end, in order;
                      `controller_node.ControllerNode` for a node that is only a controller
- metadata            `channel.LocalController` decides and commits; `publishing.Publisher` applies
                      committed metadata to this node
- the registration    `lifecycle.Lifecycle`: registration, heartbeats, controlled shutdown
- from settings       `options`, `storage`, `standalone`
"""

from __future__ import annotations

from moldau.broker.server.broker import Address, Broker, BrokerFailed

__all__ = ["Address", "Broker", "BrokerFailed"]
