"""The table: a listener, what its client does, how the broker ends it, and what its log says.

A row is about one wrong thing. What is refused in the same way by another listener is a row only
where another part of the broker decides there.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from warnings import catch_warnings, simplefilter

from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.protocol.scram import ScramMechanism
from tests.broker.server.refusals import tokens
from tests.broker.server.refusals.clients import (
    CLOSED,
    Broker,
    LastMessage,
    Login,
    OurClient,
    Raw,
    Requests,
    Tls,
    first,
    trusting,
)

PASSWORD: Final = "canary-password"  # noqa: S105 - of the tests' broker
FAILED: Final = "SASL_AUTHENTICATION_FAILED"
LET_IN: Final = "let in"
SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


class Row(NamedTuple):
    """One wrong thing."""

    name: str
    listener: str
    client: Any
    outcome: str
    log: str | None
    """A part of the one line about the client. None: the client ends it, and no line is due."""


def rows() -> list[Row]:
    """Return the table."""
    return [*_plain(), *_scram(), *_tokens(), *_logins(), *_frames(), *_tls(), *_servers()]


def right() -> list[Row]:
    """Return clients that are let in, so that no row is refused for another reason than its own."""
    plain = Login("PLAIN", [f"\0alice\0{PASSWORD}".encode()])
    found = [
        Row(f"PLAIN at {at}", at, plain, LET_IN, None) for at in ("SASL_SSL", "SASL_PLAINTEXT")
    ]
    for mechanism in (SHA_256, SHA_512):
        client = Login(mechanism.sasl_name, [first(), LastMessage(mechanism, PASSWORD)])
        found.append(Row(mechanism.sasl_name, "SASL_SSL", client, LET_IN, None))
    found.append(Row("a token", "OAUTH", _by_token(tokens.RIGHT, is_right=True), LET_IN, None))
    own = {
        "security.protocol": "SSL",
        "ssl.truststore.location": "FOLDER/ca.pem",
        "ssl.keystore.location": "FOLDER/alice.pem",
    }
    found.append(Row("a certificate", "SSL", OurClient(own), LET_IN, None))
    return found


# PLAIN

_PLAIN: Final[dict[str, tuple[bytes, str]]] = {
    "a wrong password": (b"\0alice\0wrong", "wrong user or password"),
    "an unknown user": (b"\0nobody\0canary-password", "wrong user or password"),
    "a password with another case": (b"\0alice\0CANARY-PASSWORD", "wrong user or password"),
    "a password and a space": (b"\0alice\0canary-password ", "wrong user or password"),
    "a part of the password": (b"\0alice\0canary", "wrong user or password"),
    "a user with another case": (b"\0Alice\0canary-password", "wrong user or password"),
    "a user and a space": (b"\0alice \0canary-password", "wrong user or password"),
    "an empty password": (b"\0alice\0", "empty"),
    "an empty user": (b"\0\0canary-password", "empty"),
    "nothing": (b"", "three parts"),
    "zeros alone": (b"\0\0", "empty"),
    "two parts": (b"alice\0canary-password", "three parts"),
    "four parts": (b"\0alice\0canary-password\0", "three parts"),
    "the right of another": (b"bob\0alice\0canary-password", "as another"),
    "the right of an admin": (b"admin\0alice\0canary-password", "as another"),
    "no UTF-8": (b"\0alice\0\xff\xfe", "UTF-8"),
    "UTF-16": ("\0alice\0canary-password".encode("utf-16"), ""),
    "a long user": (b"\0" + b"a" * 3000 + b"\0x", "wrong user or password"),
    "a line into the log": (b"\0x\nERROR fake\0x", "wrong user or password"),
    "a message of SCRAM": (first(), "three parts"),
}


def _plain() -> Iterator[Row]:
    for name, (message, log) in _PLAIN.items():
        yield Row(f"PLAIN: {name}", "SASL_SSL", Login("PLAIN", [message]), FAILED, log)


# SCRAM

_FIRST: Final[dict[str, tuple[bytes, str]]] = {
    "nothing": (b"", "malformed"),
    "no UTF-8": (b"\xff\xfe", "UTF-8"),
    "no header": (b"n=alice,r=abc", "malformed"),
    "no nonce": (b"n,,n=alice", "malformed"),
    "an empty nonce": (b"n,,n=alice,r=", "malformed"),
    "a nonce with a space": (b"n,,n=alice,r=a b", "malformed"),
    "a nonce with a zero": (b"n,,n=alice,r=a\0c", "malformed"),
    "no user": (b"n,,r=abc", "malformed"),
    "an empty user": (b"n,,n=,r=abc", "malformed"),
    "a user with a bare =": (b"n,,n=al=ice,r=abc", "malformed"),
    "a user with an unknown escape": (b"n,,n=al=2Dice,r=abc", "malformed"),
    "a user with a zero": (b"n,,n=al\0ice,r=abc", "malformed"),
    "channel binding": (b"p=tls-unique,,n=alice,r=abc", "malformed"),
    "channel binding by the exporter": (b"p=tls-exporter,,n=alice,r=abc", "malformed"),
    "an unknown flag": (b"x,,n=alice,r=abc", "malformed"),
    "an extension that must be known": (b"n,,m=needed,n=alice,r=abc", "malformed"),
    "the right of another": (b"n,a=bob,n=alice,r=abc", "as another"),
    "parts in another order": (b"n,,r=abc,n=alice", "malformed"),
    "a message of PLAIN": (b"\0alice\0canary-password", "malformed"),
    "a last message": (b"c=biws,r=abc,p=AAAA", "malformed"),
    "a line feed": (b"n,,n=alice,r=abc\n", "malformed"),
}


def _cut(part: bytes) -> Any:
    return lambda data: data.replace(part, b"")


_LAST: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a wrong password": ({"password": "wrong"}, "wrong user or password"),
    "an empty password": ({"password": ""}, "wrong user or password"),
    "only the client's nonce": ({"nonce": lambda nonce: "abcdef"}, "nonce"),
    "another nonce": ({"nonce": lambda nonce: "other"}, "nonce"),
    "the nonce and more": ({"nonce": lambda nonce: nonce + "x"}, "nonce"),
    "a part of the nonce": ({"nonce": lambda nonce: nonce[:-1]}, "nonce"),
    "the nonce in capitals": ({"nonce": lambda nonce: nonce.swapcase()}, "nonce"),
    "the server's part of the nonce alone": ({"nonce": lambda nonce: nonce[6:]}, "nonce"),
    "a replayed nonce": ({"nonce": lambda nonce: "abcdef0123456789abcdef"}, "nonce"),
    "another channel binding": ({"binding": b"cD10bHM="}, "binding"),
    "the binding of the flag y": ({"binding": b"eSws"}, "binding"),
    "a binding that is not base64": ({"binding": b"biw"}, "base64"),
    "fewer iterations": ({"iterations": lambda count: 1}, "wrong user or password"),
    "one iteration less": ({"iterations": lambda count: count - 1}, "wrong user or password"),
    "more iterations": ({"iterations": lambda count: count + 1}, "wrong user or password"),
    "another first message": ({"bare_first": b"n=bob,r=abcdef"}, "wrong user or password"),
    "a token's extension": ({"bare_first": b"n=alice,r=abcdef,tokenauth=true"}, "wrong user"),
    "no proof": ({"change": lambda data: data.partition(b",p=")[0]}, "malformed"),
    "an empty proof": ({"change": lambda data: data.partition(b",p=")[0] + b",p="}, "malformed"),
    "a proof of three bytes": (
        {"change": lambda data: data.partition(b",p=")[0] + b",p=AAAA"},
        "wrong length",
    ),
    "a proof of zeros": (
        {"change": lambda data: data.partition(b",p=")[0] + b",p=" + b"A" * 43 + b"="},
        "wrong user or password",
    ),
    "a proof that is not base64": ({"change": lambda data: data[:-1] + b"A"}, "base64"),
    "a cut message": ({"change": lambda data: data[: len(data) // 2]}, "malformed"),
    "nothing": ({"change": lambda data: b""}, "malformed"),
    "no UTF-8": ({"change": lambda data: b"\xff" + data}, "UTF-8"),
    "a server's message": ({"change": lambda data: b"v=AAAA"}, "malformed"),
    "the parts twice": ({"change": lambda data: data + b"," + data}, ""),
}


def _scram() -> Iterator[Row]:
    for name, (message, log) in _FIRST.items():
        client = Login("SCRAM-SHA-256", [message])
        yield Row(f"SCRAM, first message: {name}", "SASL_SSL", client, FAILED, log)
    for number, (name, (changes, log)) in enumerate(_LAST.items()):
        mechanism = (SHA_256, SHA_512)[number % 2]
        last = LastMessage(mechanism, **{"password": PASSWORD, **changes})
        client = Login(mechanism.sasl_name, [first(), last])
        yield Row(f"SCRAM, last message: {name}", "SASL_PLAINTEXT", client, FAILED, log)
    for mechanism, other in ((SHA_256, SHA_512), (SHA_512, SHA_256)):
        client = Login(mechanism.sasl_name, [first(), LastMessage(other, PASSWORD)])
        name = f"SCRAM: the proof of {other.sasl_name} for {mechanism.sasl_name}"
        yield Row(name, "SASL_PLAINTEXT", client, FAILED, "wrong length")
    nobody = LastMessage(SHA_256, PASSWORD, b"n=nobody,r=abcdef")
    others: tuple[tuple[str, list[Any], str], ...] = (
        ("an unknown user", [first("nobody"), nobody], "wrong user or password"),
        ("the first message twice", [first(), first()], "malformed"),
        (
            "a token that does not exist",
            [
                first("none") + b",tokenauth=true",
                LastMessage(SHA_256, PASSWORD, b"n=none,r=abcdef,tokenauth=true"),
            ],
            "wrong user or password",
        ),
        (
            "a user's password as a token's",
            [
                first() + b",tokenauth=true",
                LastMessage(SHA_256, PASSWORD, b"n=alice,r=abcdef,tokenauth=true"),
            ],
            "wrong user or password",
        ),
        (
            "a user of SCRAM-SHA-512 alone",
            [first("carol"), LastMessage(SHA_256, PASSWORD, b"n=carol,r=abcdef")],
            "wrong user or password",
        ),
    )
    for name, messages, log in others:
        client = Login("SCRAM-SHA-256", messages)
        yield Row(f"SCRAM: {name}", "SASL_SSL", client, FAILED, log)


# Tokens


def _by_token(token: str, *, is_right: bool = False) -> Login:
    """Send a token; one that is wrong is refused at the message after it (RFC 7628)."""
    message = b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    return Login("OAUTHBEARER", [message] if is_right else [message, b"\x01"])


_BEARER: Final[dict[str, bytes]] = {
    "nothing": b"",
    "the header alone": b"n,,",
    "another scheme": b"n,,\x01auth=Basic YWxpY2U6eA==\x01\x01",
    "no token": b"n,,\x01auth=Bearer \x01\x01",
    "no end": b"n,,\x01auth=Bearer " + tokens.RIGHT.encode(),
    "the right of another": b"n,a=bob,\x01auth=Bearer " + tokens.RIGHT.encode() + b"\x01\x01",
    "channel binding": b"p=tls-unique,,\x01auth=Bearer " + tokens.RIGHT.encode() + b"\x01\x01",
    "two tokens": b"n,,\x01auth=Bearer " + tokens.RIGHT.encode() + b" x\x01\x01",
    "a bad extension": b"n,,\x01auth=Bearer " + tokens.RIGHT.encode() + b"\x011=x\x01\x01",
    "the token alone": tokens.RIGHT.encode(),
    "an HTTP header": b"Authorization: Bearer " + tokens.RIGHT.encode(),
    "a message of PLAIN": b"\0alice\0canary-password",
}


def _tokens() -> Iterator[Row]:
    for name, token in tokens.WRONG.items():
        yield Row(f"token: {name}", "OAUTH", _by_token(token), FAILED, "mechanism=OAUTHBEARER")
    for name, message in _BEARER.items():
        client = Login("OAUTHBEARER", [message])
        yield Row(f"token message: {name}", "OAUTH", client, FAILED, "mechanism=OAUTHBEARER")


# The order of a login


def _logins() -> Iterator[Row]:
    for name in (
        "GSSAPI",
        "plain",
        "SCRAM-SHA-1",
        "SCRAM-SHA-256-PLUS",
        "OAUTHBEARER",
        "",
        " PLAIN",
        "ANONYMOUS",
        "EXTERNAL",
        "x" * 5000,
    ):
        shown = name[:20] or "an empty one"
        yield Row(
            f"mechanism {shown}",
            "SASL_PLAINTEXT",
            Login(name, []),
            "UNSUPPORTED_SASL_MECHANISM",
            "is not offered",
        )
    yield Row(
        "PLAIN where tokens alone are",
        "OAUTH",
        Login("PLAIN", []),
        "UNSUPPORTED_SASL_MECHANISM",
        "is not offered",
    )
    for request, version in _BEFORE:
        yield Row(
            f"{type(request).__name__} before the login",
            "SASL_PLAINTEXT",
            Requests([(request, version)]),
            CLOSED,
            "a request before the login",
        )
    shake = (SaslHandshakeRequest(mechanism="PLAIN"), 1)
    for name, requests, outcome, log in (
        (
            "a message before a mechanism",
            [(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)],
            FAILED,
            "not chosen",
        ),
        ("two handshakes", [shake, shake], "ILLEGAL_SASL_STATE", "login failed"),
        (
            "another mechanism after the first",
            [shake, (SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)],
            "ILLEGAL_SASL_STATE",
            "login failed",
        ),
        (
            "Metadata between the messages",
            [shake, (MetadataRequest(topics=None), 12)],
            CLOSED,
            "a request before the login",
        ),
    ):
        yield Row(name, "SASL_PLAINTEXT", Requests(requests), outcome, log)


_BEFORE: Final[tuple[tuple[Any, int], ...]] = (
    (MetadataRequest(topics=None), 12),
    (ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9),
    (FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 12),
    (FindCoordinatorRequest(key="g"), 3),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4),
    (ListGroupsRequest(), 4),
    (CreateTopicsRequest(topics=[], timeout_ms=1), 7),
    (DescribeConfigsRequest(resources=[]), 4),
    (DescribeClusterRequest(include_cluster_authorized_operations=False), 1),
)


# Bytes that are no request


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


_HANDSHAKE_0: Final = _framed(b"\0\x11\0\0\0\0\0\x01\xff\xff\0\x05PLAIN")
_HELLO: Final = bytes.fromhex("16030100c8010000c40303") + bytes(193)
_HTTP: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
_SSH: Final = b"SSH-2.0-OpenSSH_9.6\r\n"

_FRAMES: Final[dict[str, tuple[bytes, str]]] = {
    "a negative size": (b"\xff\xff\xff\xff" + bytes(10), ""),
    "a size of two gigabytes": (b"\x7f\xff\xff\xff" + bytes(10), ""),
    "a request longer than a login's": ((600_000).to_bytes(4, "big") + bytes(10), ""),
    "an empty request": (bytes(4), ""),
    "half a header": (_framed(b"\0\x12"), ""),
    "an unknown API": (_framed(b"\x27\x0f\0\0\0\0\0\x01\xff\xff"), ""),
    "a negative API": (_framed(b"\xff\xff\0\0\0\0\0\x01\xff\xff"), ""),
    "a handshake of an unknown version": (_framed(b"\0\x11\0\x09\0\0\0\x01\xff\xff"), ""),
    "a handshake without a mechanism": (_framed(b"\0\x11\0\x01\0\0\0\x01\xff\xff"), ""),
    "a mechanism of wrong length": (_framed(b"\0\x11\0\x01\0\0\0\x01\xff\xff\x7f\xff"), ""),
    "a mechanism of negative length": (_framed(b"\0\x11\0\x01\0\0\0\x01\xff\xff\xff\xfe"), ""),
    "a mechanism that is no UTF-8": (_framed(b"\0\x11\0\x01\0\0\0\x01\xff\xff\0\x02\xc3\x28"), ""),
    "a client id of wrong length": (_framed(b"\0\x11\0\x01\0\0\0\x01\x7f\xffx"), ""),
    "a message of wrong length": (_framed(b"\0\x24\0\0\0\0\0\x01\xff\xff\x7f\xff\xff\xff"), ""),
    "a message of negative length": (_framed(b"\0\x24\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xfe"), ""),
    "HTTP": (_HTTP, ""),
    "SSH": (_SSH, ""),
    "TLS": (_HELLO, "TLS on a listener without TLS"),
    "a wrong password without headers": (_HANDSHAKE_0 + _framed(b"\0alice\0wrong"), "wrong user"),
    "an empty message without headers": (_HANDSHAKE_0 + _framed(b""), ""),
    "a long message without headers": (_HANDSHAKE_0 + (600_000).to_bytes(4, "big"), ""),
    "headers where none are due": (_HANDSHAKE_0 + _HANDSHAKE_0, "UTF-8"),
}


def _frames() -> Iterator[Row]:
    for name, (data, log) in _FRAMES.items():
        yield Row(f"bytes: {name}", "SASL_PLAINTEXT", Raw(data), CLOSED, log)
    yield Row(
        "bytes: TLS where everything is open",
        "PLAINTEXT",
        Raw(_HELLO),
        CLOSED,
        "TLS on a listener without TLS",
    )
    yield Row(
        "bytes: half a request, then the end",
        "SASL_PLAINTEXT",
        Raw(_framed(bytes(100))[:50], is_end=True),
        CLOSED,
        None,
    )


# TLS


def _context(**changes: Any) -> Any:
    """Return a function that makes a client's context with something wrong."""

    def make(at: Broker) -> ssl.SSLContext:
        made = trusting(at, **({"own": changes["own"]} if "own" in changes else {}))
        if "first" in changes:
            made.minimum_version = changes["first"]
        if "last" in changes:
            with catch_warnings():
                simplefilter("ignore", DeprecationWarning)  # that is why they are here
                made.minimum_version = min(made.minimum_version, changes["last"])
                made.maximum_version = changes["last"]
        if "ciphers" in changes:
            made.set_ciphers(changes["ciphers"])
        return made

    return make


