"""PLAIN: who is let in, and who is not."""

from __future__ import annotations

import pytest

from moldau.broker.security.mechanism import LoginFailed
from moldau.broker.security.plain import PlainServer, users_of
from moldau.link.login.jaas import parse_jaas
from moldau.link.login.sasl import plain

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = {"alice": "secret", "bob": "p\N{LATIN SMALL LETTER U WITH DIAERESIS}"}


def test_users_come_from_the_options_of_the_module() -> None:
    text = f'{MODULE} required username="a" password="b" user_alice="secret" user_bob="x;\\"y";'
    assert users_of(parse_jaas(text).options) == {"alice": "secret", "bob": 'x;"y'}


@pytest.mark.parametrize(("user", "password"), USERS.items())
def test_our_client_logs_in(user: str, password: str) -> None:
    message = next(plain(user, password))
    assert isinstance(message, bytes)
    server = PlainServer(USERS)
    assert server.step(message) == b""
    assert (server.is_done, server.user) == (True, user)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\0\0",
        b"\0alice",
        b"\0alice\0secret\0more",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0Secret",
        b"\0nobody\0secret",
        b"\0nobody\0\0",
        b"bob\0alice\0secret",
    ],
)
def test_others_are_refused(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(LoginFailed) as caught:
        server.step(message)
    assert not server.is_done
    assert "secret" not in str(caught.value).lower().replace("secret key", "")


def test_a_user_may_name_itself_twice() -> None:
    server = PlainServer(USERS)
    server.step(b"alice\0alice\0secret")
    assert server.is_done
