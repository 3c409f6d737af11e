"""Delegation tokens: short-lived secrets that stand for the login of a user (KIP-48).

    async with Admin(bootstrap_servers="localhost:9092", ...) as admin:
        tokens = TokenAdmin(admin)
        token = await tokens.create(renewers=["User:scheduler"], max_lifetime_ms=3_600_000)
        worker = Producer({"sasl.jaas.config": token.jaas_config(), ...})

The admin must have logged in with a password, a certificate or OAuth: a token makes no tokens.

Invariant: `repr` of a token shows no secret.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, raise_for
from moldau.link.cluster import CONTROLLER
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.protocol.messages import create_delegation_token as creating
from moldau.protocol.messages import describe_delegation_token as describing
from moldau.protocol.messages import expire_delegation_token as expiring
from moldau.protocol.messages import renew_delegation_token as renewing

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

_DEFAULT_MS: Final = -1

_TO_DO: Final[dict[int, str]] = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "delegation tokens are switched off: set "
    "delegation.token.secret.key to the same text at every node",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "tokens are made over a connection with a "
    "login by SASL, or with a client certificate, and not by a token",
}


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are written as `User:alice`, times are milliseconds since 1970."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """When it ends unless it is renewed."""
    ends_ms: int
    """When it ends for good."""

    @property
    def password(self) -> str:
        """The secret to log in with, as Kafka's tools print it; the user is `token_id`."""
        return base64.b64encode(self.hmac).decode()

    def jaas_config(self) -> str:
        """Return the value of `sasl.jaas.config` for a client that logs in with this token, in
        Python and Java; `sasl.mechanism` is SCRAM-SHA-256 or SCRAM-SHA-512."""
        login = {"username": self.token_id, "password": self.password, "tokenauth": "true"}
        return write_jaas(LoginModule("SCRAM", login))


class TokenAdmin:
    """Makes, renews, ends and describes tokens, through an admin client that was started."""

    def __init__(self, admin: Admin) -> None:
        self._requests = admin._requests

    async def create(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationToken:
        """Make a token for the user of this client, or for `owner`. `renewers` may renew and end
        it as its owner may. It lives as long as the cluster allows, or `max_lifetime_ms`."""
        owner_type, owner_name = ("", "") if owner is None else _parts(owner)
        names = list(renewers)
        pairs = [_parts(each) for each in names]
        request = creating.CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[
                creating.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in pairs
            ],
            max_lifetime_ms=_period(max_lifetime_ms, "max_lifetime_ms"),
        )
        response = creating.CreateDelegationTokenResponse
        answer = await self._requests.ask(request, response, CONTROLLER)
        _check("CreateDelegationToken", answer.error_code, owner=owner)
        made_for = f"{answer.principal_type}:{answer.principal_name}"
        requester = answer.token_requester_principal_name
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            made_for,
            f"{answer.token_requester_principal_type}:{requester}" if requester else made_for,
            tuple(names),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def describe(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens that this client may see: all, or those that one of the principals
        owns, asked for or may renew."""
        pairs = None if owners is None else [_parts(each) for each in owners]
        request = describing.DescribeDelegationTokenRequest(
            owners=None
            if pairs is None
            else [
                describing.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in pairs
            ]
        )
        response = describing.DescribeDelegationTokenResponse
        answer = await self._requests.ask(request, response)
        _check("DescribeDelegationToken", answer.error_code)
        found = [_token(each) for each in answer.tokens]
        return sorted(found, key=lambda each: (each.owner, each.issued_ms, each.token_id))

    async def renew(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Let a token live on for a period from now, at most the cluster's, which is the default.
        Return when it ends."""
        period = _period(period_ms, "period_ms")
        request = renewing.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
        response = renewing.RenewDelegationTokenResponse
        answer = await self._requests.ask(request, response, CONTROLLER)
        _check("RenewDelegationToken", answer.error_code)
        return answer.expiry_timestamp_ms

    async def expire(self, hmac: bytes, period_ms: int | None = None) -> int:
        """End a token, now or after a period. Return when it ends. Connections that logged in with
        it stay until its end, as it was known at their login."""
        period = _DEFAULT_MS if period_ms is None else period_ms
        if period < _DEFAULT_MS:
            raise ValueError(f"period_ms is 0 or more, or None for now: {period}")
        request = expiring.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
        response = expiring.ExpireDelegationTokenResponse
        answer = await self._requests.ask(request, response, CONTROLLER)
        _check("ExpireDelegationToken", answer.error_code)
        return answer.expiry_timestamp_ms


def _check(api: str, code: int, **context: object) -> None:
    """Raise KafkaError for a refusal, with what to do: brokers send the number alone."""
    raise_for(api, code, _TO_DO.get(code, ""), **context)


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"a principal is written as User:NAME: {principal!r}")
    return kind, name


def _period(period_ms: int | None, name: str) -> int:
    if period_ms is None:
        return _DEFAULT_MS
    if period_ms <= 0:
        raise ValueError(f"{name} is more than 0, or None for the cluster's: {period_ms}")
    return period_ms


def _token(each: describing.DescribedDelegationToken) -> DelegationToken:
    owner = f"{each.principal_type}:{each.principal_name}"
    requester = each.token_requester_principal_name
    return DelegationToken(
        each.token_id,
        bytes(each.hmac),
        owner,
        f"{each.token_requester_principal_type}:{requester}" if requester else owner,
        tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
        each.issue_timestamp,
        each.expiry_timestamp,
        each.max_timestamp,
    )
