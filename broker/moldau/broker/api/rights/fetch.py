"""The reader of a Fetch whose client has rights: READ on each topic, or CLUSTER_ACTION as a
follower (CVE-2018-1288).

Each read is checked, also in a fetch session, whose requests name only what has changed. So a
right that is taken away ends the reading at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.fetch_reader import FetchReader
from moldau.broker.api.rights.guard import Client
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.rights import Right

if TYPE_CHECKING:
    from moldau.broker.api.fetch_session import RequestedFetch
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.messages.fetch import FetchRequest


_READ: Final = Right(AclResource.TOPIC, AclOperation.READ)


class GuardedReader(FetchReader):
    """Reads only what its client has a right to."""

    __slots__ = ("_client",)

    def __init__(self, node: Node, message: FetchRequest, request: ApiRequest) -> None:
        super().__init__(node, message, request.arrival.version)
        self._client = Client(node.authorizer, request.context, node.image)

    def find(self, wanted: RequestedFetch) -> Partition:
        """Return the replica to read from. Raise TOPIC_AUTHORIZATION_FAILED before anything else:
        the client learns nothing about a topic that it may not read."""
        name = self._client.name_of(wanted.topic_id) if self.uses_topic_ids else wanted.topic
        if name and not self._may_read(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return super().find(wanted)

    def _may_read(self, name: str) -> bool:
        if self.is_follower:
            return self._client.may_on_cluster(AclOperation.CLUSTER_ACTION)
        return self._client.has(_READ, (name,))

    def client_error(self, wanted: RequestedFetch, error: KafkaError) -> KafkaError:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return error
        return super().client_error(wanted, error)
