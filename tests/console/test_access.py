"""Roles on the pages: what each may do, what is masked for it, and what the audit file says."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from html import unescape
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from moldau.client import Producer
from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import UNKNOWN, Login
from moldau.console.access.visitor import Access
from moldau.console.connection import Connection
from moldau.console.pages.messages import tail
from moldau.console.search.message import Message
from moldau.console.search.query import MessageQuery
from moldau.console.search.searches import SearchedPart
from moldau.link.http.protection import HttpProtection
from moldau.logging import Loggers
from moldau.runtime.real import RealClock, RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.apache_stub import NAME as PINS
from tests.console.apache_stub import SINK, apache_stub
from tests.console.change_forms import FORMS
from tests.console.shown import browser, finished, use

pytestmark = pytest.mark.real

POLICY = """
roles:
  admin: {users: ann}
  operator: {users: bob}
  viewer: {users: [eve, ivy]}
messages:
  - {topics: [orders, secret-shared], users: [bob, eve]}
masks:
  - {topics: [ord*], value: [card.number], how: last4}
  - {topics: [ord*], value: [email], key: $, headers: [auth*], how: stars}
"""
ADMINS = {
    "/change-topics/empty",
    "/change-topics/delete",
    "/topics/orders/delete",
    "/groups/billing/delete",
    "/transactions/abort/none",
    "/transactions/hanging/none",
}
"""The forms of FORMS that only an admin may send."""
CARD, MAIL, NAME = "4111111111111111", "ann@example.org", "key-of-ann"
TAIL_S = 60.0


def access(lines: list[str] | None = None) -> Access:
    """Roles by POLICY; the password is not looked at here."""
    written = lines if lines is not None else []
    audit = Loggers(RealClock(), written.append, json=True).get("moldau.console.audit")
    return Access(
        audit=audit,
        policy=read_policy(POLICY, "roles.yaml").policy,
        records_looks=True,
    )


def by(user: str) -> httpx2.BasicAuth:
    return httpx2.BasicAuth(user, "-")


async def send(servers: str) -> None:
    """Produce a record with a card, an address and a header to each of two topics."""
    value = json.dumps({"card": {"number": CARD}, "email": MAIL, "n": 1}).encode()
    headers = [("authorization", b"Bearer abc"), ("trace", b"t-1")]
    async with Producer(bootstrap_servers=servers) as producer:
        for topic in ("orders", "secret"):
            await producer.send_and_wait(topic, value, key=NAME.encode(), headers=headers)


@asynccontextmanager
async def visited() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the console of a broker with records, for users of each role."""
    async with EmbeddedBroker() as broker:
        await use(broker.bootstrap_servers)
        await send(broker.bootstrap_servers)
        async with browser(broker.bootstrap_servers, access()) as client:
            yield client


def test_a_header_that_was_not_checked_is_no_login() -> None:
    """Of two headers the gate checks one; the other says nothing, nor does one at no gate."""
    policy = read_policy(POLICY, "roles.yaml").policy
    wrong, right = (f"Basic {b64encode(each).decode()}" for each in (b"ann:no", b"eve:-"))
    headers = [(b"authorization", each.encode()) for each in (wrong, right)]
    seen: list[Request] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(Request(scope))

    async def run() -> None:
        for protection in (HttpProtection(), HttpProtection(users={"ann": "yes", "eve": "-"})):
            scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
            await protection.guard(application)(scope, None, None)

    asyncio.run(run())
    visitors = [Access(policy=policy).visitor(each) for each in seen]
    assert [each.login.user for each in visitors] == [UNKNOWN, "eve"]


