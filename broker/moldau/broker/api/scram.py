"""DescribeUserScramCredentials, answered from the image of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.controller.scram_changes import describe_scram
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest


def serve_describe(node: Node, request: ApiRequest) -> None:
    """Answer at once."""
    message = cast(DescribeUserScramCredentialsRequest, request.decode())
    request.answer(describe_scram(node.image, message))
