"""Changes of a cluster. What a page deletes is typed by its name first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from moldau.client.admin.share_groups import ShareGroupAdmin
from moldau.client.group.descriptions import SHARE_TYPE
from moldau.console.connection import Connection
from moldau.console.rendering import BadForm, form_of
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.progress import GroupProgress

_SEE_OTHER: Final = 303
PARTITIONS_MAX: Final = 100_000


def see(path: str) -> Response:
    """Send the browser to a page after a change."""
    return RedirectResponse(path, _SEE_OTHER)


class Changes:
    """The endpoints that delete topics and groups, and add partitions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def delete_topic(self, request: Request) -> Response:
        """Delete a topic. The form repeats its name."""
        name = await typed_name(request, "topic")
        await (await self._connection.admin()).delete_topic(name)
        self._connection.lists.change(lambda listed: listed.drop(name))
        return see("/topics")

    async def delete_group(self, request: Request) -> Response:
        """Delete a group without members. The form repeats its name."""
        name = await typed_name(request, "group")
        await (await self._connection.admin()).delete_group(name)
        self._connection.lists.change(lambda listed: listed.drop_group(name))
        return see("/groups")

    async def add_partitions(self, request: Request) -> Response:
        """Give a topic more partitions."""
        name = request.path_params["name"]
        text = (await form_of(request)).get("count", "").strip()
        if not text.isdecimal() or not 0 < int(text) < PARTITIONS_MAX:
            raise BadForm("partitions: give the whole number that the topic is to have")
        await (await self._connection.admin()).create_partitions(name, int(text))
        await self._connection.lists.topic_changed(name)
        return see(f"/topics/{quote(name, safe='')}")


async def store_offsets(
    connection: Connection, progress: GroupProgress, offsets: Mapping[TopicPartition, int]
) -> None:
    """Store where a group of any kind reads on. Raise KafkaError for the first that is refused."""
    admin = await connection.admin()
    group = progress.group.group_id
    connection.lists.change(lambda listed: listed.lags.pop(group, None))
    if progress.group.type != SHARE_TYPE:
        await admin.alter_group_offsets(group, offsets)
        return
    for error in (await ShareGroupAdmin(admin).alter_offsets(group, offsets)).values():
        if error is not None:
            raise error


async def typed_name(request: Request, kind: str, effect: str = "to delete it") -> str:
    """Return the name in the request's path, which the form has to repeat. Raise BadForm."""
    name: str = request.path_params["name"]
    if (await form_of(request)).get("name", "").strip() != name:
        raise BadForm(f"type the name of the {kind} {effect}: {name}")
    return name
