"""AddRaftVoter, RemoveRaftVoter and UnregisterBroker on one node: what is refused, and how.

Kafka's node here has its voters from the settings, ours from its log: what depends on that is in
tests/conformance/test_java_voters.py.
"""

from __future__ import annotations

from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.differential.talk import Talk, versions

UNKNOWN_DISK = b"\1" * 16


def add(voter_id: int, cluster_id: str | None = None) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=5000,
        voter_id=voter_id,
        voter_directory_id=UNKNOWN_DISK,
        listeners=[Listener(name="CONTROLLER", host="localhost", port=1)],
    )


def remove(voter_id: int, cluster_id: str | None = None) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=UNKNOWN_DISK
    )


async def scenario(talk: Talk) -> None:
    for label, request in {
        "to another cluster": add(7, "AAAAAAAAAAAAAAAAAAAAAg"),
    }.items():
        await talk.ask(label, request, versions(AddRaftVoterRequest))
    for label, leaving in {
        "from another cluster": remove(1, "AAAAAAAAAAAAAAAAAAAAAg"),
    }.items():
        await talk.ask(label, leaving, versions(RemoveRaftVoterRequest))
    for label, unregistered in {
        "a broker that there is not": UnregisterBrokerRequest(broker_id=9),
        "a negative broker": UnregisterBrokerRequest(broker_id=-1),
    }.items():
        await talk.ask(label, unregistered, versions(UnregisterBrokerRequest))
