"""Logins as Java's classes decide them, which run in a JVM beside: SCRAM, and signed tokens.

Random messages and tokens, right and wrong ones. Where ours differs, the case says so: each of
these is a decision of ours, and is found if Java comes to agree.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from moldau.broker.controller.credentials import ScramCredential
from moldau.broker.security.mechanism import LoginFailed
from moldau.broker.security.scram import ScramServer
from moldau.link.login.sasl import Derivation, scram
from moldau.link.login.signed_tokens import TokenCheck, TokenRefused, TokenTerms, key_set
from moldau.protocol.scram import SCRAM_MECHANISMS, salted_password, server_keys
from tests.peers.apache_kafka import fetch_or_skip

pytestmark = pytest.mark.real

FOLDER = Path(__file__).parent
LOGINS, TOKENS = 150, 300

# SCRAM

NONCE = "fyko+d2lbbFgONRv9qkxdawL"
USERS = ("user", "alice", "a,b=c", "a b", "User:x")
PASSWORDS = ("pencil", "p", "with space", "\u00fcml\u00e4ut", "\U0001f511key", "a,b=c", "x" * 70)
FIRST_MESSAGES = (
    *("n,,n={user},r={nonce}",) * 12,
    *("n,a={user},n={user},r={nonce}", "n,a=other,n={user},r={nonce}", "n,a=,n={user},r={nonce}"),
    *("n,,n=unknown,r={nonce}", "n,,n={user},r=", "n,,n=,r={nonce}", "n,,n={user}", "n,,r={nonce}"),
    *("p=tls-unique,,n={user},r={nonce}", "n,,n=us=er,r={nonce}", "n,n={user},r={nonce}", "x"),
    *("n,,n={user},r={nonce},x=y", "n,,n={user},r={nonce},tokenauth=false", ""),
)
RIGHT = "c={binding},r={nonce},p={proof}"
LAST_MESSAGES = (
    *(RIGHT,) * 8,
    *("c={binding},r={nonce}x,p={proof}", "c={binding},r=,p={proof}"),
    *("c={binding},r=other,p={proof}", "c={binding},r={nonce},p=AAAA", "c={binding},r={nonce},p="),
    *("c={binding},r={nonce}", "c={binding},p={proof}", "c=bi*s,r={nonce},p={proof}"),
    *("r={nonce},c={binding},p={proof}", "c={binding},r={nonce},p={proof},x", ""),
)
STRICTER = ("c=eSws,r={nonce},p={proof}", "c=YWJj,r={nonce},p={proof}")
"""Last messages with the binding of another first message: Java's server does not look at it."""


def login(random: Random, number: int) -> dict[str, Any]:
    user, password = random.choice(USERS), random.choice(PASSWORDS)
    first = random.choice(FIRST_MESSAGES).format(
        user=user.replace("=", "=3D").replace(",", "=2C"), nonce=f"{NONCE}{number}"
    )
    binding = b64encode(first[: first.find(",", 2) + 1].encode()).decode()
    last = random.choice((*LAST_MESSAGES, *STRICTER))
    return {
        "mechanism": random.choice(list(SCRAM_MECHANISMS)),
        "user": user,
        "password": password,
        "guess": password if random.random() < 0.85 else random.choice(PASSWORDS),
        "salt": b64encode(random.randbytes(random.choice((1, 8, 16, 32, 64)))).decode(),
        "iterations": random.choice((4096, 4097, 4500)),
        "first": first,
        "last": last.replace("{binding}", binding),
        "is_right": last == RIGHT and first.startswith("n,,"),
    }


