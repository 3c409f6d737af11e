"""The active controller without its log: takes requests, returns outcomes, replays records.

Invariants: `on_request` and `on_tick` change nothing that is in the log. Only `replay` does, on the
active controller as on every other node. The records of a decision are replayed before the next
request is handled, so each decision sees all decisions before it. If an append fails, the owner
drops the controller and creates a new one from the log.

Periodic work of the controller, besides watching sessions.

Invariant: work that filled a batch is due again at once; otherwise it pauses for its interval. A
controller that takes over begins with such a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from moldau.broker.controller import (
    acl_changes,
    config_changes,
    registration,
    token_changes,
    topic_deletion,
)
from moldau.broker.controller.brokers import Broker
from moldau.broker.controller.directory_assignment import assign_replicas_to_dirs
from moldau.broker.controller.elections import elect_leaders, elect_uncleanly, give_back
from moldau.broker.controller.feature_updates import FeatureRequest, update_features
from moldau.broker.controller.image import Image
from moldau.broker.controller.isr_changes import alter_partition
from moldau.broker.controller.mutations import Mutations
from moldau.broker.controller.outcome import DecisionInputs, Outcome
from moldau.broker.controller.partition_growth import create_partitions
from moldau.broker.controller.producer_ids import allocate_producer_ids
from moldau.broker.controller.quota_changes import alter_quotas
from moldau.broker.controller.reassignments import alter_reassignments, list_reassignments
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.scram_changes import alter_scram, describe_scram
from moldau.broker.controller.token_changes import sweep
from moldau.broker.controller.topic_creation import create_topics, restore_topic
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from moldau.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.create_acls import CreateAclsRequest
from moldau.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.protocol.messages.restore_topic import RestoreTopicRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.unregister_controller import UnregisterControllerRequest
from moldau.protocol.messages.update_features import UpdateFeaturesRequest

MOST: Final = 1000
"""The maximum number of records of one turn of periodic work."""

Work: TypeAlias = Callable[[Image, Rules, int, int], tuple[MetadataRecord, ...]]
"""Takes the most records that it may return, and the time of day."""


def _give_back(image: Image, rules: Rules, most: int, wall_ms: int) -> tuple[MetadataRecord, ...]:
    return give_back(image, rules, most)


def _elect(image: Image, rules: Rules, most: int, wall_ms: int) -> tuple[MetadataRecord, ...]:
    return elect_uncleanly(image, rules, most)


class Periodic:
    """The periodic work of one active controller."""

    __slots__ = ("_due_ms", "_rules", "_works")

    def __init__(self, rules: Rules) -> None:
        given: tuple[tuple[Work, int | None], ...] = (
            (_give_back, rules.rebalance_interval_ms),
            (_elect, rules.unclean_interval_ms),
            (sweep, None if rules.tokens is None else rules.tokens.check_interval_ms),
        )
        self._rules = rules
        self._works = [(work, interval) for work, interval in given if interval is not None]
        self._due_ms: dict[Work, int] = {}

    def take_over(self, now_ms: int) -> None:
        """Start the intervals, when this controller becomes active."""
        self._due_ms = {work: now_ms + interval_ms for work, interval_ms in self._works}

    def on_tick(self, image: Image, inputs: DecisionInputs) -> tuple[MetadataRecord, ...]:
        """Return the records of one kind of work that is due. Call it until it returns none."""
        now_ms = inputs.now_ms
        for work, interval_ms in self._works:
            if now_ms < self._due_ms.get(work, now_ms + 1):
                continue
            records = work(image, self._rules, MOST, inputs.wall_ms)
            if len(records) < MOST:
                self._due_ms[work] = now_ms + interval_ms
            if records:
                return records
        return ()


class Liveness:
    """The time of the last contact with each broker. It is not in the log, so a new controller
    starts without it.

    Invariant: every registered and unfenced broker has a contact time, so its silence is noticed
    even if it began before this controller took over. Only the broker of this process may lack one
    while it is not up; it then counts as silent.
    """

    __slots__ = ("_contacts_ms", "_session_timeout_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts_ms: dict[int, int] = {}

    def take_over(self, image: Image, left_id: int | None, now_ms: int) -> None:
        """Start a full session for every unfenced broker, when this controller becomes active. The
        exception is `left_id`: the broker of this process, if it is not up yet, because its earlier
        incarnation has ended."""
        self._contacts_ms = {
            each.broker_id: now_ms
            for each in image.brokers.by_id.values()
            if not each.is_fenced and each.broker_id != left_id
        }

    def touch(self, broker_id: int, now_ms: int) -> None:
        """Note a contact with the broker."""
        self._contacts_ms[broker_id] = now_ms

    def forget(self, broker_id: int) -> None:
        """Drop a broker that is gone or fenced."""
        self._contacts_ms.pop(broker_id, None)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        """Whether the last contact was within the broker's session."""
        contact_ms = self._contacts_ms.get(broker_id)
        return contact_ms is not None and now_ms - contact_ms < self._session_timeout_ms

    def silent(self, image: Image, now_ms: int) -> list[Broker]:
        """Return the brokers to fence: unfenced, and without contact for a session."""
        return [
            each
            for each in image.brokers.by_id.values()
            if not each.is_fenced and not self.is_alive(each.broker_id, now_ms)
        ]


