"""The order of a login, and what renews one."""

from __future__ import annotations

from weakref import ref

import pytest

from moldau.broker.security.login import Login, LoginState, LoginTerms, Method
from moldau.broker.security.mechanism import LoginFailed
from moldau.broker.security.plain import PlainServer
from moldau.errors.codes import ErrorCode

USERS = {"alice": "secret", "bob": "hush"}
ALICE, BOB = b"\0alice\0secret", b"\0bob\0hush"


def terms(renew_ms_max: int = 0) -> LoginTerms:
    method = Method(lambda: PlainServer(USERS), renew_ms_max)
    return LoginTerms({"PLAIN": method, "OTHER": method})


def done(given: LoginTerms, message: bytes = ALICE) -> Login:
    login = Login(given)
    assert login.on_handshake("PLAIN") is ErrorCode.NONE
    assert login.on_message(message) == b""
    return login


def test_a_login() -> None:
    login = done(terms())
    assert (login.state, login.user, login.lifetime_ms) == (LoginState.DONE, "alice", 0)


def test_a_mechanism_that_is_not_offered_ends_it() -> None:
    login = Login(terms())
    assert login.on_handshake("GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login.offered == ["PLAIN", "OTHER"]
    with pytest.raises(LoginFailed):
        login.on_message(ALICE)


def test_a_second_handshake_ends_it() -> None:
    login = Login(terms())
    login.on_handshake("PLAIN")
    assert login.on_handshake("PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(LoginFailed):
        login.on_message(ALICE)


def test_a_message_without_a_mechanism_ends_it() -> None:
    login = Login(terms())
    with pytest.raises(LoginFailed):
        login.on_message(ALICE)
    assert login.on_handshake("PLAIN") is ErrorCode.ILLEGAL_SASL_STATE


def test_after_a_wrong_password_the_right_one_is_too_late() -> None:
    login = Login(terms())
    login.on_handshake("PLAIN")
    with pytest.raises(LoginFailed):
        login.on_message(b"\0alice\0wrong")
    with pytest.raises(LoginFailed):
        login.on_message(ALICE)
    assert login.state is LoginState.FAILED


def test_a_login_may_have_an_end() -> None:
    assert done(terms(5000)).lifetime_ms == 5000


@pytest.mark.parametrize(
    ("mechanism", "message", "is_accepted"),
    [("PLAIN", ALICE, True), ("PLAIN", BOB, False), ("OTHER", ALICE, False)],
)
def test_it_is_renewed_by_the_same_user_and_mechanism(
    mechanism: str, message: bytes, is_accepted: bool
) -> None:
    given = terms(5000)
    again = Login(given, before=done(given))
    again.on_handshake(mechanism)
    if is_accepted:
        again.on_message(message)
        assert again.state is LoginState.DONE
    else:
        with pytest.raises(LoginFailed):
            again.on_message(message)


def test_a_login_that_is_done_keeps_nothing_of_earlier_ones() -> None:
    given = terms(5000)
    login = done(given)
    earlier = []
    for _ in range(3):
        earlier.append(ref(login))
        login = Login(given, before=login)
        login.on_handshake("PLAIN")
        login.on_message(ALICE)
    assert [each() for each in earlier] == [None, None, None]
    assert (login.user, login.lifetime_ms) == ("alice", 5000)
