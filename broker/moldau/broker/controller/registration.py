"""Brokers and controllers join, stay and leave: registration, heartbeats, fencing.

The states of a broker and their transitions:

    registered -> FENCED -> (caught up, wants it) UNFENCED -> (wants to stop) STOPPING -> FENCED
                    ^------ (wants it, or is silent) ---'

Invariants: the broker epoch is the offset of the registration, so a request with another epoch is
from another incarnation and is rejected. A live incarnation cannot be replaced by another one. A
broker with an unclean shutdown loses its places in ISR and ELR before it is registered again,
because it may have lost unflushed records (KIP-966).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from moldau.broker.controller.brokers import Broker, fence_record, stopping_record, unfence_record
from moldau.broker.controller.directories import is_reserved
from moldau.broker.controller.elections import (
    leads_anything,
    on_broker_back,
    on_broker_gone,
    on_directories_lost,
    on_unclean_shutdown,
)
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import (
    KRAFT_VERSION,
    supports_controllers,
    supports_cordoned_directories,
    supports_directories,
    supports_leaving_controllers,
)
from moldau.broker.controller.outcome import DecisionInputs, Outcome
from moldau.broker.controller.rules import Rules
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from moldau.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from moldau.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from moldau.protocol.schemas.broker_log import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)


class BrokerState(Enum):
    """The state of a broker between two heartbeats."""

    FENCED = "takes no part"
    UNFENCED = "leads and follows"
    STOPPING = "hands over what it leads"
    STOPPED = "may end its process"


_LEGAL: Final = {
    BrokerState.FENCED: (BrokerState.FENCED, BrokerState.UNFENCED, BrokerState.STOPPED),
    BrokerState.UNFENCED: tuple(BrokerState),
    BrokerState.STOPPING: (BrokerState.STOPPING, BrokerState.FENCED, BrokerState.STOPPED),
    BrokerState.STOPPED: (BrokerState.STOPPED,),
}


@dataclass(frozen=True, slots=True)
class Contact:
    """The facts about a broker that the controller knows besides the log."""

    is_alive: bool


def register_broker(
    image: Image,
    rules: Rules,
    request: BrokerRegistrationRequest,
    inputs: DecisionInputs,
    contact: Contact,
) -> Outcome[BrokerRegistrationResponse]:
    """Register a new incarnation. If the same one registers again, it keeps its epoch, since the
    request may be a retry."""
    try:
        before = _check_registration(image, rules, request, contact)
    except KafkaError as error:
        return Outcome((), BrokerRegistrationResponse(error_code=error.code))
    records: list[MetadataRecord] = []
    if before is not None and before.incarnation_id == request.incarnation_id:
        broker_epoch = before.broker_epoch
        is_fenced, is_stopping = before.is_fenced, before.is_in_controlled_shutdown
    else:
        broker_epoch = inputs.next_offset
        is_fenced, is_stopping = True, False
        if before is not None:
            if not before.is_fenced:
                records.extend(on_broker_gone(image, rules, before.broker_id))
            if _stopped_badly(image, request, before):
                records = list(on_unclean_shutdown(image, rules, before.broker_id))
    records.append(_register_record(image, request, broker_epoch, (is_fenced, is_stopping)))
    return Outcome(
        tuple(records),
        BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=broker_epoch),
    )


def _stopped_badly(image: Image, request: BrokerRegistrationRequest, before: Broker) -> bool:
    return image.features.is_elr_enabled and request.previous_broker_epoch != before.broker_epoch


def _check_registration(
    image: Image, rules: Rules, request: BrokerRegistrationRequest, contact: Contact
) -> Broker | None:
    if request.cluster_id != rules.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, expected=rules.cluster_id, found=request.cluster_id
        )
    if request.broker_id < 0:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "broker ids are not negative")
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of ZooKeeper mode cannot join any more"
        )
    before = image.brokers.by_id.get(request.broker_id)
    is_other = before is not None and before.incarnation_id != request.incarnation_id
    if is_other and contact.is_alive:
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_id=request.broker_id)
    _check_directories(image, request)
    _check_features(image, request)
    return before


def _check_directories(image: Image, request: BrokerRegistrationRequest) -> None:
    if not supports_directories(image.features.metadata_version):
        return
    given = set(request.log_dirs)
    if not given:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker names its log directories")
    if len(given) != len(request.log_dirs):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a log directory is named twice")
    if any(is_reserved(each) for each in given):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "the id of a log directory is reserved")
    for broker in image.brokers.by_id.values():
        if broker.broker_id != request.broker_id and not given.isdisjoint(broker.log_dirs):
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                "a log directory belongs to another broker",
                other=broker.broker_id,
            )


def _check_features(image: Image, request: BrokerRegistrationRequest) -> None:
    offered = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    for name, level in image.features.levels.items():
        if name == KRAFT_VERSION:
            continue
        lowest, highest = offered.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the broker cannot run at the cluster's level of a feature",
                feature=name,
                level=level,
                lowest=lowest,
                highest=highest,
            )


def _register_record(
    image: Image,
    request: BrokerRegistrationRequest,
    broker_epoch: int,
    state: tuple[bool, bool],
) -> RegisterBrokerRecord:
    metadata_version = image.features.metadata_version
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in request.listeners
        ],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        fenced=state[0],
        in_controlled_shutdown=state[1],
        log_dirs=list(request.log_dirs) if supports_directories(metadata_version) else [],
    )


def heartbeat(
    image: Image, rules: Rules, request: BrokerHeartbeatRequest
) -> Outcome[BrokerHeartbeatResponse]:
    """Handle a broker's heartbeat, with its metadata offset and the state that it wants."""
    broker = image.brokers.by_id.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return Outcome(
            (),
            BrokerHeartbeatResponse(
                error_code=ErrorCode.STALE_BROKER_EPOCH,
                should_shut_down=False,
            ),
        )
    is_caught_up = request.current_metadata_offset >= broker.broker_epoch
    state = _state_of(broker)
    wanted = _next_state(image, broker, request, is_caught_up)
    assert wanted in _LEGAL[state], f"{state} -> {wanted}"
    records = _transition(image, rules, broker, (state, wanted))
    records.extend(_lost_directories(image, rules, broker, request))
    records.extend(_cordoned(image, broker, request))
    return Outcome(
        tuple(records),
        BrokerHeartbeatResponse(
            error_code=ErrorCode.NONE,
            is_caught_up=is_caught_up,
            is_fenced=wanted in (BrokerState.FENCED, BrokerState.STOPPED),
            should_shut_down=wanted is BrokerState.STOPPED,
        ),
    )


