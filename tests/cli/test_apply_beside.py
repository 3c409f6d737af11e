"""`moldau apply` with a registry and a Connect worker, and the blocks of docs/apply.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.connect.processes import command
from tests.registry.served import process

GUIDE = (Path(__file__).parents[2] / "docs" / "apply.md").read_text("utf-8")
pytestmark = pytest.mark.real

DOCUMENT = """
topics:
  parcels:
schemas:
  parcels-value:
    type: avro
    references: [{name: Id, subject: parcel-id, version: 1}]
    schema: '{"type": "record", "name": "Parcel", "fields": [{"name": "id", "type": "Id"}]}'
  parcel-id:
    file: id.avsc
    compatibility: FULL
connectors:
  parcels-file:
    connector.class: FileStreamSink
    topics: [parcels]
    file: FILE
    value.converter: org.apache.kafka.connect.storage.StringConverter
"""
ID = '{"type": "record", "name": "Id", "fields": [{"name": "number", "type": "long"}]}'


@dataclass
class Platform:
    """A broker with a registry and a worker beside it, and a folder for documents."""

    shell: Shell
    registry: str
    connect: str


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    settings = {
        "authorizer.class.name": "standard",
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",  # a sink that is leaving would make its topic again
    }
    with SyncEmbeddedBroker(settings=settings) as broker:
        bootstrap = broker.bootstrap_servers
        words = ("start", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0")
        with process(bootstrap) as (_, url), command(*words, environment={}) as worker:
            yield Platform(Shell(bootstrap), url, worker.url)


def test_schemas_and_connectors_are_made_changed_and_removed(
    platform: Platform, tmp_path: Path
) -> None:
    file, sink = tmp_path / "all.yaml", tmp_path / "out.txt"
    (tmp_path / "id.avsc").write_text(ID)
    text = DOCUMENT.replace("FILE", str(sink))
    file.write_text(text)
    places = ("--registry", platform.registry, "--connect", platform.connect)
    words = ("apply", "-f", str(file), *places, "--json")
    good = platform.shell.good
    planned = good(*words, "--yes").json
    assert [(each["action"], each["name"]) for each in planned["steps"]] == [
        ("create", "parcels"),
        ("create", "parcel-id"),
        ("create", "parcels-value"),
        ("create", "parcels-file"),
    ]
    assert good(*words).json["counts"]["keep"] == 4

    exported = tmp_path / "exported.yaml"
    exported.write_text(good("export", "topics", "schemas", "connectors", *places).out)
    again = good("apply", "-f", str(exported), *places, "--prune", "--json").json
    assert {each["action"] for each in again["steps"]} == {"keep"}, again

    file.write_text(text.replace("out.txt", "other.txt"))
    (tmp_path / "id.avsc").write_text(ID.replace('"long"', '"string"'))
    refused = platform.shell(*words, "--yes")
    notes = {each["name"]: each["note"] for each in refused.json["steps"]}
    assert refused.code == 1
    assert "it may not follow the versions there" in notes["parcel-id"]
    assert f"{file}:" in notes["parcel-id"]
    (tmp_path / "id.avsc").write_text(
        ID.replace("}]", '}, {"name": "shop", "type": "int", "default": 0}]')
    )
    changed = {each["name"]: each for each in good(*words, "--yes").json["steps"]}
    assert changed["parcel-id"]["changes"] == [
        {"what": "schema", "before": "version 1", "after": "version 2"}
    ]
    assert changed["parcels-file"]["changes"] == [
        {"what": "file", "before": str(sink), "after": str(tmp_path / "other.txt")}
    ]
    assert good(*words).json["counts"]["keep"] == 4

    file.write_text("schemas:\nconnectors:\n")
    removed = good(*words, "--prune", "connectors", "--yes").json["steps"]
    assert ("remove", "parcels-file") in [(each["action"], each["name"]) for each in removed]
    assert good("export", "connectors", *places, "--json").json == {"connectors": {}}


def test_a_connector_that_its_worker_refuses_is_named(platform: Platform, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "connectors:\n  none: {connector.class: NoSuchSink, topics: t}\n"
        "  half: {connector.class: JdbcSink, topics: t, connection.password: geheim}\n"
        "  hidden: {connector.class: FileStreamSink, topics: t, x.password: '[hidden]'}\n"
    )
    done = platform.shell("apply", "-f", str(file), "--connect", platform.connect, "--json")
    notes = {each["name"]: each["note"] for each in done.json["steps"]}
    assert done.code == 1
    assert "NoSuchSink" in notes["none"]
    assert "connection.url" in notes["half"]
    assert "write a reference, such as ${env:NAME}" in notes["hidden"]
    assert "geheim" not in done.out + done.err


def test_places_that_do_not_answer_are_named(platform: Platform, tmp_path: Path) -> None:
    file = tmp_path / "lost.yaml"
    file.write_text("connectors:\n  a: {connector.class: FileStreamSink, topics: t}\n")
    done = platform.shell("apply", "-f", str(file), "--connect", "http://127.0.0.1:1")
    assert "connectors: no Connect worker answers at http://127.0.0.1:1" in done.err
    assert "--connect" in done.err


def test_the_blocks_of_the_guide_run(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shop, beside = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "shop.yaml").write_text(shop)
    shell = platform.shell
    for topic in shell.good("topic", "list", "--json").json:
        if not topic["name"].startswith(("_", "connect-")):
            shell.good("topic", "delete", topic["name"])
    shell.environment |= {"ANN_PASSWORD": "a secret"}
    sessions = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    for session in sessions:
        for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            said, _, told = step.partition("\n")
            words, to_file, _ = said.partition(" > ")
            name, *arguments = shlex.split(words)
            if "remove" in told:
                shell.good("topic", "create", "old")
            out = shell.good(*arguments).out
            assert (name, "" if to_file else out) == ("moldau", told)
    (tmp_path / "beside.yaml").write_text(beside)
    places = ("--registry", platform.registry, "--connect", platform.connect)
    made = shell.good("apply", "-f", "beside.yaml", *places, "--yes", "--json").json
    assert made["counts"]["create"] == 2
    assert shell.good("apply", "-f", "beside.yaml", *places, "--json").json["counts"]["keep"] == 2
