"""The records of `__cluster_metadata` about nodes: registered, fenced and removed ones."""

from __future__ import annotations

from moldau.protocol.declare import MetadataRecord, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int8, Int16, Int32, Int64, String, Uint16, Uuid


class BrokerEndpoint(Struct):
    """An address of the broker, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16
    security_protocol: Int16


class BrokerFeature(Struct):
    """A feature and the levels that the broker could run at."""

    name: String = field(map_key=True)
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterBrokerRecord(MetadataRecord, type=0, versions="0-4", flexible="0+"):
    """A broker registered; everything known about its earlier incarnation is replaced."""

    broker_id: BrokerId
    is_migrating_zk_broker: Bool = field(since=2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field(since=1, default=False)
    # KIP-858
    log_dirs: list[Uuid] = field(since=3, tag=0, default_factory=list)
    # KIP-1066
    cordoned_log_dirs: list[Uuid] | None = field(since=4, tag=1, default=None)


class UnregisterBrokerRecord(MetadataRecord, type=1, versions="0", flexible="0+"):
    """A broker was taken out of the cluster."""

    broker_id: BrokerId
    broker_epoch: Int64


class FenceBrokerRecord(MetadataRecord, type=7, versions="0", flexible="0+"):
    """A broker was fenced, the way it was recorded before BrokerRegistrationChangeRecord."""

    id: BrokerId
    epoch: Int64


class UnfenceBrokerRecord(MetadataRecord, type=8, versions="0", flexible="0+"):
    """A broker was unfenced, the way it was recorded before BrokerRegistrationChangeRecord."""

    id: BrokerId
    epoch: Int64


class BrokerRegistrationChangeRecord(MetadataRecord, type=17, versions="0-3", flexible="0+"):
    """A broker was fenced or unfenced, is stopping, or has other log directories."""

    broker_id: BrokerId
    broker_epoch: Int64
    # -1 unfenced, 0 no change, 1 fenced
    fenced: Int8 = field(tag=0, default=0)
    # 0 no change, 1 stopping
    in_controlled_shutdown: Int8 = field(since=1, tag=1, default=0)
    # KIP-858: empty means no change
    log_dirs: list[Uuid] = field(since=2, tag=2, default_factory=list)
    # KIP-1066: null means no change
    cordoned_log_dirs: list[Uuid] | None = field(since=3, tag=3, default=None)


class ControllerEndpoint(Struct):
    """An address of the controller, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16
    security_protocol: Int16


class ControllerFeature(Struct):
    """A feature and the levels that the controller could run at."""

    name: String = field(map_key=True)
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterControllerRecord(MetadataRecord, type=27, versions="0", flexible="0+"):
    """A controller registered (KIP-919)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


class UnregisterControllerRecord(MetadataRecord, type=29, versions="0", flexible="0+"):
    """A controller was taken out of the cluster."""

    controller_id: Int32
