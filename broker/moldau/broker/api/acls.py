"""DescribeAcls, CreateAcls and DeleteAcls while no authorizer is configured: SECURITY_DISABLED, in
the form of each."""

from __future__ import annotations

from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

DISABLED: Final = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def refuse_creation(
    message: CreateAclsRequest, version: int, error: KafkaError
) -> CreateAclsResponse:
    """Return the response for the case that no rule was added."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.reason)
            for _ in message.creations
        ]
    )


def refuse_deletion(
    message: DeleteAclsRequest, version: int, error: KafkaError
) -> DeleteAclsResponse:
    """Return the response for the case that no rule was removed."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=error.code, error_message=error.reason, matching_acls=[]
            )
            for _ in message.filters
        ]
    )
