"""This broker's membership: its requests to the controller, and the state after each response.

    STARTING -> FENCED (registered) -> RUNNING -> STOPPING (requests to stop) -> STOPPED (may stop)

Invariants: the broker epoch is from the last answered registration. A broker that began to stop
does not return to RUNNING. Clients are admitted after it was RUNNING for the first time. A pure
core: the shell sends the requests and passes the responses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

from moldau.broker.controller.levels import LevelRange
from moldau.broker.settings import Listener
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages import broker_registration as broker
from moldau.protocol.messages import controller_registration as controller
from moldau.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

NO_EPOCH: Final = -1
REGISTRATION_VERSION: Final = broker.BrokerRegistrationRequest.spec.versions.last
HEARTBEAT_VERSION: Final = BrokerHeartbeatRequest.spec.versions.last
CONTROLLER_VERSION: Final = controller.ControllerRegistrationRequest.spec.versions.last

_SECURITY_PROTOCOLS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}


ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "its directories were formatted for another cluster; see that the controllers in its "
        "settings are those of its own, or format empty directories for theirs"
    ),
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: (
        "another node with its node.id is alive; stop that one, or give this one an id of its own"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "its user has no right CLUSTER_ACTION on the cluster; name it in super.users of all "
        "controllers and brokers"
    ),
    ErrorCode.INVALID_REGISTRATION: (
        "its log directories are known to be those of another broker, as when a disk was copied; "
        "remove meta.properties from the copy and format it"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster runs at a feature level that this version does not know; upgrade this node"
    ),
}
"""Advice for each error of a rejected registration."""


class BrokerState(Enum):
    """The state of a broker."""

    STARTING = "starting"
    FENCED = "registered, and takes no part yet"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "may end"


_NEXT: Final = {
    BrokerState.STARTING: (BrokerState.FENCED, BrokerState.STOPPED),
    BrokerState.FENCED: (BrokerState.RUNNING, BrokerState.STOPPING, BrokerState.STOPPED),
    BrokerState.RUNNING: (BrokerState.FENCED, BrokerState.STOPPING, BrokerState.STOPPED),
    BrokerState.STOPPING: (BrokerState.STOPPED,),
    BrokerState.STOPPED: (),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity under which the broker registers. It is the same from start to exit."""

    node_id: int
    cluster_id: str
    incarnation_id: Uuid
    rack: str | None
    endpoints: tuple[Listener, ...]
    """The endpoints for clients and brokers, with the ports that were bound."""
    controller_endpoints: tuple[Listener, ...]
    features: Mapping[str, LevelRange]
    directory_ids: tuple[Uuid, ...]


class Lifecycle:
    """The broker's registration, from start to exit."""

    def __init__(self, identity: Identity, previous_epoch: int = NO_EPOCH) -> None:
        """`previous_epoch` is the broker epoch of the last clean shutdown, the same in every
        directory."""
        self.identity = identity
        self.state = BrokerState.STARTING
        self.broker_epoch = NO_EPOCH
        self._previous_epoch = previous_epoch

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    def registration(self) -> broker.BrokerRegistrationRequest:
        """Return the request to register as a broker of the cluster."""
        me = self.identity
        return broker.BrokerRegistrationRequest(
            broker_id=me.node_id,
            cluster_id=me.cluster_id,
            incarnation_id=me.incarnation_id,
            listeners=[
                broker.Listener(
                    name=at.name,
                    host=at.host,
                    port=at.port,
                    security_protocol=_SECURITY_PROTOCOLS[at.security_protocol],
                )
                for at in me.endpoints
            ],
            features=[
                broker.Feature(
                    name=name,
                    min_supported_version=levels.lowest,
                    max_supported_version=levels.highest,
                )
                for name, levels in me.features.items()
            ],
            rack=me.rack,
            log_dirs=sorted(me.directory_ids),
            previous_broker_epoch=self._previous_epoch,
        )

    def controller_registration(self) -> controller.ControllerRegistrationRequest:
        """Return the registration of this process's controller: its endpoints and supported
        features (KIP-919)."""
        me = self.identity
        return controller.ControllerRegistrationRequest(
            controller_id=me.node_id,
            incarnation_id=me.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                controller.Listener(
                    name=at.name,
                    host=at.host,
                    port=at.port,
                    security_protocol=_SECURITY_PROTOCOLS[at.security_protocol],
                )
                for at in me.controller_endpoints
            ],
            features=[
                controller.Feature(
                    name=name,
                    min_supported_version=levels.lowest,
                    max_supported_version=levels.highest,
                )
                for name, levels in me.features.items()
            ],
        )

    def on_registered(self, answer: broker.BrokerRegistrationResponse) -> None:
        """Set the broker epoch. Raise KafkaError if the registration is rejected."""
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            advice = ADVICE.get(code, "its log says why")
            raise KafkaError(
                code,
                f"the controller does not register this broker: {advice}",
                node_id=self.identity.node_id,
                cluster_id=self.identity.cluster_id,
            )
        self.broker_epoch = answer.broker_epoch
        if self.state is BrokerState.STARTING:
            self._move(BrokerState.FENCED)

    def heartbeat(
        self, metadata_offset: int, offline: Collection[Uuid] = (), cordoned: Collection[Uuid] = ()
    ) -> BrokerHeartbeatRequest:
        """Return a heartbeat: it reports to the controller that the broker is alive, its metadata
        offset, and whether it wants to stop.

        `metadata_offset` is the offset after the last record that was published here.
        """
        assert self.is_registered
        return BrokerHeartbeatRequest(
            broker_id=self.identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=metadata_offset - 1,
            want_fence=False,
            want_shut_down=self.state is BrokerState.STOPPING,
            offline_log_dirs=sorted(offline),
            cordoned_log_dirs=sorted(cordoned),
        )

    def on_heartbeat(self, answer: BrokerHeartbeatResponse) -> None:
        """Update the state from the controller's response."""
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            # The broker was unregistered. The same incarnation may register again.
            self.broker_epoch = NO_EPOCH
            return
        if answer.error_code:
            return
        if answer.should_shut_down:
            self._move(BrokerState.STOPPED)
        elif self.state is not BrokerState.STOPPING:
            self._move(BrokerState.FENCED if answer.is_fenced else BrokerState.RUNNING)

    def stop(self) -> None:
        """Request to stop, from the next heartbeat on."""
        if self.state in (BrokerState.FENCED, BrokerState.RUNNING):
            self._move(BrokerState.STOPPING)

    def _move(self, state: BrokerState) -> None:
        if state is not self.state:
            assert state in _NEXT[self.state], f"{self.state} -> {state}"
            self.state = state
