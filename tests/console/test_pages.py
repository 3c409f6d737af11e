"""The pages, as HTML: what they show of a cluster, and what they say when something is wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from html import unescape

import httpx2
import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.console.pages import risks
from moldau.console.pages.texts import SHOWN_BYTES
from moldau.console.search.sweep import SHOWN
from moldau.console.server import served
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.cells import Cells
from tests.console.shown import EXACT, browser, finished, use

pytestmark = pytest.mark.real

Check = Callable[[httpx2.AsyncClient, EmbeddedBroker], Awaitable[None]]


def on_a_used_cluster(check: Check) -> None:
    """A topic with five messages in one of two partitions, of which a group has read two."""

    async def run() -> None:
        async with EmbeddedBroker() as broker:
            servers = broker.bootstrap_servers
            await use(servers)
            async with browser(servers) as client:
                await check(client, broker)

    asyncio.run(run())


def test_the_cluster_with_its_brokers_and_quorum() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        page = await client.get("/")
        assert page.status_code == 200
        assert f"{broker.host}:{broker.port}" in page.text
        assert "controller" in page.text
        assert "Led by node" in page.text
        assert "default-src 'self'" in page.headers["content-security-policy"]

    on_a_used_cluster(check)


def test_what_is_at_risk_if_a_node_died(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        assert "/risks" in (await client.get("/")).text
        found = [
            [cell.strip() for cell in row] for row in Cells(await risks_of(client)).rows if row
        ]
        assert ["node 1", "unreadable", "orders", "0, 1", "its only replica"] in found
        assert any(row[1] == "no quorum" for row in found)
        (commits,) = (row for row in found if row[2] == "__consumer_offsets")
        assert commits[3].endswith("19 and 30 more")
        assert commits[4].endswith("groups cannot commit, join or begin")
        monkeypatch.setattr(risks, "TOPICS_MAX", 0)
        assert "more than 0 topics" in await risks_of(client)

    async def risks_of(client: httpx2.AsyncClient) -> str:
        page = await client.get("/risks")
        assert page.status_code == 200
        return page.text

    on_a_used_cluster(check)


def test_topics_are_found_by_a_part_of_their_name() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        page = await client.get("/topics")
        assert Cells(page.text).row("orders")[1] == "2"
        assert "__consumer_offsets" not in page.text
        assert "__consumer_offsets" in (await client.get("/topics?internal=1")).text
        assert "No topic has this in its name" in (await client.get("/topics?q=nothing")).text
        part = await client.get("/topics?q=ORD", headers={"HX-Target": "found"})
        assert "<html" not in part.text
        assert "orders" in part.text

    on_a_used_cluster(check)


def test_a_topic_is_created_shown_and_configured() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        page = await client.post("/topics", data={"name": "made", "partitions": "3"})
        assert page.url.path == "/topics/made"
        assert len(Cells(page.text).rows) == 4
        await client.post("/topics/made/settings", data={"name": "retention.ms", "value": "60000"})
        settings = await client.get("/topics/made/settings")
        assert "set here" in settings.text
        assert 'value="60000"' in settings.text
        bad = await client.post(
            "/topics/made/settings", data={"name": "retention.ms", "value": "x"}
        )
        assert bad.status_code == 400
        assert "retention.ms" in bad.text
        back = await client.post(
            "/topics/made/settings", data={"name": "retention.ms", "unset": "1"}
        )
        assert "set here" not in back.text

    on_a_used_cluster(check)


def test_messages_newest_first_from_an_offset_and_by_their_text() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        newest = await client.get("/topics/orders/messages")
        offsets = [row[1].strip() for row in Cells(newest.text).rows if len(row) == 5]
        assert offsets == ["4", "3", "2", "1", "0"]
        assert EXACT in newest.text, "no digit is lost"
        at = await client.get("/topics/orders/messages?from=offset&at=3&partition=1")
        assert [row[1].strip() for row in Cells(at.text).rows if len(row) == 5] == ["3", "4"]
        found = await client.get('/topics/orders/messages?text="id": 2,')
        found = await finished(client, found)
        assert [row[1].strip() for row in Cells(found.text).rows if len(row) == 5] == ["2"]
        assert "Looked at 5 records" in found.text
        late = await client.get("/topics/orders/messages?from=time&at=2000-01-01T00:00:00Z")
        assert len([row for row in Cells(late.text).rows if len(row) == 5]) == 5

    on_a_used_cluster(check)


def test_the_newest_are_shown_where_the_end_of_a_log_has_none_and_a_text_far_inside_is_found() -> (
    None
):
    """Of the last offsets all are of a transaction that was given up."""

    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
            async with producer.transaction() as transaction:
                for _ in range(2 * SHOWN):
                    await producer.send("orders", b"given up", partition=1)
                transaction.abort()
            async with producer.transaction():
                await producer.send("orders", b"x" * (2 * SHOWN_BYTES) + b"needle", partition=0)
        newest = await client.get("/topics/orders/messages?partition=1")
        rows = [row for row in Cells(newest.text).rows if len(row) == 5]
        assert [row[1].strip() for row in rows] == ["4", "3", "2", "1", "0"]
        assert "Looked at 5 records." in newest.text
        for start in ("newest", "oldest"):
            page = await client.get(f"/topics/orders/messages?text=needle&from={start}")
            page = await finished(client, page)
            (row,) = [row for row in Cells(page.text).rows if len(row) == 5]
            assert [cell.strip() for cell in row[:2]] == ["0", "0"]
            assert "(40,006 characters in all)" in page.text
            assert "needle</pre>" not in page.text

    on_a_used_cluster(check)


def test_a_response_that_follows_ends_well_when_the_console_does() -> None:
    """Else the server cuts it off after a while, and the log has a failure."""

    async def run() -> list[str]:
        async with EmbeddedBroker() as broker, RealRuntime("console") as runtime:
            await use(broker.bootstrap_servers)
            settings = {"bootstrap.servers": broker.bootstrap_servers}
            async with AsyncExitStack() as console:
                address = await console.enter_async_context(
                    served(runtime, settings, ("127.0.0.1", 0))
                )
                async with (
                    httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client,
                    client.stream("GET", "/topics/orders/tail") as answer,
                ):
                    lines = answer.aiter_lines()
                    first = await anext(lines)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(console.aclose())
                        return [first, *[each async for each in lines]]

    first, *others = asyncio.run(run())
    assert first == "retry: 2000"
    assert set(others) <= {"", ": alive"}


def test_a_produced_record_is_text_and_never_markup() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        evil = "<script>alert(1)</script>"
        page = await client.post(
            "/topics/orders/messages", data={"key": "k", "value": evil, "partition": "0"}
        )
        assert page.url.path == "/topics/orders/messages"
        assert evil not in page.text
        assert "&lt;script&gt;" in page.text

    on_a_used_cluster(check)


COPY = re.compile(r'href="([^"]*copy=1)"')
AREA = re.compile(r'<textarea name="value" rows="4">\n(.*?)</textarea>', re.DOTALL)
KEY = re.compile(r'name="key" autocomplete="off" value="([^"]*)"')


def test_a_record_is_copied_into_the_form_with_every_digit_and_line() -> None:
    value = f'\n{{"cents": {EXACT},\n "of": "</textarea>&amp;"}}\n'

    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        path = "/topics/made/messages"
        await client.post("/topics", data={"name": "made", "partitions": "2"})
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for data, key in ((value.encode(), b'a"k'), (b"\xff\x00", b"k"), (b"a\r\nb", b"k")):
                await producer.send_and_wait("made", data, key=key, partition=1)
            await producer.send_and_wait("made", None, key=b"gone", partition=0)
        links = sorted(unescape(each) for each in COPY.findall((await client.get(path)).text))
        assert [link.partition("?")[2] for link in links] == [
            "from=offset&at=0&partition=0&copy=1", "from=offset&at=0&partition=1&copy=1",
        ]  # fmt: skip
        tombstone, whole = [(await client.get(link)).text for link in links]
        assert 'name="tombstone" value="1" checked' in tombstone
        assert "checked" not in whole
        (text,), (key,) = AREA.findall(whole), KEY.findall(whole)
        sent = {"key": unescape(key), "value": unescape(text).replace("\n", "\r\n")}
        await client.post(path, data={**sent, "partition": "1"})
        async with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([("made", 1)])
            consumer.seek(("made", 1), 3)
            record = await consumer.getone()
        assert (record.key, record.value) == (b'a"k', value.encode())
        other = await client.get(f"{path}?from=offset&at=1&partition=1&copy=1")
        assert (other.status_code, "no form has it" in other.text) == (400, True)

    on_a_used_cluster(check)


def test_a_group_with_lag_and_offsets_changed_after_a_preview() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        assert Cells((await client.get("/groups")).text).row("billing")[3] == "3"
        plan = await client.post("/groups/billing/plan", data={"way": "beginning", "amount": ""})
        assert "reads 2 again" in plan.text
        assert Cells((await client.get("/groups/billing")).text).row("orders")[2] == "2"
        done = await client.post("/groups/billing/offsets", data={"to:orders:1": "0"})
        assert Cells(done.text).row("orders")[2] == "0"
        skip = await client.post("/groups/billing/plan", data={"way": "end", "amount": ""})
        assert "skips 5" in skip.text

    on_a_used_cluster(check)


BAD = {
    "/topics/none": (404, "It is not there"),
    "/groups/none": (404, "It is not there"),
    "/nothing": (404, "No page has this address"),
    "/rights/rule/plan": (405, "This address only takes a form"),
    "/topics/orders/messages?from=somewhere": (400, "from: newest"),
    "/topics/orders/messages?from=offset&at=x": (400, "give a whole number"),
    "/topics/orders/messages?from=time&at=lately": (400, "time:"),
    "/topics/orders/messages?partition=9": (400, "partition: the topic has 2"),
    "/topics/orders/tail?partition=9": (400, "partition: the topic has 2"),
    "/topics/orders?page=999999": (200, "orders"),
}


def test_bad_input_gets_a_text_where_the_user_stands() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        for path, (status, text) in BAD.items():
            page = await client.get(path)
            assert (page.status_code, text in page.text) == (status, True), path
            assert "Traceback" not in page.text
        kept = await client.get("/topics/orders/messages?from=time&at=lately&text=abc")
        assert 'value="lately"' in kept.text, "the form stays as it was filled"
        assert 'value="abc"' in kept.text
        part = await client.get(
            "/topics/orders/messages?from=time&at=lately", headers={"hx-target": "found"}
        )
        assert (part.status_code, "time:" in part.text) == (200, True), "htmx shows no failure"
        refused = await client.post("/topics", data={"name": "a b"})
        assert refused.status_code == 400
        assert (
            await client.post("/topics", data={"name": "c", "partitions": "x"})
        ).status_code == 400
        wrong = await client.post("/groups/billing/plan", data={"way": "back", "amount": "x"})
        assert "back: give a whole number" in wrong.text
        assert 'name="amount" value="x"' in wrong.text, "the form stays as it was filled"

    on_a_used_cluster(check)


def test_a_name_of_another_site_that_leads_here_is_refused() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        others = dict.fromkeys(("evil.example:8080", "[::1", ""), 403)
        for host, status in {**others, "[::1]:8080": 200, "console": 200}.items():
            page = await client.get("/topics", headers={"Host": host})
            assert page.status_code == status, host

    on_a_used_cluster(check)


def test_a_form_of_another_site_is_refused() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        of_others = [{"Origin": each} for each in ("http://evil.example", "null", "http://[evil")]
        for headers in (*of_others, {"Sec-Fetch-Site": "cross-site"}):
            page = await client.post("/topics", data={"name": "stolen"}, headers=headers)
            assert page.status_code == 403
        assert "stolen" not in (await client.get("/topics")).text

    on_a_used_cluster(check)


def test_a_cluster_that_is_down_is_said_on_the_page() -> None:
    async def run() -> None:
        quick = {"start.timeout.ms": "0", "default.api.timeout.ms": "1000"}
        async with browser("127.0.0.1:1", settings=quick) as client:
            page = await client.get("/topics")
            assert page.status_code == 502
            assert "127.0.0.1:1" in page.text
            assert "The cluster does not answer" in page.text

    asyncio.run(run())


def test_every_page_has_its_parts_for_keyboard_and_reader() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        for path in (
            "/",
            "/risks",
            "/topics",
            "/topics/orders",
            "/topics/orders/messages",
            "/groups/billing",
        ):
            text = (await client.get(path)).text
            for needed in ('lang="en"', 'class="skip"', "<main", "<h1>", 'name="viewport"'):
                assert needed in text, (path, needed)

    on_a_used_cluster(check)


def test_a_topic_that_was_made_again_or_grew_shows_its_new_messages() -> None:
    async def check(client: httpx2.AsyncClient, broker: EmbeddedBroker) -> None:
        path = "/topics/again/messages"
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for life in ("first", "second"):
                await admin.create_topic(NewTopic("again", 1))
                for partition in range(2):
                    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                        value = f"{life}-{partition}".encode()
                        await producer.send_and_wait("again", value, partition=partition)
                    assert f"{life}-{partition}" in (await client.get(path)).text
                    if not partition:
                        await admin.create_partitions("again", 2)
                assert ("first" in (await client.get(path)).text) is (life == "first")
                await admin.delete_topic("again")
                assert (await client.get(path)).status_code == 404

    on_a_used_cluster(check)
