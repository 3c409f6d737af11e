"""SCRAM between our server and our client, the RFCs' examples, and a client that cheats."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping

import pytest

from moldau.broker.controller.credentials import ScramCredential
from moldau.broker.security.delegation import TokenIndex, TokenLogins, token_hmac
from moldau.broker.security.mechanism import LoginFailed
from moldau.broker.security.scram import ScramServer
from moldau.config import Secret
from moldau.link.login.sasl import Derivation, LoginRefused, scram
from moldau.protocol.scram import ScramMechanism, salted_password, server_keys

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
PENCIL = "pencil"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def credential(
    mechanism: ScramMechanism, password: str = PENCIL, iterations: int = 4096
) -> ScramCredential:
    keys = server_keys(mechanism, salted_password(mechanism, password, SALT, iterations))
    return ScramCredential(SALT, keys.stored_key, keys.server_key, iterations)


def server(
    mechanism: ScramMechanism = SHA_256,
    user: str = "user",
    nonce: str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    iterations: int = 4096,
) -> ScramServer:
    kept = credential(mechanism, iterations=iterations)
    return ScramServer(mechanism, lambda name: kept if name == user else None, nonce, b"node")


def talk(
    ours: ScramServer,
    mechanism: ScramMechanism = SHA_256,
    user: str = "user",
    password: str = PENCIL,
    change: Callable[[bytes], bytes] = lambda data: data,
    by_token: bool = False,
) -> None:
    """A login of our client; `change` has its hands on what the server says."""
    exchange = scram(mechanism, user, password, "rOprNGfwEbeRWgbNEkqO", by_token=by_token)
    step = next(exchange)
    while True:
        reply = change(ours.step(step)) if isinstance(step, bytes) else step.result()
        try:
            step = exchange.send(reply)
        except StopIteration:
            return


def test_the_example_of_rfc_7677() -> None:
    ours = server()
    first = ours.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = ours.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ours.is_done
    assert ours.user == "user"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["user", "a,b=c", "\N{GREEK SMALL LETTER ALPHA}"])
def test_our_client_logs_in_at_our_server(mechanism: ScramMechanism, user: str) -> None:
    ours = server(mechanism, user)
    talk(ours, mechanism, user)
    assert ours.is_done
    assert ours.user == user


def test_a_wrong_password_and_an_unknown_user_are_refused_alike() -> None:
    failures = []
    for user, password in (("user", "wrong"), ("nobody", "pencil")):
        ours = server()
        with pytest.raises(LoginFailed) as caught:
            talk(ours, user=user, password=password)
        failures.append(str(caught.value))
        assert not ours.is_done
    assert failures[0] == failures[1] == "wrong user or password"


def test_an_unknown_user_has_the_same_salt_each_time_and_none_of_another() -> None:
    def salt(user: str) -> str:
        first = server().step(f"n,,n={user},r=abc".encode()).decode()
        found = re.search(r"s=([^,]+),i=4096", first)
        assert found is not None
        return found[1]

    assert salt("nobody") == salt("nobody")
    assert len({salt("nobody"), salt("somebody"), salt("user")}) == 3


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,n=user",
        b"n,,n=us=er,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,m=needed,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=a\x00c",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(LoginFailed):
        server().step(first)


def test_a_client_may_name_itself_twice() -> None:
    assert server().step(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


def test_librdkafka_s_doubled_nonce_is_accepted() -> None:
    """Its versions before 2.8 send their own nonce in front of the server's once more."""
    ours = server()
    exchange = scram(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    first = next(exchange)
    assert isinstance(first, bytes)
    reply = ours.step(first)
    final = final_message(reply, prefix="rOprNGfwEbeRWgbNEkqO")
    assert ours.step(final).startswith(b"v=")


def final_message(server_first: bytes, prefix: str = "", nonce: str | None = None) -> bytes:
    """The last message of a client that has the right password and writes what it likes."""
    import hashlib
    import hmac

    found = re.fullmatch(r"r=([^,]+),s=[^,]+,i=\d+", server_first.decode())
    assert found is not None
    bare = f"c=biws,r={prefix}{found[1] if nonce is None else nonce}"
    salted = salted_password(SHA_256, "pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"n=user,r=rOprNGfwEbeRWgbNEkqO,{server_first.decode()},{bare}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{bare},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("nonce", ["rOprNGfwEbeRWgbNEkqO", "x", "rOprNGfwEbeRWgbNEkqOother"])
def test_the_right_proof_with_another_nonce_is_refused(nonce: str) -> None:
    ours = server()
    reply = ours.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(LoginFailed, match="nonce"):
        ours.step(final_message(reply, nonce=nonce))


def test_a_last_message_that_was_right_once_is_refused_the_second_time() -> None:
    once = server()
    final = final_message(once.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
    once.step(final)
    with pytest.raises(LoginFailed):
        once.step(final)
    again = server(nonce="another")
    again.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(LoginFailed, match="nonce"):
        again.step(final)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (rb"i=4096", b"i=4095", "iterations"),
        (rb"i=4096", b"i=1", "iterations"),
        (rb"i=4096", b"i=999999999", "iterations"),
        (rb"i=4096", b"i=99999999999999", "malformed"),
        (rb"r=rOpr", b"r=xxxx", "nonce"),
        (rb"r=rOprNGfwEbeRWgbNEkqO[^,]*", b"r=rOprNGfwEbeRWgbNEkqO", "nonce"),
        (rb"s=[^,]+", b"s=!!", "malformed"),
        (rb"s=[^,]+", b"s=" + b"A" * 4000, "too long"),
        (rb"v=.*", b"v=AAAA", "cannot prove"),
        (rb"v=.*", b"e=other-error", "other-error"),
        (rb"v=.*", b"", "malformed"),
        (rb"v=.*", b"\xff", "UTF-8"),
    ],
)
def test_a_server_that_cheats_is_refused(old: bytes, new: bytes, why: str) -> None:
    with pytest.raises(LoginRefused, match=why) as caught:
        talk(server(), change=lambda data: re.sub(old, lambda _: new, data))
    assert not caught.value.retriable


def test_nothing_of_a_password_is_shown() -> None:
    exchange = scram(SHA_256, "user", "canary", "abc")
    next(exchange)
    step = exchange.send(server().step(b"n,,n=user,r=abc"))
    assert isinstance(step, Derivation)
    assert "canary" not in repr(step)
    assert "canary" not in str(exchange)


KEY = Secret("canary")
OWNER = "User:al:ice,=x"


class Known:
    """A token in the metadata."""

    owner = OWNER
    max_timestamp = 10_000
    expiration_timestamp = 5_000


def token_server(mechanism: ScramMechanism, now_ms: int, kept: Mapping[str, Known]) -> ScramServer:
    return scram_of(TokenLogins(KEY, lambda: kept, lambda: now_ms), mechanism)


def scram_of(logins: TokenLogins, mechanism: ScramMechanism) -> ScramServer:
    def no_user(name: str) -> None:
        return None

    return ScramServer(
        mechanism, no_user, "nonce", b"node", lambda name: logins.find(name, mechanism)
    )


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_token_logs_in_as_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    password = base64.b64encode(token_hmac(KEY, "id")).decode()
    for now_ms, lifetime_ms in ((0, 5_000), (4_999, 1), (5_000, 1)):
        ours = token_server(mechanism, now_ms, {"id": Known()})
        talk(ours, mechanism, "id", password, by_token=True)
        assert (ours.user, ours.is_by_token) == ("al:ice,=x", True)
        assert ours.lifetime_ms == lifetime_ms


def test_expired_removed_and_wrong_tokens_are_refused_alike() -> None:
    password = base64.b64encode(token_hmac(KEY, "id")).decode()
    for now_ms, kept, given, by_token in (
        (5_001, {"id": Known()}, password, True),
        (0, {}, password, True),
        (0, {"id": Known()}, "wrong", True),
        (0, {"id": Known()}, password, False),
    ):
        ours = token_server(SHA_256, now_ms, kept)
        with pytest.raises(LoginFailed, match="wrong user or password"):
            talk(ours, user="id", password=given, by_token=by_token)
        assert not ours.is_by_token


@pytest.mark.parametrize(
    ("is_kept", "last_ms", "lifetime_ms"),
    [(True, 4_990, 10), (True, 5_001, None), (False, 0, None)],
)
def test_a_token_counts_as_it_is_at_the_last_message(
    is_kept: bool, last_ms: int, lifetime_ms: int | None
) -> None:
    password = base64.b64encode(token_hmac(KEY, "id")).decode()
    known: dict[str, Known] = {"id": Known()}
    found = iter((known, known if is_kept else {}))
    now_ms = iter((0, last_ms))
    logins = TokenLogins(KEY, lambda: next(found), lambda: next(now_ms))
    ours = scram_of(logins, SHA_256)
    if lifetime_ms is None:
        with pytest.raises(LoginFailed, match="during the login"):
            talk(ours, user="id", password=password, by_token=True)
        assert not ours.is_done
    else:
        talk(ours, user="id", password=password, by_token=True)
        assert ours.lifetime_ms == lifetime_ms


def test_a_user_s_password_is_none_of_a_token() -> None:
    with pytest.raises(LoginFailed, match="wrong user or password"):
        talk(server(), by_token=True)


def test_what_a_token_login_keeps_shows_no_secret() -> None:
    logins = TokenLogins(KEY, lambda: {"id": Known()}, lambda: 0)
    found = logins.find("id", SHA_256)
    assert found is not None
    assert found.credential is logins.find("id", SHA_256).credential  # type: ignore[union-attr]
    assert repr(found.credential.stored_key) not in repr(found)


def test_an_index_forgets_removed_tokens() -> None:
    index = TokenIndex(KEY)
    ids = [f"id{number}" for number in range(10)]
    secrets = {each: token_hmac(KEY, each) for each in ids}
    assert [index.find(secrets[each], ids) for each in ids] == ids
    assert [index.find(secrets[each], ids[:2]) for each in ids] == [*ids[:2], *[None] * 8]
    assert index.find(secrets["id1"], ids[1:2]) == "id1"
    assert index.find(b"unknown", ids[1:2]) is None
    assert index.find(secrets["id1"], ids[1:2]) == "id1"
