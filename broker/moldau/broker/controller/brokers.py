"""The registered brokers and controllers: the fold of their records in the metadata log.

Invariants: a broker's epoch is the offset at which its incarnation registered, so it never repeats.
A record with another epoch than the registered one means a corrupt log, because the controller
checks epochs before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from moldau.broker.controller.directories import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from moldau.broker.controller.levels import LevelRange, supports_cordoned_directories
from moldau.broker.controller.levels import supports_directories as knows_directories
from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.broker_log import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)

_UNFENCED: Final = -1
_NO_CHANGE: Final = 0
_FENCED: Final = 1
_STOPPING: Final = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a node for one listener name."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. A fenced one cannot lead; one in controlled shutdown gives up its
    leaderships."""

    broker_id: int
    incarnation_id: Uuid
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, LevelRange]
    rack: str | None
    is_fenced: bool
    is_in_controlled_shutdown: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """None until the broker has reported them (KIP-1066)."""

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and be in sync."""
        return not self.is_fenced and not self.is_in_controlled_shutdown

    def has_online(self, directory: Uuid) -> bool:
        """Whether the directory is not reported as failed."""
        return (
            directory in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)
            or not self.log_dirs
            or directory in self.log_dirs
        )

    @property
    def takes_new_replicas(self) -> bool:
        """Whether the broker may get new replicas: not all directories are cordoned (KIP-1066)."""
        return not self.log_dirs or not set(self.log_dirs) <= set(self.cordoned_log_dirs or ())


@dataclass(frozen=True, slots=True)
class Controller:
    """A registered controller (KIP-919)."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, LevelRange]
    is_zk_migration_ready: bool = False


class Brokers:
    """All registered nodes by id."""

    RECORDS = (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        BrokerRegistrationChangeRecord,
        RegisterControllerRecord,
        UnregisterControllerRecord,
    )

    __slots__ = ("by_id", "controllers")

    def __init__(self) -> None:
        self.by_id: dict[int, Broker] = {}
        self.controllers: dict[int, Controller] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Brokers):
            return NotImplemented
        return self.by_id == other.by_id and self.controllers == other.controllers

    __hash__ = None  # type: ignore[assignment]  # it changes

    def active_ids(self) -> frozenset[int]:
        """Return the ids of the brokers that may lead."""
        return frozenset(each.broker_id for each in self.by_id.values() if each.is_active)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        match record:
            case RegisterBrokerRecord():
                self.by_id[record.broker_id] = _broker_of(record)
            case UnregisterBrokerRecord():
                self._current(record.broker_id, record.broker_epoch)
                del self.by_id[record.broker_id]
            case FenceBrokerRecord():
                broker = self._current(record.id, record.epoch)
                self.by_id[record.id] = replace(broker, is_fenced=True)
            case UnfenceBrokerRecord():
                broker = self._current(record.id, record.epoch)
                self.by_id[record.id] = replace(broker, is_fenced=False)
            case BrokerRegistrationChangeRecord():
                self._change(record)
            case RegisterControllerRecord():
                self.controllers[record.controller_id] = _controller_of(record)
            case UnregisterControllerRecord():
                self._unregister_controller(record.controller_id)
            case _:
                raise AssertionError(f"{record!r} is not about a node")

    def _current(self, broker_id: int, broker_epoch: int) -> Broker:
        broker = self.by_id.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise CorruptLog(
                "record about a broker that is not registered so",
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                registered_epoch=None if broker is None else broker.broker_epoch,
            )
        return broker

    def _unregister_controller(self, controller_id: int) -> None:
        if self.controllers.pop(controller_id, None) is None:
            raise CorruptLog("a controller that is not registered leaves", id=controller_id)

    def _change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._current(record.broker_id, record.broker_epoch)
        if record.fenced != _NO_CHANGE:
            broker = replace(broker, is_fenced=record.fenced == _FENCED)
        if record.in_controlled_shutdown == _STOPPING:
            broker = replace(broker, is_in_controlled_shutdown=True)
        if record.log_dirs:
            broker = replace(broker, log_dirs=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned_log_dirs=tuple(record.cordoned_log_dirs))
        self.by_id[record.broker_id] = broker

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        brokers = list(self.by_id.values())
        controllers = list(self.controllers.values())
        return chain(
            (_register_record(each, metadata_version) for each in brokers),
            (_register_controller_record(each) for each in controllers),
        )


def fence_record(broker: Broker) -> BrokerRegistrationChangeRecord:
    """Return the record that fences the broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=_FENCED
    )


def unfence_record(broker: Broker) -> BrokerRegistrationChangeRecord:
    """Return the record that unfences the broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=_UNFENCED
    )


def stopping_record(broker: Broker) -> BrokerRegistrationChangeRecord:
    """Return the record that the broker began a controlled shutdown."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        in_controlled_shutdown=_STOPPING,
    )


def _broker_of(record: RegisterBrokerRecord) -> Broker:
    return Broker(
        broker_id=record.broker_id,
        incarnation_id=record.incarnation_id,
        broker_epoch=record.broker_epoch,
        endpoints=_endpoints_of(record.end_points),
        features=_levels_of(record.features),
        rack=record.rack,
        is_fenced=record.fenced,
        is_in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=_known(record.cordoned_log_dirs),
    )


def _endpoints_of(told: Iterable[BrokerEndpoint | ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(at.name, at.host, at.port, at.security_protocol) for at in told)


def _levels_of(told: Iterable[BrokerFeature | ControllerFeature]) -> dict[str, LevelRange]:
    return {
        each.name: LevelRange(each.min_supported_version, each.max_supported_version)
        for each in told
    }


def _known(directories: list[Uuid] | None) -> tuple[Uuid, ...] | None:
    return None if directories is None else tuple(directories)


def _register_record(broker: Broker, metadata_version: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in broker.endpoints
        ],
        features=[
            BrokerFeature(
                name=name,
                min_supported_version=levels.lowest,
                max_supported_version=levels.highest,
            )
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=list(broker.log_dirs) if knows_directories(metadata_version) else [],
        cordoned_log_dirs=(
            list(broker.cordoned_log_dirs)
            if broker.cordoned_log_dirs is not None
            and supports_cordoned_directories(metadata_version)
            else None
        ),
    )


def _register_controller_record(controller: Controller) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.is_zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=at.name,
                host=at.host,
                port=at.port,
                security_protocol=at.security_protocol,
            )
            for at in controller.endpoints
        ],
        features=[
            ControllerFeature(
                name=name,
                min_supported_version=levels.lowest,
                max_supported_version=levels.highest,
            )
            for name, levels in controller.features.items()
        ],
    )


def _controller_of(record: RegisterControllerRecord) -> Controller:
    return Controller(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints_of(record.end_points),
        features=_levels_of(record.features),
        is_zk_migration_ready=record.zk_migration_ready,
    )
