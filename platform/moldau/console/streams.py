"""Streams apps: a list of them, and each app's picture with live numbers, tasks and members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.base.offsets import LATEST
from moldau.console.connection import Connection
from moldau.console.paging import paged
from moldau.console.rates import Rates
from moldau.console.rendering import BadForm, Renderer
from moldau.console.streams_api import AppRefused, Store, StreamsApi
from moldau.console.together import together
from moldau.console.topology import AppView, Growth, counts, topics_of
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.runtime import Clock

NO_APPS: Final = (
    "Start the console with --streams NAME=URL to see a Streams app that listens: "
    "`moldau streams run APP --listen 127.0.0.1:8100`. Inside a broker that is "
    "moldau.console.streams=NAME=URL. Apps that a pipeline runs are in the picture of the pipeline."
)
PARTITIONS_MAX: Final = 1_000
"""An app that reads more partitions shows no growth of its topics."""


@dataclass(frozen=True, slots=True)
class AppSeen:
    """An app in the list, or why it does not answer."""

    name: str
    view: AppView | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Answers:
    view: AppView
    stores: Sequence[Store]
    problems: dict[str, str]


class Streams:
    """The endpoints about Streams apps."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock
        self._rates = Rates()

    async def list(self, request: Request) -> Response:
        """All apps, with their states, rates and lags."""
        apps = self._connection.beside.apps
        if not apps:
            return self._renderer.failure(request, 200, "Streams", NO_APPS)
        seen = await together(self._seen(name) for name in apps)
        return self._renderer.page(request, "streams.html", seen=seen)

    async def app(self, request: Request) -> Response:
        """One app."""
        return await self._page(request, "app.html")

    async def live(self, request: Request) -> Response:
        """The parts of an app's page that change, to replace them."""
        return await self._page(request, "app_live.html")

    async def _page(self, request: Request, template: str) -> Response:
        name = request.path_params["name"]
        answers = await self._answers(name, app_of(self._connection, name))
        view = answers.view
        return self._renderer.page(
            request,
            template,
            app=name,
            base=f"/streams/{quote(name, safe='')}",
            view=view,
            stores=answers.stores,
            held=view.stores(),
            picture=view.picture(),
            members=view.members(answers.problems),
            part=paged(view.tasks, request.query_params.get("page")),
            query=request.url.query,
        )

    async def _seen(self, name: str) -> AppSeen:
        try:
            answers = await self._answers(name, self._connection.beside.apps[name])
        except MoldauError as error:
            return AppSeen(name, None, str(error))
        return AppSeen(name, answers.view)

    async def _answers(self, name: str, app: StreamsApi) -> _Answers:
        topology, told, stores = await app.topology(), await app.tasks(), await app.stores()
        growth = await self._growth(topics_of(topology))
        found = counts(told.tasks, growth)
        rates = self._rates.of(name, self._clock.monotonic(), found)
        return _Answers(AppView(topology, told.tasks, growth, rates), stores, told.problems)

    async def _growth(self, topics: Sequence[str]) -> Growth:
        """Return the ends of the topics. A cluster that does not answer leaves them out."""
        try:
            admin = await self._connection.admin()
            described = await admin.describe_topics(topics)
            led = {
                name: [
                    TopicPartition(name, each.index)
                    for each in topic.partitions
                    if each.leader >= 0
                ]
                for name, topic in described.items()
                if not isinstance(topic, KafkaError)
            }
            sizes = {name: len(places) for name, places in led.items()}
            places = [each for found in led.values() for each in found]
            if len(places) > PARTITIONS_MAX:
                text = f"its topics have {len(places):,} partitions: how they grow is not shown"
                return Growth(sizes, skipped=text)
            found = await admin.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
        except KafkaError as error:
            return Growth(skipped=f"how its topics grow is not known: {error}")
        ends: dict[str, int] = {}
        for where, end in found.items():
            if not isinstance(end, KafkaError):
                ends[where.topic] = ends.get(where.topic, 0) + end.offset
        return Growth(sizes, ends)


def app_of(connection: Connection, name: str) -> StreamsApi:
    """Return the API of an app. Raise AppRefused if the console was given none of this name."""
    apps: Any = connection.beside.apps
    if not apps:
        raise BadForm(NO_APPS)
    if name not in apps:
        raise AppRefused(f"there is no app {name} here: {', '.join(sorted(apps))}", 404)
    app: StreamsApi = apps[name]
    return app
