"""What stands in the control batches of a log: transaction markers and Raft's own records.

The key of a control record is its version and type; the value is one of the messages here: 0
abort and 1 commit (EndTxnMarker), 2 leader change, 3 and 4 the ends of a snapshot, 5 the quorum's
protocol version, 6 its voters (KIP-853).
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, Int64, String, Uint16, Uuid


class ControlRecordTypeSchema(Data, versions="0", flexible="none"):
    """The key of a control record, after its int16 version: what kind of record it is."""

    type: Int16


class EndTxnMarker(Data, versions="0", flexible="none"):
    """Ends a transaction in a partition; commit or abort is said by the key."""

    coordinator_epoch: Int32


class LeaderChangeVoter(Struct, schema_name="Voter"):
    """A voter, by id and (KIP-853) log directory."""

    voter_id: Int32
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID)


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The first record of a Raft epoch: the leader, the voters, and the votes for the leader."""

    version: Int16
    leader_id: BrokerId
    voters: list[LeaderChangeVoter]
    granting_voters: list[LeaderChangeVoter]


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """Opens a Raft snapshot; says up to which time it holds the log."""

    version: Int16
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """Closes a Raft snapshot; one without it is not complete."""

    version: Int16


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The version of the quorum's own protocol: 0 static voters, 1 dynamic ones (KIP-853)."""

    version: Int16
    kraft_version: Int16 = field(name="KRaftVersion")


class Endpoint(Struct):
    """An address of the voter, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class KRaftVersionFeature(Struct):
    """The versions of the quorum's own protocol that the voter supports."""

    min_supported_version: Int16
    max_supported_version: Int16


class Voter(Struct):
    """A voter, where it can be reached and what it supports."""

    voter_id: BrokerId
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature = field(name="KRaftVersionFeature")


class VotersRecord(Data, versions="0", flexible="0+"):
    """The whole set of voters; it counts as soon as it is appended (KIP-853)."""

    version: Int16
    voters: list[Voter]
