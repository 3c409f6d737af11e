"""`moldau streams reset`: a stopped app begins again, by the commands that a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import ROOT, App, no_process_left

pytestmark = pytest.mark.real


def reset(app: App, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    return reset_of(app, f"tests.streams.real.apps:{app.which}", *words)


def reset_of(app: App, *words: str) -> tuple[int, str, str]:
    """Do the same for what the words name."""
    command = [sys.executable, "-m", "moldau.cli", "streams", "reset", "-b", app.servers]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--state", str(app.state), *words],
        env={**os.environ, "APP": app.name},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def facts(app: App, *words: str) -> dict[str, Any]:
    code, out, err = reset(app, "--json", *words)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def topics_of(app: App) -> set[str]:
    with Admin(bootstrap_servers=app.servers) as admin:
        names = [each.name for each in admin.list_topics()]
    return {each.removeprefix(app.name) for each in names if each.startswith(app.name)}


def test_an_app_counts_from_the_beginning_again(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = App(moldau_broker.bootstrap_servers, f"again-{tmp_path.name}", tmp_path).make()
    inputs = {"-lines", "-out", "-largest"}
    code, out, _ = reset(app)
    assert code == 0
    assert "topics" not in out, "nothing is there to delete before the first run"

    running = app.start("--workers", "2")
    app.write("to be or", "not to be")
    app.read(lambda found: found == {"to": 2, "be": 2, "or": 1, "not": 1})
    code, out, err = reset(app, "--execute")
    assert code == 1, "a worker runs"
    assert "stop" in err
    app.stop(running)
    own = topics_of(app) - inputs
    assert any(each.endswith("-changelog") for each in own)

    plan = facts(app, "--to-earliest")
    assert not plan["executed"]
    assert plan["obstacles"] == []
    assert {each.removeprefix(app.name) for each in plan["topics"]} == own
    assert sum(each["before"] or 0 for each in plan["offsets"]) == 2
    assert {each["after"] for each in plan["offsets"]} == {0}
    assert topics_of(app) == inputs | own, "a dry run deletes nothing"

    assert facts(app, "--execute")["executed"]
    assert topics_of(app) == inputs, "what the app has written stays"
    assert not (app.state / app.name).exists()
    code, out, _ = reset(app, "--execute")
    assert (code, out) == (0, f"{app.name} has nothing to reset: it begins there already\n")

    running = app.start("--workers", "2")
    app.write("to be or not")  # each word has a count that only the new run can have written
    app.read(lambda found: found == {"to": 3, "be": 3, "or": 2, "not": 2})
    app.stop(running)
    rows = {key for part, _ in app.changelog("counts").values() for key in part}
    assert len(rows) == 4, "the new changelog has the old words: they were counted once more"


def test_an_app_can_begin_with_what_comes_from_now_on(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = App(moldau_broker.bootstrap_servers, f"later-{tmp_path.name}", tmp_path).make()
    app.write("old", "old")
    assert facts(app, "--to-latest", "--execute")["executed"]
    running = app.start()
    app.write("new")
    app.read(lambda found: found == {"new": 1})
    app.stop(running)


def test_a_streams_group_begins_again_with_more_partitions(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    settings = ("commit.interval.ms=200", "group.protocol=streams")
    name = f"wider-{tmp_path.name}"
    app = App(moldau_broker.bootstrap_servers, name, tmp_path, settings=settings).make()
    running = app.start()
    app.write("a b a")
    app.read(lambda found: found == {"a": 2, "b": 1})
    app.stop(running)
    assert reset(app, "--execute")[0] == 0
    with Admin(bootstrap_servers=app.servers) as admin:
        assert {each.offset for each in admin.group_offsets(name).values()} == {0}
        admin.create_partitions(f"{name}-lines", 3)
    running = app.start()
    app.write("c")
    app.read(lambda found: found == {"a": 2, "b": 1, "c": 1})
    app.stop(running)


def test_an_application_id_is_reset_without_its_module(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = App(moldau_broker.bootstrap_servers, f"renamed-{tmp_path.name}", tmp_path).make()
    of_app = ("--application-id", app.name, "--input-topics", f"{app.name}-lines")
    code, _, err = reset_of(app, *of_app)
    assert (code, err.count("\n")) == (2, 1)
    assert f"there is no group {app.name}" in err

    running = app.start()
    app.write("to be")
    app.read(lambda found: found == {"to": 1, "be": 1})
    app.stop(running)
    made = topics_of(app) - {"-lines", "-out", "-largest"}
    code, out, _ = reset_of(app, "--application-id", app.name, "--json")
    plan = json.loads(out)
    assert {each.removeprefix(app.name) for each in plan["topics"]} == made
    assert plan["offsets"] == [], "no input was named"

    code, out, err = reset_of(app, *of_app, "--execute")
    assert (code, err) == (0, "")
    assert topics_of(app) == {"-lines", "-out", "-largest"}
    assert not (app.state / app.name).exists()
    code, out, _ = reset_of(app, *of_app, "--execute")
    assert (code, out) == (0, f"{app.name} has nothing to reset: it begins there already\n")


def test_members_that_ended_without_leaving_are_removed_by_force(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = App(moldau_broker.bootstrap_servers, f"killed-{tmp_path.name}", tmp_path).make()
    with no_process_left():
        app.start()
        app.write("to be")
        app.read(lambda found: found == {"to": 1, "be": 1})
    code, _, err = reset(app, "--execute")
    assert code == 1
    assert "has 1 member: stop them first" in err
    assert "wait, or give --force" in err
    assert facts(app, "--force")["obstacles"] == []
    assert topics_of(app) > {"-lines", "-out", "-largest"}, "a dry run deletes nothing"

    assert facts(app, "--force", "--execute")["executed"]
    assert topics_of(app) == {"-lines", "-out", "-largest"}
    code, _, err = reset(app, "--engine", "spark", "--checkpoint", str(tmp_path), "--force")
    assert (code, "--force has no effect" in err) == (2, True)


def test_inputs_that_are_not_there_are_told_of(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = App(moldau_broker.bootstrap_servers, f"none-{tmp_path.name}", tmp_path)
    code, out, err = reset(app, "--execute")
    assert code == 0
    assert "nothing to reset" in out
    assert f"input {app.name}-lines does not exist" in err
    code, _, err = reset(app, "--to-datetime", "yesterday")
    assert code == 2
    assert "yesterday" in err
