"""Guards of requests about delegation tokens: CreateDelegationToken, DescribeDelegationToken.

A client needs no right to what is its own: it may make tokens for itself, and sees those that it
owns, asked for or may renew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.rights.guard import GuardedMessage
from moldau.broker.controller.token_changes import is_barred, not_created, owner_of
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client
    from moldau.protocol.declare import Response
    from moldau.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from moldau.protocol.messages.describe_delegation_token import (
        DescribedDelegationToken,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )

_REFUSED: Final = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def guard_create(
    client: Client, message: CreateDelegationTokenRequest, version: int
) -> Response | None:
    """CREATE_TOKENS on the user that the token will stand for, unless it is the client itself."""
    requester = client.context.principal
    kind, name = owner_of(message, requester)
    if is_barred(requester) or (kind, name) == (requester.type, requester.name):
        return None
    if client.may(AclResource.USER, AclOperation.CREATE_TOKENS, f"{kind}:{name}"):
        return None
    return not_created(message, client.context, _REFUSED)


def guard_describe(
    client: Client, message: DescribeDelegationTokenRequest, version: int
) -> GuardedMessage:
    """DESCRIBE on the token, or DESCRIBE_TOKENS on its owner, unless it is the client's own."""

    def finish(response: DescribeDelegationTokenResponse) -> None:
        others = [each for each in response.tokens if not client.is_in_token(each.token_id)]
        ids = client.allowed(
            AclResource.DELEGATION_TOKEN,
            AclOperation.DESCRIBE,
            [each.token_id for each in others],
        )
        owners = client.allowed(
            AclResource.USER, AclOperation.DESCRIBE_TOKENS, [_owner(each) for each in others]
        )
        hidden = {
            each.token_id
            for each in others
            if each.token_id not in ids and _owner(each) not in owners
        }
        response.tokens = [each for each in response.tokens if each.token_id not in hidden]

    return GuardedMessage(message, finish)


def _owner(token: DescribedDelegationToken) -> str:
    return f"{token.principal_type}:{token.principal_name}"
