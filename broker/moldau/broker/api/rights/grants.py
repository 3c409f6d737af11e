"""The topics that a connection was found to have WRITE on, kept by the connection.

A producer sends to the same topics again and again, so the usual check of a produce is whether its
topics are among those of the connection, and whether the rules are still the same.

Invariants: grants are of one principal and of one version of the rules. A change of a rule, a new
login and a new snapshot of the metadata end them. Only allowed topics that exist are kept, so what
is refused is decided anew each time. The number of topics is bounded, because clients choose them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.decision.context import Principal
    from moldau.protocol.messages.produce import ProduceRequest

TOPICS_MAX: Final = 1000
_IDS_SINCE: Final = 13


class WriteGrants:
    """Topics by name or by id, as the requests of the connection have them."""

    __slots__ = ("_changes", "_index", "_principal", "topics")

    def __init__(self, node: Node, principal: Principal) -> None:
        self._index = node.image.acls.index
        self._changes = self._index.changes
        self._principal = principal
        self.topics: set[str | bytes] = set()

    def covers(self, node: Node, principal: Principal, message: ProduceRequest) -> bool:
        """Whether WRITE on all topics of the message is known. The transactional id of a message
        needs a right of its own, so a message that has one is never covered."""
        if message.transactional_id is not None or not self._is_current(node, principal):
            return False
        topics = message.topic_data
        if len(topics) == 1:
            return (topics[0].name or topics[0].topic_id) in self.topics
        return self.topics.issuperset([each.name or each.topic_id for each in topics])

    def covers_all(self, node: Node, principal: Principal, topics: Collection[str | bytes]) -> bool:
        """Whether WRITE on the topics of a message without a transactional id is known."""
        return self.topics.issuperset(topics) and self._is_current(node, principal)

    def _is_current(self, node: Node, principal: Principal) -> bool:
        """Whether the rules and the principal are those that the topics were found for."""
        index = self._index
        return (
            node.image.acls.index is index
            and index.changes == self._changes
            and principal is self._principal
        )

    @staticmethod
    def note(node: Node, request: ApiRequest, message: ProduceRequest, version: int) -> None:
        """Keep the topics of a message that the guard has let through."""
        peer = request.connection
        grants: WriteGrants | None = peer.grants
        index = node.image.acls.index
        if (
            grants is None
            or grants._index is not index
            or grants._changes != index.changes
            or grants._principal is not peer.principal
        ):
            grants = peer.grants = WriteGrants(node, peer.principal)
        if len(grants.topics) + len(message.topic_data) > TOPICS_MAX:
            grants.topics.clear()
        if len(message.topic_data) > TOPICS_MAX:
            return
        if version < _IDS_SINCE:
            grants.topics.update(each.name for each in message.topic_data)
        else:
            known = node.image.topics.by_id
            grants.topics.update(
                each.topic_id for each in message.topic_data if each.topic_id in known
            )
