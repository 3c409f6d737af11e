"""Requests of clients and of other workers over a real server: paths, pieces, no answer."""

from __future__ import annotations

import asyncio

import pytest

from moldau.runtime import Runtime
from moldau.streams.query.http import Answer, Request, json_answer, refusal
from moldau.streams.query.questions import StoreUnavailable
from moldau.streams.query.server import QueryServer
from tests.runtime.arena import HOST, play

GET = b"GET /stores/counts/keys/a%2Fb?first=1&reverse HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Keeper:
    """Keeps each request, and answers all the same."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[Request] = []
        self._answer = answer

    async def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self._answer


def exchanged(sent: list[bytes], answer: Answer, ends: bool = True) -> tuple[bytes, list[Request]]:
    """Return all that a connection gets for these pieces, and the requests that were answered."""

    async def main(runtime: Runtime) -> tuple[bytes, list[Request]]:
        keeper, server = Keeper(answer), QueryServer(runtime)
        port = await server.listen(HOST, 0)
        server.serve(keeper)
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            for piece in sent:
                writer.write(piece)
                await writer.drain()
            if ends:
                writer.write_eof()
            return await reader.read(), keeper.requests
        finally:
            writer.close()
            await server.aclose()

    return play("asyncio", main)


def test_requests_come_in_pieces_and_follow_each_other_on_a_connection() -> None:
    closing = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    pieces = [bytes((byte,)) for byte in GET] + [closing]
    told, requests = exchanged(pieces, json_answer({"count": 1}), ends=False)
    assert told.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert told.endswith(b'{"count":1}\n')
    target = "/stores/counts/keys/a%2Fb?first=1&reverse"
    path, options = ("stores", "counts", "keys", "a/b"), {"first": "1", "reverse": ""}
    assert requests == [Request("GET", target, path, options)] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"x" * 100_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    ],
)
def test_what_is_no_query_is_not_answered_by_the_stores(data: bytes) -> None:
    told, requests = exchanged([data], json_answer({}), ends=False)
    assert (told[:10], requests) == (b"HTTP/1.1 4", [])


def test_a_worker_asks_another_one() -> None:
    restoring = refusal(503, "it is being restored", is_retryable=True)
    asked = Request("GET", "/stores/counts/keys/a", (), authorization="Basic x")

    async def main(runtime: Runtime) -> None:
        keeper, server = Keeper(restoring), QueryServer(runtime)
        port = await server.listen(HOST, 0)
        server.serve(keeper)
        assert await server.forward(f"{HOST}:{port}", asked) == restoring
        await server.aclose()
        assert [each.is_forwarded for each in keeper.requests] == [True]
        assert [each.authorization for each in keeper.requests] == ["Basic x"]
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await server.forward(f"{HOST}:{port}", asked)

    play("asyncio", main)
