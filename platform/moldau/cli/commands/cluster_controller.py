"""The node that is the controller: the leader of the metadata quorum.

DescribeCluster on a broker names a broker that passes requests on to the controller, any of them.
Only the quorum tells which node decides, and that node need not be a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.client import Admin

QUORUM_SECONDS: Final = 2.0
"""A quorum that elects a leader answers within this time or not soon."""
_NOBODY: Final = -1


async def leading_controller(client: Admin) -> int | None:
    """The id of the node. None if the cluster does not tell: it has no leader now, it uses
    ZooKeeper, or this client may not ask."""
    from moldau.cli.shell import within
    from moldau.errors.codes import KafkaError

    try:
        quorum = await within(QUORUM_SECONDS, client.describe_quorum())
    except KafkaError:
        return None
    if quorum is None or quorum.leader_id == _NOBODY:
        return None
    return quorum.leader_id
