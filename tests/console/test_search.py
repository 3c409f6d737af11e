"""Searches through a topic: what they find, how far they have come, and when they end."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from html import unescape
from io import StringIO
from typing import Any, Final, cast

import httpx2
import pytest

from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import Visitor
from moldau.console.access.visitor import Access
from moldau.console.search import searches
from moldau.console.search.export import FORMATS, PIECE, Format, pieces
from moldau.console.search.matching import SearchFilter
from moldau.console.search.message import Message
from moldau.console.search.sweep import SHOWN
from moldau.testing import EmbeddedBroker
from tests.console.cells import Cells
from tests.console.orders import ONE, ORDERS, WHERE, send_orders
from tests.console.shown import POLL, browser, finished

pytestmark = pytest.mark.real

POLICY: Final = """
roles:
  viewer: {users: [ann, bob]}
messages:
  - {topics: [orders], users: [ann, bob]}
masks:
  - {topics: [orders], value: [email], headers: [token], how: stars}
"""
Check = Callable[[httpx2.AsyncClient, str], Awaitable[None]]


def on_orders(check: Check, count: int = ORDERS, access: Access | None = None) -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await send_orders(broker.bootstrap_servers, count)
            async with browser(broker.bootstrap_servers, access) as client:
                await check(client, broker.bootstrap_servers)

    asyncio.run(run())


def offsets(page: httpx2.Response) -> list[str]:
    """Partition and offset of each row."""
    rows = [row for row in Cells(page.text).rows if len(row) == 5]
    return [f"{row[0].strip()}:{row[1].strip()}" for row in rows]


async def search(client: httpx2.AsyncClient, **query: str) -> httpx2.Response:
    return await finished(client, await client.get("/topics/orders/messages", params=query))


def test_one_order_of_many_is_found_by_an_expression_that_the_address_keeps() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        page = await search(client, where=WHERE)
        assert offsets(page) == [f"{ONE % 3}:{ONE // 3}"]
        assert f"Looked at {ORDERS:,} records." in page.text
        sent = await client.get("/topics/orders/messages", params={"where": WHERE})
        assert f'value="{WHERE}"' in unescape(sent.text), "a colleague sees the same form"
        for where, found in (
            ("value.total > 9000", 2),
            (f"offset == {ONE // 3} and partition == {ONE % 3}", 1),
            (f"timestamp == {1_700_000_000_000 + ONE}", 1),
            (f'headers.token == "t{ONE}"', 1),
            (f"value.id + 1 == {ONE + 1}", 1),
            ("value.total > 99999", 0),
        ):
            assert len(offsets(await search(client, where=where))) == found, where
        both = await search(client, where="value.total > 9000", text=f'"id": {ONE + 1},')
        assert offsets(both) == [f"{(ONE + 1) % 3}:{(ONE + 1) // 3}"]
        one = await search(client, where=WHERE, partition=str((ONE + 1) % 3))
        assert "No message matches" in one.text

    on_orders(check)


def test_pages_lead_to_older_and_newer_messages_and_keep_the_filter() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        for query in ({}, {"where": "value.total >= 0"}, {"from": "oldest"}):
            page, seen = await search(client, **query), list[str]()
            while True:
                seen += offsets(page)
                link = re.search(r'rel="next" href="([^"]*)"', page.text)
                if link is None:
                    break
                page = await finished(client, await client.get(unescape(link[1])))
            expected = [f"{each % 3}:{each // 3}" for each in range(count)]
            assert seen == (expected if "from" in query else expected[::-1]), query
            back = re.search(r'rel="prev" href="([^"]*)"', page.text)
            assert back is not None
            before = await finished(client, await client.get(unescape(back[1])))
            assert offsets(before) == seen[-SHOWN - len(offsets(page)) : -len(offsets(page))]

    count = 3 * SHOWN + 20
    on_orders(check, count)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("value.total >", "is no expression"),
        ("total > 3", "there is no total"),
        ("__import__('os')", "no function"),
    ],
)
def test_a_mistake_in_an_expression_is_told(where: str, said: str) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        page = await client.get("/topics/orders/messages", params={"where": where})
        assert page.status_code == 400
        assert said in unescape(page.text)
        for other in ("tail", "download"):
            page = await client.get(f"/topics/orders/{other}", params={"where": where})
            assert (page.status_code, said in unescape(page.text)) == (400, True), other

    on_orders(check, 1)


def test_records_for_which_the_expression_fails_are_counted() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        page = await search(client, where="value.total.x * 2 > 1")
        assert "9 records were left out, the first at orders-" in page.text

    on_orders(check, 9)


def test_a_search_sees_what_its_visitor_sees() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        client.auth = httpx2.BasicAuth("ann", "-")
        for where, found in (
            ('value.email == "c1@example.org"', 0),
            ('value.email == "***"', 9),
            ('headers.token == "t3"', 0),
            ("value.id == 3", 1),
        ):
            assert len(offsets(await search(client, where=where))) == found, where
        hidden = await client.get("/topics/hidden/messages", params={"where": "offset > 0"})
        assert hidden.status_code == 403

    access = Access(policy=read_policy(POLICY, "roles.yaml").policy)
    on_orders(check, 9, access)


class Held:
    """Holds searches in their first records."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        chosen = SearchFilter.chosen

        async def held(matching: SearchFilter, *given: Any) -> Any:
            await self.gate.wait()
            return await chosen(matching, *given)

        patch.setattr(SearchFilter, "chosen", held)
        patch.setattr(searches, "AT_ONCE_S", 0.0)


