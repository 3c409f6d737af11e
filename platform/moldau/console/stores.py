"""A store of a Streams app: a key's row, windows or sessions, and a page of rows.

A store holds what its changelog has, so the rules about messages of that topic count for the store:
roles that see it, and masks.

Invariants: a request asks for at most ROWS_MAX rows and one more, which tells whether there are
others; a visitor that does not see whole keys looks none up, as each answer would tell something of
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.config.times import parse_time_ms
from moldau.console.connection import Connection
from moldau.console.masks import Mask
from moldau.console.rendering import BadForm, Renderer
from moldau.console.routes import NotAllowed, check_topic, visitor_of
from moldau.console.streams import app_of
from moldau.console.streams_api import AppRefused, Store
from moldau.runtime import Clock

ROWS: Final = 50
ROWS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """The fields of the form above the rows."""

    key: str = ""
    first: str = ""
    last: str = ""
    since: str = ""
    until: str = ""
    is_reverse: bool = False
    rows: int = ROWS

    @classmethod
    def of(cls, query: Mapping[str, str], *, newest_first: bool) -> Asked:
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


class Stores:
    """The endpoint of a store's page."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock

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
        asked = Asked.of(request.query_params, newest_first=store.has_times)
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

    def _range(self, store: Store, asked: Asked) -> dict[str, str]:
        options = {"reverse": "true"} if asked.is_reverse else {}
        keys = (("first", asked.first), ("last", asked.last))
        options |= {name: text for name, text in keys if text}
        if store.has_times:
            options |= {"by_time": "true", **self._times(asked, "since", "until")}
        return options

    def _times(self, asked: Asked, first: str, last: str) -> dict[str, str]:
        """Return the times of the form in milliseconds, by the names of the API."""
        found = {}
        for name, field, text in ((first, "since", asked.since), (last, "until", asked.until)):
            if text:
                try:
                    found[name] = str(parse_time_ms(text, self._clock.wall_ms()))
                except ValueError as error:
                    raise BadForm(f"{field}: {error}") from error
        return found


def _more(store: Store, asked: Asked, rows: list[StoreRow]) -> str:
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
