"""What the cluster tells of its nodes: the controller, the quorum, the brokers that are down.

DescribeCluster on a broker names a broker that passes requests on to the controller, any of them.
Only the quorum tells which node decides, and that node need not be a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.client.admin.cluster import ClusterDescription, Quorum

QUORUM_SECONDS: Final = 2.0
"""A quorum that elects a leader answers within this time or not soon."""
_NOBODY: Final = -1


class NoLeader(MoldauError):
    """The metadata quorum does not answer."""


async def leading_controller(client: Admin) -> int | None:
    """The id of the node. None if the cluster does not tell: it has no leader now, it uses
    ZooKeeper, or this client may not ask.

    A question that is given up still has its place in the connection: requests after it wait until
    the broker has answered it.
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
    """The quorum as its leader sees it. NoLeader says what to do if none answers."""
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
    """The living brokers, and those that are registered and down if the cluster tells them (since
    Kafka 4.0)."""
    from moldau.errors.codes import ErrorCode, KafkaError

    try:
        return await client.describe_cluster(include_fenced=True)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return await client.describe_cluster()
