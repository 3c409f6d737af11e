"""The pages of a topic's messages: read, searched for, followed, downloaded and produced."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.console.access.roles import Role
from moldau.console.access.routes import is_still_in, session_of, visitor_of
from moldau.console.access.visitor import FIELD
from moldau.console.connection import Connection
from moldau.console.pages.encoding import Encoder, headers_of, value_form
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.console.pages.schema_form import SchemaField, is_copied, json_of, typed_of
from moldau.console.pages.texts import indented, moment
from moldau.console.search.export import FORMATS, pieces
from moldau.console.search.message import Message
from moldau.console.search.query import FROMS, MessageQuery, chosen, readable
from moldau.console.search.searches import FoundMessages, Search, SearchedPart, SearchState
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.link.metadata import Topic, TopicPartition

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

_POLL_S: Final = 0.5
_FOLLOWED: Final = 500
"""Records of a poll."""
_SCHEMAS_MAX: Final = 1_000
_PART: Final = "messages_found.html"


def topic_path(name: str, part: str = "") -> str:
    """Return the address of a topic's page."""
    return f"/topics/{quote(name, safe='')}{part}"


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a page of messages shows."""

    query: MessageQuery
    found: FoundMessages
    search: Search | None
    problem: str = ""
    copied: Message | None = None
    """The record that fills the form."""
    leaderless: list[int] = field(default_factory=list)


class MessagePages:
    """The endpoints about the messages of a topic."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer
        self._known_schemas: dict[str, list[tuple[str, int]]] = {}

    async def messages(self, request: Request) -> Response:
        """A page of messages; with a filter, what a search for them has found at once."""
        topic = await self._connection.topic(request.path_params["name"])
        query, problem = MessageQuery.read(request.query_params)
        found, copied, search, leaderless = FoundMessages(), None, None, list[int]()
        try:
            if not problem:
                indexes, leaderless = readable(topic, query.partition)
                mask = visitor_of(request).mask(topic.name)
                wanted = SearchedPart(topic.name, indexes, query, mask)
                if query.is_filter:
                    search = await self._connection.searches.start(_owner(request), wanted)
                    found = search.look()
                else:
                    found = await self._connection.searches.page(wanted)
                copied = to_copy(found.messages, request.query_params)
                if copied is not None:
                    await self._check_copy(copied, topic.name)
        except BadForm as error:
            problem = str(error)
        shown = _Shown(query, found, search, problem, copied, leaderless)
        return await self._page(request, topic, shown)

    async def search(self, request: Request) -> Response:
        """What a search has found so far."""
        topic = await self._connection.topic(request.path_params["name"])
        search = self._search(request)
        if search is None:  # the page that asks is an old one: it begins again
            again = see(topic_path(topic.name, "/messages"))
            if _is_part(request):
                again = Response(status_code=204, headers={"HX-Refresh": "true"})
            return again
        return await self._page(request, topic, _Shown(search.query, search.look(), search))

    async def stop(self, request: Request) -> Response:
        """Stop a search, and show what it has found."""
        search = self._search(request)
        if search is not None:
            search.stop()
            await search.ended.wait()
        return await self.search(request)

    def _search(self, request: Request) -> Search | None:
        key, name = request.path_params["key"], request.path_params["name"]
        mask = visitor_of(request).mask(name)
        return self._connection.searches.of(_owner(request), key, name, mask)

    async def _page(self, request: Request, topic: Topic, shown: _Shown) -> Response:
        found, problem, copied = shown.found, shown.problem, shown.copied
        is_part = _is_part(request)
        made = None if is_part else await self._value_form(request, topic.name)
        value = copied.value if copied else ""
        typed = {} if made is None else typed_of(made[1], value)
        is_by_fields = not value or made is None or is_copied(made[1], typed, value)
        name = _PART if is_part else "messages.html"
        # A record that is looked at stays open: rows come again only if there are more of them.
        if is_part and request.query_params.get("seen") == str(len(found.messages)):
            name = "search_progress.html" if found.state is SearchState.READS else _PART
        answer = self._renderer.page(
            request,
            name,
            # htmx shows no answer that failed, and the form stays as it was filled.
            400 if problem and not is_part else 200,
            topic=topic,
            found=found,
            search=shown.search,
            problem=problem,
            wanted=shown.query,
            copied=copied,
            leaderless=shown.leaderless,
            froms=FROMS,
            has_registry=self._connection.decoder is not None,
            base=topic_path(topic.name),
            schemas=await self._schema_places(found.messages),
            made=made,
            typed=typed,
            is_by_fields=is_by_fields,
            field=FIELD,
        )
        if is_part:
            is_progress = name != _PART
            answer.headers["HX-Retarget"] = "#progress" if is_progress else "#found"
            answer.headers["HX-Reswap"] = "outerHTML" if is_progress else "innerHTML"
        return answer

    async def _schema_places(self, messages: list[Message]) -> dict[str, list[tuple[str, int]]]:
        """Return the subjects and versions of the schemas that wrote these messages, as far as the
        registry tells; those of the topic first."""
        decoder = self._connection.decoder
        named = {name for each in messages for name in (each.key_schema, each.value_schema)}
        if decoder is None:
            return {}
        for name in named - self._known_schemas.keys():
            if not name.isdecimal():
                continue  # a GUID: the registry finds no subject by it
            try:
                self._known_schemas[name] = await decoder.asked(_versions_of(int(name)))
            except MoldauError:
                break  # it is down, or does not have it: the id stands alone
        if len(self._known_schemas) > _SCHEMAS_MAX:
            self._known_schemas.clear()
        return {name: self._known_schemas.get(name, []) for name in named if name}

    async def tail(self, request: Request) -> Response:
        """New messages as server-sent events, until the browser leaves, its session ends, or they
        cannot be had: then the browser asks again, and the answer tells it why."""
        topic = await self._connection.topic(request.path_params["name"])
        query = MessageQuery.of({**request.query_params, "from": "newest"})
        indexes = chosen(readable(topic, query.partition)[0], query.partition)
        wanted = SearchedPart(topic.name, indexes, query, visitor_of(request).mask(topic.name))
        self._connection.searches.matching(wanted)  # a mistake in it is told at once
        followed = tail(self._connection, wanted)

        async def events() -> AsyncIterator[str]:
            yield "retry: 2000\n\n"
            with suppress(MoldauError):  # such as a topic that is deleted meanwhile
                async for messages in followed:
                    if await request.is_disconnected() or not is_still_in(request):
                        return
                    for each in messages:
                        yield _event(each)
                    if not messages:
                        yield ": alive\n\n"

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    async def download(self, request: Request) -> Response:
        """All messages that the page would lead to, as a file that is written while it is read."""
        topic = await self._connection.topic(request.path_params["name"])
        kind = request.query_params.get("format", "json")
        if kind not in FORMATS:
            raise BadForm(f"format: {', '.join(FORMATS)}")
        query = MessageQuery.of(request.query_params)
        indexes, gone = readable(topic, query.partition)
        wanted = SearchedPart(topic.name, indexes, query, visitor_of(request).mask(topic.name))
        owner, searches, form = _owner(request), self._connection.searches, FORMATS[kind]
        matching = searches.export_filter(owner, wanted)
        pace = searches.pace()

        async def lines() -> AsyncIterator[str]:
            yield form.first
            try:
                async with aclosing(searches.exported(owner, wanted, matching)) as windows:
                    async for messages in windows:
                        if not is_still_in(request):
                            yield form.told("error", "the session has ended")
                            return
                        for piece in pieces(messages):
                            yield form.lines(topic.name, piece)
                            await pace.rest()
            except MoldauError as error:
                yield form.told("error", str(error))
            if gone:
                yield form.told("error", f"not read, as they have no leader: partitions {gone}")
            if matching.note:
                yield form.told("note", matching.note)

        name = quote(f"{topic.name}.{'jsonl' if kind == 'json' else kind}")
        headers = {
            "Cache-Control": "no-store",
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "X-Content-Type-Options": "nosniff",
        }
        return StreamingResponse(lines(), media_type=form.media_type, headers=headers)

    async def _check_copy(self, copied: Message, topic: str) -> None:
        """Raise BadForm if a schema wrote the record, and the topic has none to write it again."""
        encoder = Encoder(self._connection.decoder)
        for is_key, schema in ((True, copied.key_schema), (False, copied.value_schema)):
            if schema and await encoder.schema(Place(topic, is_key)) is None:
                raise BadForm(
                    f"schema {schema} wrote this record, and the subject of the topic has no "
                    "schema, so no form can write it again"
                )

    async def _value_form(self, request: Request, topic: str) -> tuple[str, SchemaField] | None:
        """Return the form of a topic's values, for a visitor that may send some."""
        if not visitor_of(request).has(Role.OPERATOR):
            return None
        try:
            return await value_form(self._connection.decoder, topic)
        except RegistryError:
            return None  # sending a record tells why

    async def _typed_value(self, topic: str, form: Mapping[str, str]) -> str:
        """Return the JSON of the fields that were typed. Raise BadForm."""
        made = await value_form(self._connection.decoder, topic)
        if made is None or form.get("schema") != made[0]:
            raise BadForm("the schema of the topic was changed meanwhile: load the page again")
        names = len(FIELD)
        typed = {name[names:]: text for name, text in form.items() if name.startswith(FIELD)}
        return json_of(made[1], typed)

    async def produce(self, request: Request) -> Response:
        """Send one record, and show the newest messages."""
        topic = await self._connection.topic(request.path_params["name"])
        form = await form_of(request)
        key, value, at = form.get("key", ""), form.get("value", ""), form.get("partition", "")
        if at and (not at.isdecimal() or int(at) >= len(topic.partitions)):
            raise BadForm(f"partition: the topic has {len(topic.partitions)}, from 0")
        headers = headers_of(form.get("headers", ""))
        options: dict[str, Any] = {"headers": headers} if headers else {}
        if at:
            options["partition"] = int(at)
        encoder = Encoder(self._connection.decoder)
        if key:
            options["key"] = await encoder.data(key, Place(topic.name, True))
        data = None
        if form.get("tombstone") and value.strip() and form.get("by") != "fields":
            raise BadForm("value: a tombstone has none; clear it, or untick the tombstone")
        if not form.get("tombstone"):
            # A browser sends each end of a line as two characters.
            text = value.replace("\r\n", "\n")
            if form.get("by") == "fields":
                text = await self._typed_value(topic.name, form)
            data = await encoder.data(text, Place(topic.name, False))
        async with self._connection.producer() as producer:
            await producer.send_and_wait(topic.name, data, **options)
        return see(topic_path(topic.name, "/messages"))


