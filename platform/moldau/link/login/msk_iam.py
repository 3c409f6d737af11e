"""Logins at Amazon MSK with IAM: tokens for OAUTHBEARER, as AWS's own signers make them.

    Producer(bootstrap_servers=..., security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
             oauth="msk-iam")
    oauth=MskIam(region="eu-west-1", credentials=assumed_role)

A token is a URL of the action kafka-cluster:Connect, signed with the keys of AWS (SigV4) for a
quarter of an hour, and nothing is asked of the network for it. The keys come from a function of the
program, else from the environment, else from botocore if it is installed: it knows profiles,
containers and machines with a role.

Invariant: neither `repr` nor an error shows a key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors.codes import ErrorCode
from moldau.link.login.sasl import LoginRefused

if TYPE_CHECKING:
    from moldau.runtime import Runtime

_SERVICE: Final = "kafka-cluster"
_ACTION: Final = "kafka-cluster:Connect"
_SECONDS: Final = 900
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_AGENT: Final = "moldau"
_HOST: Final = deferred_pattern(
    r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]*-[0-9]+)\.amazonaws\.com"
)
_REGION: Final = deferred_pattern(r"[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """The keys of a user or of an assumed role."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(slots=True)
class MskIam:
    """Where the tokens of a client come from. `region` None: the one in the brokers' names, else
    AWS_REGION."""

    region: str | None = None
    credentials: Callable[[], Awaitable[AwsKeys]] | None = field(default=None, repr=False)
    """Returns the keys; asked for each login."""
    profile: str | None = None
    """A profile of AWS's files, for botocore."""
    _session: Any = field(default=None, repr=False)

    async def token(self, runtime: Runtime, bootstrap: str, environment: Mapping[str, str]) -> str:
        """Return a token for the brokers at `bootstrap`. Raise LoginRefused."""
        region = self.region or _region_in(bootstrap) or environment.get("AWS_REGION")
        region = region or environment.get("AWS_DEFAULT_REGION")
        if not region or _REGION.fullmatch(region) is None:
            raise _refused("the AWS region is not known: give MskIam(region=...) or set AWS_REGION")
        keys = await self._keys(runtime, environment)
        return signed_token(keys, region, runtime.clock.wall_ms())

    async def _keys(self, runtime: Runtime, environment: Mapping[str, str]) -> AwsKeys:
        if self.credentials is not None:
            return await self.credentials()
        access, secret = (
            environment.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        )
        if access and secret and self.profile is None:
            return AwsKeys(access, secret, environment.get("AWS_SESSION_TOKEN"))
        return await runtime.run_blocking(self._ask_botocore)

    def _ask_botocore(self) -> AwsKeys:
        try:
            from botocore.session import Session
        except ImportError as error:
            raise _refused(
                "there are no AWS keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give "
                "MskIam(credentials=...), or install botocore, which finds profiles and roles"
            ) from error
        if self._session is None:
            self._session = Session(profile=self.profile)
        found = self._session.get_credentials()
        if found is None:
            raise _refused("botocore finds no AWS keys: neither profile nor role")
        frozen = found.get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def _refused(why: str) -> LoginRefused:
    return LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, why)


def _region_in(bootstrap: str) -> str | None:
    """Return the region in the name of a broker of MSK."""
    found = _HOST.search(bootstrap)
    return None if found is None else found[1]


def signed_token(keys: AwsKeys, region: str, now_ms: int) -> str:
    """Return the token: a signed URL in base64url."""
    from datetime import UTC, datetime

    host = f"kafka.{region}.amazonaws.com"
    time = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{time[:8]}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": _ACTION,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": time,
        "X-Amz-Expires": str(_SECONDS),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session_token:
        query["X-Amz-Security-Token"] = keys.session_token
    request = (
        "GET", "/", _query(dict(sorted(query.items()))), f"host:{host}\n", "host",
        hashlib.sha256(b"").hexdigest(),
    )  # fmt: skip
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    query["X-Amz-Signature"] = signature(
        keys.secret_key, region, time, "\n".join((_ALGORITHM, time, scope, digest))
    )
    query["User-Agent"] = _AGENT
    url = f"https://{host}/?{_query(query)}"
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def signature(secret_key: str, region: str, time: str, text: str, service: str = _SERVICE) -> str:
    """Return the signature of a text with the key of a day, a region and a service (SigV4)."""
    key = f"AWS4{secret_key}".encode()
    for part in (time[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _query(values: Mapping[str, str]) -> str:
    from urllib.parse import quote

    return "&".join(
        f"{quote(name, '-_.~')}={quote(value, '-_.~')}" for name, value in values.items()
    )
