"""A request for a small document: what cannot be sent is refused in one line."""

from __future__ import annotations

import pytest

from moldau.runtime.http_get import CannotGet, check_url, http_get, http_post

TIMES = (5.0, 5.0)


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
    with pytest.raises(CannotGet):
        http_get(url, 5.0, 1)
    with pytest.raises(CannotGet):
        http_post(url, b"", {}, TIMES, 1)


@pytest.mark.parametrize("value", ["secret \u2603", "secret\r\nX: y"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(CannotGet, match="HTTP does not take") as refused:
            http_post(f"http://127.0.0.1:{port}/", b"", {"X-Key": value}, TIMES, 1)
    assert "secret" not in str(refused.value)
