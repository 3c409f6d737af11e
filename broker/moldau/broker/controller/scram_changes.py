"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554).

Invariants: no password reaches a server: the client salts it, and the keys are derived from that
here. A user may be named only once in a request, whatever the mechanism, as in Kafka. Users
without a problem are changed although others have one; their records enter the log together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.controller.levels import supports_scram
from moldau.broker.controller.outcome import Outcome, check_record_count
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from moldau.protocol.schemas.metadata_log import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from moldau.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    server_keys,
)

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.protocol.declare import MetadataRecord


def alter_scram(
    image: Image, request: AlterUserScramCredentialsRequest
) -> Outcome[AlterUserScramCredentialsResponse]:
    """Set and remove credentials."""
    records: dict[str, MetadataRecord] = {}
    refused: dict[str, KafkaError] = {}
    for each in _changes(request):
        user = each.name
        if user in refused:
            continue
        try:
            if records.pop(user, None) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            records[user] = _record(image, each)
        except KafkaError as error:
            refused[user] = without_frames(error)
    check_record_count(records)
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=0, error_message=None)
        for user in records
    ]
    return Outcome(
        tuple(records.values()),
        AlterUserScramCredentialsResponse(results=[*results, *_refusals(refused)]),
    )


def refuse_scram(
    message: AlterUserScramCredentialsRequest, version: int, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """Return the response for the case that no credential was changed."""
    users = dict.fromkeys(each.name for each in _changes(message))
    return AlterUserScramCredentialsResponse(
        results=_refusals(dict.fromkeys(users, without_frames(error)))
    )


def _changes(
    request: AlterUserScramCredentialsRequest,
) -> list[ScramCredentialDeletion | ScramCredentialUpsertion]:
    return [*request.deletions, *request.upsertions]


def _refusals(refused: dict[str, KafkaError]) -> list[AlterUserScramCredentialsResult]:
    return [
        AlterUserScramCredentialsResult(
            user=user, error_code=error.code, error_message=error.reason
        )
        for user, error in refused.items()
    ]


def _record(
    image: Image, wanted: ScramCredentialDeletion | ScramCredentialUpsertion
) -> MetadataRecord:
    mechanism = ScramMechanism(wanted.mechanism)
    if not supports_scram(image.features.metadata_version):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
        )
    if not wanted.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is ScramMechanism.UNKNOWN:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(wanted, ScramCredentialDeletion):
        if image.credentials.scram(wanted.name, mechanism) is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return RemoveUserScramCredentialRecord(name=wanted.name, mechanism=mechanism)
    if wanted.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wanted.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    keys = server_keys(mechanism, bytes(wanted.salted_password))
    return UserScramCredentialRecord(
        name=wanted.name,
        mechanism=mechanism,
        salt=bytes(wanted.salt),
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=wanted.iterations,
    )


def describe_scram(
    image: Image, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the mechanisms and iterations of users, and no key; of all users if none is named."""
    credentials = image.credentials
    named = [each.name for each in request.users or ()]
    counts: dict[str, int] = {}
    for user in named or credentials.scram_users():
        counts[user] = counts.get(user, 0) + 1
    results = [
        _duplicate(user) if count > 1 and named else _described(image, user)
        for user, count in counts.items()
    ]
    return DescribeUserScramCredentialsResponse(error_code=0, error_message="", results=results)


def _duplicate(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message="Cannot describe SCRAM credentials for the same user twice in a single "
        f"request: {user}",
        credential_infos=[],
    )


def _described(image: Image, user: str) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        for mechanism in (ScramMechanism.SHA_256, ScramMechanism.SHA_512)
        if (credential := image.credentials.scram(user, mechanism)) is not None
    ]
    missing = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=0 if infos else ErrorCode.RESOURCE_NOT_FOUND,
        error_message="" if infos else missing,
        credential_infos=infos,
    )
