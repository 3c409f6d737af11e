"""A global table under `moldau streams run`: what was stored before a kill is not read again."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.streams.real.running import App

pytestmark = pytest.mark.real

ROWS = 20_000
_FROM = re.compile(r"global table: restoring from \S+, offsets (\d+) to (\d+)")


def put(app: App, rows: range, generation: str) -> None:
    with Producer(bootstrap_servers=app.servers) as producer:
        producer.send_many(
            f"{app.name}-names",
            [f"{number} {generation}".encode() for number in rows],
            keys=[str(number).encode() for number in rows],
        )
        producer.flush()


def test_after_kill_a_global_table_is_read_from_where_it_was_stored(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"named-{tmp_path.name}", tmp_path, "named").make()
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{app.name}-names", 3, 1))
    put(app, range(ROWS), "old")
    process = app.start()
    app.write("7", "19999")
    first = {"7": "7 old", "19999": "19999 old"}
    app.read(lambda found: found == first, value=bytes.decode)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL

    put(app, range(5, 10), "new")
    process = app.start()
    app.write("7", "20")
    then = {**first, "7": "7 new", "20": "20 old"}
    app.read(lambda found: found == then, value=bytes.decode)
    app.stop(process)

    told = [(int(begin), int(end)) for begin, end in _FROM.findall(app.log.read_text())]
    at_first = [each for each in told if each[0] == 0]
    after_kill = [each for each in told if each[0] > 0]
    assert sum(end for _, end in at_first) == ROWS
    assert sum(end - begin for begin, end in after_kill) == 5
