"""A right that a command lacks is named with its user, and with the question that explains it."""

from __future__ import annotations

from argparse import Namespace
from io import StringIO

import pytest

from moldau.cli.command import Context
from moldau.cli.missing_right import naming_right
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.plugins import installed_plugins

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
JAAS = write_jaas(LoginModule("SCRAM", {"username": "alice", "password": "hers"}))


def named(command: str, error: KafkaError, *settings: str) -> str:
    context = Context(StringIO(), StringIO(), {}, installed_plugins, command=command.split()[0])
    arguments = Namespace(
        action=command.partition(" ")[2] or None,
        partitions=None,
        bootstrap="localhost:1",
        command_config=None,
        client_settings=["security.protocol=SASL_SSL", *settings],
    )
    return str(naming_right(error, arguments, context))


@pytest.mark.parametrize(
    ("command", "error", "right"),
    [
        ("produce", KafkaError(TOPIC, topic="orders"), "WRITE topic:orders"),
        ("produce", KafkaError(CLUSTER), "IDEMPOTENT_WRITE cluster"),
        ("consume", KafkaError(GROUP, group="g"), "READ group:g"),
        ("topic create", KafkaError(TOPIC, topic="orders"), "CREATE topic:orders"),
        ("topic alter", KafkaError(TOPIC, topic="orders"), "ALTER_CONFIGS topic:orders"),
        ("config set", KafkaError(TOPIC, name="orders"), "ALTER_CONFIGS topic:orders"),
        ("group describe", KafkaError(GROUP, key="g"), "DESCRIBE group:g"),
        ("acl list", KafkaError(CLUSTER), "DESCRIBE cluster"),
        ("acl add", KafkaError(CLUSTER), "ALTER cluster"),
    ],
)
def test_a_missing_right_is_named(command: str, error: KafkaError, right: str) -> None:
    operation, place = right.split()
    told = named(command, error, f"sasl.jaas.config={JAAS}")
    assert f"alice has no right {operation} on {place}; moldau acl explain alice {right}" in told
    assert "hers" not in told


def test_a_login_without_a_name_of_the_user_is_told_as_that() -> None:
    told = named("produce", KafkaError(TOPIC, topic="orders"), "security.protocol=SSL")
    assert "the user has no right WRITE on topic:orders; moldau acl explain USER WRITE" in told


@pytest.mark.parametrize(
    "error", [KafkaError(TOPIC), KafkaError(ErrorCode.REQUEST_TIMED_OUT, topic="orders")]
)
def test_other_errors_stay_as_they_are(error: KafkaError) -> None:
    assert named("produce", error) == str(error)