class Controller:
    """Makes the decisions of the cluster, one at a time. Its image is the state of the log so
    far."""

    __slots__ = ("image", "liveness", "mutations", "periodic", "rules")

    def __init__(self, rules: Rules, image: Image) -> None:
        self.rules = rules
        self.image = image
        self.liveness = Liveness(rules.session_timeout_ms)
        self.periodic = Periodic(rules)
        self.mutations = Mutations(rules.mutation_window_s)

    def take_over(self, now_ms: int, *, is_own_broker_up: bool = False) -> None:
        """Begin the sessions of brokers: the log is replayed to its end, and this node leads."""
        left = None if is_own_broker_up else self.rules.node_id
        self.liveness.take_over(self.image, left, now_ms)
        self.periodic.take_over(now_ms)

    def serves(self, request: type[Request]) -> bool:
        """Whether `on_request` handles such requests."""
        return request in _DECISIONS

    def on_request(
        self, request: Request, context: RequestContext, inputs: DecisionInputs
    ) -> Outcome[Response]:
        """Return the outcome of a request. Raise REQUEST_TIMED_OUT if its deadline has passed, as
        Kafka's controller does: the client expects no answer any more, and may have sent the
        request again."""
        if context.is_over(inputs.now_ms):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        quotas = self.image.client_quotas
        charge = self.mutations.charge_of(quotas, type(request), context, inputs.now_ms)
        if charge is not None:
            inputs = replace(inputs, charge=charge.take)
        outcome = _DECISIONS[type(request)](self, request, context, inputs)
        if charge is not None:
            outcome.response.throttle_time_ms = charge.wait_ms  # type: ignore[attr-defined]
        assert inputs.next_offset >= 0
        return outcome

    def on_tick(self, inputs: DecisionInputs) -> tuple[MetadataRecord, ...]:
        """Return the records that only time causes: fencing a broker that has been silent too long,
        then periodic work that is due.

        One decision is returned at a time, because each must include the effect of the one before.
        Call it until it returns nothing.
        """
        for broker in self.liveness.silent(self.image, inputs.now_ms):
            self.liveness.forget(broker.broker_id)
            return tuple(registration.fence(self.image, self.rules, broker))
        return self.periodic.on_tick(self.image, inputs)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of the log."""
        self.image.replay(record)

    def register_broker(
        self, request: BrokerRegistrationRequest, inputs: DecisionInputs
    ) -> Outcome[Response]:
        """Register a broker."""
        alive = self.liveness.is_alive(request.broker_id, inputs.now_ms)
        outcome = registration.register_broker(
            self.image, self.rules, request, inputs, registration.Contact(is_alive=alive)
        )
        if outcome.records:
            self.liveness.touch(request.broker_id, inputs.now_ms)
        return outcome

    def heartbeat(
        self, request: BrokerHeartbeatRequest, inputs: DecisionInputs
    ) -> Outcome[Response]:
        """Handle a broker's heartbeat."""
        outcome = registration.heartbeat(self.image, self.rules, request)
        if outcome.response.should_shut_down:
            self.liveness.forget(request.broker_id)
        elif not outcome.response.error_code:
            self.liveness.touch(request.broker_id, inputs.now_ms)
        return outcome


