"""The file that must not forget a vote; both forms are as Apache Kafka 4.3.1 wrote them."""

from __future__ import annotations

import pytest

from moldau.broker.raft.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from moldau.errors import CorruptLog
from moldau.runtime.files import Files
from tests.broker.log.simulated_node import SimulatedNode

STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
DYNAMIC = (
    '{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
    '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
STATE = QuorumState(leader_epoch=1, leader_id=1)


@pytest.fixture
def files() -> Files:
    return SimulatedNode().files


def test_what_is_written_is_what_kafka_writes(files: Files) -> None:
    write_quorum_state(files, "/p", STATE, (1,))
    assert files.read_text("/p/quorum-state") == STATIC
    assert read_quorum_state(files, "/p") == STATE
    write_quorum_state(files, "/p", STATE, None)
    assert files.read_text("/p/quorum-state") == DYNAMIC
    assert read_quorum_state(files, "/p") == STATE


def test_before_the_first_epoch_there_is_no_file(files: Files) -> None:
    assert read_quorum_state(files, "/p") == QuorumState()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        DYNAMIC.replace('"data_version":1', '"data_version":7'),
        DYNAMIC.replace('"leaderEpoch":1', '"leaderEpoch":"x"'),
        DYNAMIC.replace('"leaderEpoch":1', '"leaderEpoch":-5'),
        DYNAMIC.replace('"leaderEpoch":1', '"leaderEpoch":true'),
        DYNAMIC.replace("AAAAAAAAAAAAAAAAAAAAAA", "no id"),
        DYNAMIC.replace('"AAAAAAAAAAAAAAAAAAAAAA"', "3"),
    ],
)
def test_a_vote_is_never_guessed(files: Files, text: str) -> None:
    files.write_text_atomic("/p/quorum-state", text)
    with pytest.raises(CorruptLog):
        read_quorum_state(files, "/p")
