"""Settings are read one by one: texts become values, and every mistake is told."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import SecretStr

from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.errors import ConfigError


class Mode(StrEnum):
    INSERT = "insert"
    UPSERT = "upsert"


class Writes(ConfigModel):
    url: str = key("connection.url", doc="Where.", also=("jdbc.url",))
    password: SecretStr | None = key("connection.password", None)
    mode: Mode = key("insert.mode", Mode.INSERT)
    keys_from: Literal["none", "record_key"] = key("pk.mode", "none")
    batch: int = key("batch.size", 3000, ge=1, le=10_000)
    position: int = key("position", 0, kind="LONG")
    ratio: float = key("ratio", 0.5)
    create: bool = key("auto.create", False)
    tables: list[str] = key("tables", [])

    def check(self) -> Iterable[Problem]:
        if self.mode is Mode.UPSERT and self.keys_from == "none":
            yield Problem("pk.mode", "upsert needs the columns of a key: set pk.mode")


def test_texts_become_values() -> None:
    config = Writes.of(
        {
            "connection.url": " sqlite:///x ",
            "connection.password": " s e ",
            "insert.mode": "INSERT",
            "batch.size": " 10 ",
            "position": str(2**40),
            "ratio": "1e3",
            "auto.create": "TRUE",
            "tables": "a , b,c",
            "something.else": "x",
        }
    )

    assert config.url == "sqlite:///x"
    assert config.password is not None
    assert config.password.get_secret_value() == "s e"
    assert config.mode is Mode.INSERT
    assert (config.batch, config.position, config.ratio) == (10, 2**40, 1000.0)
    assert config.create is True
    assert config.tables == ["a", "b", "c"]
    assert config.originals["something.else"] == "x"


def test_an_empty_list_is_empty() -> None:
    assert Writes.of({"connection.url": "x", "tables": ""}).tables == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("insert.mode", "merge", "String must be one of: insert, upsert"),
        ("pk.mode", "x", "String must be one of: none, record_key"),
        ("batch.size", "many", "Not a number of type INT"),
        ("batch.size", "", "Not a number of type INT"),
        ("batch.size", "1_0", "Not a number of type INT"),
        ("batch.size", str(2**31), "Not a number of type INT"),
        ("batch.size", "0", "Value must be at least 1"),
        ("batch.size", "10001", "Value must be no more than 10000"),
        ("position", str(2**63), "Not a number of type LONG"),
        ("ratio", "half", "Not a number of type DOUBLE"),
        ("auto.create", "yes", "Expected value to be either true or false"),
    ],
)
def test_a_bad_value_is_told_in_kafkas_words(name: str, text: str, reason: str) -> None:
    config = Writes.read({"connection.url": "x", name: text})

    assert config.problems() == [
        Problem(name, f"Invalid value {text} for configuration {name}: {reason}")
    ]
    assert config.wrong == {name}


def test_checks_over_several_settings_run_though_single_ones_are_wrong() -> None:
    config = Writes.read({"insert.mode": "upsert", "batch.size": "x"})

    assert [problem.key for problem in config.problems()] == ["connection.url", "batch.size"]
    assert [problem.key for problem in config.check()] == ["pk.mode"]


def test_everything_wrong_is_in_one_error() -> None:
    with pytest.raises(ConfigError) as raised:
        Writes.of({"insert.mode": "upsert", "batch.size": "x"})

    for part in ('"connection.url" which has no default', "batch.size", "set pk.mode"):
        assert part in str(raised.value)


def test_other_names_of_a_setting_are_known() -> None:
    assert Writes.of({"jdbc.url": "x"}).url == "x"
    assert Writes.of({"jdbc.url": "x", "connection.url": "y"}).url == "y"


def test_null_is_as_if_it_were_not_there() -> None:
    assert Writes.of({"connection.url": "x", "batch.size": None}).batch == 3000


def test_a_password_is_in_no_text() -> None:
    config = Writes.of({"connection.url": "x", "connection.password": "geheim"})

    assert "geheim" not in f"{config!r} {config}"


def test_values_under_a_prefix() -> None:
    config = Writes.read({"connection.url": "x", "connection.timeout": "5"})

    assert config.with_prefix("connection.") == {"url": "x", "timeout": "5"}


def test_the_models_do_not_share_their_settings() -> None:
    class More(Writes):
        more: str = key("more", "")

    assert "more" in More.named()
    assert "more" not in Writes.named()
