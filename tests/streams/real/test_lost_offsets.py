"""An app whose group has lost its offsets, or whose input has lost records that were not read."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.sync import Admin, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import App, streams

pytestmark = pytest.mark.real


def plan(app: App) -> tuple[int, dict[str, Any]]:
    """The exit code of `moldau streams plan`, and what it says."""
    code, out, _ = streams(app, "plan", "--json", "--state", str(app.state))
    return code, json.loads(out)


def counted(broker: SyncEmbeddedBroker, folder: Path) -> App:
    """An app that has counted two words, and was stopped."""
    name = f"lost-{folder.name}".replace("_", "-")
    app = App(broker.bootstrap_servers, name, folder, partitions=1).make()
    process = app.start()
    app.write("a b a")
    app.read(lambda found: found == {"a": 2, "b": 1})
    app.stop(process)
    assert plan(app)[0] == 0
    return app


def run(app: App, *words: str) -> str:
    """The last line of an app that does not start."""
    process = app.start(*words)
    assert process.wait(60) == 1, app.log.read_text()
    return app.log.read_text().splitlines()[-1]


def test_rows_of_a_group_without_offsets_are_not_counted_twice(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = counted(moldau_broker, tmp_path)
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.delete_group(app.name)
    code, found = plan(app)
    assert code == 1
    (said,) = found["problems"]
    assert said.startswith("store counts: it has rows and its group has no offsets")
    refused = run(app)
    assert said.removeprefix("store counts: ") in refused
    assert f"app={app.name} store=counts" in refused
    assert run(app, "--state", str(tmp_path / "empty")) == refused

    code, _, err = streams(app, "reset", "--state", str(app.state), "--execute")
    assert code == 0, err
    assert plan(app)[0] == 0
    process = app.start()
    app.write("c")
    assert app.read(lambda found: "c" in found) == {"a": 2, "b": 1, "c": 1}
    app.stop(process)


def test_rows_of_one_input_without_offsets_are_not_counted_twice(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = counted(moldau_broker, tmp_path)
    repartition = f"{app.name}-counts-repartition"
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.delete_group_offsets(app.name, [TopicPartition(repartition, 0)])
        left = {where.topic for where in admin.group_offsets(app.name)}
    assert left == {f"{app.name}-lines"}
    code, found = plan(app)
    assert code == 1
    (said,) = found["problems"]
    assert said.startswith(
        f"store counts: it has rows and its group has no offsets of {repartition}-0"
    )
    assert said.removeprefix("store counts: ") in run(app)

    code, _, err = streams(app, "reset", "--state", str(app.state), "--execute")
    assert code == 0, err
    process = app.start()
    app.write("c")
    assert app.read(lambda found: "c" in found) == {"a": 2, "b": 1, "c": 1}
    app.stop(process)


def test_at_least_once_warns_of_rows_without_offsets(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = counted(moldau_broker, tmp_path)
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.delete_group(app.name)
    app.settings = (*app.settings, "processing.guarantee=at_least_once")
    process = app.start()
    app.read(lambda found: found.get("a", 0) > 2)
    app.stop(process)
    assert "are processed twice" in app.log.read_text()


def test_what_was_killed_before_its_first_commit_starts_again(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"first-{tmp_path.name}".replace("_", "-")
    app = App(moldau_broker.bootstrap_servers, name, tmp_path, partitions=1).make()
    changelog = f"{name}-counts-changelog"
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(changelog, 1, 1))
    with (
        Producer(bootstrap_servers=app.servers, transactional_id=name) as producer,
        suppress(ZeroDivisionError),
        producer.transaction(),
    ):
        producer.send(changelog, b"7", key=b"a")
        producer.flush()
        raise ZeroDivisionError
    assert app.changelog_records() > 0
    assert plan(app)[0] == 0
    process = app.start()
    app.write("a")
    assert app.read(lambda found: "a" in found) == {"a": 1}
    app.stop(process)


def test_records_that_are_gone_unread_are_told_by_the_plan(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = counted(moldau_broker, tmp_path)
    app.write("c", "d", "e")
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.delete_records({TopicPartition(f"{app.name}-lines", 0): 3})
    code, found = plan(app)
    assert code == 1
    (said,) = found["problems"]
    assert f"input {app.name}-lines partition 0: 2 records" in said
