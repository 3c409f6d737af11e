"""No secret of a config is shown, and a config that was read masked keeps its secrets."""

from __future__ import annotations

import pytest

from moldau.connect.herder.operations import validated
from moldau.connect.installed.secrets import masked, secret_values, unmasked

WORD = "hush-0815"
SINK = {"name": "a", "connector.class": "JdbcSink", "topics": "t"}
ADDRESSES = (
    "jdbc:postgresql://u:{}@h/db",
    "jdbc:postgresql://h:5432/db?user=a@b&password={}&ssl=true",
    "jdbc:mysql://u:{}@h:3306,g/db?useSSL=true",
    "jdbc:sqlserver://h:1433;user=u;password={};databaseName=d",
    "jdbc:oracle:thin:u/{}@//h:1521/s",
    "postgresql+psycopg://u:{}@h:5432/db",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("word", [WORD, "p%40ss%2Fw", "${env:DB_PASSWORD}"])
def test_of_an_address_only_the_password_is_hidden(address: str, word: str) -> None:
    config = {**SINK, "connection.url": address.format(word)}

    shown = masked(config)["connection.url"]

    is_reference = word.startswith("$")
    assert shown == address.format(word if is_reference else "[hidden]")
    assert (word in secret_values(config)) is not is_reference
    assert unmasked(masked(config), config) == (config, [])


@pytest.mark.parametrize(
    "address",
    ["jdbc:postgresql://h:5432/a@b", "jdbc:sqlite:/data/a.db", "http://h:8081", "u@h", "a:b@c"],
)
def test_what_has_no_password_is_shown_as_it_is(address: str) -> None:
    assert masked({**SINK, "connection.url": address})["connection.url"] == address


@pytest.mark.parametrize(
    "name",
    ["connection.password", "consumer.override.sasl.jaas.config", "connection.sslpassword",
     "value.converter.basic.auth.user.info", "producer.override.ssl.keystore.key"],
)  # fmt: skip
def test_settings_that_are_secrets_by_kind_or_name_are_hidden(name: str) -> None:
    config = {**SINK, name: WORD}
    assert masked(config)[name] == "[hidden]"
    assert masked({"task.has.it": WORD}, config) == {"task.has.it": "[hidden]"}
    assert WORD in secret_values(config)


def test_validation_shows_no_password_of_an_address() -> None:
    for address in (*ADDRESSES, "jdbc:sqlite:a.db?password={}!", "jdbc:nowhere://u:{}@h"):
        infos = validated({**SINK, "connection.url": address.format(WORD)}, {}, asks=False)
        assert WORD not in str(infos.to_json())
        assert WORD not in str(infos.errors)


def test_a_hidden_value_that_stands_for_nothing_known_is_an_error_of_its_key() -> None:
    known = {**SINK, "connection.url": f"jdbc:postgresql://u:{WORD}@h/db"}
    moved = {**SINK, "connection.url": "jdbc:postgresql://u:[hidden]@elsewhere/db"}

    for before in (known, {}):
        _, problems = unmasked(moved, before)
        assert [problem.key for problem in problems] == ["connection.url"]
        assert " -> write the secret itself" in problems[0].text
    text = {**SINK, "transforms.m.replacement": "[hidden]"}
    assert unmasked(text, {}) == (text, [])