V1, V1_1 = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
_OWN: Final = {
    "none.pem": ({}, "did not return a certificate"),
    "stranger's": ({"own": "stranger.pem"}, ""),
    "expired": ({"own": "old.pem"}, "expired"),
    "not yet valid": ({"own": "early.pem"}, "not yet valid"),
    "signed by itself": ({"own": "own.pem"}, ""),
    "that of an authority it made itself": ({"own": "other-ca.pem"}, ""),
}


def _tls() -> Iterator[Row]:
    for name, (changes, log) in _OWN.items():
        shown = "no certificate" if name == "none.pem" else f"a certificate that is {name}"
        yield Row(f"mTLS: {shown}", "SSL", Tls(_context(**changes), b"\0\0"), CLOSED, log)
        last = {**changes, "last": V1_2}
        yield Row(f"mTLS by TLS 1.2: {shown}", "SSL", Tls(_context(**last), b"\0\0"), CLOSED, log)
    weak = "ALL:@SECLEVEL=0"
    versions: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        ("TLS 1.0", "SASL_SSL", {"last": V1, "ciphers": weak}, ""),
        ("TLS 1.1", "SASL_SSL", {"last": V1_1, "ciphers": weak}, ""),
        ("TLS 1.2 where 1.3 alone is", "NEW", {"last": V1_2}, ""),
        ("TLS 1.3 where 1.2 alone is", "OLD", {"first": V1_3}, ""),
        ("no common cipher", "OLD", {"last": V1_2, "ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"}, ""),
        (
            "ciphers of RSA for a key of another kind",
            "OLD",
            {"last": V1_2, "ciphers": "AES128-SHA"},
            "",
        ),
        (
            "ciphers without a certificate",
            "OLD",
            {"last": V1_2, "ciphers": "ADH-AES128-SHA:@SECLEVEL=0"},
            "",
        ),
    )
    for name, listener, terms, log in versions:
        yield Row(f"TLS: {name}", listener, Tls(_context(**terms)), CLOSED, log)
    kafka = _framed(b"\0\x12\0\x03\0\0\0\x01\xff\xff\0\x01\x01\0")
    for name, data, log in (
        ("a request of Kafka", kafka, "does not speak TLS"),
        ("HTTP", _HTTP, "does not speak TLS"),
        ("SSH", _SSH, "does not speak TLS"),
        ("zeros", bytes(300), "does not speak TLS"),
        ("an alert", bytes.fromhex("15030300020228"), "does not speak TLS"),
        ("data before the handshake", bytes.fromhex("1703030005") + b"hello", "does not speak TLS"),
        ("a change of ciphers first", bytes.fromhex("140303000101"), "does not speak TLS"),
        ("SSL 2", bytes.fromhex("802e0100020015000000100100800200800300800400800500800600"), ""),
        ("a record of a wrong version", b"\x16\x09\x09\x00\x05hello", ""),
        ("a record that is too long", b"\x16\x03\x01\xff\xff" + bytes(70_000), ""),
        ("a record without content", b"\x16\x03\x01\x00\x00" * 40, ""),
        ("a server's greeting", b"\x16\x03\x03\x00\x04\x02\x00\x00\x00", ""),
        (
            "a greeting of another version",
            b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x09\x09" + bytes(39),
            "",
        ),
        (
            "a greeting without ciphers",
            b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\0\0\0\x01\0\0\0",
            "",
        ),
        (
            "a greeting of wrong length",
            b"\x16\x03\x01\x00\x2d\x01\x00\xff\xff\x03\x03"
            + bytes(39)
            + b"\x15\x03\x01\x00\x02\x02\x00",
            "",
        ),
    ):
        yield Row(f"bytes for TLS: {name}", "SASL_SSL", Raw(data), CLOSED, log)
    for name, data in (
        ("plaintext", kafka),
        ("a record that is not authentic", b"\x17\x03\x03\x00\x40" + bytes(64)),
        ("a second greeting", _HELLO),
    ):
        client = Tls(_context(), data, is_broken=True)
        yield Row(f"after the handshake: {name}", "SASL_SSL", client, CLOSED, "")
    for name, data in (("HTTP in TLS", _HTTP), ("a negative size in TLS", b"\xff" * 8)):
        yield Row(f"after the handshake: {name}", "SASL_SSL", Tls(_context(), data), CLOSED, "")


# Brokers that a client does not trust

_TRUSTING: Final = {
    "security.protocol": "SASL_SSL",
    "ssl.truststore.location": "FOLDER/ca.pem",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": PASSWORD,
}


def _servers() -> Iterator[Row]:
    for name, listener in (
        ("an expired certificate", "EXPIRED"),
        ("a certificate that is not valid yet", "EARLY"),
        ("a certificate for another host", "ELSEWHERE"),
        ("a certificate without any host", "NAMELESS"),
        ("a certificate of another authority", "STRANGER"),
        ("a certificate signed by itself", "ITSELF"),
    ):
        yield Row(f"our client: {name}", listener, OurClient(_TRUSTING), "untrusted", None)
    other = {**_TRUSTING, "ssl.truststore.location": "FOLDER/other-ca.crt"}
    yield Row(
        "our client: another authority than the broker's",
        "SASL_SSL",
        OurClient(other),
        "untrusted",
        None,
    )
    system = {name: text for name, text in _TRUSTING.items() if name != "ssl.truststore.location"}
    yield Row(
        "our client: the authorities of the system alone",
        "SASL_SSL",
        OurClient(system),
        "untrusted",
        None,
    )
