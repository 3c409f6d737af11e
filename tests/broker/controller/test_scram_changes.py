"""SCRAM credentials are set, removed and described; keys are those of RFC 7677's example."""

from __future__ import annotations

from base64 import b64decode

import pytest

from moldau.broker.controller.scram_changes import describe_scram
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from moldau.protocol.scram import ScramMechanism, salted_password, server_keys
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import Cluster

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def setting(
    user: str, mechanism: int = SHA_256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted_password(SHA_256, "pencil", b"salt", 4096),
    )


def removing(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    cluster: Cluster, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = cluster.ask(request, AlterUserScramCredentialsResponse)
    cluster.check_fold()
    return {each.user: each.error_code for each in response.results}


def described(cluster: Cluster, *users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    names = [UserName(name=each) for each in users] or None
    response = describe_scram(cluster.image, DescribeUserScramCredentialsRequest(users=names))
    return {
        each.user: (
            each.error_code,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in response.results
    }


def test_the_keys_are_those_of_the_rfc() -> None:
    salted = salted_password(SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    keys = server_keys(SHA_256, salted)
    assert keys.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert keys.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")


def test_a_user_is_set_looked_up_changed_and_removed() -> None:
    cluster = Cluster()
    assert alter(cluster, setting("alice"), setting("bob", SHA_512, 8192)) == {
        "alice": 0,
        "bob": 0,
    }
    found = cluster.image.credentials.scram("alice", SHA_256)
    assert found is not None
    assert (found.salt, found.iterations) == (b"salt", 4096)
    assert found.stored_key == server_keys(SHA_256, setting("alice").salted_password).stored_key
    assert cluster.image.credentials.scram("alice", SHA_512) is None
    assert alter(cluster, setting("alice", SHA_512)) == {"alice": 0}
    assert described(cluster) == {
        "alice": (0, [(1, 4096), (2, 4096)]),
        "bob": (0, [(2, 8192)]),
    }
    assert alter(cluster, removing("alice"), setting("bob", SHA_512)) == {"alice": 0, "bob": 0}
    assert cluster.image.credentials.scram("alice", SHA_256) is None
    assert described(cluster, "alice", "bob", "none", "bob") == {
        "alice": (0, [(2, 4096)]),
        "bob": (ErrorCode.DUPLICATE_RESOURCE, []),
        "none": (ErrorCode.RESOURCE_NOT_FOUND, []),
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ((setting("u", iterations=4095),), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ((setting("u", iterations=16_385),), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ((setting("u", mechanism=3),), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ((removing("u", mechanism=0),), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ((removing("u"),), ErrorCode.RESOURCE_NOT_FOUND),
        ((setting("u"), setting("u", SHA_512)), ErrorCode.DUPLICATE_RESOURCE),
        ((removing("u"), setting("u")), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_user_with_a_problem_is_refused_and_others_are_not(
    changes: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...], code: int
) -> None:
    cluster = Cluster()
    assert alter(cluster, *changes, setting("other")) == {"other": 0, "u": code}
    assert described(cluster) == {"other": (0, [(1, 4096)])}


def test_an_empty_name_and_an_old_metadata_version_are_refused() -> None:
    cluster = Cluster()
    assert alter(cluster, setting("")) == {"": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    cluster.image.replay(FeatureLevelRecord(name="metadata.version", feature_level=10))
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[setting("u")])
    (result,) = cluster.ask(request, AlterUserScramCredentialsResponse).results
    assert result.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_forwards_changes_and_describes_by_itself() -> None:
    administered = Administered(1)
    change = AlterUserScramCredentialsRequest(deletions=[], upsertions=[setting("alice")])
    (result,) = administered.ask(change, AlterUserScramCredentialsResponse).results
    assert (result.user, result.error_code) == ("alice", 0)
    asked = len(administered.channel.asked)
    request = DescribeUserScramCredentialsRequest(users=None)
    (user,) = administered.ask(request, DescribeUserScramCredentialsResponse).results
    assert (user.user, [each.iterations for each in user.credential_infos]) == ("alice", [4096])
    assert len(administered.channel.asked) == asked
