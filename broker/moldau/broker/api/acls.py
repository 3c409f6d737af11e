"""DescribeAcls, answered from the image of this node, and the error of all ACL requests where the
authorizer does not decide by the rules in the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.controller.acl_changes import describe_acls
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.create_acls import CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.protocol.declare import Request as Message

DISABLED: Final = KafkaError(
    ErrorCode.SECURITY_DISABLED,
    "No Authorizer is configured: the brokers need authorizer.class.name "
    "(`moldau init --secure` writes settings with it).",
)
_ABOUT_RULES: Final = (CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest)


def serve_describe(node: Node, request: ApiRequest) -> None:
    """Answer at once."""
    check_has_rules(node.authorizer, DescribeAclsRequest)
    message = cast(DescribeAclsRequest, request.decode())
    request.answer(describe_acls(node.image, message))


def check_has_rules(authorizer: Authorizer, request: type[Message]) -> None:
    """Raise SECURITY_DISABLED for a request about rules that nothing would read."""
    if request in _ABOUT_RULES and not authorizer.uses_rules:
        raise without_frames(DISABLED)
