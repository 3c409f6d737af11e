"""Delegation tokens, asked for by a client without a login, which gets none."""

from __future__ import annotations

from moldau.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.differential.talk import Talk, versions

SETTINGS = {"delegation.token.secret.key": "key"}


async def scenario(talk: Talk) -> None:
    renewers = [CreatableRenewers(principal_type="Group", principal_name="x")]
    mine = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
    await talk.ask("create", mine, versions(CreateDelegationTokenRequest))
    bobs = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="bob", renewers=[], max_lifetime_ms=-1
    )
    await talk.ask("create for another", bobs, [3])
    renewal = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
    await talk.ask("renew", renewal, versions(RenewDelegationTokenRequest))
    end = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
    await talk.ask("expire", end, versions(ExpireDelegationTokenRequest))
    describing = versions(DescribeDelegationTokenRequest)
    await talk.ask("describe None", DescribeDelegationTokenRequest(owners=None), describing)
    await talk.ask("describe []", DescribeDelegationTokenRequest(owners=[]), describing)
