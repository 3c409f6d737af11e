"""The file `quorum-state`: the state that a Raft replica must not forget, as JSON in Kafka's form.

Invariant: epoch and vote are durable before they are sent, and the epoch never falls. A
replica that forgot its vote could vote twice in one epoch, and there could be two leaders.

Two forms: version 0 also names the static voters; version 1 (KIP-853) has the voters in the log
and the directory id of the candidate voted for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.ids import ZERO_UUID, Uuid, format_uuid, parse_uuid

if TYPE_CHECKING:
    from moldau.runtime.files import Files

QUORUM_STATE: Final = "quorum-state"
NOBODY: Final = -1
_INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The epoch, its leader, and the candidate that this replica voted for."""

    leader_epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: Uuid = ZERO_UUID


def write_quorum_state(
    files: Files, directory: str, state: QuorumState, static_voters: tuple[int, ...] | None
) -> None:
    """Replace the file. Durable on return. `static_voters` is given if the log does not name the
    voters."""
    values: dict[str, Any]
    if static_voters is not None:
        values = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in static_voters],
            "data_version": 0,
        }
    else:
        values = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": format_uuid(state.voted_directory_id),
            "data_version": 1,
        }
    text = json.dumps(values, separators=(",", ":"))
    files.write_text_atomic(f"{directory}/{QUORUM_STATE}", text)


def read_quorum_state(files: Files, directory: str) -> QuorumState:
    """Return the state in the file, or the state before the first epoch if it does not exist. Raise
    CorruptLog if it cannot be read: a vote that may have been given must not be guessed."""
    path = f"{directory}/{QUORUM_STATE}"
    if not files.exists(path):
        return QuorumState()
    try:
        values = json.loads(files.read_text(path))
    except ValueError as error:
        raise CorruptLog("quorum-state is not JSON", path=path) from error
    if not isinstance(values, dict) or values.get("data_version") not in (0, 1):
        raise CorruptLog("quorum-state has an unknown form", path=path)
    directory_id = values.get("votedDirectoryId", format_uuid(ZERO_UUID))
    try:
        voted_directory_id = parse_uuid(directory_id)
    except (ValueError, TypeError) as error:
        raise CorruptLog("quorum-state has a malformed id", path=path) from error
    return QuorumState(
        leader_epoch=_number(values, "leaderEpoch", path),
        leader_id=_number(values, "leaderId", path),
        voted_id=_number(values, "votedId", path),
        voted_directory_id=voted_directory_id,
    )


def _number(values: Mapping[str, object], name: str, path: str) -> int:
    value = values.get(name)
    if type(value) is not int or not NOBODY <= value <= _INT32_MAX:
        raise CorruptLog("quorum-state has a malformed number", path=path, name=name, value=value)
    return value
