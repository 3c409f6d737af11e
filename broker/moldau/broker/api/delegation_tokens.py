"""DescribeDelegationToken, answered from the image of this node, and the form of a refused
CreateDelegationToken."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.controller.token_changes import describe_tokens, not_created
from moldau.broker.decision.context import RequestContext
from moldau.broker.security.delegation import token_secret_of
from moldau.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve_describe(node: Node, request: ApiRequest) -> None:
    """Answer at once. The guard takes out the tokens that the client may not see."""
    message = cast(DescribeDelegationTokenRequest, request.decode())
    secret = token_secret_of(node.settings)
    request.answer(describe_tokens(node.image, secret, message, request.context))


def refuse_creation(
    message: CreateDelegationTokenRequest, version: int, error: KafkaError
) -> CreateDelegationTokenResponse:
    """Return the response for the case that nothing was decided."""
    return not_created(message, RequestContext("", "", version, ""), error.code)
