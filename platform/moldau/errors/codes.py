"""The one table of the protocol's error codes, as of Kafka 4.4.0, and the error that has a code.

A row has the number, a message for people, and what a client may do: `FATAL` (repeating the same
request fails again), `RETRY` (it may work later), `REFRESH` (it may work with fresh metadata, which
implies retry). A test compares numbers, names and these remedies with Kafka's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from moldau.errors import MoldauError

FATAL: Final = 0
RETRY: Final = 1
REFRESH: Final = 2


class ErrorCode(IntEnum):
    """The meaning of a response's `error_code`. Unknown numbers are UNKNOWN_SERVER_ERROR."""

    message: str
    retriable: bool
    refreshes_metadata: bool

    def __new__(cls, code: int, message: str = "", remedy: int = FATAL) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = remedy != FATAL
        member.refreshes_metadata = remedy == REFRESH
        return member

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """Map an unknown number, as a newer peer may send it, to UNKNOWN_SERVER_ERROR."""
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None

    UNKNOWN_SERVER_ERROR = -1, "The server failed in a way it has no code for."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The log does not hold that offset."
    CORRUPT_MESSAGE = 2, "A record's checksum, size or missing key makes it unusable.", RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition.", REFRESH
    INVALID_FETCH_SIZE = 4, "The size to fetch makes no sense."
    LEADER_NOT_AVAILABLE = 5, "The partition is between two leaders.", REFRESH
    NOT_LEADER_OR_FOLLOWER = 6, "This broker does not have the role that was asked for.", REFRESH
    REQUEST_TIMED_OUT = 7, "The time that the request allowed is over.", RETRY
    BROKER_NOT_AVAILABLE = 8, "That broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "That replica is not on this broker at present.", REFRESH
    MESSAGE_TOO_LARGE = 10, "The batch is larger than the broker or topic allows."
    STALE_CONTROLLER_EPOCH = 11, "Another controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The text stored beside the offset is too long."
    NETWORK_EXCEPTION = 13, "The connection ended before the answer came.", REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its log.", RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "There is no coordinator at present.", RETRY
    NOT_COORDINATOR = 16, "Another broker coordinates this.", RETRY
    INVALID_TOPIC_EXCEPTION = 17, "The topic's name is not allowed, or not for this use."
    RECORD_LIST_TOO_LARGE = 18, "The batch does not fit into one segment."
    NOT_ENOUGH_REPLICAS = 19, "Too few replicas are in sync to accept the records.", RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Appended, but too few replicas are in sync.", RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, "The group has moved to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no protocol with its group."
    INVALID_GROUP_ID = 24, "The group's name is not allowed."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the broker's bounds."
    REBALANCE_IN_PROGRESS = 27, "The group is being rebalanced: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not allowed to do that with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not allowed to do that with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not allowed to do that with the cluster."
    INVALID_TIMESTAMP = 32, "A record's timestamp is too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer that SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "Not the request that SASL expects at this point."
    UNSUPPORTED_VERSION = 35, "That version of the API or message is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic of that name already exists."
    INVALID_PARTITIONS = 37, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below one or above the brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replicas cannot be placed like that."
    INVALID_CONFIG = 40, "A setting or its value is not allowed."
    NOT_CONTROLLER = 41, "Another node is the active controller.", RETRY
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The stored message format cannot do that."
    POLICY_VIOLATION = 44, "A policy of the cluster forbids that."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence has a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's batch was appended before."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is an old one."
    INVALID_TXN_STATE = 48, "The transaction is not in a state for that."
    INVALID_PRODUCER_ID_MAPPING = 49, "The transactional id has another producer id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the broker's bound."
    CONCURRENT_TRANSACTIONS = 51, "The previous step of the transaction is not finished.", RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer coordinator has the transaction."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not allowed to use the transactional id."
    SECURITY_DISABLED = 54, "No authorizer is configured."
    OPERATION_NOT_ATTEMPTED = 55, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk of the log failed.", REFRESH
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The credentials were not accepted."
    UNKNOWN_PRODUCER_ID = 59, "Nothing is known of that producer any more."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is already being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The token belongs to another principal."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Tokens need a login with a password or a certificate, and not with a token.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not allowed to do that with the token."
    DELEGATION_TOKEN_EXPIRED = 66, "The token's time is over."
    INVALID_PRINCIPAL_TYPE = 67, "The principal's type is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has dropped the fetch session.", RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "Not the next request of the fetch session.", RETRY
    LISTENER_NOT_FOUND = 72, "The leader has no listener of that name.", REFRESH
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, "The request knows an older leader epoch than the broker.", REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "The request knows a newer leader epoch than the broker.", RETRY
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client cannot read the partition's compression."
    STALE_BROKER_EPOCH = 77, "The broker has registered anew since."
    OFFSET_NOT_AVAILABLE = 78, "The new leader's high watermark is not certain yet.", RETRY
    MEMBER_ID_REQUIRED = 79, "Join again with the member id that came with this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not in sync.", REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "The group takes no more members."
    FENCED_INSTANCE_ID = 82, "Another member has taken over the instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica may become leader.", REFRESH
    ELECTION_NOT_NEEDED = 84, "Leader election not needed: the wanted one leads.", REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group reads the topic, so its offsets stay."
    INVALID_RECORD = 87, "The broker's validation refused the record."
    UNSTABLE_OFFSET_COMMIT = 88, "An open transaction may still change the offset.", RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", RETRY
    PRODUCER_FENCED = 90, "A newer producer has the same transactional id."
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The new credential is not good enough."
    INCONSISTENT_VOTER_SET = 94, "Sender or receiver is not a voter of that set."
    INVALID_UPDATE_VERSION = 95, "The version to update to is not allowed."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server has no topic of that id.", REFRESH
    DUPLICATE_BROKER_REGISTRATION = 101, "Another living broker has that id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker has registered with that id."
    INCONSISTENT_TOPIC_ID = 103, "The log belongs to another topic id.", REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic names and ids.", RETRY
    INELIGIBLE_REPLICA = 107, "A replica of the new ISR may not be in it."
    NEW_LEADER_ELECTED = 108, "The change was made, and it moved the leadership."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in tiered storage now."
    FENCED_MEMBER_EPOCH = 110, "The member is fenced: give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "A member that has not left yet uses the instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group cannot use that assignor."
    STALE_MEMBER_EPOCH = 113, "Heartbeat first: the member has a newer epoch."
    MISMATCHED_ENDPOINT_TYPE = 114, "Sent to a broker instead of a controller, or the reverse."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "That kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller of that id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is an old one."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker takes."
    INVALID_REGISTRATION = 119, "The controller refuses the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction has failed; abort it and go on."
    INVALID_RECORD_STATE = 121, "The record cannot be acknowledged in its state."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has dropped the share session.", RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "Not the next request of the share session.", RETRY
    FENCED_STATE_EPOCH = 124, "The share group's state has another epoch."
    INVALID_VOTER_KEY = 125, "The voter's directory id is not the receiver's."
    DUPLICATE_VOTER = 126, "The node is a voter already."
    VOTER_NOT_FOUND = 127, "The node is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, "The pattern cannot be compiled."
    REBOOTSTRAP_REQUIRED = 129, "Start again from the bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology contradicts itself."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology's epoch makes no sense."
    STREAMS_TOPOLOGY_FENCED = 132, "The group has moved to a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker keeps no more share sessions for now.", RETRY
    GROUP_DELETION_FAILED = 134, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "The topology's description was not stored."
    CONTROLLER_ID_NOT_REGISTERED = 136, "The controller is not registered."


