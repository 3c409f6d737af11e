"""Delegation tokens: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and
DescribeDelegationToken (KIP-48, KIP-373), and the removal of expired ones.

A token stands for its owner's login. Its owner and its renewers may renew and end it. Whether a
client may make one for another user, or see those of others, is checked by the gate (`rights`).

Invariants: a client without a login, or one that logged in with a token, gets nothing, so a token
makes no other token. No token is valid after its `max_timestamp`. The log holds the id
of a token and nothing that lets a client in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from moldau.broker.controller.levels import supports_delegation_tokens
from moldau.broker.controller.outcome import Outcome
from moldau.broker.decision.context import ANONYMOUS
from moldau.broker.security.delegation import TokenIndex, is_expired, token_hmac
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.ids import format_uuid, new_uuid
from moldau.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from moldau.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.protocol.schemas.metadata_log import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)

if TYPE_CHECKING:
    from moldau.broker.controller.credentials import DelegationToken
    from moldau.broker.controller.image import Image
    from moldau.broker.controller.outcome import DecisionInputs
    from moldau.broker.controller.rules import Rules
    from moldau.broker.decision.context import Principal, RequestContext
    from moldau.config import Secret
    from moldau.protocol.declare import MetadataRecord

_Renewed: TypeAlias = "Outcome[RenewDelegationTokenResponse]"
_Ended: TypeAlias = "Outcome[ExpireDelegationTokenResponse]"

USER: Final = "User"
_REQUESTER_SINCE: Final = 3
_NO_TIME: Final = -1
_TIME_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How this cluster makes tokens."""

    index: TokenIndex
    """Finds tokens, and has the key that they are signed with."""
    max_lifetime_ms: int
    expiry_ms: int
    check_interval_ms: int


def is_barred(principal: Principal) -> bool:
    """Whether a client gets nothing about tokens: it has no login, or logged in with a token."""
    is_anonymous = (principal.type, principal.name) == (ANONYMOUS.type, ANONYMOUS.name)
    return is_anonymous or principal.is_token_authenticated


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> tuple[str, str]:
    """Return the type and the name of the principal that the token will stand for."""
    if not request.owner_principal_name:
        return requester.type, requester.name
    return request.owner_principal_type or "", request.owner_principal_name


def not_created(
    request: CreateDelegationTokenRequest,
    context: RequestContext,
    code: ErrorCode,
    time: int = _NO_TIME,
) -> CreateDelegationTokenResponse:
    """Return the response if no token is made."""
    kind, name = owner_of(request, context.principal)
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=time,
        expiry_timestamp_ms=time,
        max_timestamp_ms=time,
        token_id="",
        hmac=b"",
    )
    _name_requester(response, context)
    return response


def _name_requester(response: CreateDelegationTokenResponse, context: RequestContext) -> None:
    if context.version >= _REQUESTER_SINCE:
        response.token_requester_principal_type = context.principal.type
        response.token_requester_principal_name = context.principal.name


def create_token(
    image: Image,
    rules: Rules,
    request: CreateDelegationTokenRequest,
    context: RequestContext,
    inputs: DecisionInputs,
) -> Outcome[CreateDelegationTokenResponse]:
    """Make a token."""
    requester = context.principal
    if is_barred(requester):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return Outcome((), not_created(request, context, code))
    if any(each.principal_type != USER for each in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return Outcome((), not_created(request, context, code))
    refused = _unavailable(image, rules)
    if refused:
        return Outcome((), not_created(request, context, refused, 0))
    terms = rules.tokens
    assert terms is not None
    now_ms, lifetime_ms = inputs.wall_ms, terms.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _later(now_ms, lifetime_ms)
    kind, name = owner_of(request, requester)
    record = DelegationTokenRecord(
        owner=f"{kind}:{name}",
        requester=str(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, _later(now_ms, terms.expiry_ms)),
        token_id=format_uuid(new_uuid(inputs.random)),
    )
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=record.token_id,
        hmac=token_hmac(terms.index.secret, record.token_id),
    )
    _name_requester(response, context)
    return Outcome((record,), response)


