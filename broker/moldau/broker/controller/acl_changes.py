"""CreateAcls, DeleteAcls and DescribeAcls: rules in the metadata log.

Invariants: the same rule is stored once, however often it is created. Each rule of a request
succeeds or fails on its own; their records enter the log together. A filter removes the rules that
exist when the request is decided, and nothing that the same request adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.levels import supports_networks
from moldau.broker.controller.outcome import Outcome, check_record_count
from moldau.broker.decision.authorizer import CLUSTER_NAME
from moldau.broker.security.access.rule import Acl, AclFilter
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import new_uuid
from moldau.protocol.acl_hosts import is_network, network_of
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from moldau.protocol.schemas.metadata_log import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.controller.outcome import DecisionInputs
    from moldau.ids import Uuid
    from moldau.protocol.declare import MetadataRecord

_DONE: Final = AclCreationResult(error_code=0, error_message="")


def create_acls(
    image: Image, request: CreateAclsRequest, inputs: DecisionInputs
) -> Outcome[CreateAclsResponse]:
    """Add the rules that do not exist yet."""
    index = image.acls.index
    records: dict[Acl, MetadataRecord] = {}
    results = []
    for creation in request.creations:
        try:
            acl = _checked(creation, image.features.metadata_version)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.reason))
            continue
        if acl not in records and not index.has(acl):
            new_id = new_uuid(inputs.random)
            records[acl] = AccessControlEntryRecord(id=new_id, **acl._asdict())
        results.append(_DONE)
    check_record_count(records)
    return Outcome(tuple(records.values()), CreateAclsResponse(results=results))


def _checked(creation: AclCreation, metadata_version: int) -> Acl:
    """Return the rule that is asked for. Raise INVALID_REQUEST if it cannot be stored, and
    UNSUPPORTED_VERSION if older nodes of the cluster would not understand it."""
    kind, pattern = AclResource(creation.resource_type), AclPattern(creation.resource_pattern_type)
    operation = AclOperation(creation.operation)
    permission = AclPermission(creation.permission_type)
    name = creation.resource_name
    if kind is AclResource.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if kind in (AclResource.UNKNOWN, AclResource.ANY):
        raise _invalid(f"Invalid resourceType {kind.name}")
    if pattern not in (AclPattern.LITERAL, AclPattern.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern.name}")
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {operation.name}")
    if permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise _invalid(f"Invalid permissionType {permission.name}")
    if ":" not in creation.principal:
        raise _invalid(
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    _check_host(creation.host, metadata_version)
    return Acl(kind, name, pattern, creation.principal, creation.host, operation, permission)


def _check_host(host: str, metadata_version: int) -> None:
    if not host:
        raise _invalid("the host of a rule is empty: give * for every host")
    if not is_network(host):
        return
    if not supports_networks(metadata_version):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "a network as the host of a rule needs a higher metadata.version: raise it to 32",
            host=host,
        )
    if network_of(host) is None:
        raise _invalid(f"{host} is no network: give an address, or one such as 10.0.0.0/8")


def delete_acls(image: Image, request: DeleteAclsRequest) -> Outcome[DeleteAclsResponse]:
    """Remove the rules that each filter selects."""
    gone: dict[Uuid, MetadataRecord] = {}
    results = []
    for fields in request.filters:
        selected = AclFilter.of(fields)
        if selected.has_unknown_pattern or selected.has_unknown_entry:
            what = "patternFilter" if selected.has_unknown_pattern else "entryFilter"
            results.append(_refused(_invalid(f"Unknown {what}.")))
            continue
        found = [(acl_id, acl) for acl_id, acl in image.acls.by_id.items() if selected.matches(acl)]
        gone.update((acl_id, RemoveAccessControlEntryRecord(id=acl_id)) for acl_id, _ in found)
        matching = [
            DeleteAclsMatchingAcl(error_code=0, error_message=None, **acl._asdict())
            for _, acl in found
        ]
        results.append(
            DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=matching)
        )
    check_record_count(gone)
    return Outcome(tuple(gone.values()), DeleteAclsResponse(filter_results=results))


def describe_acls(image: Image, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the rules that the filter selects, by resource."""
    selected = AclFilter.of(request)
    found = (acl for acl in image.acls.by_id.values() if selected.matches(acl))
    return DescribeAclsResponse(error_code=0, error_message="", resources=_by_resource(found))


def _by_resource(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return list(resources.values())


def _refused(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=error.code, error_message=error.reason, matching_acls=[]
    )


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