def _versions_of(
    schema_id: int,
) -> Callable[[SchemaRegistry], Awaitable[list[tuple[str, int]]]]:
    return lambda registry: registry.schema_versions(schema_id)


def _is_part(request: Request) -> bool:
    """Whether a script asks for a part of the page."""
    return request.headers.get("hx-target") in ("found", "progress")


def _owner(request: Request) -> str:
    """Return the owner of the searches that a request may see: its user, at its address, in its
    session if it has one."""
    address = "-" if request.client is None else request.client.host
    return f"{visitor_of(request).login.user} {address} {session_of(request)}"


def to_copy(messages: list[Message], query: Mapping[str, str]) -> Message | None:
    """Return the message that the form is to be filled with, None without `copy`. Raise BadForm if
    its bytes are not all text."""
    if "copy" not in query:
        return None
    at = (query.get("partition"), query.get("at"))
    for each in messages:
        if (str(each.partition), str(each.offset)) == at:
            if not each.is_exact:
                raise BadForm(
                    "this record is not plain text, too long or masked, so no form has it"
                )
            return each
    return None


async def tail(connection: Connection, wanted: SearchedPart) -> AsyncGenerator[list[Message]]:
    """Yield new messages that match as they come, and an empty list at least twice a second, until
    the console ends."""
    matching, pace = connection.searches.matching(wanted), connection.searches.pace()
    indexes = chosen(wanted.indexes, wanted.query.partition)
    places = [TopicPartition(wanted.topic, each) for each in indexes]
    async with connection.follower() as consumer:
        consumer.assign(places)
        for place, end in (await consumer.end_offsets(places)).items():
            consumer.seek(place, end)
        yield []
        while not connection.is_ending:
            came = []
            for part in await consumer.poll(_POLL_S, max_records=_FOLLOWED):
                for record in part.records:
                    message = await matching.message(record)
                    if message is not None:
                        came.append(message)
                    await pace.rest()
            yield came


def _event(message: Message) -> str:
    """Return a message as a server-sent event."""
    row = {
        "partition": message.partition,
        "offset": str(message.offset),
        "time": moment(message.timestamp_ms),
        "key": message.key,
        "value": indented(message.value),
    }
    return f"data: {json.dumps(row)}\n\n"
