"""Delegation tokens are made, renewed, ended and removed, and survive a snapshot."""

from __future__ import annotations

import hmac

import pytest

from moldau.broker.controller.token_changes import TokenRules, describe_tokens
from moldau.broker.decision.context import ANONYMOUS, Principal, RequestContext
from moldau.broker.security.delegation import TokenIndex
from moldau.config import Secret
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from moldau.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from tests.broker.controller.cluster import Cluster

SECRET = Secret("canary key")
LIFETIME_MS, EXPIRY_MS, CHECK_MS = 7_000_000, 1_000_000, 60_000
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
BY_TOKEN = Principal("User", "alice", is_token_authenticated=True)


def of(principal: Principal) -> RequestContext:
    return RequestContext("", "/127.0.0.1", 3, "SASL", principal)


def cluster() -> Cluster:
    return Cluster(1, tokens=TokenRules(TokenIndex(SECRET), LIFETIME_MS, EXPIRY_MS, CHECK_MS))


def create(
    at: Cluster,
    requester: Principal = ALICE,
    *renewers: str,
    lifetime_ms: int = -1,
    owner: tuple[str, str] = ("", ""),
) -> CreateDelegationTokenResponse:
    pairs = (each.split(":") for each in renewers)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in pairs
        ],
        max_lifetime_ms=lifetime_ms,
    )
    response = at.ask(request, CreateDelegationTokenResponse, principal=requester)
    at.check_fold()
    return response


def renew(
    at: Cluster, token: bytes, period_ms: int = -1, requester: Principal = ALICE
) -> tuple[int, int]:
    request = RenewDelegationTokenRequest(hmac=token, renew_period_ms=period_ms)
    response = at.ask(request, RenewDelegationTokenResponse, principal=requester)
    at.check_fold()
    return response.error_code, response.expiry_timestamp_ms


def expire(
    at: Cluster, token: bytes, period_ms: int = -1, requester: Principal = ALICE
) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=period_ms)
    response = at.ask(request, ExpireDelegationTokenResponse, principal=requester)
    at.check_fold()
    return response.error_code, response.expiry_timestamp_ms


def tick(at: Cluster) -> None:
    while records := at.controller.on_tick(at.inputs):
        at.append(records)
    at.check_fold()


def test_a_token_has_the_hmac_and_the_times_of_kafka() -> None:
    at = cluster()
    made = create(at, ALICE, "User:bob")
    assert made.error_code == 0
    assert made.hmac == hmac.digest(b"canary key", made.token_id.encode(), "sha512")
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    now_ms = at.now_ms
    assert made.issue_timestamp_ms == now_ms
    assert made.expiry_timestamp_ms == now_ms + EXPIRY_MS
    assert made.max_timestamp_ms == now_ms + LIFETIME_MS
    token = at.image.credentials.tokens[made.token_id]
    assert token.principals == ("User:alice", "User:alice", "User:bob")


@pytest.mark.parametrize(
    ("asked_ms", "lifetime_ms"),
    [(0, LIFETIME_MS), (-5, LIFETIME_MS), (10, 10), (LIFETIME_MS + 1, LIFETIME_MS)],
)
def test_a_client_may_ask_for_a_shorter_life(asked_ms: int, lifetime_ms: int) -> None:
    at = cluster()
    made = create(at, lifetime_ms=asked_ms)
    assert made.max_timestamp_ms == at.now_ms + lifetime_ms
    assert made.expiry_timestamp_ms == at.now_ms + min(EXPIRY_MS, lifetime_ms)


def test_a_time_beyond_the_range_is_the_last_one() -> None:
    rules = TokenRules(TokenIndex(SECRET), 2**63 - 1, 2**63 - 1, CHECK_MS)
    at = Cluster(1, tokens=rules)
    made = create(at)
    assert made.max_timestamp_ms == made.expiry_timestamp_ms == 2**63 - 1
    assert renew(at, made.hmac) == (0, 2**63 - 1)


def test_a_token_for_another_user_belongs_to_that_user() -> None:
    at = cluster()
    made = create(at, ALICE, owner=("User", "carol"))
    assert (made.principal_name, made.token_requester_principal_name) == ("carol", "alice")
    assert renew(at, made.hmac, requester=ALICE)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(at, made.hmac, requester=CAROL)[0] == 0


@pytest.mark.parametrize("requester", [ANONYMOUS, BY_TOKEN])
def test_a_client_without_a_login_of_its_own_gets_nothing(requester: Principal) -> None:
    at = cluster()
    made = create(at)
    barred = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    refused = create(at, requester, "Group:x")
    assert (refused.error_code, refused.hmac, refused.token_id) == (barred, b"", "")
    assert renew(at, made.hmac, requester=requester) == (barred, -1)
    assert expire(at, made.hmac, requester=requester) == (barred, -1)
    everything = DescribeDelegationTokenRequest(owners=None)
    described = describe_tokens(at.image, SECRET, everything, of(requester))
    assert (described.error_code, described.tokens) == (barred, [])
    assert len(at.image.credentials.tokens) == 1


