"""The voters: known from the settings (kraft.version 0) or from the log itself (1, KIP-853).

Invariants: voter ids are unique in a set; a set in the log counts from the moment it is appended,
committed or not, and the newest one counts. A snapshot carries the set of its offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.schemas.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
)
from moldau.protocol.schemas.control_records import Voter as VoterStruct
from moldau.records import Batch, ControlType, control_records

STATIC: Final = 0
DYNAMIC: Final = 1
KRAFT_VERSIONS: Final = (STATIC, DYNAMIC)


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter: its node, its disk, and its endpoints (listener, host, port)."""

    voter_id: int
    directory_id: Uuid = ZERO_UUID
    endpoints: tuple[tuple[str, str, int], ...] = ()
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS


@dataclass(frozen=True, slots=True)
class Voters:
    """The voters, and the version of the quorum's protocol that they use."""

    kraft_version: int
    voters: tuple[Voter, ...]

    @property
    def is_dynamic(self) -> bool:
        """Whether the log names the voters."""
        return self.kraft_version >= DYNAMIC

    @property
    def directories(self) -> dict[int, Uuid]:
        """The known disks of the voters."""
        known = {each.voter_id: each.directory_id for each in self.voters}
        return {each: disk for each, disk in known.items() if disk != ZERO_UUID}

    def find(self, voter_id: int) -> Voter | None:
        """Return the voter with this id, or None."""
        return next((each for each in self.voters if each.voter_id == voter_id), None)

    def having(self, voter: Voter) -> Voters:
        """Return these voters and the given one, which replaces a voter of the same id."""
        others = [each for each in self.voters if each.voter_id != voter.voter_id]
        ordered = sorted([*others, voter], key=lambda each: each.voter_id)
        return Voters(self.kraft_version, tuple(ordered))

    def lacking(self, voter_id: int) -> Voters:
        """Return these voters without the one with this id."""
        left = tuple(each for each in self.voters if each.voter_id != voter_id)
        return Voters(self.kraft_version, left)

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the voters, in order."""
        return tuple(sorted(each.voter_id for each in self.voters))

    def control_records(self) -> list[tuple[ControlType, bytes]]:
        """Return the control records that name the voters; none if the settings name them."""
        if self.kraft_version == STATIC:
            return []
        version = KRaftVersionRecord(version=0, kraft_version=self.kraft_version)
        voters = VotersRecord(version=0, voters=[_struct_of(each) for each in self.voters])
        return [
            (ControlType.KRAFT_VERSION, version.encode(0)),
            (ControlType.KRAFT_VOTERS, voters.encode(0)),
        ]

    def leader_change(self, leader_id: int, granting: Iterable[int]) -> tuple[ControlType, bytes]:
        """Return the first record of an epoch: the leader, the voters, and the votes for the
        leader.

        Always in version 0, without the voters' directories: Kafka 4.3 knows version 1, but reads
        every such record of a log as version 0.
        """
        voters = {each.voter_id: LeaderChangeVoter(voter_id=each.voter_id) for each in self.voters}
        message = LeaderChangeMessage(
            version=0,
            leader_id=leader_id,
            voters=list(voters.values()),
            granting_voters=[voters[each] for each in granting],
        )
        return ControlType.LEADER_CHANGE, message.encode(0)


def voters_after(voters: Voters, batch: Batch) -> Voters:
    """Return the voters after the batch is in the log."""
    if not batch.header.is_control:
        return voters
    kraft_version, members = voters.kraft_version, voters.voters
    for record in control_records(batch):
        if record.type == ControlType.KRAFT_VERSION:
            kraft_version = KRaftVersionRecord.decode(_value(record.value), 0).kraft_version
            if kraft_version not in KRAFT_VERSIONS:
                raise CorruptLog(
                    "the quorum runs at a protocol version that is not known here",
                    offset=record.offset,
                    kraft_version=kraft_version,
                )
        elif record.type == ControlType.KRAFT_VOTERS:
            found = VotersRecord.decode(_value(record.value), 0)
            members = tuple(_voter_of(each) for each in found.voters)
            if len({each.voter_id for each in members}) != len(members):
                raise CorruptLog("a voter is named twice", offset=record.offset)
    return Voters(kraft_version, members)


def _value(value: bytes | None) -> bytes:
    if value is None:
        raise CorruptLog("control record without a value")
    return value


def _struct_of(voter: Voter) -> VoterStruct:
    return VoterStruct(
        voter_id=voter.voter_id,
        voter_directory_id=voter.directory_id,
        endpoints=[
            Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints
        ],
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=voter.kraft_versions[0],
            max_supported_version=voter.kraft_versions[1],
        ),
    )


def _voter_of(struct: VoterStruct) -> Voter:
    return Voter(
        struct.voter_id,
        struct.voter_directory_id,
        tuple((each.name, each.host, each.port) for each in struct.endpoints),
        (
            struct.kraft_version_feature.min_supported_version,
            struct.kraft_version_feature.max_supported_version,
        ),
    )
