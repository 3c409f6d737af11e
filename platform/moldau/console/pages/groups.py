"""Groups: their lag, and changes of their offsets, each shown before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.progress import GroupProgress, PartitionProgress
from moldau.client.group.descriptions import SHARE_TYPE
from moldau.config.times import parse_time_ms
from moldau.console.connection import Connection
from moldau.console.pages.charts import Charts, Subject
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see, typed_name
from moldau.link.metadata import TopicPartition
from moldau.operations import offsets
from moldau.operations.offsets import ConsumerGroups, Destination, OffsetChange
from moldau.operations.share import ShareGroups
from moldau.runtime import Clock

WAYS: Final = ("beginning", "end", "offset", "back", "time")


class Groups:
    """The endpoints about groups."""

    def __init__(
        self, connection: Connection, renderer: Renderer, clock: Clock, charts: Charts
    ) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock
        self._charts = charts

    async def all(self, request: Request) -> Response:
        """A page of groups, with the lag of those that are shown."""
        text = request.query_params.get("q", "").strip()
        listed = await self._connection.lists.groups()
        found = [each for each in listed.groups if text.lower() in each.group_id.lower()]
        part = paged(found, request.query_params.get("page"))
        lags = await self._connection.lists.lags([each.group_id for each in part.rows])
        is_part = request.headers.get("hx-target") == "found"
        name = "groups_found.html" if is_part else "groups.html"
        lists = self._connection.lists
        return self._renderer.listed(request, name, lists, listed, part=part, text=text, lags=lags)

    async def group(self, request: Request) -> Response:
        """Members, offsets and lag of one group."""
        return await self._group_page(request, await self._progress(request), None, {})

    async def _group_page(
        self,
        request: Request,
        progress: GroupProgress,
        moves: list[OffsetChange] | None,
        form: dict[str, str],
        problem: str = "",
    ) -> Response:
        return self._renderer.page(
            request,
            "group.html",
            400 if problem else 200,
            problem=problem,
            progress=progress,
            ways=WAYS,
            moves=moves,
            form=form,
            **await self._charts.shown(request, Subject("group", progress.group.group_id)),
        )

    async def plan_offsets(self, request: Request) -> Response:
        """Show what a change of offsets would do; change nothing."""
        progress = await self._progress(request)
        form = await form_of(request)
        try:
            moves, problem = await self._moves(progress, form), ""
        except BadForm as error:
            moves, problem = None, str(error)
        return await self._group_page(request, progress, moves, form, problem)

    async def change_offsets(self, request: Request) -> Response:
        """Store the offsets that a plan has shown."""
        progress = await self._progress(request)
        form = await form_of(request)
        places: dict[TopicPartition, int] = {}
        for name, text in form.items():
            topic, colon, index = name.removeprefix("to:").rpartition(":")
            if name.startswith("to:") and colon and index.isdecimal() and text.isdecimal():
                places[TopicPartition(topic, int(index))] = int(text)
        if not places:
            raise BadForm("there is nothing to change")
        group = progress.group.group_id
        kind = ShareGroups() if progress.group.type == SHARE_TYPE else ConsumerGroups()
        self._connection.lists.change(lambda listed: listed.lags.pop(group, None))
        await kind.store(await self._connection.admin(), group, places)
        return see(f"/groups/{quote(group, safe='')}")

    async def delete(self, request: Request) -> Response:
        """Delete a group without members. The form repeats its name."""
        name = await typed_name(request, "group")
        await (await self._connection.admin()).delete_group(name)
        self._connection.lists.change(lambda listed: listed.drop_group(name))
        return see("/groups")

    async def _moves(self, progress: GroupProgress, form: dict[str, str]) -> list[OffsetChange]:
        """Return the changes that a form asks for. Raise BadForm."""
        chosen = movable(progress.partitions, form.get("topic"))
        way, amount = form.get("way", ""), form.get("amount", "").strip()
        to = destination_of(way, amount, self._clock.wall_ms())
        stands = {each.where: each.committed for each in progress.partitions if each.committed}
        rules = dict.fromkeys(chosen, to.rule)
        admin, group = await self._connection.admin(), progress.group.group_id
        steps = await offsets.plan_group(admin, group, stands, rules, to.timestamp)
        return [each for each in steps if each.after is not None]

    async def _progress(self, request: Request) -> GroupProgress:
        admin = await self._connection.admin()
        return await admin.group_progress(request.path_params["name"])


def movable(rows: Sequence[PartitionProgress], topic: str | None) -> list[TopicPartition]:
    """Return the partitions, of one topic if one is given, that have an end to move to: a leader is
    there to ask. Raise BadForm if none is left."""
    found = [
        each.where
        for each in rows
        if each.end is not None and (not topic or each.where.topic == topic)
    ]
    if not found:
        raise BadForm("no partition has a known end: each has no leader, or its topic is gone")
    return found


def destination_of(way: str, amount: str, now_ms: int) -> Destination:
    """Return where a form lets a group go on. Raise BadForm."""
    if way not in WAYS:
        raise BadForm(f"to: {', '.join(WAYS)}")
    if way == "time":
        try:
            return Destination(offsets.to_time, parse_time_ms(amount, now_ms))
        except ValueError as error:
            raise BadForm(f"time: {error}") from error
    if way in ("beginning", "end"):
        return Destination(offsets.to_earliest if way == "beginning" else offsets.to_latest)
    if not amount.isdecimal():
        raise BadForm(f"{way}: give a whole number")
    rule = offsets.to_offset if way == "offset" else offsets.back_by
    return Destination(rule(int(amount)))
