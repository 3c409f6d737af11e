"""Rights on delegation tokens, at the broker and at the controller's gate."""

from __future__ import annotations

import pytest

from moldau.broker.api.gate import guard_decision
from moldau.broker.api.rights.guard import GuardedMessage
from moldau.broker.controller.token_changes import TokenRules, describe_tokens
from moldau.broker.decision.context import ANONYMOUS, Principal, RequestContext
from moldau.broker.security.delegation import TokenIndex
from moldau.config import Secret
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.protocol.rights import Right
from moldau.protocol.schemas.metadata_log import DelegationTokenRecord
from tests.broker.api.administered import Administered, Asked
from tests.broker.api.rights import Rights

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
BY_TOKEN = Principal("User", "alice", is_token_authenticated=True)
SECRET = Secret("canary")
CREATE = Right(AclResource.USER, AclOperation.CREATE_TOKENS)
DESCRIBE = Right(AclResource.DELEGATION_TOKEN, AclOperation.DESCRIBE)
DESCRIBE_OWNER = Right(AclResource.USER, AclOperation.DESCRIBE_TOKENS)
EVERYTHING = DescribeDelegationTokenRequest(owners=None)


def node(*rights: tuple[Right, str]) -> Administered:
    """A broker that knows a token of Bob, and one of Carol that Dave asked for."""
    at = Administered(1, delegation__token__secret__key=SECRET.reveal())
    for token_id, owner, requester, renewer in (
        ("of bob", "bob", "bob", "erin"),
        ("of carol", "carol", "dave", "erin"),
    ):
        record = DelegationTokenRecord(
            owner=f"User:{owner}",
            requester=f"User:{requester}",
            renewers=[f"User:{renewer}"],
            issue_timestamp=0,
            max_timestamp=9,
            expiration_timestamp=9,
            token_id=token_id,
        )
        at.cluster.append([record])
    at.node.authorizer = Rights(*rights)
    return at


def described(
    at: Administered, principal: Principal, version: int = 3
) -> DescribeDelegationTokenResponse:
    """The answer of the broker, which is that of the controller as well."""
    asked = Asked(EVERYTHING, version, "SASL")
    asked.context = asked.context._replace(principal=principal)
    at.serve(asked)
    (answer,) = asked.answers
    assert isinstance(answer, DescribeDelegationTokenResponse)
    decided = describe_tokens(at.cluster.image, SECRET, EVERYTHING, asked.context)
    guarded = guard_decision(EVERYTHING, at.node.authorizer, asked.context, at.cluster.image)
    assert isinstance(guarded, GuardedMessage)
    guarded.finish(decided)
    assert decided == answer
    return answer


@pytest.mark.parametrize(
    ("user", "rights", "seen"),
    [
        ("alice", (), []),
        ("bob", (), ["of bob"]),
        ("carol", (), ["of carol"]),
        ("dave", (), ["of carol"]),
        ("erin", (), ["of bob", "of carol"]),
        ("alice", ((DESCRIBE, "of carol"),), ["of carol"]),
        ("alice", ((DESCRIBE_OWNER, "User:carol"),), ["of carol"]),
        ("alice", ((DESCRIBE_OWNER, "User:dave"), (DESCRIBE_OWNER, "bob")), []),
        ("bob", ((DESCRIBE_OWNER, "User:carol"),), ["of bob", "of carol"]),
    ],
)
def test_a_client_sees_its_own_tokens_and_those_that_it_has_a_right_to(
    user: str, rights: tuple[tuple[Right, str], ...], seen: list[str]
) -> None:
    for version in (1, 2, 3):
        answer = described(node(*rights), Principal("User", user), version)
        assert answer.error_code == 0
        assert [each.token_id for each in answer.tokens] == seen


@pytest.mark.parametrize("principal", [ANONYMOUS, BY_TOKEN])
def test_no_right_helps_a_client_without_a_login_of_its_own(principal: Principal) -> None:
    answer = described(node((DESCRIBE, "of bob")), principal)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert answer.tokens == []


def created(
    requester: Principal, owner: str, *rights: tuple[Right, str]
) -> CreateDelegationTokenResponse | None:
    """What the gate answers instead of the controller."""
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[],
        max_lifetime_ms=-1,
    )
    context = RequestContext("", "/127.0.0.1", 3, "SASL", requester)
    at = node(*rights)
    found = guard_decision(request, at.node.authorizer, context, at.cluster.image)
    assert found is None or isinstance(found, CreateDelegationTokenResponse)
    return found


def test_a_token_for_another_user_takes_a_right() -> None:
    assert created(ALICE, "") is None
    assert created(ALICE, "alice") is None
    assert created(ALICE, "bob", (CREATE, "User:bob")) is None
    refused = created(ALICE, "bob", (CREATE, "User:carol"))
    assert refused is not None
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")


def test_the_kind_of_login_counts_before_rights() -> None:
    """The controller refuses it as what it is, whatever the rights are."""
    assert created(ANONYMOUS, "bob") is None
    assert created(BY_TOKEN, "bob") is None


def test_a_broker_forwards_what_changes_tokens_with_the_client_s_principal() -> None:
    at = node()
    at.cluster.controller.rules = at.cluster.rules = at.cluster.rules.__class__(
        at.cluster.rules.cluster_id,
        1,
        at.cluster.rules.configs,
        tokens=TokenRules(TokenIndex(SECRET), 1000, 100, 10),
    )
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    for version in (1, 2, 3):
        asked = Asked(request, version, "SASL")
        asked.context = asked.context._replace(principal=BOB)
        at.serve(asked)
        (answer,) = asked.answers
        assert isinstance(answer, CreateDelegationTokenResponse)
        assert (answer.error_code, answer.principal_name) == (0, "bob")
        assert at.channel.contexts[-1].principal == BOB
