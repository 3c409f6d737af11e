"""This process's controller in the metadata: its addresses, and the features that it supports.

Invariant: while the process runs, the metadata ends up with a registration of this start of the
controller, also if the cluster learns only later how to record it, or if the registration was
removed although the controller runs (KIP-919). One registration is asked for at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.controller.levels import supports_controllers
from moldau.broker.decision.context import of_node
from moldau.broker.server.lifecycle import CONTROLLER_VERSION

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.server.channel import LocalController
    from moldau.broker.server.lifecycle import Lifecycle
    from moldau.errors.codes import KafkaError
    from moldau.protocol.declare import Response


class ControllerRegistration:
    """Registers the controller of this process whenever the metadata does not know it."""

    def __init__(self, controller: LocalController, lifecycle: Lifecycle) -> None:
        self._controller = controller
        self._lifecycle = lifecycle
        self._is_asking = False

    def renew(self, image: Image) -> None:
        """Register, unless the metadata has the registration. Call it from time to time."""
        if self._is_asking or not supports_controllers(image.features.metadata_version):
            return
        me = self._lifecycle.identity
        known = image.brokers.controllers.get(me.node_id)
        if known is not None and known.incarnation_id == me.incarnation_id:
            return
        self.ask()

    def ask(self) -> None:
        """Register, whatever this node knows. The answer does not matter."""
        self._is_asking = True
        context = of_node(self._lifecycle.identity.node_id, CONTROLLER_VERSION)
        registration = self._lifecycle.controller_registration()
        self._controller.submit(registration, context, self._on_answer)

    def _on_answer(self, answer: Response | KafkaError) -> None:
        self._is_asking = False
