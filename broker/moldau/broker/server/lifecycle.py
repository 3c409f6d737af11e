"""This broker's place in the cluster: what it asks of the controller, and what the answers mean.

    STARTING -> FENCED (registered) -> RUNNING -> STOPPING (asked to go) -> STOPPED (may go)

Invariants: the broker epoch is that of the last registration that was answered; a broker that
began to stop goes on to its end; it takes clients only while it is RUNNING or STOPPING. A pure
core: the shell carries requests and answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moldau.broker.controller.levels import LevelRange
from moldau.broker.settings import Listener
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
    ErrorCode.INVALID_REGISTRATION: (
        "its log directories are known to be those of another broker, as when a disk was copied; "
        "remove meta.properties from the copy and format it"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster runs at a feature level that this version does not know; upgrade this node"
    ),
}
"""What to do about a registration that is refused."""


class BrokerState(Enum):
    """Where a broker stands in its life."""

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
    """Who registers: the same for a whole life of the process."""

    node_id: int
    cluster_id: str
    incarnation_id: Uuid
    rack: str | None
    endpoints: tuple[Listener, ...]
    """Where clients and brokers reach it, with the ports that were bound."""
    controller_endpoints: tuple[Listener, ...]
    features: Mapping[str, LevelRange]
    directory_ids: tuple[Uuid, ...]


class Lifecycle:
    """Of one life of the process."""

    def __init__(self, identity: Identity, previous_epoch: int = NO_EPOCH) -> None:
        """`previous_epoch` is what the last clean shutdown left, in every directory alike."""
        self.identity = identity
        self.state = BrokerState.STARTING
        self.broker_epoch = NO_EPOCH
        self._previous_epoch = previous_epoch

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    def registration(self) -> broker.BrokerRegistrationRequest:
        """Ask to be one of the cluster's brokers."""
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
        """Say where the controller in this process is, and what it supports (KIP-919)."""
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
        """KafkaError when we are refused."""
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
        """Tell the controller that we are there, how far we are, and what we want.

        `metadata_offset` is that after the last record that was published here.
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
        """What the controller says of us."""
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            # Somebody unregistered us. The same incarnation may register again.
            self.broker_epoch = NO_EPOCH
            return
        if answer.error_code:
            return
        if answer.should_shut_down:
            self._move(BrokerState.STOPPED)
        elif self.state is not BrokerState.STOPPING:
            self._move(BrokerState.FENCED if answer.is_fenced else BrokerState.RUNNING)

    def stop(self) -> None:
        """From the next heartbeat on we want to go."""
        if self.state in (BrokerState.FENCED, BrokerState.RUNNING):
            self._move(BrokerState.STOPPING)

    def _move(self, state: BrokerState) -> None:
        if state is not self.state:
            assert state in _NEXT[self.state], f"{self.state} -> {state}"
            self.state = state
