"""Streams apps: a list of them, each app's picture with live numbers, and the rows of a store.

A store holds what its changelog has, so the rules about messages of that topic count for the store:
roles that see it, and masks.

Invariants: a rate is that between two looks at least EVERY_S and at most GAP_S apart; a count that
has become smaller began anew, and has no rate until the next look. A request asks for at most
ROWS_MAX rows and one more, which tells whether there are others; a visitor that does not see whole
keys looks none up, as each answer would tell something of them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.base.offsets import LATEST
from moldau.config.times import parse_time_ms
from moldau.console.access.masks import Mask
from moldau.console.access.routes import NotAllowed, check_topic, visitor_of
from moldau.console.apis.rest import ask_all
from moldau.console.apis.streams import AppRefused, Store, StreamsApi
from moldau.console.connection import Connection
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import BadForm, Renderer
from moldau.console.pages.topology import AppView, Growth, counts, topics_of
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.runtime import Clock

ROWS: Final = 50
ROWS_MAX: Final = 1_000

EVERY_S: Final = 2.0
GAP_S: Final = 60.0

Counts = Mapping[Hashable, int]

NO_APPS: Final = (
    "Start the console with --streams NAME=URL to see a Streams app that listens: "
    "`moldau streams run APP --listen 127.0.0.1:8100`. Inside a broker that is "
    "moldau.console.streams=NAME=URL. Apps that a pipeline runs are in the picture of the pipeline."
)
PARTITIONS_MAX: Final = 1_000
"""An app that reads more partitions shows no growth of its topics."""


@dataclass(frozen=True, slots=True)
class AppSummary:
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
        apps = self._connection.services.apps
        if not apps:
            return self._renderer.absent(request, "Streams", NO_APPS)
        seen = await ask_all(self._seen(name) for name in apps)
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

    async def _seen(self, name: str) -> AppSummary:
        try:
            answers = await self._answers(name, self._connection.services.apps[name])
        except MoldauError as error:
            return AppSummary(name, None, str(error))
        return AppSummary(name, answers.view)

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

    async def store(self, request: Request) -> Response:
        """The rows that the form asks for; without a key, a page of all."""
        name, wanted = request.path_params["name"], request.path_params["store"]
        app = app_of(self._connection, name)
        known = {each.name: each for each in await app.stores()}
        if wanted not in known:
            raise AppRefused(f"the app has no store {wanted}: {', '.join(sorted(known))}", 404)
        store = known[wanted]
        check_topic(request, store.topic)
        mask = visitor_of(request).mask(store.topic)
        asked = StoreQuery.of(request.query_params, newest_first=store.has_times)
        if mask is not None and mask.hides_keys and (asked.key or asked.first or asked.last):
            user = visitor_of(request).login.user
            raise NotAllowed(
                f"{user} does not see the whole keys of {store.topic}, which a look-up by key "
                "would tell: leave key, first and last empty"
            )
        if asked.key:
            times = self._times(asked, "first", "last") if store.has_times else {}
            found = await app.of_key(store, asked.key, asked.rows, times)
        else:
            found = await app.rows(store.name, asked.rows + 1, self._range(store, asked))
        rows = [StoreRow.of(each, mask) for each in found.rows]
        is_part = request.headers.get("hx-target") == "found"
        return self._renderer.page(
            request,
            "store_found.html" if is_part else "store.html",
            app=name,
            base=f"/streams/{quote(name, safe='')}",
            store=store,
            asked=asked,
            rows=rows[: asked.rows],
            more=_more(store, asked, rows) if mask is None else "",
            is_cut=found.more or len(rows) > asked.rows,
        )

    def _range(self, store: Store, asked: StoreQuery) -> dict[str, str]:
        options = {"reverse": "true"} if asked.is_reverse else {}
        keys = (("first", asked.first), ("last", asked.last))
        options |= {name: text for name, text in keys if text}
        if store.has_times:
            options |= {"by_time": "true", **self._times(asked, "since", "until")}
        return options

    def _times(self, asked: StoreQuery, first: str, last: str) -> dict[str, str]:
        """Return the times of the form in milliseconds, by the names of the API."""
        found = {}
        for name, bound, text in ((first, "since", asked.since), (last, "until", asked.until)):
            if text:
                try:
                    found[name] = str(parse_time_ms(text, self._clock.wall_ms()))
                except ValueError as error:
                    raise BadForm(f"{bound}: {error}") from error
        return found


def app_of(connection: Connection, name: str) -> StreamsApi:
    """Return the API of an app. Raise AppRefused if the console was given none of this name."""
    apps: Any = connection.services.apps
    if not apps:
        raise BadForm(NO_APPS)
    if name not in apps:
        raise AppRefused(f"there is no app {name} here: {', '.join(sorted(apps))}", 404)
    app: StreamsApi = apps[name]
    return app


@dataclass(slots=True)
class _CountLook:
    at_s: float
    counts: Counts
    rates: dict[Hashable, float] = field(default_factory=dict)


class Rates:
    """The rates of what one console shows, by names of apps or pipelines that it was started
    with."""

    def __init__(self) -> None:
        self._seen: dict[str, _CountLook] = {}

    def of(self, name: str, now_s: float, counts: Counts) -> Mapping[Hashable, float]:
        """Return how much each count grows a second. What is seen for the first time has none."""
        before = self._seen.get(name)
        if before is None or now_s - before.at_s > GAP_S:
            self._seen[name] = _CountLook(now_s, dict(counts))
            return {}
        seconds = now_s - before.at_s
        if seconds < EVERY_S:
            return before.rates
        rates = {
            each: (count - before.counts[each]) / seconds
            for each, count in counts.items()
            if count >= before.counts.get(each, count + 1)
        }
        self._seen[name] = _CountLook(now_s, dict(counts), rates)
        return rates


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """The fields of the form above the rows."""

    key: str = ""
    first: str = ""
    last: str = ""
    since: str = ""
    until: str = ""
    is_reverse: bool = False
    rows: int = ROWS

    @classmethod
    def of(cls, query: Mapping[str, str], *, newest_first: bool) -> StoreQuery:
        """Return what a request asks for."""
        names = ("key", "first", "last", "since", "until")
        fields = {name: query.get(name, "") for name in names}
        reverse = query.get("reverse", "1" if newest_first else "")
        rows = query.get("rows", "")
        count = int(rows) if rows.isdecimal() and len(rows) < len("99999") else ROWS
        return cls(**fields, is_reverse=reverse == "1", rows=min(max(1, count), ROWS_MAX))


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A row as text; without times if the store has none."""

    key: str
    value: str
    timestamp: int
    start: int | None = None
    end: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], mask: Mask | None) -> StoreRow:
        """Read a row of an answer, as a mask leaves it. Every digit stays."""
        key, value = key_text(row["key"]), json.dumps(row["value"], ensure_ascii=False)
        return cls(
            key if mask is None else mask.key(key),
            value if mask is None else mask.value(value),
            row["timestamp"],
            row.get("start"),
            row.get("end"),
        )


def key_text(key: object) -> str:
    """Return a key as the API takes it in a URL: text as it is, anything else as JSON."""
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def _more(store: Store, asked: StoreQuery, rows: list[StoreRow]) -> str:
    """Return the query of more rows; empty if there are none. Keys go on with the next one; rows in
    the order of their times, of which many have the same, come again with more of them."""
    if asked.key or len(rows) <= asked.rows or asked.rows >= ROWS_MAX:
        return ""
    fields = {
        "first": asked.first,
        "last": asked.last,
        "since": asked.since,
        "until": asked.until,
        "reverse": "1" if asked.is_reverse else "0",
    }
    if store.has_times:
        fields["rows"] = str(min(ROWS_MAX, 2 * asked.rows))
    else:
        fields["last" if asked.is_reverse else "first"] = rows[asked.rows].key
    return urlencode({name: text for name, text in fields.items() if text})