def renew_token(
    image: Image,
    rules: Rules,
    request: RenewDelegationTokenRequest,
    requester: Principal,
    inputs: DecisionInputs,
) -> _Renewed:
    """Let a token live on, for a period from now."""

    def answer(code: ErrorCode, at_ms: int, *records: MetadataRecord) -> _Renewed:
        response = RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)
        return Outcome(records, response)

    found = _named(image, rules, request.hmac, requester)
    if isinstance(found, _Refusal):
        return answer(found.code, found.at_ms)
    terms, token_id, token = found
    now_ms = inputs.wall_ms
    if is_expired(token, now_ms):
        return answer(ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    if not _may_renew(token, requester):
        return answer(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    period_ms = terms.expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expires_ms = min(token.max_timestamp, _later(now_ms, period_ms))
    return answer(ErrorCode.NONE, expires_ms, token.record(token_id, expires_ms))


def expire_token(
    image: Image,
    rules: Rules,
    request: ExpireDelegationTokenRequest,
    requester: Principal,
    inputs: DecisionInputs,
) -> _Ended:
    """Let a token end after a period from now, or at once if the period is negative."""

    def answer(code: ErrorCode, at_ms: int, *records: MetadataRecord) -> _Ended:
        response = ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)
        return Outcome(records, response)

    found = _named(image, rules, request.hmac, requester)
    if isinstance(found, _Refusal):
        return answer(found.code, found.at_ms)
    _, token_id, token = found
    now_ms = inputs.wall_ms
    if not _may_renew(token, requester):
        return answer(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    if request.expiry_time_period_ms < 0:
        return answer(ErrorCode.NONE, now_ms, RemoveDelegationTokenRecord(token_id=token_id))
    if is_expired(token, now_ms):
        return answer(ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    expires_ms = min(token.max_timestamp, _later(now_ms, request.expiry_time_period_ms))
    return answer(ErrorCode.NONE, expires_ms, token.record(token_id, expires_ms))


def describe_tokens(
    image: Image,
    secret: Secret | None,
    request: DescribeDelegationTokenRequest,
    context: RequestContext,
) -> DescribeDelegationTokenResponse:
    """Return the tokens of the owners that are named, or all. The gate takes out those that the
    client may not see."""
    if is_barred(context.principal):
        return _described(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if secret is None:
        return _described(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    return _described(
        ErrorCode.NONE,
        *(
            _description(secret, token_id, token, context.version)
            for token_id, token in image.credentials.tokens.items()
            if owners is None or not owners.isdisjoint(token.principals)
        ),
    )


def sweep(
    image: Image, rules: Rules, most: int, wall_ms: int
) -> tuple[RemoveDelegationTokenRecord, ...]:
    """Remove expired tokens, at most `most`."""
    over = [
        RemoveDelegationTokenRecord(token_id=token_id)
        for token_id, token in image.credentials.tokens.items()
        if is_expired(token, wall_ms)
    ]
    return tuple(over[:most])


def _unavailable(image: Image, rules: Rules) -> ErrorCode | None:
    """Return why there are no tokens in this cluster; None if there are."""
    if rules.tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if not supports_delegation_tokens(image.features.metadata_version):
        return ErrorCode.UNSUPPORTED_VERSION
    return None


class _Refusal(NamedTuple):
    code: ErrorCode
    at_ms: int


class _Named(NamedTuple):
    """The token that a request names by its HMAC."""

    terms: TokenRules
    token_id: str
    token: DelegationToken


def _named(image: Image, rules: Rules, hmac: bytes, requester: Principal) -> _Named | _Refusal:
    if is_barred(requester):
        return _Refusal(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, _NO_TIME)
    refused = _unavailable(image, rules)
    if refused:
        return _Refusal(refused, 0)
    terms, tokens = rules.tokens, image.credentials.tokens
    assert terms is not None
    token_id = terms.index.find(bytes(hmac), tokens.keys())
    if token_id is None:
        return _Refusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    return _Named(terms, token_id, tokens[token_id])


def _may_renew(token: DelegationToken, requester: Principal) -> bool:
    return str(requester) in (token.owner, *token.renewers)


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _TIME_MAX)


def _described(
    code: ErrorCode, *tokens: DescribedDelegationToken
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, tokens=list(tokens))


def _description(
    secret: Secret, token_id: str, token: DelegationToken, version: int
) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = (
        token.requester.partition(":") if version >= _REQUESTER_SINCE else ("", "", "")
    )
    renewers = (each.partition(":") for each in token.renewers)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token_id,
        hmac=token_hmac(secret, token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