def _state_of(broker: Broker) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.STOPPING if broker.is_in_controlled_shutdown else BrokerState.UNFENCED


def _next_state(
    image: Image, broker: Broker, request: BrokerHeartbeatRequest, is_caught_up: bool
) -> BrokerState:
    if broker.is_fenced:
        if request.want_shut_down:
            return BrokerState.STOPPED
        # An incarnation that began to stop cannot return.
        is_ending = request.want_fence or broker.is_in_controlled_shutdown
        wakes = is_caught_up and not is_ending
        return BrokerState.UNFENCED if wakes else BrokerState.FENCED
    if request.want_fence and not broker.is_in_controlled_shutdown:
        return BrokerState.STOPPED if request.want_shut_down else BrokerState.FENCED
    if request.want_shut_down or broker.is_in_controlled_shutdown:
        has_work = leads_anything(image, broker.broker_id)
        return BrokerState.STOPPING if has_work else BrokerState.STOPPED
    return BrokerState.UNFENCED


def _transition(
    image: Image, rules: Rules, broker: Broker, states: tuple[BrokerState, BrokerState]
) -> list[MetadataRecord]:
    before, after = states
    if before is after or (before is BrokerState.FENCED and after is BrokerState.STOPPED):
        return []
    if after is BrokerState.UNFENCED:
        return [unfence_record(broker), *on_broker_back(image, rules, broker.broker_id)]
    if after is BrokerState.STOPPING:
        return [stopping_record(broker), *on_broker_gone(image, rules, broker.broker_id)]
    return fence(image, rules, broker)


def fence(image: Image, rules: Rules, broker: Broker) -> list[MetadataRecord]:
    """Return the records that fence a broker, which was silent too long or requested it."""
    return [*on_broker_gone(image, rules, broker.broker_id), fence_record(broker)]


def _lost_directories(
    image: Image, rules: Rules, broker: Broker, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """Return the records for directories that failed since the broker registered (KIP-858)."""
    lost = set(request.offline_log_dirs) & set(broker.log_dirs)
    left = [each for each in broker.log_dirs if each not in lost]
    if not lost or not left:
        return []  # a broker without any directory stops by itself
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=left
        ),
        *on_directories_lost(image, rules, broker.broker_id, lost),
    ]


def _cordoned(
    image: Image, broker: Broker, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """Return the record of directories that take no new replicas (KIP-1066)."""
    if not supports_cordoned_directories(image.features.metadata_version):
        return []
    cordoned = request.cordoned_log_dirs
    known = broker.cordoned_log_dirs
    if cordoned is None or (known is not None and set(cordoned) == set(known)):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            cordoned_log_dirs=list(cordoned),
        )
    ]


def unregister_broker(
    image: Image, rules: Rules, request: UnregisterBrokerRequest
) -> Outcome[UnregisterBrokerResponse]:
    """Remove a broker that will not return."""
    broker = image.brokers.by_id.get(request.broker_id)
    if broker is None:
        return Outcome(
            (),
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"broker {request.broker_id} is not registered",
            ),
        )
    records = [
        *on_broker_gone(image, rules, broker.broker_id),
        UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch),
    ]
    return Outcome(
        tuple(records),
        UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=""),
    )


def register_controller(
    image: Image, request: ControllerRegistrationRequest
) -> Outcome[ControllerRegistrationResponse]:
    """Register the addresses and supported features of a controller."""
    if not supports_controllers(image.features.metadata_version):
        return Outcome(
            (),
            ControllerRegistrationResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="the metadata.version is too low to register controllers",
            ),
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Outcome(
        (record,),
        ControllerRegistrationResponse(error_code=ErrorCode.NONE, error_message=None),
    )


def unregister_controller(
    image: Image, rules: Rules, request: UnregisterControllerRequest
) -> Outcome[UnregisterControllerResponse]:
    """Remove the registration of a controller that will not return, but never that of the active
    one, which decides here. Another one that runs registers again."""
    controller_id = request.controller_id
    error_code: ErrorCode = ErrorCode.NONE
    message = None
    if controller_id == rules.node_id:
        error_code = ErrorCode.INVALID_REQUEST
        message = f"controller {controller_id} is the active one: it stays registered"
    elif not supports_leaving_controllers(image.features.metadata_version):
        error_code = ErrorCode.UNSUPPORTED_VERSION
        message = "the metadata.version is too low to unregister controllers: raise it to 33"
    elif controller_id not in image.brokers.controllers:
        error_code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        message = f"controller {controller_id} is not registered"
    return Outcome(
        () if error_code else (UnregisterControllerRecord(controller_id=controller_id),),
        UnregisterControllerResponse(error_code=error_code, error_message=message),
    )