def test_each_form_is_for_the_roles_of_its_row() -> None:
    async def run() -> None:
        async with visited() as client:
            for path, form in FORMS.items():
                for user in ("zoe", "eve", "bob"):
                    answer = await client.post(path, data=form, auth=by(user))
                    is_refused = user != "bob" or path in ADMINS
                    assert (answer.status_code == 403) is is_refused, (user, path)
            for path in FORMS:
                answer = await client.post(path, data={"name": "-"}, auth=by("ann"))
                assert answer.status_code != 403, path
            pages = {"/topics", "/groups/billing", "/rights", "/new-connector"}
            shown = {
                user: {
                    path
                    for path in pages
                    if (await client.get(path, auth=by(user))).status_code != 403
                }
                for user in ("zoe", "eve", "bob", "ann")
            }
            others = pages - {"/new-connector"}
            assert shown == {"zoe": set(), "eve": others, "bob": others, "ann": pages}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("rules", "may"),
    [("", True), ("messages: []", False), ("masks: [{topics: a, value: $}]", False)],
)
def test_connectors_are_made_by_admins_alone_where_messages_are_hidden(
    rules: str, may: bool
) -> None:
    """A connector can copy what its worker reads to a topic that shows it."""
    policy = read_policy(f"roles: {{operator: {{users: bob}}}}\n{rules}", "roles.yaml").policy

    async def run() -> None:
        async with (
            RealRuntime("stub") as runtime,
            apache_stub(runtime) as (url, stub),
            browser("127.0.0.1:9", Access(policy=policy), connect=url) as client,
        ):
            client.auth = by("bob")
            page = (await client.get(f"/connectors/{PINS}")).text
            told = "Only the role admin makes and changes connectors" in page
            assert ("Change the settings" in page, told) == (may, not may)
            answers = [
                await client.get(f"/new-connector?class={SINK}"),
                await client.get(f"/change-connector/{PINS}"),
                await client.post(f"/change-connector/{PINS}", data={"s.batch": "8"}),
            ]
            assert {each.status_code for each in answers} == {200 if may else 403}
            assert bool(stub.patches) is may

    asyncio.run(run())


def test_a_refusal_tells_what_is_needed_and_forms_that_are_refused_are_not_shown() -> None:
    async def run() -> None:
        async with visited() as client:
            done = await client.post("/groups/billing/delete", auth=by("bob"))
            assert "delete a group needs the role admin, and bob has the role op" in done.text
            nothing = await client.get("/topics", auth=by("zoe"))
            assert "zoe is logged in and has no role here" in nothing.text
            assert "bootstrap servers" not in nothing.text
            for path, form in (
                ("/topics", "Create"),
                ("/topics/orders/messages", "Produce a record"),
                ("/topics/orders/settings", "Set</button>"),
                ("/topics/orders", "Add partitions"),
            ):
                texts = [(await client.get(path, auth=by(each))).text for each in ("bob", "eve")]
                assert [form in each for each in texts] == [True, False], path
            topic = await client.get("/topics/orders", auth=by("bob"))
            assert "Delete this topic" not in topic.text
            assert "Delete this topic" in (await client.get("/topics/orders", auth=by("ann"))).text

    asyncio.run(run())


def test_messages_are_masked_for_all_but_admins_also_where_they_are_searched_and_copied() -> None:
    async def run() -> None:
        async with visited() as client:
            path = "/topics/orders/messages"
            seen = (await client.get(path, auth=by("ann"))).text
            hidden = (await client.get(path, auth=by("bob"))).text
            for secret in (CARD, MAIL, NAME, "Bearer abc"):
                assert secret in seen
                assert secret not in hidden
            assert "***1111" in hidden
            assert "t-1" in hidden
            for text, count in ((MAIL, 0), (CARD, 0), ("41111", 0), ("***1111", 1)):
                query = {"text": text}
                page = await client.get(path, params=query, auth=by("bob"))
                found = (await finished(client, page, by("bob"))).text
                assert found.count("<summary><code>") == count, text
            assert "Copy into the form" in seen
            copied = await client.get(
                path,
                params={"from": "offset", "at": "0", "partition": "1", "copy": "1"},
                auth=by("bob"),
            )
            assert "masked" in copied.text

    asyncio.run(run())


