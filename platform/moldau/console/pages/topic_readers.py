"""The groups that read a topic, with their members and lag, and the rules about it."""

from __future__ import annotations

from itertools import chain
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.progress import GroupProgress
from moldau.client.group.descriptions import SHARE_TYPE
from moldau.console.connection import Connection
from moldau.console.pages.rendering import Renderer
from moldau.console.picture import kinds
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.operations import acls
from moldau.protocol.acl_operations import AclResource

GROUPS_MAX: Final = 500
"""Groups that are asked for one page."""


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A group that reads a topic."""

    name: str
    state: str
    members: tuple[tuple[str, tuple[int, ...]], ...]
    """The client of each member, and the partitions of the topic that it has."""
    partitions: int
    lag: int
    is_share: bool = False
    """Whether it is a share group: its members have records of a partition in common."""

    @classmethod
    def of(cls, progress: GroupProgress, topic: str) -> TopicReader | None:
        """Return a group as a reader of the topic; None if it does not read it."""
        group = progress.group
        rows = [each for each in progress.partitions if each.where.topic == topic]
        members = []
        for member in group.members:
            held = sorted(each.partition for each in member.assignment if each.topic == topic)
            if held:
                members.append((f"{member.client_id} {member.host}", tuple(held)))
        if not rows and not members:
            return None
        lag = sum(each.lag or 0 for each in rows)
        is_share = group.type == SHARE_TYPE
        return cls(group.group_id, group.state, tuple(members), len(rows), lag, is_share)


class TopicReaders:
    """The endpoint about the readers of a topic."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    async def readers(self, request: Request) -> Response:
        """Groups and rules of a topic."""
        topic = await self._connection.topic(request.path_params["name"])
        admin = await self._connection.admin()
        listed = await self._connection.lists.groups()
        names = sorted(chain(*kinds(listed.groups)))
        found = await admin.groups_progress(names[:GROUPS_MAX]) if names else {}
        readers = [
            reader
            for each in found.values()
            if isinstance(each, GroupProgress) and (reader := TopicReader.of(each, topic.name))
        ]
        failed = {
            name: str(each)
            for name, each in found.items()
            if isinstance(each, KafkaError) and each.code is not ErrorCode.GROUP_ID_NOT_FOUND
        }
        failure = ""
        rules: list[str] = []
        try:
            about = await acls.rules_about(admin, AclResource.TOPIC, topic.name)
            rules = sorted(map(acls.rule_text, about))
        except KafkaError as error:
            failure = str(error)
        return self._renderer.page(
            request,
            "readers.html",
            topic=topic,
            readers=sorted(readers, key=lambda each: (-each.lag, each.name)),
            failed=failed,
            unread=max(0, len(names) - GROUPS_MAX),
            rules=rules,
            failure=failure,
        )
