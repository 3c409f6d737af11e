"""Bytes to requests and back: whole, in pieces, several on one connection, and what is no HTTP."""

from __future__ import annotations

import pytest

from moldau.streams.query.http import ClientTalk, NotHttp, Request, ServerTalk, json_answer, refusal

GET = b"GET /stores/counts/keys/a%2Fb?first=1&reverse HTTP/1.1\r\nHost: here\r\n\r\n"


def test_a_request_comes_in_pieces() -> None:
    talk = ServerTalk()
    for byte in GET[:-1]:
        talk.receive(bytes((byte,)))
        assert talk.next_request() is None
    talk.receive(GET[-1:])

    assert talk.next_request() == Request(
        "GET",
        "/stores/counts/keys/a%2Fb?first=1&reverse",
        ("stores", "counts", "keys", "a/b"),
        {"first": "1", "reverse": ""},
    )


def test_requests_follow_each_other_on_a_connection() -> None:
    talk = ServerTalk()
    talk.receive(GET + GET)
    for _ in range(2):
        assert talk.next_request() is not None
        answer = talk.answer(json_answer({"count": 1}))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b'{"count":1}\n')
    assert not talk.is_over
    talk.receive(b"")
    assert talk.next_request() is None
    assert talk.is_over


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\n" + b"X: " + b"x" * 100_000,
        b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_what_is_no_query_ends_the_connection(data: bytes) -> None:
    talk = ServerTalk()
    talk.receive(data)
    with pytest.raises(NotHttp):
        talk.next_request()


def test_a_worker_understands_another() -> None:
    server, client = ServerTalk(), ClientTalk("there:1")
    server.receive(client.ask("/stores/counts/keys/a"))
    request = server.next_request()
    assert request is not None
    assert request.is_forwarded
    told = server.answer(refusal(503, "it is being restored", is_retryable=True))
    assert b"Retry-After: 1\r\n" in told
    assert client.receive(told[:20]) is None
    answer = client.receive(told[20:])
    assert answer == refusal(503, "it is being restored", is_retryable=True)


def test_an_answer_that_ends_early() -> None:
    client = ClientTalk("there:1")
    client.ask("/")
    assert client.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") is None
    with pytest.raises(NotHttp):
        client.receive(b"")