def ours(one: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The same login at our server, with the nonce that Java has drawn."""
    mechanism, salt = SCRAM_MECHANISMS[one["mechanism"]], b64decode(one["salt"])
    salted = salted_password(mechanism, one["password"], salt, one["iterations"])
    keys = server_keys(mechanism, salted)
    kept = ScramCredential(salt, keys.stored_key, keys.server_key, one["iterations"])
    answer: dict[str, Any] = {
        "stored": b64encode(keys.stored_key).decode(),
        "server": b64encode(keys.server_key).decode(),
        "refused": "first",
    }
    drawn = theirs.get("reply", f"r={one['first'].rpartition('r=')[2]}x").partition(",")[0][2:]
    client = one["first"].partition(",r=")[2].partition(",")[0]
    server = ScramServer(
        mechanism,
        lambda name: kept if name == one["user"] else None,
        drawn.removeprefix(client),
        b"node",
    )
    try:
        answer["reply"] = server.step(one["first"].encode()).decode()
        answer["refused"] = "last"
        answer["last"] = theirs.get("last", "c=biws,r=x,p=AAAA")
        answer["end"] = server.step(answer["last"].encode()).decode()
        answer |= {"refused": "", "user": server.user}
    except LoginFailed:
        pass
    return answer


def as_our_client(one: dict[str, Any], theirs: dict[str, Any]) -> None:
    """What our client sends to Java's server is what the RFC's formulas make, and it takes the
    server's proof."""
    mechanism = SCRAM_MECHANISMS[one["mechanism"]]
    nonce = one["first"].partition(",r=")[2]
    exchange = scram(mechanism, one["user"], one["password"], nonce)
    assert next(exchange) == one["first"].encode()
    wanted = exchange.send(theirs["reply"].encode())
    assert isinstance(wanted, Derivation)
    assert exchange.send(wanted.result()) == theirs["last"].encode()
    with pytest.raises(StopIteration):
        exchange.send(theirs["end"].encode())


def test_scram_logins_are_those_of_java() -> None:
    kafka, random = fetch_or_skip(), Random(42)
    asked = [login(random, number) for number in range(LOGINS)]
    answers = kafka.run_source(FOLDER / "ScramServer.java", [json.dumps(each) for each in asked])
    seen: Counter[str] = Counter()
    for one, text in zip(asked, answers, strict=True):
        theirs = json.loads(text)
        theirs.pop("why", None)
        found = ours(one, theirs)
        if theirs["refused"] == "first" and "unknown" in one["first"]:
            # Ours does not tell so early that there is no such user.
            assert found["refused"] == "last"
        elif theirs["refused"] == "first" and one["first"].startswith("n,a=a=2Cb=3Dc,"):
            # Java compares the escaped name to act for with the name itself.
            assert found["refused"] in ("", "last")
            seen["laxer"] += 1
        elif one["last"] in STRICTER and theirs["refused"] == "":
            assert found["refused"] == "last"
            seen["stricter"] += 1
        else:
            assert found == theirs, one
        seen[theirs["refused"]] += 1
        if theirs["refused"] == "" and one["is_right"] and one["first"][-1].isdigit():
            as_our_client(one, theirs)
            seen["client"] += 1
    kinds = ("", "first", "last", "stricter", "laxer", "client")
    assert min(seen[each] for each in kinds) >= 1, seen


# Tokens

ISSUER, AUDIENCES = "https://idp", ("kafka", "other")
EC, RSA = (
    ECKey.generate_key("P-256", parameters={"kid": "ec"}),
    RSAKey.generate_key(2048, parameters={"kid": "rsa"}),
)
STRANGER = ECKey.generate_key("P-256", parameters={"kid": "ec"})
SECRET = OctKey.import_key("secret-secret-secret-secret-secret", {"kid": "oct"})
SIGNERS = (
    *((EC, "ES256"), (RSA, "RS256"), (RSA, "RS384"), (RSA, "RS512")),
    *((RSA, "PS256"), (STRANGER, "ES256")),
)


def claims(random: Random, now: int) -> tuple[dict[str, Any], str | None]:
    """Claims, right but for one thing or right altogether, and which way ours differs."""
    said: dict[str, Any] = {
        "iss": ISSUER, "aud": "kafka", "sub": "alice", "iat": now - 900, "exp": now + 600,
    }  # fmt: skip
    same: tuple[dict[str, Any], ...] = (
        *({},) * 12, {"aud": ["x", "other"]}, {"nbf": now - 5}, {"scope": "read write"},
        {"iss": "https://idp/"}, {"iss": None}, {"iss": 7}, {"aud": "kafka2"}, {"aud": None},
        {"aud": []}, {"aud": 7}, {"exp": now - 60}, {"exp": now - 10}, {"exp": None},
        {"exp": "soon"}, {"nbf": now + 90}, {"nbf": now + 10}, {"nbf": "x"},
        {"sub": None}, {"sub": " "}, {"sub": ""}, {"sub": 7}, {"sub": ["a"]}, {"scope": 7},
        {"sub": "\u00fc\u4e2d"}, {"exp": 1}, {"aud": ["kafka", "x"]}, {"exp": now + 10**9},
    )  # fmt: skip
    differs = (
        ({"iat": now + 300}, "stricter"),
        ({"sub": "x" * 300}, "stricter"),
        ({"iat": None}, "laxer"),
        ({"scope": " "}, "laxer"),
        ({"scope": ["a", "a"]}, "laxer"),
    )
    if random.random() < 0.15:
        change, way = random.choice(differs)
        return {**said, **change}, way
    return {**said, **random.choice(same)}, None


def signed(random: Random, now: int) -> tuple[str, str | None]:
    said, way = claims(random, now)
    said = {name: value for name, value in said.items() if value is not None}
    key, algorithm = random.choice(SIGNERS)
    if random.random() < 0.06:
        return hand_made({"alg": "HS256", "kid": "oct"}, said), None
    more: dict[str, Any] = random.choice(({}, {}, {"typ": "at+jwt"}, {"kid": None}))
    header = {"alg": algorithm, "kid": key.kid, **more}
    header = {name: value for name, value in header.items() if value is not None}
    token = jwt.encode(header, said, key, [algorithm])
    if key is STRANGER:
        return token, None
    kind = random.randrange(24)
    head, body, tail = token.split(".")
    damaged = {
        0: f"{head}.{body}.",
        1: f"{head}.{body}",
        2: f"{head}.{body}.{tail}.x",
        3: f"{head}.{body[:-2]}.{tail}",
        4: f"{part({**header, 'alg': 'none'})}.{body}.",
        5: f"{part({**header, 'kid': 'unknown'})}.{body}.{tail}",
        6: f"{part({**header, 'alg': 'ES512'})}.{body}.{tail}",
        7: f"{head}.{part({**said, 'sub': 'bob'})}.{tail}",
    }
    return (damaged[kind], None) if kind in damaged else (token, way)


def part(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def hand_made(header: dict[str, Any], said: dict[str, Any]) -> str:
    """With a signature by a secret that is not among the keys."""
    return jwt.encode(header, said, SECRET, ["HS256"])


def test_tokens_count_as_for_java(tmp_path: Path) -> None:
    kafka, random, now = fetch_or_skip(), Random(7), int(time.time())
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KeySet([EC, RSA]).as_dict(private=False)))

    class Keys:
        found = key_set(keys.read_text())

        def __call__(self) -> Any:
            return self.found

        def on_unknown(self) -> None:
            """Know no others."""

    check = TokenCheck(TokenTerms(ISSUER, AUDIENCES), Keys(), time.time)

    def user_of(token: str) -> str:
        try:
            return f"={check.verify(token).user}"
        except TokenRefused:
            return "-"

    asked = [signed(random, now) for _ in range(TOKENS)]
    lines = [f"{keys} {ISSUER} {' '.join(AUDIENCES)}", *(token for token, _ in asked)]
    ready, *answers = kafka.run_source(FOLDER / "TokenValidator.java", lines)
    assert ready == "ready"
    seen: Counter[str] = Counter()
    for (token, way), theirs in zip(asked, answers, strict=True):
        found = user_of(token)
        if way is None:
            assert found == theirs, token
        else:
            assert (found == "-", theirs == "-") == (way == "stricter", way == "laxer"), token
        seen[way or theirs[0]] += 1
    assert min(seen[each] for each in "=-") > TOKENS // 5, seen
    assert min(seen[each] for each in ("stricter", "laxer")) >= 3, seen
