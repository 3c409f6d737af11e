"""`moldau schema`, as a build would call it, against a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.command import Exit
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.registry.served import USER, USER_2, USER_BAD, process

pytestmark = pytest.mark.real

MODEL = """
from dataclasses import dataclass

@dataclass
class User:
    name: str
"""


@pytest.fixture(scope="module")
def registry(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        yield url


@pytest.fixture
def shell(registry: str) -> Shell:
    shell = Shell("localhost:1")
    shell.environment["MOLDAU_REGISTRY"] = registry
    return shell


def test_a_schema_is_put_checked_shown_and_deleted(shell: Shell, tmp_path: Path) -> None:
    files = {}
    for name, text in (("one", USER), ("two", USER_2), ("bad", USER_BAD)):
        files[name] = str(tmp_path / f"{name}.avsc")
        Path(files[name]).write_text(text)
    assert "cmd-user version 1 has id" in shell.good("schema", "put", "cmd-user", files["one"]).out
    good = shell.good("schema", "check", files["two"], "--subject", "cmd-user")
    assert "may follow" in good.out
    bad = shell("schema", "check", files["bad"], "--subject", "cmd-user")
    assert bad.code == Exit.FAILED
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in bad.out
    told = shell("schema", "check", files["bad"], "--subject", "cmd-user", "--json")
    assert (told.code, told.json["is_compatible"]) == (Exit.FAILED, False)
    refused = shell("schema", "put", "cmd-user", files["bad"])
    assert (refused.code, refused.out) == (Exit.FAILED, "")
    assert "incompatible" in refused.err
    shell.good("schema", "put", "cmd-user", files["two"])
    rows = shell.good("schema", "list", "--prefix", "cmd-user").rows
    assert [(row[0], row[1], row[3]) for row in rows] == [("cmd-user", "2", "AVRO")]
    assert json.loads(shell.good("schema", "get", "cmd-user", "--version", "1").out) == json.loads(
        USER
    )
    found = shell.good("schema", "get", "cmd-user", "--json").json
    assert shell.good("schema", "get", "--id", str(found["id"]), "--json").json["id"] == found["id"]
    assert '+      "name": "age",' in shell.good("schema", "diff", "cmd-user").out
    same = shell.good("schema", "diff", "cmd-user", files["two"])
    assert same.out == ""
    gone = shell.good("schema", "delete", "cmd-user", "--version", "1")
    assert gone.out == "deleted cmd-user version 1\n"
    assert shell.good("schema", "delete", "cmd-user", "--json").json == [2]
    assert shell.good("schema", "list", "--prefix", "cmd-user").rows == []
    assert shell.good("schema", "list", "--prefix", "cmd-user", "--deleted").rows != []
    assert shell.good("schema", "delete", "cmd-user", "--permanent", "--json").json == [1, 2]


@pytest.mark.parametrize("schema_type", ["avro", "json"])
def test_a_python_class_is_checked_against_the_registry(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema_type: str
) -> None:
    old, new = f"old_models_{schema_type}", f"new_models_{schema_type}"
    (tmp_path / f"{old}.py").write_text(MODEL)
    (tmp_path / f"{new}.py").write_text(f"{MODEL}    age: int\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    subject, kind = f"cmd-{schema_type}", ("--type", schema_type)
    shell.good("schema", "put", subject, f"{old}:User", *kind)
    shell.good("schema", "check", f"{old}:User", "--subject", subject, *kind)
    against = ("--against", shell.environment.pop("MOLDAU_REGISTRY"))
    bad = shell("schema", "check", f"{new}:User", "--subject", subject, *kind, *against)
    assert bad.code == Exit.FAILED
    assert "age" in bad.out
    shell.good("schema", "delete", subject, *against)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("put", "s", "missing.avsc"), "there is no file missing.avsc"),
        (("put", "s", "no.module:Thing"), "no.module cannot be imported"),
        (("put", "s", "json:dumps"), "is no class"),
        (("put", "s", "-"), "--type"),
        (("put", "s", "json:JSONDecoder", "--type", "protobuf"), "json or --type avro"),
        (("put", "s", "-", "--type", "avro", "--reference", "x"), "NAME=SUBJECT:VERSION"),
        (("get",), "give a subject or --id"),
        (("diff", "nothing-there"), "40401"),
        (("get", "nothing-there"), "40401"),
    ],
)
def test_a_mistake_is_told_without_a_traceback(
    shell: Shell, words: tuple[str, ...], told: str
) -> None:
    done = shell("schema", *words)
    assert done.code in (Exit.MISUSED, Exit.FAILED)
    assert told in done.err
    assert "Traceback" not in done.err


def test_a_registry_that_is_down_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("max.retries=0\nacks=all\n")  # the second is of another client
    words = ("--registry", "http://127.0.0.1:1", "--command-config", str(file))
    done = Shell("localhost:1")("schema", "list", *words)
    assert done.code == Exit.FAILED
    assert "127.0.0.1:1" in done.err


def test_a_topic_of_schemas_needs_a_cluster() -> None:
    done = Shell("127.0.0.1:1")("registry", "start", "--listen", "127.0.0.1:0")
    assert done.code == Exit.FAILED
    assert "127.0.0.1:1" in done.err


def test_an_address_that_other_instances_cannot_use_is_refused() -> None:
    done = Shell("127.0.0.1:1")("registry", "start", "--listen", "0.0.0.0:0")
    assert done.code == Exit.MISUSED
    assert "--advertised" in done.err