def test_renewers_are_users() -> None:
    at = cluster()
    refused = create(at, ALICE, "User:bob", "Group:x")
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not at.image.credentials.tokens


def test_without_a_key_there_are_no_tokens() -> None:
    at = Cluster(1)
    off = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(at).error_code == off
    assert renew(at, b"x") == expire(at, b"x") == (off, 0)
    everything = DescribeDelegationTokenRequest(owners=None)
    assert describe_tokens(at.image, None, everything, of(ALICE)).error_code == off


def test_an_old_cluster_has_no_tokens() -> None:
    at = Cluster(tokens=TokenRules(TokenIndex(SECRET), LIFETIME_MS, EXPIRY_MS, CHECK_MS))
    at.append([FeatureLevelRecord(name="metadata.version", feature_level=13)])
    assert create(at).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert renew(at, b"x") == expire(at, b"x") == (ErrorCode.UNSUPPORTED_VERSION, 0)


def test_owner_and_renewers_renew_a_token_up_to_its_end() -> None:
    at = cluster()
    made = create(at, ALICE, "User:bob")
    at.now_ms += 500_000
    assert renew(at, made.hmac, requester=BOB) == (0, at.now_ms + EXPIRY_MS)
    assert renew(at, made.hmac, 10) == (0, at.now_ms + 10)
    assert renew(at, made.hmac, EXPIRY_MS + 1) == (0, at.now_ms + EXPIRY_MS)
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(at, made.hmac, requester=CAROL) == (mismatch, 0)
    while at.now_ms + EXPIRY_MS < made.max_timestamp_ms:
        at.now_ms += EXPIRY_MS - 1
        expires = min(at.now_ms + EXPIRY_MS, made.max_timestamp_ms)
        assert renew(at, made.hmac) == (0, expires)
    at.now_ms = made.max_timestamp_ms
    assert renew(at, made.hmac) == (0, made.max_timestamp_ms)
    at.now_ms += 1
    assert renew(at, made.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)


def test_an_unknown_hmac_finds_no_token() -> None:
    at = cluster()
    made = create(at)
    for wrong in (b"", b"x", made.hmac[:-1], made.token_id.encode()):
        assert renew(at, wrong) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
        assert expire(at, wrong) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_a_token_is_ended_now_or_later() -> None:
    at = cluster()
    made = create(at, ALICE, "User:bob")
    assert expire(at, made.hmac, 10, CAROL) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert expire(at, made.hmac, 2 * LIFETIME_MS, BOB) == (0, made.max_timestamp_ms)
    assert expire(at, made.hmac, 10, BOB) == (0, at.now_ms + 10)
    at.now_ms += 11
    assert expire(at, made.hmac, 10) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert made.token_id in at.image.credentials.tokens
    assert expire(at, made.hmac, -1) == (0, at.now_ms)
    assert not at.image.credentials.tokens
    assert expire(at, made.hmac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_expired_tokens_are_removed_in_their_interval() -> None:
    at = cluster()
    first, second = create(at, lifetime_ms=100), create(at)
    at.controller.take_over(at.now_ms)
    at.now_ms += CHECK_MS - 1
    at.beat(1)
    tick(at)
    assert first.token_id in at.image.credentials.tokens
    at.now_ms += 1
    tick(at)
    assert list(at.image.credentials.tokens) == [second.token_id]


def test_tokens_are_described_by_their_principals() -> None:
    at = cluster()
    of_alice, of_carol = create(at, ALICE, "User:bob"), create(at, BOB, owner=("User", "carol"))

    def described(*owners: str) -> set[str]:
        request = DescribeDelegationTokenRequest(
            owners=[
                DescribeDelegationTokenOwner(principal_type="User", principal_name=each)
                for each in owners
            ]
        )
        return {
            each.token_id for each in describe_tokens(at.image, SECRET, request, of(ALICE)).tokens
        }

    assert described() == described("nobody") == set()
    assert described("alice") == {of_alice.token_id}
    assert described("carol") == {of_carol.token_id}
    assert described("bob") == {of_alice.token_id, of_carol.token_id}
    everything = DescribeDelegationTokenRequest(owners=None)
    first, _ = describe_tokens(at.image, SECRET, everything, of(ALICE)).tokens
    assert first.hmac == of_alice.hmac
    assert [each.principal_name for each in first.renewers] == ["bob"]


def test_the_log_and_what_is_printed_hold_no_secret() -> None:
    at = cluster()
    made = create(at)
    shown = repr((at.rules, at.image.credentials.tokens, at.log, at.rules.tokens))
    assert "canary" not in shown
    assert made.hmac.hex() not in shown
    assert repr(made.hmac) not in shown
