"""What an operator sees of bad input and damaged state: one line with what, where, what to do."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.streams.real.running import App

pytestmark = pytest.mark.real


def last_line(app: App, process: subprocess.Popen[str]) -> str:
    """What a process says that ends by itself with an error."""
    assert process.wait(60) == 1
    log = app.log.read_text()
    assert "Traceback" not in log, log
    return log.splitlines()[-1]


def test_a_missing_input_topic(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"missing-{tmp_path.name}", tmp_path)

    told = last_line(app, app.start())

    assert told == (
        f"moldau: app={app.name}: input topic {app.name}-lines does not exist; create it first"
    )


def test_a_record_that_cannot_be_processed(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"poison-{tmp_path.name}", tmp_path, "numbers", 1).make()
    app.write("1", "2", "three", "4")

    told = last_line(app, app.start())

    assert told == (
        f"moldau: topic={app.name}-lines partition=0 offset=2 operator=map_values(int): "
        "ValueError: invalid literal for int() with base 10: 'three'; repair the record or the "
        'function, or set on_error="skip", retry(...) or dead_letter(...) on the operator or the '
        "app"
    )


def test_topics_that_cannot_be_joined(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"narrow-{tmp_path.name}", tmp_path, "together", 3).make()
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{app.name}-narrow", 2, 1))

    assert last_line(app, app.start()) == (
        f"moldau: app={app.name}: records of these topics meet by key, so they need the same "
        f"number of partitions: {app.name}-lines=3, {app.name}-narrow=2; repartition one of the "
        "streams: "
        '.repartition(name="...", partitions=N)'
    )


def test_a_store_of_another_kind_and_of_another_type(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"changed-{tmp_path.name}", tmp_path, partitions=1).make()
    process = app.start()
    app.write("a b")
    app.read(lambda found: len(found) == 2)
    app.stop(process)

    app.which = "kind_changed"
    assert last_line(app, app.start()) == (
        "moldau: the store counts holds key-value rows and the topology now wants window: give the "
        "store another name, or remove this state and its changelog topic "
        f"(path='{app.state}/{app.name}/0/tasks/1_0')"
    )
    app.which = "type_changed"
    app.write("a")
    assert last_line(app, app.start()) == (
        "moldau: store=counts: a value is no list[str]: Expected `array`, got `int`: b'1'; the "
        "app's types have changed: declare a type that reads both, or rename the store so that it "
        "is built anew"
    )
    app.which = "words"
    process = app.start()
    app.read(lambda found: found.get("a", 0) >= 2)
    app.stop(process)


def test_an_input_with_another_number_of_partitions(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"wider-{tmp_path.name}", tmp_path, partitions=1).make()
    process = app.start()
    app.write("a")
    app.read(lambda found: len(found) == 1)
    app.stop(process)
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_partitions(f"{app.name}-lines", 2)

    assert last_line(app, app.start()) == (
        f"moldau: the topic {app.name}-counts-repartition has 1 partition and the app now needs "
        "2, because an input has another number than before, so keys would move: let the app begin "
        "again with moldau streams reset, which reads the inputs anew; a savepoint, whose restore "
        "divides the keys anew, has to be taken before an input gets more partitions"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """A directory, and what a command begins with to have a file system of two megabytes there,
    which no other process sees and which goes with it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=2m tmpfs "{disk}" && exec "$@"'
    prefix = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh")
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        pytest.skip(f"there is no unshare: {error}")
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    return disk, prefix


def test_a_full_disk_stops_the_app_and_loses_nothing(
    moldau: MoldauBroker, tmp_path: Path, small_disk: tuple[Path, tuple[str, ...]]
) -> None:
    settings = ("commit.interval.ms=200", "rocksdb.write.buffer.bytes=65536")
    name = f"full-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, partitions=1, settings=settings).make()
    app.state, app.prefix = small_disk
    words = [random.Random(number).randbytes(100).hex() for number in range(30_000)]
    process = app.start()
    try:
        end = time.monotonic() + 60
        # What is in memory as the disk fills fails no write: the next one is told.
        while process.poll() is None and time.monotonic() < end:
            app.write(*words)
        told = last_line(app, process)
    finally:
        process.kill()

    assert told.startswith("moldau: the disk is full: make room and start again (")
    assert "No space left on device" in told
    assert told.endswith(f"(path='{app.state}/{name}/0/tasks/1_0')")
    app.state, app.prefix = tmp_path / "roomy", ()
    process = app.start()
    app.read(
        lambda found: (
            app.log.read_text().count(" tasks ") == 2
            and all(found.get(word, 0) >= 1 for word in words)
        )
    )
    app.stop(process)


def test_state_that_is_in_use(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"in-use-{tmp_path.name}", tmp_path).make()
    process = app.start()
    app.write("a")
    app.read(lambda found: found == {"a": 1})

    told = last_line(app, app.start())

    assert told == (
        "moldau: another worker uses this state: stop it, or give this one its own --state "
        f"(path='{app.state}/{app.name}/0')"
    )
    app.stop(process)


def test_a_damaged_store_is_restored_from_its_changelog(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"damaged-{tmp_path.name}", tmp_path, partitions=1).make()
    process = app.start()
    words = [f"word-{number:04}" for number in range(3000)]
    app.write(*words)
    app.read(lambda found: len(found) == len(words))
    app.stop(process)
    largest = max(app.state.rglob("*.sst"), key=lambda each: each.stat().st_size)
    largest.write_bytes(b"\0" * 2000 + largest.read_bytes()[2000:])

    process = app.start()
    app.write(*words)

    app.read(lambda found: all(found.get(word) == 2 for word in words))
    app.stop(process)
    damage = [line for line in app.log.read_text().splitlines() if "the state is damaged" in line]
    assert len(damage) == 1
    task = app.state / app.name / "0" / "tasks" / "1_0"
    assert "task 1_0: the state is damaged: Corruption: " in damage[0]
    assert damage[0].endswith(
        f"the files are kept as {task}.damaged and the stores are restored from their changelogs"
    )
    assert 0 < app.restored() - len(words) < 100, "a marker for each commit"


def test_the_state_command_lists_stores(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"listed-{tmp_path.name}", tmp_path, partitions=1).make()
    process = app.start()
    app.write("a b c")
    app.read(lambda found: len(found) == 3)

    def listed() -> list[dict[str, object]]:
        command = [sys.executable, "-m", "moldau.cli", "streams", "state"]
        command += ["--state", str(app.state), "--json"]
        found: list[dict[str, object]] = json.loads(subprocess.check_output(command))  # noqa: S603
        return found

    listed()  # beside a worker that runs
    app.stop(process)
    [store] = listed()
    assert (store["app"], store["task"], store["store"]) == (app.name, "1_0", "counts")
    assert store["rows"] == 3
    assert store["changelog_offset"] in (4, 5, 6), "a marker for each commit"
