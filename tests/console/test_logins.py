"""Logins at an OpenID Connect provider: the way of a browser, its session, and wrong answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import ECKey
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import Response

from moldau.console.access.logins import LoginPages
from moldau.console.access.oidc import LoginFailed, Oidc, OidcClient, groups_in
from moldau.console.access.oidc import Provider as Said
from moldau.console.access.roles import BY_CLAIM, Policy
from moldau.console.access.visitor import Access
from moldau.console.search import searches
from moldau.console.server import served
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.login import PAGE, console, log_in, to_provider
from tests.console.provider import CLIENT_ID, SECRET, Provider
from tests.console.shown import POLL

pytestmark = pytest.mark.real

Check = Callable[[httpx2.AsyncClient, Provider], Awaitable[None]]
FOLLOW_S = 60.0


def with_console(check: Check) -> list[str]:
    """Run a check with a client that keeps cookies, as a browser does. Return the log."""
    lines: list[str] = []

    async def run() -> None:
        async with (
            console(lines) as (address, at, _),
            httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client,
        ):
            await check(client, at)

    asyncio.run(run())
    return lines


def test_a_browser_is_sent_to_the_provider_and_comes_back_to_its_page() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        asked = parse_qs(urlsplit(await to_provider(client)).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert len(asked["state"][0]) == len(asked["nonce"][0]) == 43
        done = await log_in(client, "bob", "/topics?q=ord&internal=1")
        assert (done.status_code, done.headers["location"]) == (303, "/topics?q=ord&internal=1")
        (cookie,) = [each for each in done.headers.get_list("set-cookie") if "session" in each]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        page = await client.get(done.headers["location"], headers=PAGE)
        assert (page.status_code, "bob" in page.text, "operator" in page.text) == (200, True, True)
        audit = await client.get("/topics/orders/messages", headers=PAGE)
        assert audit.status_code == 200

    lines = with_console(check)
    assert any('"user":"bob"' in each and '"action":"read messages"' in each for each in lines)


def test_no_token_code_or_secret_is_in_a_log_a_page_or_an_address() -> None:
    seen: list[str] = []
    given: list[str] = []

    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        done = await log_in(client, "ann")
        page = await client.get("/rights", headers=PAGE)
        seen.extend((done.text, str(done.headers), page.text, done.headers["location"]))
        given.extend((*at.tokens, SECRET))

    lines = with_console(check)
    assert len(given) == 2
    assert not [each for each in given if each in "".join((*lines, *seen))]


def test_roles_come_from_the_claim_and_a_user_without_one_sees_nothing() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        for user, statuses in (("zoe", [403, 403]), ("eve", [200, 403]), ("ann", [200, 404])):
            client.cookies.clear()
            await log_in(client, user)
            page = await client.get("/topics", headers=PAGE)
            own = {"origin": str(client.base_url).rstrip("/")}
            change = await client.post("/groups/none/delete", data={"name": "none"}, headers=own)
            assert [page.status_code, change.status_code] == statuses, user

    with_console(check)


def test_after_a_logout_the_cookie_opens_nothing() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        await log_in(client, "ann")
        kept = dict(client.cookies)
        own = {"origin": str(client.base_url).rstrip("/")}
        assert (await client.post("/logout", headers={"origin": "http://evil"})).status_code == 403
        out = await client.post("/logout", headers=own)
        assert "You are logged out" in out.text
        assert "bootstrap servers" not in out.text
        assert f"{at.issuer}/end?client_id={CLIENT_ID}" in out.text
        client.cookies.update(kept)
        again = await client.get("/topics", headers=PAGE)
        assert again.status_code == 303

    with_console(check)


def test_a_followed_topic_shows_nothing_after_the_logout() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        await log_in(client, "ann")
        own = {"origin": str(client.base_url).rstrip("/")}
        async with (
            asyncio.timeout(FOLLOW_S),
            client.stream("GET", "/topics/orders/tail") as answer,
        ):
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            cookies = dict(client.cookies)
            assert (await client.post("/logout", headers=own)).status_code == 200
            assert {each async for each in lines} <= {"", ": alive"}
        client.cookies.update(cookies)
        assert (await client.get("/topics/orders/tail")).status_code == 401

    with_console(check)


def test_a_search_of_one_session_is_not_seen_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        monkeypatch.setattr(searches, "AT_ONCE_S", 0.0)
        await log_in(client, "ann")
        page = await client.get("/topics/orders/messages", params={"where": "offset >= 0"})
        path = unescape(POLL.findall(page.text)[0]).partition("?")[0]
        part = {"HX-Target": "progress"}
        assert (await client.get(path, headers=part)).status_code == 200
        client.cookies.clear()
        await log_in(client, "ann")
        assert (await client.get(path, headers=part)).status_code == 204

    with_console(check)


def test_without_a_session_parts_of_pages_and_forms_are_refused() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        for path in ("/", "/topics/orders/messages", "/nowhere", "/static/../topics", "/login/x"):
            assert (await client.get(path, headers=PAGE)).status_code == 303, path
            assert (await client.get(path)).status_code == 401, path
        assert (await client.get("/healthz")).text == "ok\n"
        assert (await client.get("/static/console.css")).status_code == 200
        part = await client.get("/topics", headers={"hx-request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login?back=%2F")
        form = await client.post("/topics", data={"name": "x"}, headers=PAGE)
        assert (form.status_code, "nothing was done" in form.text) == (401, True)
        assert '<a class="button" href="/login">' in form.text
        client.cookies.set("moldau-session", "0" * 64)
        bad = await client.get("/topics")
        assert bad.status_code == 401

    with_console(check)


def test_a_password_counts_beside_the_provider_and_a_wrong_one_does_not() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        right = await client.get("/topics", auth=("tool", "rabbit"))
        assert (right.status_code, "has no role" in right.text) == (403, True)
        wrong = await client.get("/topics", auth=("tool", "hare"), headers=PAGE)
        assert wrong.status_code == 401

    with_console(check)


def test_the_host_header_opens_no_page() -> None:
    """Old Starlette makes the path of its URL from it; the door refuses what is no host."""

    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        for host in ("console/static/?", "console/login?", "console/static/#"):
            answer = await client.get("/topics", headers={"host": host})
            assert answer.status_code == 403, host

    with_console(check)


def test_the_gate_reads_the_path_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Request, "url", URL("http://console/static/x"))
    scope = {"type": "http", "method": "GET", "path": "/topics", "headers": []}
    reached: list[object] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    class NoSession:
        def login(self, request: Request) -> None:
            """No request has one."""

    pages = LoginPages(NoSession(), None, Access())  # type: ignore[arg-type]
    monkeypatch.setattr(pages, "_refusal", lambda request: Response(status_code=401))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(pages.gate(application)(scope, None, send))
    assert (sent[0]["status"], reached) == (401, [])


def test_a_session_sends_no_form_without_saying_where_it_comes_from() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        await log_in(client, "ann")
        for headers in ({}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
            sent = await client.post("/topics", data={"name": "made"}, headers=headers)
            assert sent.status_code == 403, headers
        own = {"origin": str(client.base_url).rstrip("/")}
        assert (await client.post("/topics", data={"name": "made"}, headers=own)).status_code == 303

    with_console(check)


STRANGER = ECKey.generate_key("P-256", parameters={"kid": "one"})
WRONG: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "another issuer": {"iss": "http://127.0.0.1:1"},
    "another audience": {"aud": "others"},
    "another party": {"azp": "others"},
    "expired": {"exp": 1},
    "not yet": {"nbf": 4_000_000_000},
    "no user": {"sub": ""},
}


def test_a_token_with_one_thing_wrong_begins_no_session() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        for what, change in WRONG.items():
            at.change = lambda claims, change=change: {**claims, **change}  # type: ignore[misc]
            done = await log_in(client, "ann")
            assert (done.status_code, "The login has failed" in done.text) == (403, True), what
            assert (await client.get("/topics", headers=PAGE)).status_code == 303, what
        at.change = lambda claims: claims
        at.signs_with = STRANGER
        assert (await log_in(client, "ann")).status_code == 403
        at.signs_with = at.key
        assert (await log_in(client, "ann")).status_code == 303

    with_console(check)


def test_a_new_key_of_the_provider_is_fetched() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        at.key = at.signs_with = ECKey.generate_key("P-256", parameters={"kid": "two"})
        assert (await log_in(client, "ann")).status_code == 303

    with_console(check)


def test_a_code_is_of_use_to_the_browser_alone_that_began_and_once() -> None:
    async def check(client: httpx2.AsyncClient, at: Provider) -> None:
        asked = await to_provider(client)
        back = (await client.get(f"{asked}&user=ann")).headers["location"]
        own = dict(client.cookies)
        client.cookies.clear()
        for cookies in ({}, {"moldau-login": "x.y"}):
            client.cookies.update(cookies)
            assert (await client.get(back)).status_code == 403
            client.cookies.clear()
        client.cookies.update(own)
        other = back.replace("state=", "state=x")
        assert (await client.get(other)).status_code == 403
        (state,) = parse_qs(urlsplit(back).query)["state"]
        denied = f"{urlsplit(back).path}?error=access_denied&state={state}"
        assert "access_denied" in (await client.get(denied)).text
        assert (await client.get(back)).status_code == 303
        client.cookies.update(own)
        assert (await client.get(back)).status_code == 403
        assert at.refused == ["code-0"]

    with_console(check)


@pytest.mark.parametrize("back", ["//evil", "http://evil", "/\\evil", "/a\nb", "/login?back=/", ""])
def test_a_login_leads_to_pages_of_the_console_only(back: str) -> None:
    from moldau.console.access.logins import inner

    assert inner(back) == "/"


def test_a_provider_that_is_down_is_told_on_a_page() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("console") as runtime:
            log = Loggers(runtime.clock, lambda line: None).get("logins")
            oidc = Oidc(OidcClient("http://127.0.0.1:1", "c"), runtime, log)
            settings = {"bootstrap.servers": broker.bootstrap_servers}
            access = Access(policy=Policy(BY_CLAIM))
            place = ("127.0.0.1", 0)
            async with (
                served(runtime, settings, place, None, access, oidc) as address,
                httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client,
            ):
                page = await client.get("/login")
                assert (page.status_code, "does not answer" in page.text) == (403, True)

    asyncio.run(run())


DOCUMENT = (
    b'{"issuer": "https://idp", "authorization_endpoint": "https://idp/a", '
    b'"token_endpoint": "https://idp/t", "jwks_uri": "https://idp/k"}'
)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        DOCUMENT.replace(b'"https://idp",', b'"https://evil",'),
        DOCUMENT.replace(b"https://idp/t", b"http://idp/t"),
        DOCUMENT.replace(b"https://idp/t", b"https://[idp/t"),
        DOCUMENT.replace(b"}", b', "scopes_supported": 5}'),
        b"[" * 100_000,
    ],
)
def test_a_discovery_document_that_is_none_is_refused(document: bytes) -> None:
    assert Said.of(DOCUMENT, "https://idp").takes_basic
    with pytest.raises(LoginFailed):
        Said.of(document, "https://idp")


@pytest.mark.parametrize(
    ("claims", "name", "groups"),
    [
        ({"groups": ["a", "b"]}, "groups", {"a", "b"}),
        ({"groups": "a b,c"}, "groups", {"a", "b", "c"}),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", {"a"}),
        ({"https://x.y/roles": ["a"]}, "https://x.y/roles", {"a"}),
        ({"groups": 7}, "groups", set()),
        ({}, "groups", set()),
    ],
)
def test_groups_of_a_claim(claims: dict[str, Any], name: str, groups: set[str]) -> None:
    assert groups_in(claims, name) == groups
