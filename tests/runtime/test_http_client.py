"""The HTTP client: what cannot be sent is refused in one line, and its answers have an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from moldau.runtime import Runtime
from moldau.runtime.http_client import (
    BlockingHttpClient,
    HttpClient,
    HttpTimeouts,
    NoAnswer,
    base_url,
    basic_login,
    check_url,
)
from tests.runtime.arena import ARENAS, HOST, play

WAITS = HttpTimeouts(5.0, 5.0)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://[bad/", "no URL"),
        ("https://a..b/", "no URL"),
        (f"https://{'a' * 64}/", "no URL"),
        ("https://localhost:99999/", "no URL"),
        ("https://ho st/", "character"),
        ("https://h\x00/", "character"),
        ("https://host/\r\nX: y", "character"),
        ("https://host/\u00fc", "character"),
        ("https://user:secret@host/", "not sent"),
        ("ftp://host/", "https://HOST"),
        ("http://host/", "give https"),
    ],
)
def test_an_address_that_cannot_be_asked_is_refused(url: str, why: str) -> None:
    fault = check_url(url)
    assert fault is not None
    assert why in fault
    assert "secret" not in fault


@pytest.mark.parametrize(
    "url", ["https://host/x?y=%20", "http://localhost:1/", "https://[::1]:1/", "http://127.0.0.1/"]
)
def test_an_address_that_can_be_asked_is_taken(url: str) -> None:
    assert check_url(url) is None


@pytest.mark.parametrize("url", ["http://ho st/", "http://a..b/", f"http://{'a' * 64}/"])
def test_an_address_that_was_not_checked_cannot_be_asked(url: str) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(NoAnswer):
            await HttpClient(runtime, WAITS).fetch(url)

    play("asyncio", main)
    with pytest.raises(NoAnswer):
        BlockingHttpClient(WAITS).request("POST", url, b"")


@pytest.mark.parametrize("value", ["secret \u2603", "secret\r\nX: y"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with serving(runtime, []) as url:
            with pytest.raises(NoAnswer, match="HTTP does not take") as refused:
                await HttpClient(runtime, WAITS).request("POST", url, b"", {"X-Key": value})
        assert "secret" not in str(refused.value)

    play("asyncio", main)


@asynccontextmanager
async def serving(runtime: Runtime, answers: list[bytes]) -> AsyncIterator[str]:
    """Send each answer once, on a connection that ends with the last one; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while answers:
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(answers.pop(0))
                    await writer.drain()
        finally:
            writer.close()

    listener = await runtime.network.serve_streams(serve, HOST, 0)
    try:
        yield f"http://{HOST}:{listener.port}/"
    finally:
        listener.close()


SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
LONG = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Is: 1\r\n\r\n{}"


@pytest.mark.parametrize("kind", ARENAS)
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SHORT, "complete"),
        (LONG, "more than 4 bytes"),
        (b"no HTTP\r\n\r\n", "illegal"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "it answers 404"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(kind: str, answer: bytes, why: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with serving(runtime, [answer]) as url:
            with pytest.raises(NoAnswer, match=why):
                await HttpClient(runtime, WAITS, bytes_max=4).fetch(url)

    play(kind, main)


@pytest.mark.parametrize("kind", ARENAS)
def test_a_kept_connection_that_was_closed_is_opened_again_for_what_may_be_repeated(
    kind: str,
) -> None:
    async def main(runtime: Runtime) -> None:
        answers = [GOOD]
        async with serving(runtime, answers) as url:
            client = HttpClient(runtime, WAITS, idle_max=1)
            first = await client.request("GET", url)
            assert (first.json(), first.headers["x-is"], first.is_good) == ({}, "1", True)
            answers += [GOOD]
            assert (await client.request("PUT", url, b"1", is_repeatable=True)).is_good
            await client.aclose()

    play(kind, main)


def test_the_login_in_a_url_is_a_header_and_in_no_message() -> None:
    assert base_url("a:1/") == ("http://a:1", {})
    assert base_url("https://ann:s%2F@a/x/") == ("https://a/x", basic_login("ann", "s/"))
    for wrong in ("http://u:secret@a b/", "ftp://u:secret@a", "http://u:secret@a:x", "http://"):
        with pytest.raises(ValueError, match="no URL") as refused:
            base_url(wrong)
        assert "secret" not in str(refused.value)
