"""Finds the nodes of a cluster: the controller, the quorum, and the brokers, also those that are
down.

DescribeCluster on a broker names any broker that forwards requests to the controller. Only the
quorum names the node that decides, and that node need not be a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.cli.output import write_lines
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.cli.command import Context
    from moldau.cli.commands.cluster_connection import OpenClient
    from moldau.client import Admin
    from moldau.client.admin.cluster import ClusterDescription, Quorum

QUORUM_SECONDS: Final = 2.0
"""A quorum that is electing a leader answers within this time, or not soon."""
_NOBODY: Final = -1


class NoLeader(MoldauError):
    """The metadata quorum does not answer."""


async def leading_controller(client: Admin) -> int | None:
    """Return the id of the quorum's leader. Return None if it is unknown: the quorum has no leader
    now, the cluster uses ZooKeeper, or this client is not authorized.

    A request that is given up keeps its place in the connection: later requests wait until the
    broker has answered it.
    """
    from moldau.cli.shell import within
    from moldau.errors.codes import KafkaError

    try:
        quorum = await within(QUORUM_SECONDS, client.describe_quorum())
    except KafkaError:
        return None
    if quorum is None or quorum.leader_id == _NOBODY:
        return None
    return quorum.leader_id


async def described_quorum(client: Admin) -> Quorum:
    """Return the quorum as its leader sees it. Raise NoLeader, with advice, if none answers."""
    from moldau.errors.codes import ErrorCode, KafkaError

    try:
        return await client.describe_quorum()
    except KafkaError as error:
        if error.code not in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER):
            raise
        raise NoLeader(
            "the metadata quorum does not answer: it has a leader only while more than half of its "
            "voters are alive and reach each other; see that the controllers run"
        ) from error


async def all_brokers(client: Admin) -> ClusterDescription:
    """Return the living brokers, and those that are registered but down if the cluster reports them
    (since Kafka 4.0)."""
    from moldau.errors.codes import ErrorCode, KafkaError

    try:
        return await client.describe_cluster(include_fenced=True)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return await client.describe_cluster()


def warn_of_voter(node: int, context: Context, admin: OpenClient[Admin]) -> None:
    """Warn if a node that was removed still is a voter of the metadata quorum."""
    from moldau.errors.codes import KafkaError
    from moldau.ids import ZERO_UUID

    try:
        quorum = admin.run(lambda client: client.describe_quorum())
    except KafkaError:  # a cluster with ZooKeeper has no quorum; the broker is gone in any case
        return
    known = next((each for each in quorum.voters if each.node_id == node), None)
    if known is None:
        return
    how = (
        "it is named in controller.quorum.voters of all nodes"
        if known.directory_id == ZERO_UUID
        else f"`moldau quorum remove {node}` ends that"
    )
    count = len(quorum.voters)
    line = (
        f"node {node} still counts as one of {count} voters of the metadata quorum, of which more"
    )
    write_lines(context.err, [f"moldau: {line} than half must be alive; {how}"])
