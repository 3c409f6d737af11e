"""Tokens (JWT) that are right but for one thing, and the keys of their issuer."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

KEY: Final = ECKey.generate_key("P-256", parameters={"kid": "one"})
RSA: Final = RSAKey.generate_key(2048, parameters={"kid": "two"})
STRANGER: Final = ECKey.generate_key("P-256", parameters={"kid": "one"})
NAMELESS: Final = ECKey.generate_key("P-256", parameters={"kid": "three"})
SECRET: Final = OctKey.import_key("secret-secret-secret-secret-secret", {"kid": "four"})
JWKS: Final = json.dumps(
    {"keys": [*KeySet([KEY, RSA]).as_dict(private=False)["keys"], SECRET.as_dict()]}
)
NOW: Final = int(time.time())
CLAIMS: Final[dict[str, Any]] = {
    "iss": "https://idp",
    "aud": "kafka",
    "sub": "alice",
    "exp": NOW + 86_400,
}


def token(
    key: Any = KEY, algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: object
) -> str:
    """Return a signed token; a claim that is None is left out."""
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": key.kid, **(header or {})}, said, key, [algorithm])


def encoded(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def by_hand(header: object, claims: object = CLAIMS, signature: bytes = b"") -> str:
    """Return a token that no library would sign."""
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature) if signature else ''}"


def keyed(secret: bytes, kid: str = "two", digest: str = "sha256") -> str:
    """Return a token that is signed by a shared secret, such as the text of the public key."""
    algorithm = {"sha256": "HS256", "sha384": "HS384", "sha512": "HS512"}[digest]
    signed = f"{encoded({'alg': algorithm, 'kid': kid})}.{encoded(CLAIMS)}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), digest))}"


def parts(text: str) -> list[str]:
    return text.split(".")


RIGHT: Final = token()
HEAD, BODY, SIGNATURE = parts(RIGHT)
PUBLIC_PEM: Final = RSA.as_pem(private=False)

WRONG: Final[dict[str, str]] = {
    "another issuer": token(iss="https://idp/"),
    "an issuer with another case": token(iss="https://IDP"),
    "no issuer": token(iss=None),
    "an empty issuer": token(iss=""),
    "a list of issuers": by_hand(
        {"alg": "ES256", "kid": "one"}, {**CLAIMS, "iss": ["https://idp"]}
    ),
    "another audience": token(aud="kafka2"),
    "an audience with another case": token(aud="Kafka"),
    "no audience": token(aud=None),
    "an empty list of audiences": token(aud=[]),
    "audiences of others": token(aud=["a", "b"]),
    "an audience that is a number": token(aud=7),
    "it has expired": token(exp=NOW - 31),
    "it expired long ago": token(exp=1),
    "it ends at zero": token(exp=0),
    "it ends before time began": token(exp=-1),
    "no end": token(exp=None),
    "an end that is a truth": token(exp=True),
    "an end that is a text": by_hand(
        {"alg": "ES256", "kid": "one"}, {**CLAIMS, "exp": "9999999999"}
    ),
    "it begins later": token(nbf=NOW + 86_000),
    "a beginning that is a text": by_hand({"alg": "ES256", "kid": "one"}, {**CLAIMS, "nbf": "0"}),
    "issued in the future": token(iat=NOW + 86_000),
    "no user": token(sub=None),
    "an empty user": token(sub=""),
    "a blank user": token(sub=" "),
    "a user that is a number": token(sub=7),
    "a user that is a list": token(sub=["alice"]),
    "a user of 257 characters": token(sub="x" * 257),
    "a stranger's key under a known name": token(STRANGER),
    "an unknown key": token(NAMELESS),
    "the name of another key": token(header={"kid": "two"}),
    "a path as the name of a key": token(header={"kid": "../../etc/passwd"}),
    "an SQL text as the name of a key": token(header={"kid": "' OR 1=1 --"}),
    "a very long name of a key": token(header={"kid": "k" * 5000}),
    "algorithm none": by_hand({"alg": "none"}),
    "algorithm None": by_hand({"alg": "None", "kid": "one"}),
    "algorithm NONE with a signature": by_hand({"alg": "NONE", "kid": "one"}, CLAIMS, b"x" * 64),
    "no algorithm": by_hand({"kid": "one"}, CLAIMS, b"x" * 64),
    "an algorithm that is no text": by_hand({"alg": 1, "kid": "one"}, CLAIMS, b"x" * 64),
    "an unknown algorithm": by_hand({"alg": "XS256", "kid": "one"}, CLAIMS, b"x" * 64),
    "a secret among the keys": token(SECRET, "HS256"),
    "HS256 by the public key": keyed(PUBLIC_PEM),
    "HS384 by the public key": keyed(PUBLIC_PEM, digest="sha384"),
    "HS512 by the JWKS": keyed(JWKS.encode(), digest="sha512"),
    "HS256 by nothing": keyed(b"", "one"),
    "RS256 of an EC key": by_hand({"alg": "RS256", "kid": "one"}, CLAIMS, b"x" * 256),
    "ES256 of an RSA key": by_hand({"alg": "ES256", "kid": "two"}, CLAIMS, b"x" * 64),
    "no signature": f"{HEAD}.{BODY}.",
    "a signature of zeros (psychic)": by_hand({"alg": "ES256", "kid": "one"}, CLAIMS, bytes(64)),
    "a shorter signature": f"{HEAD}.{BODY}.{SIGNATURE[:-8]}",
    "another signature": f"{HEAD}.{BODY}.{parts(token(sub='bob'))[2]}",
    "another body": f"{HEAD}.{encoded({**CLAIMS, 'sub': 'admin'})}.{SIGNATURE}",
    "another header": f"{encoded({'alg': 'ES256', 'kid': 'one', 'x': 1})}.{BODY}.{SIGNATURE}",
    "a key that it brings itself": by_hand(
        {"alg": "ES256", "jwk": STRANGER.as_dict(private=False)}, CLAIMS, b"x" * 64
    ),
    "a key at its own address": by_hand(
        {"alg": "ES256", "jku": "https://evil/keys", "kid": "one"}, CLAIMS, b"x" * 64
    ),
    "an unknown critical header": by_hand(
        {"alg": "ES256", "kid": "one", "crit": ["x"], "x": 1}, CLAIMS, b"x" * 64
    ),
    "an encrypted token": ".".join(("e30", "x", "x", "x", "x")),
    "claims that are a list": by_hand({"alg": "ES256", "kid": "one"}, [1], b"x" * 64),
    "claims that are no JSON": by_hand({"alg": "ES256", "kid": "one"}, b"{", b"x" * 64),
    "a header that is no JSON": by_hand(b"{", CLAIMS, b"x" * 64),
    "two parts": f"{HEAD}.{BODY}",
    "four parts": f"{RIGHT}.x",
    "one part": "x",
    "nothing in its parts": "..",
    "the first half": RIGHT[: len(RIGHT) // 2],
}