def test_a_search_goes_on_in_the_background_and_other_pages_are_there_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        held = Held(monkeypatch)
        page = await client.get("/topics/orders/messages", params={"where": "offset >= 0"})
        assert "Read 0 %" in page.text
        (path,) = POLL.findall(page.text)
        again = await client.get(unescape(path), headers={"HX-Target": "progress"})
        assert again.headers["HX-Retarget"] == "#progress", "no row was found: rows stay"
        assert "<tbody" not in again.text
        assert (await client.get("/topics")).status_code == 200
        whole = await client.get(unescape(path).partition("?")[0])
        assert "<html" in whole.text, "without scripts there is a link"
        other = await client.get("/topics/hidden/search/" + path.rpartition("/")[2])
        assert other.url.path == "/topics/hidden/messages", "a search is of its own topic"
        held.gate.set()
        assert len(offsets(await finished(client, again))) == 9

    on_orders(check, 9)


def test_a_search_is_stopped_by_its_visitor_and_seen_by_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        held = Held(monkeypatch)
        ann, bob = (httpx2.BasicAuth(each, "-") for each in ("ann", "bob"))
        query = {"where": "offset >= 0"}
        page = await client.get("/topics/orders/messages", params=query, auth=ann)
        path = unescape(POLL.findall(page.text)[0]).partition("?")[0]
        part = {"HX-Target": "progress"}
        seen = await client.get(path, headers=part, auth=bob)
        assert (seen.status_code, seen.headers["HX-Refresh"]) == (204, "true")
        stopping = asyncio.ensure_future(client.post(f"{path}/stop", headers=part, auth=ann))
        held.gate.set()
        stopped = await stopping
        assert "stopped there" in stopped.text
        assert not POLL.search(stopped.text)

    access = Access(policy=read_policy(POLICY, "roles.yaml").policy)
    on_orders(check, 9, access)


def test_a_search_is_not_seen_with_another_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        held = Held(monkeypatch)
        client.auth = httpx2.BasicAuth("ann", "-")
        query = {"where": "offset >= 0"}
        with monkeypatch.context() as patch:
            patch.setattr(Visitor, "mask", lambda visitor, topic: None)
            page = await client.get("/topics/orders/messages", params=query)
        (path,) = map(unescape, POLL.findall(page.text))
        seen = await client.get(path.partition("?")[0], headers={"HX-Target": "progress"})
        assert (seen.status_code, seen.headers["HX-Refresh"]) == (204, "true")
        masked = await client.get("/topics/orders/messages", params=query)
        assert path not in map(unescape, POLL.findall(masked.text))
        held.gate.set()
        found = await finished(client, masked)
        assert "***" in found.text
        assert "example.org" not in found.text

    access = Access(policy=read_policy(POLICY, "roles.yaml").policy)
    on_orders(check, 9, access)


def test_a_visitor_has_few_searches_and_the_console_not_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        held = Held(monkeypatch)
        ann, bob = (httpx2.BasicAuth(each, "-") for each in ("ann", "bob"))

        async def begun(auth: httpx2.BasicAuth, offset: int) -> httpx2.Response:
            query = {"where": f"offset >= {offset}"}
            return await client.get("/topics/orders/messages", params=query, auth=auth)

        pages = [await begun(ann, each) for each in range(searches.OF_VISITOR + 1)]
        paths = [unescape(POLL.findall(each.text)[0]) for each in pages]
        same = await begun(ann, searches.OF_VISITOR)
        assert POLL.findall(same.text) == POLL.findall(pages[-1].text), "it reads on"
        monkeypatch.setattr(searches, "OF_ALL", searches.OF_VISITOR)
        refused = await begun(bob, 0)
        assert "searches of other visitors are running" in refused.text
        held.gate.set()
        first, *others = [await client.get(each.partition("?")[0], auth=ann) for each in paths]
        assert "stopped there" in (await ended(client, first, ann)).text
        for each in others:
            assert "stopped there" not in (await ended(client, each, ann)).text

    async def ended(
        client: httpx2.AsyncClient, page: httpx2.Response, auth: httpx2.BasicAuth
    ) -> httpx2.Response:
        while found := POLL.search(page.text):
            page = await client.get(unescape(found[1]).partition("?")[0], auth=auth)
        return page

    access = Access(policy=read_policy(POLICY, "roles.yaml").policy)
    on_orders(check, 9, access)