class KafkaError(MoldauError):
    """An error that the protocol has a number for: expected, sent to a client or raised there."""

    def __init__(self, code: int, reason: str = "", /, **context: object) -> None:
        self.code = known = ErrorCode(code)
        if known != code:
            context = {"code": code, **context}
        super().__init__(reason or known.message, **context)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all arguments: by default an exception is pickled with its reason only."""
        return type(self), (int(self.code), self.reason), self.__dict__

    @property
    def retriable(self) -> bool:
        """Whether the same request may work later."""
        return self.code.retriable

    def __str__(self) -> str:
        return f"{self.code.name}: {super().__str__()}"


RIGHT_MISSING: Final = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    )
)
"""The codes for a client without the right to what it asks for."""


def error_from(api: str, code: int, reason: str = "", /, **context: object) -> KafkaError:
    """Return the error that a response of that API has. That of a missing right has the API among
    its facts, since it decides which right that is (`moldau.protocol.rights`). A client gives the
    API that it asks the resource for: a producer needs the right to produce even where a request
    for metadata is refused first."""
    if code in RIGHT_MISSING:
        context = {**context, "api": api}
    return KafkaError(code, reason, **context)


def raise_for(api: str, code: int, reason: str = "", /, **context: object) -> None:
    """Raise the error of a response's `error_code`, as `error_from`; do nothing if it is 0."""
    if code:
        raise error_from(api, code, reason, **context)


def may_work_later(error: KafkaError) -> bool:
    """Whether a retry may succeed: the code is retriable, or the broker is just not available."""
    return error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
