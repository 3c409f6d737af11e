"""Tokens for Amazon MSK: signed as AWS's own library signs them."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from moldau.client import Admin, AwsKeys, MskIam
from moldau.config import BadSettings
from moldau.link.login.msk_iam import signature, signed_token
from moldau.link.login.sasl import LoginRefused
from moldau.link.security import security_of
from moldau.runtime import Runtime
from tests.runtime.arena import play

KEPT = Path(__file__).parent / "msk_tokens.json"
KEYS = AwsKeys("AKIDEXAMPLE", "canary-secret", "canary-session")
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "canary-secret"}
BROKERS = "b-1.orders.x1y2z3.c4.kafka.eu-central-1.amazonaws.com:9098"


def url_of(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def without_agent(url: str) -> str:
    return url.partition("&User-Agent=")[0]


def test_the_signature_is_that_of_aws_s_own_example() -> None:
    text = "\n".join(
        (
            "AWS4-HMAC-SHA256",
            "20150830T123600Z",
            "20150830/us-east-1/iam/aws4_request",
            "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59",
        )
    )
    key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    found = signature(key, "us-east-1", "20150830T123600Z", text, "iam")
    assert found == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"


def test_tokens_are_those_of_aws_s_signer() -> None:
    """What aws-msk-iam-sasl-signer-python 1.0.2 makes of the same keys at the same time."""
    kept: list[dict[str, Any]] = json.loads(KEPT.read_text())
    assert len(kept) >= 5
    for each in kept:
        token = signed_token(AwsKeys(*each["keys"]), each["region"], each["now_ms"])
        assert without_agent(url_of(token)) == without_agent(each["url"])
        assert not token.endswith("=")


def token_of(given: MskIam, bootstrap: str = BROKERS, **environment: str) -> str:
    found: list[str] = []

    async def main(runtime: Runtime) -> None:
        found.append(await given.token(runtime, bootstrap, environment))

    play("asyncio", main)
    return found[0]


def test_the_region_is_given_or_in_the_brokers_names_or_in_the_environment() -> None:
    def region(given: MskIam, bootstrap: str, **others: str) -> str | None:
        return urlsplit(url_of(token_of(given, bootstrap, **ENVIRONMENT, **others))).hostname

    assert region(MskIam(), BROKERS) == "kafka.eu-central-1.amazonaws.com"
    assert region(MskIam("us-west-2"), BROKERS) == "kafka.us-west-2.amazonaws.com"
    serverless = "boot-abc.c2.kafka-serverless.us-east-1.amazonaws.com:9098"
    assert region(MskIam(), serverless) == "kafka.us-east-1.amazonaws.com"
    assert region(MskIam(), "proxy:9098", AWS_REGION="ap-south-1") == (
        "kafka.ap-south-1.amazonaws.com"
    )
    with pytest.raises(LoginRefused, match="AWS_REGION"):
        token_of(MskIam(), "proxy:9098", **ENVIRONMENT)


def test_keys_come_from_the_program_or_the_environment() -> None:
    async def own() -> AwsKeys:
        return KEYS

    query = parse_qs(urlsplit(url_of(token_of(MskIam(credentials=own)))).query)
    assert query["X-Amz-Security-Token"] == ["canary-session"]
    assert query["Action"] == ["kafka-cluster:Connect"]
    query = parse_qs(urlsplit(url_of(token_of(MskIam(), **ENVIRONMENT))).query)
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert "X-Amz-Security-Token" not in query


def test_without_keys_one_line_says_where_they_may_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(LoginRefused, match="AWS_ACCESS_KEY_ID"):
        token_of(MskIam())


def test_keys_are_not_shown() -> None:
    async def own() -> AwsKeys:
        return KEYS

    assert "canary" not in f"{KEYS!r} {KEYS} {MskIam(credentials=own)!r}"


@pytest.mark.parametrize("tokens", [None, MskIam(region="eu-west-1")])
def test_a_client_sends_the_token_as_oauthbearer(
    tokens: MskIam | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    given = {
        "bootstrap.servers": BROKERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    preset = {"oauth": "MSK-IAM"} if tokens is None else {}

    async def main(runtime: Runtime) -> None:
        security = security_of(Admin({**given, **preset}).settings, runtime, tokens)
        assert security is not None
        assert security.credentials is not None
        message = next(await security.credentials.exchange(runtime, "b-1"))
        assert isinstance(message, bytes)
        found = re.fullmatch(rb"n,,\x01auth=Bearer ([A-Za-z0-9_-]+)\x01\x01", message)
        assert found is not None
        region = "eu-central-1" if tokens is None else "eu-west-1"
        assert url_of(found[1].decode()).startswith(f"https://kafka.{region}.amazonaws.com/?")

    play("asyncio", main)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "oauth=msk-iam"),
        ({"sasl.mechanism": "OAUTHBEARER", "oauth": "okta"}, "msk-iam"),
    ],
)
def test_what_is_no_preset_is_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        Admin({"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", **given})
