"""The door of the HTTP servers: what it lets in and what it refuses, by the head of a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from moldau.runtime.http_door import (
    FORM,
    JSON,
    NO_BODY,
    OCTETS,
    DoorRules,
    behind_door,
    decide,
    listed_names,
)

LOCAL = DoorRules((JSON,), ("127.0.0.1", "box"))
WILD = DoorRules((JSON,), ("0.0.0.0", "box", "connect-1"), is_wildcard=True)  # noqa: S104
EVIL = "http://evil.example"


def status(rules: DoorRules, method: str = "GET", **headers: str) -> int:
    """Return the status of the refusal, 200 without one. A header of None is left out."""
    given = {"host": "localhost:8083", **{k.replace("_", "-"): v for k, v in headers.items()}}
    pairs = [(name.encode(), value.encode()) for name, value in given.items() if value != "-"]
    refusal = decide(method, pairs, rules)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("host", "local", "wild"),
    [
        ("localhost:8083", 200, 200),
        ("LocalHost.", 200, 200),
        ("127.0.0.1:8083", 200, 200),
        ("127.8.8.8", 200, 200),
        ("[::1]:8083", 200, 200),
        ("[0:0:0:0:0:0:0:1]", 200, 200),
        ("box:8083", 200, 200),
        ("-", 200, 200),
        ("connect-1:8083", 403, 200),
        ("10.1.2.3:8083", 403, 200),
        ("[fd00::7]:8083", 403, 200),
        ("evil.example", 403, 403),
        ("localhost.evil.example", 403, 403),
        ("127.0.0.1.evil.example", 403, 403),
        ("evil.example@localhost", 403, 403),
        ("localhost/evil.example", 403, 403),
        ("localhost, evil.example", 403, 403),
        ("[::1", 403, 403),
        ("", 403, 403),
    ],
)
def test_a_server_answers_to_its_own_names_alone(host: str, local: int, wild: int) -> None:
    assert (status(LOCAL, host=host), status(WILD, host=host)) == (local, wild)


def test_two_hosts_are_none() -> None:
    twice = [(b"host", b"localhost"), (b"host", b"evil.example")]
    refusal = decide("GET", twice, LOCAL)
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize(
    ("allowed", "reached", "refused"),
    [
        ("api.example.org", ("api.example.org:8443", "API.example.org"), ("example.org",)),
        ("*.example.org", ("a.example.org", "b.a.example.org"), ("example.org", "anexample.org")),
        ("*", ("evil.example",), ()),
    ],
)
def test_further_names_are_those_of_the_settings(
    allowed: str, reached: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    rules = DoorRules((JSON,), allowed=listed_names(f" {allowed} , other"))
    assert {status(rules, host=each) for each in reached} == {200}
    assert {status(rules, host=each) for each in refused} <= {403}


def test_a_refused_name_is_said_with_the_settings_that_allow_it() -> None:
    refusal = decide("GET", [(b"host", b"api.example.org")], LOCAL)
    assert refusal is not None
    for word in ("api.example.org", "http.allowed.hosts", "MOLDAU_HTTP_ALLOWED_HOSTS"):
        assert word in refusal.text


LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


@pytest.mark.parametrize(
    ("headers", "read", "change"),
    [
        ({}, 200, 200),
        ({"origin": "http://localhost:8083", "sec_fetch_site": "same-origin"}, 200, 200),
        ({"origin": "http://LOCALHOST:8083"}, 200, 200),
        ({"origin": "http://localhost", "host": "localhost:80"}, 200, 200),
        ({"origin": "https://localhost:443", "host": "localhost"}, 200, 200),
        ({"sec_fetch_site": "none"}, 200, 200),
        ({"origin": "http://localhost:3000", "sec_fetch_site": "same-site"}, 403, 403),
        ({"origin": "http://localhost"}, 403, 403),
        ({"origin": EVIL}, 403, 403),
        ({"origin": EVIL, "sec_fetch_site": "cross-site"}, 403, 403),
        ({"origin": "null"}, 403, 403),
        ({"origin": "http://[evil"}, 403, 403),
        ({"origin": "file://localhost:8083"}, 403, 403),
        ({"sec_fetch_site": "cross-site"}, 403, 403),
        ({"sec_fetch_site": "same-site"}, 200, 403),
        ({**LINK}, 200, 403),
        ({**LINK, "sec_fetch_dest": "iframe"}, 403, 403),
    ],
)
def test_pages_of_other_sites_send_nothing_but_links(
    headers: dict[str, str], read: int, change: int
) -> None:
    assert (status(LOCAL, "GET", **headers), status(LOCAL, "POST", **headers)) == (read, change)


def test_origins_are_allowed_by_the_settings_of_cors() -> None:
    one = DoorRules((JSON,), origins=("https://ui.example",))
    for method in ("GET", "PUT", "OPTIONS"):
        cross = {"sec_fetch_site": "cross-site"}
        assert status(one, method, origin="https://ui.example", **cross) == 200
        assert status(one, method, origin="https://ui.example.evil", **cross) == 403
        assert status(DoorRules((JSON,), origins=("*",)), method, origin=EVIL, **cross) == 200


def test_a_proxy_may_stand_in_front_under_an_allowed_name() -> None:
    rules = DoorRules((FORM,), ("127.0.0.1",), allowed=("ui.example",), has_sessions=True)
    assert status(rules, "POST", origin="https://ui.example") == 200
    assert status(rules, "POST", origin="https://ui.example:9000") == 403
    every = DoorRules((FORM,), allowed=("*",))
    assert status(every, "POST", host="a.example", origin="https://b.example") == 403


def test_a_cookie_changes_nothing_without_saying_where_it_is_from() -> None:
    rules = DoorRules((FORM,), has_sessions=True)
    assert status(rules, "POST", cookie="s=1") == 403
    assert status(rules, "POST", cookie="s=1", authorization="Bearer x") == 200
    assert status(rules, "POST", cookie="s=1", sec_fetch_site="same-origin") == 200
    assert status(rules, "GET", cookie="s=1") == 200
    assert status(LOCAL, "POST", cookie="balancer=1") == 200, "here a cookie is no login"


@pytest.mark.parametrize(
    ("kind", "of_json", "of_form", "of_octets", "of_none"),
    [
        ("-", 415, 415, 200, 415),
        ("application/json", 200, 415, 200, 415),
        ("Application/JSON; charset=utf-8", 200, 415, 200, 415),
        ("application/vnd.schemaregistry.v1+json", 415, 415, 415, 415),
        ("application/octet-stream", 415, 415, 200, 415),
        ("application/x-www-form-urlencoded", 415, 200, 415, 415),
        ("text/plain", 415, 415, 415, 415),
        ("text/plain; application/json", 415, 415, 415, 415),
        ("multipart/form-data; boundary=x", 415, 415, 415, 415),
    ],
)
def test_a_body_is_what_the_server_takes(
    kind: str, of_json: int, of_form: int, of_octets: int, of_none: int
) -> None:
    for length in ({"content_length": "3"}, {"transfer_encoding": "chunked"}):
        found = [
            status(DoorRules(takes), "POST", content_type=kind, **length)
            for takes in ((JSON,), (FORM,), (JSON, OCTETS), NO_BODY)
        ]
        assert found == [of_json, of_form, of_octets, of_none]
    for length in ({}, {"content_length": "0"}):
        assert status(LOCAL, "PUT", content_type=kind, **length) == 200, "there is no body"


def test_a_body_ends_at_its_bound_however_it_is_sent() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def read(request: Request) -> Response:
        return Response(str(len(await request.body())))

    async def on_bug(request: Request, error: Exception) -> Response:
        return Response("a bug", 500)

    made = Starlette(routes=[Route("/", read, methods=["POST"])], exception_handlers={500: on_bug})
    door = behind_door(made, DoorRules((OCTETS,), body_bytes_max=10))

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 5

    async def main() -> None:
        transport: Any = httpx2.ASGITransport(door)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            bodies: tuple[tuple[Any, int], ...] = (
                (b"x" * 10, 200), (pieces(2), 200), (b"x" * 11, 413), (pieces(3), 413),
            )  # fmt: skip
            for body, expected in bodies:
                found = await client.post("/", content=body)
                assert found.status_code == expected
            assert json.loads(found.text)["error_code"] == 413

    asyncio.run(main())
