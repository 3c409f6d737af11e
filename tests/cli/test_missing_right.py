"""A right that a command lacks is named with its user, and with the question that explains it."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

import moldau.client
from moldau.cli.command import Context
from moldau.cli.missing_right import errors_in, naming_right
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.plugins import installed_plugins
from moldau.protocol.messages import API

NAMED_API = re.compile(
    r'\b(?:error_from|raise_for|error_of|final_error|_check|_outcome)\(\s*"(\w+)"'
    r'|\b(?:api|purpose)(?:: str)? ?= ?"(\w+)"'
)
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
JAAS = write_jaas(LoginModule("SCRAM", {"username": "alice", "password": "hers"}))


@dataclass(frozen=True, slots=True)
class Row:
    error: object


def named(error: KafkaError, *settings: str) -> str:
    context = Context(StringIO(), StringIO(), {}, installed_plugins)
    arguments = Namespace(
        bootstrap="localhost:1",
        command_config=None,
        client_settings=["security.protocol=SASL_SSL", *settings],
    )
    return str(naming_right(error, arguments, context))


@pytest.mark.parametrize(
    ("api", "code", "facts", "right"),
    [
        ("Produce", TOPIC, {"topic": "orders"}, "WRITE topic:orders"),
        ("InitProducerId", CLUSTER, {}, "IDEMPOTENT_WRITE cluster"),
        ("JoinGroup", GROUP, {"group": "g"}, "READ group:g"),
        ("CreateTopics", TOPIC, {"topic": "orders"}, "CREATE topic:orders"),
        ("CreatePartitions", TOPIC, {"topic": "orders"}, "ALTER topic:orders"),
        ("IncrementalAlterConfigs", TOPIC, {"name": "orders"}, "ALTER_CONFIGS topic:orders"),
        ("FindCoordinator", GROUP, {"key": "g"}, "DESCRIBE group:g"),
        ("DescribeAcls", CLUSTER, {}, "DESCRIBE cluster"),
        ("CreateAcls", CLUSTER, {}, "ALTER cluster"),
        ("WriteTxnMarkers", CLUSTER, {}, "ALTER cluster"),
        ("CreateDelegationToken", TOKEN, {"owner": "User:bob"}, "CREATE_TOKENS user:User:bob"),
    ],
)
def test_a_missing_right_is_named(
    api: str, code: ErrorCode, facts: dict[str, str], right: str
) -> None:
    operation, place = right.split()
    told = named(error_from(api, code, **facts), f"sasl.jaas.config={JAAS}")
    assert f"alice has no right {operation} on {place}; moldau acl explain alice {right}" in told
    assert "hers" not in told


def test_errors_inside_a_result_are_found() -> None:
    refused = [error_from("Produce", TOPIC, topic=each) for each in "abcd"]
    result = (Row(refused[0]), {"b": refused[1]}, [refused[2]], refused[3])
    assert list(errors_in(result)) == refused
    assert list(errors_in(refused[0])) == refused[:1]


def test_the_apis_of_errors_exist() -> None:
    """An error with another name would not name its right."""
    client = Path(moldau.client.__path__[0])
    texts = [each.read_text() for each in (*client.rglob("*.py"), *client.parent.glob("link/*.py"))]
    named_apis = {each[0] or each[1] for text in texts for each in NAMED_API.findall(text)}
    assert "FindCoordinator" in named_apis
    assert named_apis <= {each.name for each in API.values()}


def test_a_login_without_a_name_of_the_user_is_told_as_that() -> None:
    told = named(error_from("Produce", TOPIC, topic="orders"), "security.protocol=SSL")
    assert "the user has no right WRITE on topic:orders; moldau acl explain USER WRITE" in told


@pytest.mark.parametrize(
    "error",
    [
        error_from("Produce", TOPIC),
        KafkaError(TOPIC, topic="orders"),
        error_from("Produce", ErrorCode.REQUEST_TIMED_OUT, topic="orders"),
    ],
)
def test_other_errors_stay_as_they_are(error: KafkaError) -> None:
    assert named(error) == str(error)