def test_a_search_whose_visitor_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        held = Held(monkeypatch)
        begun: list[searches.Search] = []
        read = searches.Search.read

        async def noted(search: searches.Search, connection: Any) -> None:
            begun.append(search)
            await read(search, connection)

        monkeypatch.setattr(searches.Search, "read", noted)
        await client.get("/topics/orders/messages", params={"where": "offset >= 0"})
        monkeypatch.setattr(searches, "GONE_S", -1.0)
        held.gate.set()
        await begun[0].ended.wait()
        assert begun[0].look().is_cut

    on_orders(check, 9)


def test_what_matches_is_downloaded_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        where = {"where": "value.id >= 200"}
        path = "/topics/orders/download"
        lines = (await client.get(path, params=where)).text.splitlines()
        rows = [json.loads(line) for line in lines]
        assert sorted(json.loads(row["value"])["id"] for row in rows) == list(range(200, 300))
        assert rows[0].keys() == {
            *("topic", "partition", "offset", "timestamp", "key", "value", "headers")
        }
        table = await client.get(path, params={**where, "format": "csv", "partition": "0"})
        assert table.headers["content-type"].startswith("text/csv")
        assert "orders.csv" in table.headers["content-disposition"]
        first, *others = csv.reader(StringIO(table.text))
        assert first == ["partition", "offset", "timestamp", "time", "key", "value", "headers"]
        assert {row[0] for row in others} == {"0"}
        assert len(others) == 33
        late = {"from": "offset", "at": "99"}
        assert len((await client.get(path, params=late)).text.splitlines()) == 3
        for bad in ({"where": "value."}, {"from": "time", "at": "lately"}, {"format": "xml"}):
            assert (await client.get(path, params=bad)).status_code == 400, bad
        monkeypatch.setattr(searches, "OF_VISITOR", 0)
        assert "downloads of yours are running" in (await client.get(path)).text

    on_orders(check, 300)


def test_a_download_says_how_many_records_its_expression_failed_on() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        query = {"where": "10 / (value.id - 7) > 1"}
        path = "/topics/orders/download"
        *rows, last = (await client.get(path, params=query)).text.splitlines()
        assert {json.loads(json.loads(row)["value"])["id"] for row in rows} == set(range(8, 17))
        note = json.loads(last)["note"]
        assert note.startswith("1 record was left out, the first at orders-")
        *_, told = csv.reader(
            StringIO((await client.get(path, params={**query, "format": "csv"})).text)
        )
        assert told == ["note", note]
        all_of_it = (await client.get(path, params={"where": "value.id >= 0"})).text.splitlines()
        assert len(all_of_it) == 30
        assert all("note" not in json.loads(row) for row in all_of_it)

    on_orders(check, 30)


def test_a_download_is_written_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        form, sizes = FORMATS["json"], list[int]()

        def noted(topic: str, messages: Iterable[Message]) -> str:
            given = list(messages)
            sizes.append(len(given))
            return form.lines(topic, given)

        monkeypatch.setitem(cast("dict[str, Format]", FORMATS), "json", replace(form, lines=noted))
        found = (await client.get("/topics/orders/download")).text
        assert len(found.splitlines()) == sum(sizes) == 300
        assert max(sizes) <= PIECE

    on_orders(check, 300)


def test_a_large_message_ends_its_piece() -> None:
    sizes = [1, 1, 1 << 20, 1, *[1] * 50]
    messages = [Message(0, at, 0, "", "", (), size) for at, size in enumerate(sizes)]
    made = list(pieces(messages))
    assert [each.offset for piece in made for each in piece] == [*range(len(sizes))]
    assert [len(piece) for piece in made] == [3, PIECE, 51 - PIECE]


def test_a_download_has_no_more_than_its_visitor_sees() -> None:
    async def check(client: httpx2.AsyncClient, servers: str) -> None:
        client.auth = httpx2.BasicAuth("bob", "-")
        found = (await client.get("/topics/orders/download")).text
        assert "example.org" not in found
        assert "***" in found
        assert (await client.get("/topics/hidden/download")).status_code == 403

    access = Access(policy=read_policy(POLICY, "roles.yaml").policy)
    on_orders(check, 9, access)
