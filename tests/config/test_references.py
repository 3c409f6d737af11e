"""References bring values from elsewhere, and only what is allowed, and never into sight."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import (
    BadSettings,
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
    Layer,
    Secret,
    Setting,
    SettingTable,
    load_assignments,
    overrides,
    resolve_references,
)
from moldau.config.references import ConfigProvider

CANARY = "canary-7f3a"


class Shelf:
    """Files in a dict."""

    texts: Mapping[str, str] = {
        "/run/secrets/db.properties": f"password={CANARY}\nport=5432\n",
        "/run/secrets/token": f"{CANARY}\n",
        "/run/secrets.properties": "password=outside\n",
        "/etc/passwd": "root",
    }

    def read_text(self, path: str, /) -> str:
        if path.endswith(".latin"):
            raise UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, "invalid start byte")
        if path not in self.texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.texts[path]


PROVIDERS: Mapping[str, ConfigProvider] = {
    "env": EnvironmentProvider(
        {"DB_PORT": "5432", "DB_PORT_KEY": CANARY, "HOME": "/root"}, "DB_[A-Z]*"
    ),
    "file": FileProvider(Shelf(), ["/run/secrets"]),
    "directory": DirectoryProvider(Shelf(), ["/run/secrets"]),
}


def resolve(*arguments: str) -> dict[str, object]:
    layer = resolve_references(load_assignments(arguments), PROVIDERS)
    return {each.name: each.value for each in layer}


def test_references_are_replaced_wherever_they_stand() -> None:
    assert resolve(
        "a=${env:DB_PORT}",
        "b=host:${env:DB_PORT}/${file:/run/secrets/db.properties:password}",
        "c=${directory:/run/secrets:token}",
        "d=plain",
        "e=$1 ${x} {y:z}",
    ) == {
        "a": "5432",
        "b": f"host:5432/{CANARY}",
        "c": f"{CANARY}\n",
        "d": "plain",
        "e": "$1 ${x} {y:z}",
    }


class Echo:
    """Gives back what it was asked for."""

    def lookup(self, path: str, key: str, /) -> str:
        return f"<{path}|{key}>"


AS_KAFKA_HAS_IT = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


@given(st.text(alphabet="${}:ab", max_size=40))
def test_references_are_found_where_kafkas_pattern_finds_them(text: str) -> None:
    names = {found[0] for found in AS_KAFKA_HAS_IT.findall(text)}
    layer = resolve_references(overrides({"x": text}), dict.fromkeys(names, Echo()))
    wanted = AS_KAFKA_HAS_IT.sub(lambda found: f"<{found[2] or ''}|{found[3]}>", text)
    assert [each.value for each in layer] == [wanted]


@pytest.mark.parametrize("text", ["${" * 500_000, "${a:" * 250_000, "${" * 500_000 + "}"])
def test_what_begins_and_never_ends_takes_linear_time(text: str) -> None:
    layer = overrides({"x": text})
    begun = time.process_time()
    assert resolve_references(layer, {})[0].value == text
    assert time.process_time() - begun < 5  # the square of it would take an hour


def test_references_are_replaced_in_lists() -> None:
    (given,) = resolve_references(overrides({"a": ("x", "${env:DB_PORT}")}), PROVIDERS)
    assert given.value == ("x", "5432")
    assert given.reference == "x,${env:DB_PORT}"


def test_what_a_provider_gives_is_not_searched_again() -> None:
    providers = {"env": EnvironmentProvider({"A": "${env:B}", "B": CANARY}, ".*")}
    (given,) = resolve_references(load_assignments(["a=${env:A}"]), providers)
    assert given.value == "${env:B}"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:HOME}", "the allowlist does not name this variable"),
        ("${env:DB_PORT_KEY}", "the allowlist does not name this variable"),
        ("${env:DB_HOST}", "the environment variable is not set"),
        ("${env:x:DB_PORT}", "an environment variable has no path"),
        ("${vault:secret:key}", "no config provider is called vault; allowed: env, file"),
        ("${file:/etc/passwd:root}", "the allowlist does not name this path"),
        ("${file:/run/secrets/../../etc/passwd:root}", "the allowlist does not name this path"),
        ("${file:/run/secrets.properties:password}", "the allowlist does not name this path"),
        ("${file:run/secrets/x:y}", "the allowlist does not name this path"),
        ("${file:/run/secrets/db.properties:user}", "the file has no such key"),
        ("${file:/run/secrets/none:user}", "No such file or directory"),
        ("${file:/run/secrets/x.latin:user}", "the file is not UTF-8"),
        ("${directory:/etc:passwd}", "the allowlist does not name this path"),
        ("${directory:/run/secrets:../../etc/passwd}", "the name of a file in the directory"),
        ("${directory:/run/secrets/x:..}", "the name of a file in the directory"),
    ],
)
def test_what_cannot_or_must_not_be_read_is_a_problem(reference: str, reason: str) -> None:
    with pytest.raises(BadSettings) as caught:
        resolve("good=${env:DB_PORT}", f"bad={reference}")
    (problem,) = caught.value.problems
    assert problem.name == "bad"
    assert reason in str(problem)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_all_bad_references_are_told_at_once() -> None:
    with pytest.raises(BadSettings) as caught:
        resolve("a=${x:1}${y:2}", "b=${env:HOME}")
    assert [problem.name for problem in caught.value.problems] == ["a", "a", "b"]


def test_providers_allow_nothing_unless_told() -> None:
    for provider in (EnvironmentProvider({"A": "1"}), FileProvider(Shelf())):
        with pytest.raises(BadSettings):
            resolve_references(load_assignments(["a=${p:/etc/passwd:A}"]), {"p": provider})


port = Setting("port", int, 0, "A port.")
address = Setting("address", str, None, "An address.")
password = Setting("password", Secret, None, "A password.")
TABLE = SettingTable([port, address, password])


def _given(*arguments: str) -> Layer:
    return resolve_references(load_assignments(arguments), PROVIDERS)


def test_only_the_reference_is_shown_of_a_referenced_value() -> None:
    written = "db:${file:/run/secrets/db.properties:password}"
    pair = "password=${directory:/run/secrets:token}"
    settings = TABLE.resolve(_given(f"address={written}", pair))
    assert settings[address] == f"db:{CANARY}"
    assert settings[password] == Secret(CANARY)
    described = {each.setting.name: each for each in settings.described()}
    assert described["address"].text == written
    assert [each.text for each in described["address"].synonyms] == [written]
    assert described["password"].text is None
    assert CANARY not in repr(list(described.values()))


def test_a_referenced_value_that_is_not_allowed_is_not_shown() -> None:
    with pytest.raises(BadSettings) as caught:
        TABLE.resolve(_given("port=${file:/run/secrets/db.properties:password}"))
    assert "${file:/run/secrets/db.properties:password}" in str(caught.value)
    assert CANARY not in str(caught.value)
