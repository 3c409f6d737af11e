"""The server's side of GSSAPI with tickets of a real center, and no sockets between."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from moldau.broker.security.gssapi import Acceptor, GssServer, own_realm
from moldau.broker.security.kerberos_names import KerberosNames, KerberosRule
from moldau.broker.security.mechanism import LoginFailed
from moldau.link.login.gss import NO_LAYER, KerberosLogin, kerberos
from moldau.link.login.sasl import LoginRefused, Work
from tests.link.realm import REALM, Realm, realm, service

pytestmark = pytest.mark.real


class Ground:
    """A realm that this process is in, the keys of a broker, and the client alice."""

    def __init__(self, at: Realm) -> None:
        self.acceptor = Acceptor(at.keytab(service()), service())
        self.alice = at.keytab("alice")

    def server(self) -> GssServer:
        return GssServer(self.acceptor, KerberosNames([KerberosRule()], own_realm()))

    def client(self, *, proved: bool = True) -> Any:
        """The client's context. `proved`: the server proves itself, which Java does not ask for."""
        import gssapi

        flags = gssapi.RequirementFlag
        store = {"client_keytab": self.alice, "ccache": "MEMORY:test"}
        return gssapi.SecurityContext(
            name=gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service),
            creds=gssapi.Credentials(usage="initiate", store=store),
            flags=flags.integrity | (flags.mutual_authentication if proved else 0),
            usage="initiate",
        )


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with realm(tmp_path_factory.mktemp("realm")) as at, pytest.MonkeyPatch.context() as patch:
        at.use(patch)
        yield Ground(at)


def offered(server: GssServer, client: Any) -> Any:
    """What the server offers when both sides have a context."""
    answer = server.step(client.step(None))
    if not client.complete:
        assert client.step(answer) is None
        answer = server.step(b"")
    return client.unwrap(answer).message


@pytest.mark.parametrize("proved", [True, False])
def test_a_ticket_has_its_user_whatever_other_name_is_wanted(ground: Ground, proved: bool) -> None:
    assert own_realm() == REALM
    for name in (b"", b"alice", b"admin"):
        server, client = ground.server(), ground.client(proved=proved)
        assert offered(server, client) == NO_LAYER
        assert not server.is_done
        assert server.step(client.wrap(NO_LAYER + name, False).message) == b""
        assert (server.user, server.is_done) == ("alice", True)
        with pytest.raises(LoginFailed, match="over"):
            server.step(b"")


@pytest.mark.parametrize("choice", [b"", b"\1", b"\2\0\1\0", b"\4\0\1\0alice", b"\0\0\0\0"])
def test_no_layer_is_the_only_choice(ground: Ground, choice: bytes) -> None:
    server, client = ground.server(), ground.client()
    offered(server, client)
    with pytest.raises(LoginFailed, match="layer"):
        server.step(client.wrap(choice, False).message)
    assert not server.is_done


def test_a_choice_of_another_login_does_not_count(ground: Ground) -> None:
    server, client = ground.server(), ground.client()
    other, stranger = ground.server(), ground.client()
    offered(server, client)
    offered(other, stranger)
    for wrong in (stranger.wrap(NO_LAYER, False).message, NO_LAYER, b""):
        with pytest.raises(LoginFailed):
            server.step(wrong)
        assert not server.is_done


def test_bytes_that_are_no_ticket_are_refused(ground: Ground) -> None:
    random = Random(1)
    ticket = ground.client().step(None)
    changed = bytearray(ticket)
    changed[len(changed) // 2] ^= 1
    wrong = [b"", b"\0", b"\x60", b"n,,n=alice,r=abc", ticket[:-1], ticket[5:], bytes(changed)]
    wrong += [random.randbytes(random.randrange(300)) for _ in range(300)]
    for each in wrong:
        server = ground.server()
        with pytest.raises(LoginFailed):
            server.step(each)
        assert server.user == ""
    ground.server().step(ticket)
    with pytest.raises(LoginFailed, match="replay"):
        ground.server().step(ticket)


def test_bytes_behind_the_ticket_are_refused(ground: Ground) -> None:
    server, client = ground.server(), ground.client()
    server.step(client.step(None))
    with pytest.raises(LoginFailed, match="no bytes"):
        server.step(b"x")


def test_a_broker_that_wants_a_layer_is_refused(ground: Ground) -> None:
    """Our client's side: nothing but its own choice leaves it."""
    login = KerberosLogin(keytab=ground.alice).with_own_cache()
    exchange, server = kerberos(login, "localhost"), ground.server()
    step = next(exchange)
    while isinstance(step, Work) or server._context is None or step != b"":
        if isinstance(step, Work):
            step = exchange.send(step.result())
        else:
            assert isinstance(step, bytes)
            step = exchange.send(server.step(step))
    step = exchange.send(server._context.wrap(b"\6\0\1\0", False).message)
    assert isinstance(step, Work)
    with pytest.raises(LoginRefused, match="use TLS"):
        step.result()
