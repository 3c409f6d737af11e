"""Delegation tokens at a whole broker: made by a login, used for others, kept over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client import Admin
from moldau.client.admin.delegation_tokens import DelegationToken, TokenAdmin
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.sasl import LoginRefused
from tests.broker.server.secure_houses import CANARY, Secured, round_trip, run

KEY = {"delegation_token_secret_key": "canary-key"}


def by_token(at: Secured, token: DelegationToken, mechanism: str) -> dict[str, str]:
    return at.given("SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=token.jaas_config())


async def refusal_of(given: dict[str, str]) -> ErrorCode:
    """Ask for a token with a login that gets none."""
    async with Admin(given) as admin:
        with pytest.raises(KafkaError) as caught:
            await TokenAdmin(admin).create()
        told = str(caught.value)
        assert "delegation.token.secret.key" in told or "not by a token" in told, "what to do"
        return caught.value.code


def test_a_token_stands_for_its_owner_s_login(tmp_path: Path) -> None:
    secrets = [CANARY, "canary-key"]

    async def scenario(at: Secured) -> None:
        await at.add_alice()
        async with Admin(at.login("SASL_SSL")) as admin:
            tokens = TokenAdmin(admin)
            token = await tokens.create(renewers=["User:bob"], max_lifetime_ms=600_000)
            secrets.extend((token.password, token.hmac.hex()))
            assert (token.owner, token.ends_ms - token.issued_ms) == ("User:alice", 600_000)
            assert await tokens.describe() == await tokens.describe(["User:bob"]) == [token]
            assert await tokens.describe(["User:carol"]) == []
            assert token.password not in repr(token)
        await round_trip(by_token(at, token, "SCRAM-SHA-256"), "t1")
        not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        for given in (
            by_token(at, token, "SCRAM-SHA-512"),
            at.given("PLAINTEXT"),
        ):
            assert await refusal_of(given) == not_allowed

        await at.broker.aclose()
        at.broker = await at.house.start()
        await round_trip(by_token(at, token, "SCRAM-SHA-512"), "t2")
        async with Admin(at.login("SASL_SSL")) as admin:
            tokens = TokenAdmin(admin)
            assert await tokens.renew(token.hmac, 1_000) < token.expires_ms
            await tokens.expire(token.hmac)
            with pytest.raises(KafkaError) as caught:
                await tokens.renew(token.hmac)
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        with pytest.raises(LoginRefused):
            async with Admin(by_token(at, token, "SCRAM-SHA-256")):
                pass

    lines = run(tmp_path, scenario, **KEY)
    assert not [each for each in lines for secret in secrets if secret in each]


def test_without_a_key_no_token_is_made(tmp_path: Path) -> None:
    async def scenario(at: Secured) -> None:
        await at.add_alice()
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert await refusal_of(at.login("SASL_SSL")) is disabled

    run(tmp_path, scenario)