def test_a_followed_topic_is_masked() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("console") as runtime:
            servers = broker.bootstrap_servers
            await use(servers)
            connection = Connection({"bootstrap.servers": servers}, runtime)
            mask = access().of(Login("bob")).mask("orders")
            try:
                followed = tail(connection, SearchedPart("orders", [0, 1], MessageQuery(), mask))
                async with aclosing(followed) as parts, asyncio.timeout(TAIL_S):
                    assert await anext(parts) == []
                    await send(servers)
                    messages: list[Message] = []
                    while not messages:
                        messages = await anext(parts)
            finally:
                await connection.aclose()
            (message,) = messages
            assert (message.key, message.is_exact) == ("***", False)
            assert message.value == '{"card": {"number": "***1111"}, "email": "***", "n": 1}'
            assert message.headers == (("authorization", "***"), ("trace", "t-1"))

    asyncio.run(run())


def test_topics_without_a_rule_show_no_messages_and_take_none() -> None:
    async def run() -> None:
        async with visited() as client:
            for path in ("/topics/secret/messages", "/topics/secret/tail"):
                refused = await client.get(path, auth=by("bob"))
                assert (refused.status_code, CARD in refused.text) == (403, False)
            sent = await client.post("/topics/secret/messages", data={"value": "x"}, auth=by("bob"))
            assert sent.status_code == 403
            assert (await client.get("/topics/orders/messages", auth=by("ivy"))).status_code == 403
            assert CARD in (await client.get("/topics/secret/messages", auth=by("ann"))).text

    asyncio.run(run())


def test_links_to_a_topic_lead_to_what_the_visitor_sees_of_it() -> None:
    def links(page: httpx2.Response) -> set[str]:
        return set(re.findall(r'href="(/topics/[^"]*)"', page.text))

    async def run() -> None:
        async with visited() as client:
            for user, own in (("bob", "/messages"), ("ivy", "")):
                client.auth = by(user)
                topics = links(await client.get("/topics"))
                assert topics == {f"/topics/orders{own}", "/topics/secret"}, user
                part = "?from=offset&amp;at=2&amp;partition=1" if own else ""
                group = links(await client.get("/groups/billing"))
                assert group == {f"/topics/orders{own}{part}"}, user
                parts = ("", "/tiers", "/settings", "/readers", own)
                tabs = {f"/topics/orders{each}" for each in parts}
                assert links(await client.get("/topics/orders")) == tabs, user
                for each in (*topics, *group, *tabs):
                    assert (await client.get(unescape(each))).status_code == 200, each

    asyncio.run(run())


def test_the_audit_has_a_line_of_json_for_each_change_and_each_look_at_messages() -> None:
    async def run() -> None:
        lines: list[str] = []
        async with EmbeddedBroker() as broker:
            servers = broker.bootstrap_servers
            await use(servers)
            async with browser(servers, access(lines)) as client:
                client.follow_redirects = False
                await client.get("/topics", auth=by("eve"))
                await client.get("/topics/orders/messages", auth=by("eve"))
                sent = {"value": CARD, "key": NAME, "headers": f"authorization: Bearer {MAIL}"}
                await client.post("/topics/orders/messages", data=sent, auth=by("bob"))
                await client.get("/topics/secret/messages", auth=by("bob"))
                await client.post("/groups/none/delete", data={"name": "none"}, auth=by("ann"))
        wanted = ("user", "role", "action", "resource", "result", "address")
        assert [tuple(json.loads(each)[name] for name in wanted) for each in lines] == [
            ("eve", "viewer", "read messages", "orders", "done", "127.0.0.1"),
            ("bob", "operator", "produce a record", "orders", "done", "127.0.0.1"),
            ("bob", "operator", "read messages", "secret", "refused", "127.0.0.1"),
            ("ann", "admin", "delete a group", "none", "failed", "127.0.0.1"),
        ]
        assert not [
            each for each in (CARD, NAME, "Bearer", "ann%40example", MAIL) if each in str(lines)
        ]

    asyncio.run(run())
