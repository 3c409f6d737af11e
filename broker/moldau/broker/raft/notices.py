"""Log the notices of Raft's core for the operator, with advice.

Invariant: notices that other nodes can cause at any rate are written once a minute and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.raft.empty_disk import CaughtUp, OthersHaveRecords, VoteWithheld
from moldau.broker.raft.messages import AnotherLeader, Notice
from moldau.ids import format_uuid
from moldau.logging.gathering import GatheredWarnings

if TYPE_CHECKING:
    from moldau.broker.raft.replica import Member
    from moldau.broker.raft.voters import Voters
    from moldau.logging import Logger


class Notices:
    """Writes the notices of one replica."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._gathering = GatheredWarnings(log, lines=1)
        self._told_disk = False

    def write(self, notice: Notice, now_s: float) -> None:
        """Write one line, or count it."""
        match notice:
            case OthersHaveRecords(voter):
                self._log.warn(
                    "this controller's disk was empty when it started, and other voters have "
                    "metadata: it votes with care until it has read all of theirs. A new "
                    "controller needs nothing else; if this one had data before, see that its "
                    "disk is mounted",
                    voter=voter,
                )
            case VoteWithheld(candidate, unheard, longer):
                self._gathering.warn(
                    "withholds its vote: this controller's disk was empty when it started, and "
                    "the candidate may lack metadata that was acknowledged. Start the other "
                    "voters too, with an empty disk where the old one is lost",
                    now_s,
                    candidate=candidate,
                    start=sorted((*unheard, *longer)),
                )
            case CaughtUp(is_new_cluster=False):
                self._log.warn(
                    "this controller has read all committed metadata to its empty disk: it votes "
                    "like any other again, and nothing is to be done"
                )
            case CaughtUp():
                self._log.info("the first metadata is on this controller's disk")
            case AnotherLeader(epoch, leader_id):
                self._log.error(
                    "another controller leads in an epoch that this one led: two nodes have one "
                    "node.id, or a voter lost its disk. Look for node.ids that are given twice, "
                    "stop the controller that has the older metadata, and compare what both "
                    "acknowledged",
                    epoch=epoch,
                    leader=leader_id,
                )

    def write_other_disk(self, member: Member, voters: Voters) -> None:
        """Log the advice once, if the voters in the log name this node with another disk."""
        me = member.node_id
        known = voters.find(me)
        if known is None or member.is_voter or self._told_disk:
            return
        self._told_disk = True
        at = ",".join(f"{name}://{host}:{port}" for name, host, port in known.endpoints[:1])
        self._log.warn(
            "this controller's disk is not the one that votes under its number, so it only reads. "
            f"If that disk is lost: run `moldau quorum remove {me} --directory-id "
            f"{format_uuid(known.directory_id)}`, then `moldau quorum add {me} --at "
            f"{at or 'LISTENER://HOST:PORT'}`",
            directory_id=format_uuid(member.directory_id),
        )
