"""Delegation tokens: made, shown, renewed and ended.

A token is named by its id: a secret in a command would be visible to all users of the machine.
Invariant: `facts_of` has all of a token but its secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.client.admin.delegation_tokens import TokenAdmin
from moldau.errors import BadGiven
from moldau.operations.acls import principal_of

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.delegation_tokens import DelegationToken


async def create(
    admin: Admin, owner: str | None, renewers: Iterable[str], lifetime_ms: int | None
) -> DelegationToken:
    """Make a token for a user, or for the user of this client. `renewers` may renew and end it too.
    None is the longest lifetime that the cluster allows. Raise BadGiven for a bad principal."""
    return await TokenAdmin(admin).create(
        owner=None if owner is None else principal_of(owner),
        renewers=[principal_of(each) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )


async def found_tokens(admin: Admin, users: Iterable[str] | None = None) -> list[DelegationToken]:
    """Return the tokens that this client may see: all, or those that one of the users owns, asked
    for or may renew. Raise BadGiven for a bad principal."""
    principals = None if users is None else [principal_of(each) for each in users]
    return await TokenAdmin(admin).describe(principals)


async def renew(admin: Admin, token_id: str, period_ms: int | None) -> int:
    """Let a token live on for a period from now; None is the cluster's. Return when it ends."""
    token = await _token(admin, token_id)
    return await TokenAdmin(admin).renew(token.hmac, period_ms)


async def expire(admin: Admin, token_id: str, after_ms: int | None) -> int:
    """End a token now, or after a period. Return when it ends."""
    token = await _token(admin, token_id)
    return await TokenAdmin(admin).expire(token.hmac, after_ms)


async def _token(admin: Admin, token_id: str) -> DelegationToken:
    for each in await TokenAdmin(admin).describe():
        if each.token_id == token_id:
            return each
    raise BadGiven(
        f"there is no token {token_id} that this user may see; `moldau token list` shows them"
    )


def facts_of(token: DelegationToken) -> dict[str, object]:
    """Return what may be shown of a token."""
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "ends_ms": token.ends_ms,
    }


def login_of(token: DelegationToken, mechanism: str) -> dict[str, str]:
    """Return the settings of a client that logs in with a token. They have its secret."""
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": token.jaas_config()}
