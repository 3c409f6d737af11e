"""A controller with its log as a list: what is decided is written, read back and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from moldau.broker.controller.bootstrap import birth_records
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import (
    decode_records,
    encode_records,
    snapshot_batches,
)
from moldau.broker.controller.outcome import DecisionInputs
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.setting_schema import SettingSchema
from moldau.broker.controller.token_changes import TokenRules
from moldau.broker.decision.context import Principal, of_node
from moldau.broker.settings import broker_settings
from moldau.config.given import GivenValue, Source, SourceKind
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from moldau.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.protocol.messages.controller_registration import Feature as ControllerFeature
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.records import open_batch
from moldau.runtime.files import OpenFiles

R = TypeVar("R", bound=Response)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAw"
FEATURES = {
    "metadata.version": (7, 33),
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
NEWEST = 99_999


def schema() -> SettingSchema:
    """The settings of a plain node."""
    given = {"node.id": "1", "process.roles": "broker,controller"}
    given["controller.quorum.bootstrap.servers"] = "127.0.0.1:9093"
    given["listeners"] = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    given["controller.listener.names"] = "CONTROLLER"
    source = Source(SourceKind.FILE)
    return SettingSchema(
        broker_settings(tuple(GivenValue(name, value, source) for name, value in given.items()))
    )


class Cluster:
    """The controller and its log."""

    def __init__(self, *brokers: int, seed: int = 1, tokens: TokenRules | None = None) -> None:
        self.rules = Rules(CLUSTER_ID, 1, schema(), tokens=tokens)
        self.controller = Controller(self.rules, Image())
        self.log: list[MetadataRecord] = []
        self.now_ms = 1_000_000
        self.open_files: OpenFiles | None = None
        self.random = Random(seed)
        self.append(birth_records(self.image, self.rules, ()))
        self.epochs: dict[int, int] = {}
        for broker_id in brokers:
            self.join(broker_id)

    @property
    def image(self) -> Image:
        return self.controller.image

    @property
    def inputs(self) -> DecisionInputs:
        return DecisionInputs(
            self.now_ms, len(self.log), self.random, self.open_files, wall_ms=self.now_ms
        )

    def append(self, records: list[MetadataRecord] | tuple[MetadataRecord, ...]) -> None:
        """Through bytes, as a log has it."""
        if records:
            version = self.image.features.metadata_version
            batch = encode_records(records, version, self.now_ms)
            read = decode_records(open_batch(batch))
            assert read == list(records), "what is decided can be written in this version"
            self.log.extend(read)
            self.image.replay_all(read)

    def ask(
        self,
        request: Request,
        answer: type[R],
        version: int | None = None,
        principal: Principal | None = None,
    ) -> R:
        """Decide, write, replay, answer; the answer fits the version that was asked in."""
        last = type(request).spec.versions.last if version is None else version
        context = of_node(1, last)
        if principal is not None:
            context = context._replace(principal=principal)
        outcome = self.controller.on_request(request, context, self.inputs)
        self.append(outcome.records)
        assert isinstance(outcome.response, answer)
        outcome.response.encode(last)
        return outcome.response

    def register_controller(
        self, controller_id: int, changes: Mapping[str, tuple[int, int]] | None = None
    ) -> ControllerRegistrationResponse:
        """A controller registers, with an incarnation of its own and changes of its features."""
        features = FEATURES | dict(changes or {})
        request = ControllerRegistrationRequest(
            controller_id=controller_id,
            incarnation_id=self.random.randbytes(16),
            zk_migration_ready=False,
            listeners=[],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in features.items()
            ],
        )
        return self.ask(request, ControllerRegistrationResponse)

    def register(self, broker_id: int, /, **changes: object) -> BrokerRegistrationResponse:
        """A registration as a broker sends it, with changes."""
        fields: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.random.randbytes(16),
            "listeners": [Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
            "features": [
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
            ],
            "rack": None,
            "log_dirs": [bytes(8) + b"\1" * 4 + broker_id.to_bytes(4, "big")],
        }
        request = BrokerRegistrationRequest(**(fields | changes))  # type: ignore[arg-type]
        response = self.ask(request, BrokerRegistrationResponse)
        if not response.error_code:
            self.epochs[broker_id] = response.broker_epoch
        return response

    def beat(self, broker_id: int, /, **changes: object) -> BrokerHeartbeatResponse:
        """A heartbeat of a broker that has read the whole log, with changes."""
        fields: dict[str, object] = {
            "broker_id": broker_id,
            "broker_epoch": self.epochs[broker_id],
            "current_metadata_offset": NEWEST,
            "want_fence": False,
            "want_shut_down": False,
        }
        request = BrokerHeartbeatRequest(**(fields | changes))  # type: ignore[arg-type]
        return self.ask(request, BrokerHeartbeatResponse)

    def join(self, broker_id: int) -> None:
        """Register and be unfenced."""
        assert self.register(broker_id).error_code == 0
        assert not self.beat(broker_id).is_fenced

    def create(
        self, *topics: CreatableTopic, validate_only: bool = False
    ) -> list[CreatableTopicResult]:
        """CreateTopics."""
        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        return self.ask(request, CreateTopicsResponse).topics

    def check_fold(self) -> None:
        """The image is what the log says, and what its snapshot says."""
        replayed = Image()
        replayed.replay_all(self.log)
        assert replayed == self.image
        restored = Image()
        for batch in snapshot_batches(self.image, self.now_ms):
            restored.replay_all(decode_records(open_batch(batch)))
        assert restored == self.image


def topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    placed: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """One topic of a CreateTopics request."""
    if placed is not None:
        partitions = replication_factor = -1
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in (placed or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
