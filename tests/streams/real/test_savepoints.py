"""A savepoint of an app that was killed under load, and the app that goes on from it elsewhere."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import App, copied, streams

LINES = [f"w{at % 17} w{at % 5}" for at in range(4000)]


def counts(*lines: str) -> dict[str, int]:
    return dict(Counter(word for line in lines for word in line.split()))


@pytest.mark.parametrize("partitions", [2, 3])
def test_an_app_that_was_killed_goes_on_in_another_cluster(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, partitions: int
) -> None:
    name = f"saved-{tmp_path.name}".replace("_", "-")
    here = App(moldau_broker.bootstrap_servers, name, tmp_path / "here")
    here.folder.mkdir()
    here.make()
    place = f"file://{tmp_path}/savepoint"
    running = here.start()
    for first in range(0, len(LINES), 500):
        here.write(*LINES[first : first + 500])
        if first == 1500:
            here.read(lambda found: found.get("w0", 0) > 20)
            code, _, err = streams(here, "savepoint", place)
            assert code == 1
            assert "it still runs, with 1 worker in its group: stop it first" in err
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()

    code, out, err = streams(here, "savepoint", place, "--force")
    assert code == 0, err
    assert "restore it with moldau streams restore tests.streams.real.apps:words" in out
    code, _, err = streams(here, "savepoint", place, "--force")
    assert "it has files already" in err

    with SyncEmbeddedBroker({}) as other:
        there = App(other.bootstrap_servers, name, tmp_path / "there")
        there.folder.mkdir()
        there.make()
        code, _, err = streams(there, "restore", place)
        assert code == 1
        assert "it is not the same topic, or records have been deleted" in err
        copied(here.servers, there.servers, f"{name}-lines")
        if partitions > 2:
            code, _, err = streams(there, "reset", "--execute")
            assert code == 0, err
            with Admin(bootstrap_servers=there.servers) as admin:
                admin.create_partitions(f"{name}-lines", partitions)
        code, out, err = streams(there, "restore", place)
        assert code == 0, err
        code, _, err = streams(there, "restore", place)
        assert "so it has run here: moldau streams reset" in err
        running = there.start()
        more = [f"w{at % 17} new" for at in range(200)]
        there.write(*more)
        expected = counts(*LINES, *more)
        assert there.read(lambda found: found == expected) == expected
        there.stop(running)
        last = there.start("--state", str(tmp_path / "empty"))
        there.write("w1 new")
        expected = counts(*LINES, *more, "w1 new")
        assert there.read(lambda found: found == expected) == expected, "from the changelogs alone"
        there.stop(last)


def test_a_savepoint_names_stores_that_cannot_be_divided(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"undivided-{tmp_path.name}".replace("_", "-")
    app = App(moldau_broker.bootstrap_servers, name, tmp_path, which="together", partitions=1)
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{name}-narrow", 1, 1))
    running = app.make().start()
    with Producer(bootstrap_servers=app.servers) as producer:
        producer.send(f"{name}-narrow", b"row", key=b"a", timestamp_ms=1)
        producer.send(f"{name}-lines", b"line ", key=b"a", timestamp_ms=2)
    assert app.read(bool, value=bytes.decode) == {"a": "line row"}
    app.stop(running)
    code, out, err = streams(app, "savepoint", f"file://{tmp_path}/said")
    assert code == 0, err
    assert "a restore needs the numbers of partitions that its inputs have now" in out
    code, out, err = streams(app, "savepoint", f"file://{tmp_path}/facts", "--json")
    assert code == 0, err
    (why,) = json.loads(out)["undivided"].values()
    assert "in the partitions of its input" in why
    with Admin(bootstrap_servers=app.servers) as admin:
        for topic in ("narrow", "lines"):
            admin.create_partitions(f"{name}-{topic}", 2)
    assert streams(app, "reset", "--state", str(app.state), "--execute")[0] == 0
    code, _, err = streams(app, "restore", f"file://{tmp_path}/said")
    assert code == 1
    assert why in err


def test_a_damaged_file_is_refused(moldau_broker: SyncEmbeddedBroker, tmp_path: Path) -> None:
    name = f"damaged-{tmp_path.name}".replace("_", "-")
    app = App(moldau_broker.bootstrap_servers, name, tmp_path).make()
    running = app.start()
    app.write("a b a")
    app.read(lambda found: found == {"a": 2, "b": 1})
    app.stop(running)
    code, _, err = streams(app, "savepoint", f"file://{tmp_path}/savepoint")
    assert code == 0, err
    logs = (tmp_path / "savepoint").glob("*.log")
    log = max(logs, key=lambda each: each.stat().st_size)
    log.write_bytes(log.read_bytes()[:-1])
    with SyncEmbeddedBroker({}) as other:
        there = App(other.bootstrap_servers, name, tmp_path)
        there.make()
        copied(app.servers, there.servers, f"{name}-lines")
        code, _, err = streams(there, "restore", f"file://{tmp_path}/savepoint")
        assert code == 1
        assert f"the file {log.name} is missing or damaged" in err
        with Consumer(bootstrap_servers=there.servers) as consumer:
            where = TopicPartition(f"{name}-counts-changelog", 0)
            assert consumer.end_offsets([where]) == {where: 0}
