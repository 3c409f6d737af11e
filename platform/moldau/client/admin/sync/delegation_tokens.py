"""`TokenAdmin` for threads: makes, renews, ends and describes delegation tokens.

with Admin(bootstrap_servers="localhost:9092") as admin:
    token = TokenAdmin(admin).create(renewers=["User:scheduler"])
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.delegation_tokens import DelegationToken
from moldau.client.admin.delegation_tokens import TokenAdmin as AsyncTokenAdmin
from moldau.client.admin.sync.admin import Admin


class TokenAdmin:
    """Makes, renews, ends and describes tokens, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def _client(self) -> AsyncTokenAdmin:
        return AsyncTokenAdmin(self._admin._client)

    def create(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationToken:
        """Make a token for the user of this client, or for `owner`. `renewers` may renew and end
        it as its owner may. It lives as long as the cluster allows, or `max_lifetime_ms`."""
        return self._admin._call(
            self._client.create(owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms)
        )

    def describe(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens that this client may see: all, or those that one of the principals
        owns, asked for or may renew."""
        return self._admin._call(self._client.describe(owners))

    def renew(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Let a token live on for a period from now, at most the cluster's, which is the default.
        Return when it ends."""
        return self._admin._call(self._client.renew(hmac, period_ms))

    def expire(self, hmac: bytes, period_ms: int | None = None) -> int:
        """End a token, now or after a period. Return when it ends. Connections that logged in with
        it stay until its end, as it was known at their login."""
        return self._admin._call(self._client.expire(hmac, period_ms))