_Decision: TypeAlias = Callable[
    [Controller, Any, RequestContext, DecisionInputs], Outcome[Response]
]

_DECISIONS: Final[Mapping[type[Request], _Decision]] = {
    CreateTopicsRequest: lambda at, request, _, inputs: create_topics(
        at.image, at.rules, request, inputs
    ),
    RestoreTopicRequest: lambda at, request, _, inputs: restore_topic(
        at.image, at.rules, request, inputs
    ),
    DeleteTopicsRequest: lambda at, request, _, inputs: topic_deletion.delete_topics(
        at.image, request, inputs
    ),
    CreatePartitionsRequest: lambda at, request, _, inputs: create_partitions(
        at.image, at.rules, request, inputs
    ),
    IncrementalAlterConfigsRequest: lambda at, request, _, __: (
        config_changes.incremental_alter_configs(at.image, at.rules, request)
    ),
    AlterConfigsRequest: lambda at, request, _, __: config_changes.alter_configs(
        at.image, at.rules, request
    ),
    ListConfigResourcesRequest: lambda at, request, context, _: Outcome(
        (), config_changes.list_config_resources(at.image, request, context.version)
    ),
    AlterClientQuotasRequest: lambda at, request, _, __: alter_quotas(at.image, request),
    CreateAclsRequest: lambda at, request, _, inputs: acl_changes.create_acls(
        at.image, request, inputs
    ),
    DeleteAclsRequest: lambda at, request, _, __: acl_changes.delete_acls(at.image, request),
    DescribeAclsRequest: lambda at, request, _, __: Outcome(
        (), acl_changes.describe_acls(at.image, request)
    ),
    AlterUserScramCredentialsRequest: lambda at, request, _, __: alter_scram(at.image, request),
    DescribeUserScramCredentialsRequest: lambda at, request, _, __: Outcome(
        (), describe_scram(at.image, request)
    ),
    CreateDelegationTokenRequest: lambda at, request, context, inputs: token_changes.create_token(
        at.image, at.rules, request, context, inputs
    ),
    RenewDelegationTokenRequest: lambda at, request, context, inputs: token_changes.renew_token(
        at.image, at.rules, request, context.principal, inputs
    ),
    ExpireDelegationTokenRequest: lambda at, request, context, inputs: token_changes.expire_token(
        at.image, at.rules, request, context.principal, inputs
    ),
    DescribeDelegationTokenRequest: lambda at, request, context, _: Outcome(
        (),
        token_changes.describe_tokens(at.image, at.rules.token_secret, request, context),
    ),
    UpdateFeaturesRequest: lambda at, request, context, inputs: update_features(
        at.image,
        at.rules,
        request,
        FeatureRequest(context.version, inputs.kraft_version, inputs.check_kraft_version),
    ),
    ElectLeadersRequest: lambda at, request, _, __: elect_leaders(at.image, at.rules, request),
    AllocateProducerIdsRequest: lambda at, request, _, __: allocate_producer_ids(at.image, request),
    AlterPartitionReassignmentsRequest: lambda at, request, _, inputs: alter_reassignments(
        at.image, at.rules, request, inputs
    ),
    ListPartitionReassignmentsRequest: lambda at, request, _, __: Outcome(
        (), list_reassignments(at.image, request)
    ),
    AssignReplicasToDirsRequest: lambda at, request, _, __: assign_replicas_to_dirs(
        at.image, at.rules, request
    ),
    BrokerRegistrationRequest: lambda at, request, _, inputs: at.register_broker(request, inputs),
    BrokerHeartbeatRequest: lambda at, request, _, inputs: at.heartbeat(request, inputs),
    AlterPartitionRequest: lambda at, request, context, _: alter_partition(
        at.image, at.rules, request, context.version
    ),
    UnregisterBrokerRequest: lambda at, request, _, __: registration.unregister_broker(
        at.image, at.rules, request
    ),
    ControllerRegistrationRequest: lambda at, request, _, __: registration.register_controller(
        at.image, request
    ),
    UnregisterControllerRequest: lambda at, request, _, __: registration.unregister_controller(
        at.image, at.rules, request
    ),
}
