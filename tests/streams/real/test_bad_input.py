"""What an operator sees of bad input and damaged state: one line with what, where, what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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

    assert told.startswith(f"moldau: topic={app.name}-lines partition=0 offset=2 operator=")
    assert "ValueError: invalid literal for int()" in told
    assert 'set on_error="skip"' in told


def test_state_that_is_in_use(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"in-use-{tmp_path.name}", tmp_path).make()
    process = app.start()
    app.write("a")
    app.read(lambda found: found == {"a": 1})

    told = last_line(app, app.start())

    assert told.startswith("moldau: another worker uses this state")
    assert str(app.state) in told
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
    assert "the files are kept as" in app.log.read_text()
    assert app.restored() == len(words)


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
    assert (store["rows"], store["changelog_offset"]) == (3, 3)
