"""The token of a login by OAuth, from an async function: the program's own, or that of a preset."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.msk_iam import MskIam
from moldau.link.login.sasl import LoginRefused, Token
from moldau.link.login.token_endpoint import TokenEndpoint

if TYPE_CHECKING:
    from moldau.runtime import Runtime

TokenSource: TypeAlias = Callable[[], Awaitable[str | Token]]
"""An async function that returns an OAuth token."""
GivenTokens: TypeAlias = TokenSource | MskIam | TokenEndpoint
"""What a program may give as `oauth=`, beside text."""


async def token_of(runtime: Runtime, source: TokenSource) -> Token:
    """Return the token. Raise the KafkaError of a preset, or LoginRefused with the kind of another
    error."""

    async def ask() -> str | Token:
        return await source()

    asking = runtime.spawn(ask(), name="oauth token", reported=False)
    try:
        await asyncio.wait([asking])
    finally:
        asking.cancel()
    failure = None if asking.cancelled() else asking.exception()
    if isinstance(failure, KafkaError):
        raise failure
    if asking.cancelled() or failure is not None:
        refused = LoginRefused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "the function given as oauth= failed",
            error=type(failure).__name__,
        )
        raise refused from failure
    found = asking.result()
    return found if isinstance(found, Token) else Token(found)
