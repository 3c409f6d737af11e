"""docs/connect.md, run as it stands: its configs, its properties and its connector."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Consumer, Producer
from moldau.connect import SourceConnector
from moldau.connect.task import parts
from moldau.connect.task.sink import SinkRunner
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, command, wait_until
from tests.connect.task.sink_runners import sink_runner
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

GUIDE = Path(__file__).parents[3] / "docs" / "connect.md"
_MAIN = "from moldau.cli import main; exit(main())"
LAST_S = 90.0


def blocks(language: str) -> list[str]:
    """The page's blocks in one language."""
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return [str(block) for block in found]


def configs() -> dict[str, dict[str, str]]:
    """By the names of the connectors."""
    found = [json.loads(block) for block in blocks("json")]
    return {each["name"]: each["config"] for each in found}


def moldau(*words: str, url: str) -> str:
    """What a command of `moldau` writes."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _MAIN, *words, "--url", url],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


@contextmanager
def dev() -> Iterator[dict[str, str]]:
    """`moldau dev` in this folder: what it says of itself."""
    words = [
        sys.executable,
        "-c",
        _MAIN,
        "dev",
        "--port",
        "0",
        "--listen",
        "127.0.0.1:0",
        "--no-registry",
        "--console",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(5)]
            yield {"bootstrap": lines[1][1], "rest": lines[2][1]}
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def table(file: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query; none while there is no table."""
    with closing(sqlite3.connect(file)) as opened:
        try:
            return opened.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def values(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The first records of a topic."""
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(topic, 0)])
        found: list[Any] = []
        while len(found) < count:
            for part in consumer.poll(1.0):
                found += [None if raw.value is None else bytes(raw.value) for raw in part.records]
        return found


@pytest.mark.real
def test_the_first_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[0], {})  # noqa: S102 - the page's own block
    with dev() as running:
        for name in ("read-orders", "copy-orders"):
            Path(f"{name}.json").write_text(
                json.dumps({"name": name, "config": configs()[name]}), encoding="utf-8"
            )
            moldau("connect", "create", f"{name}.json", url=running["rest"])
        rows = [(1, "tea", 4.5), (2, "cup", 12.0), (3, "pot", 30.0)]
        wait_until(lambda: table("copy.db", "SELECT * FROM orders") == rows, "copied", LAST_S)
        status = moldau("connect", "status", url=running["rest"])
        written = values(running["bootstrap"], "shop-orders", 3)

    assert "at-least-once: a repeated record overwrites its own row" in status
    shown = [line for block in blocks("console") for line in block.splitlines()]
    assert [line.encode() for line in shown if line.startswith("{")] == written


def test_the_connector_of_the_page_counts(tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec(blocks("python")[1], scope)  # noqa: S102 - the page's own block
    kind = scope["CountSourceConnector"]
    assert issubclass(kind, SourceConnector)

    example = Path(__file__).parents[3] / "examples" / "own_connector" / "own_connector.py"
    plain = example.read_text(encoding="utf-8").replace(": Mapping[str, str]", "")
    plain = re.sub(r" -> [^:]+:", ":", plain)
    assert blocks("python")[1].partition("class CountConfig")[2].strip() in plain


def run_sink(
    block: int,
    broker: SyncEmbeddedBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    **settings: str,
) -> SinkRunner:
    """A sink of the page, as a task that has read 1, 2, x, 3 and 4."""
    scope: dict[str, Any] = {}
    exec(blocks("python")[block], scope)  # noqa: S102 - the page's own block
    [kind] = [
        each
        for name, each in scope.items()
        if name.endswith("SinkConnector") and name != "SinkConnector"
    ]
    monkeypatch.setattr(parts, "connector_class", lambda config: kind)
    return sink_runner(broker, topic, [b"1", b"2", b"x", b"3", b"4"], **settings)


def committed(broker: SyncEmbeddedBroker, topic: str) -> int | None:
    given = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"connect-{topic}"}
    with Consumer(given) as consumer:
        found = consumer.committed(consumer.partitions(topic), timeout_s=10)
    return next((each.offset for each in found.values() if each is not None), None)


def test_the_sink_of_the_page_that_flushes(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    runner = run_sink(2, moldau_broker, moldau_topic, monkeypatch, folder=str(tmp_path))

    def is_read() -> bool:
        runner.work()
        return runner.metrics()["sink-record-send-total"] == 5

    wait_until(is_read, "the records are put")
    runner.close(is_clean=True)

    assert (tmp_path / f"{moldau_topic}-0.txt").read_text().split() == ["1", "2", "x", "3", "4"]
    assert committed(moldau_broker, moldau_topic) == 5


def test_the_sink_of_the_page_that_reports_and_commits_pieces(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "sums"
    runner = run_sink(
        3,
        moldau_broker,
        moldau_topic,
        monkeypatch,
        file=str(file),
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=f"{moldau_topic}-dead",
    )

    def is_written() -> bool:
        runner.work()
        return file.exists()

    wait_until(is_written, "a piece is written")
    runner.close(is_clean=True)

    assert file.read_text() == "6\n"
    assert committed(moldau_broker, moldau_topic) == 4
    assert values(moldau_broker.bootstrap_servers, f"{moldau_topic}-dead", 1) == [b"x"]


@pytest.fixture
def worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: TestDatabase
) -> Iterator[tuple[Worker, str]]:
    """A worker with the page's properties in a folder of its own, and its broker."""
    monkeypatch.chdir(tmp_path)
    Path("connect-distributed.properties").write_text(blocks("properties")[0], encoding="utf-8")
    with SyncEmbeddedBroker() as broker, command(
        "start", "-c", "connect-distributed.properties",
        "--bootstrap", broker.bootstrap_servers, "--listen", "127.0.0.1:0",
        environment={"WAREHOUSE": database.url},
    ) as running:  # fmt: skip
        yield running, broker.bootstrap_servers


def fetched(target: TestDatabase, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query; none while there is no table."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return target.rows(query)
    except SQLAlchemyError:
        return []


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.databases("sqlite", "postgresql")
def test_configs_of_java_run_as_they_are(
    worker: tuple[Worker, str], database: TestDatabase
) -> None:
    running, bootstrap = worker
    Path("test.txt").write_text("foo\nbar\n", encoding="utf-8")
    with closing(sqlite3.connect("shop.db")) as shop:
        shop.execute(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY NOT NULL, name TEXT, card TEXT, "
            "changed TIMESTAMP NOT NULL)"
        )
        shop.execute(
            "INSERT INTO customers VALUES (1, 'Ada', '4242', '2026-01-02 03:04:05'), "
            "(2, 'Jan', '1717', '2026-01-02 03:04:05')"
        )
        shop.commit()
    for name in ("local-file-source", "local-file-sink", "jdbc-source", "jdbc-sink"):
        running.create(name, configs()[name])

    wait_until(lambda: content("test.sink.txt") == LINES, "the lines are there", LAST_S)
    customers = "SELECT id, full_name, card FROM customers ORDER BY id"
    wanted = [(1, "Ada", "****"), (2, "Jan", "****")]
    wait_until(lambda: fetched(database, customers) == wanted, "the rows are there", LAST_S)
    _, shown = running.ask("GET", "/connectors/jdbc-sink")
    assert shown["config"]["connection.url"] == "${env:WAREHOUSE}"

    send_events(bootstrap)
    running.create("debezium-sink", configs()["debezium-sink"])
    orders = "SELECT id, item FROM orders ORDER BY id"
    wait_until(lambda: fetched(database, orders) == [(2, "pot")], "the events are rows", LAST_S)


LINES = [
    "Struct{line=foo,data_source=test-file-source}",
    "Struct{line=bar,data_source=test-file-source}",
]


def content(file: str) -> list[str]:
    path = Path(file)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def send_events(bootstrap: str) -> None:
    """What Debezium writes of two inserts, an update and a delete."""
    row = {
        "type": "struct", "optional": True, "name": "db.public.orders.Value",
        "fields": [
            {"type": "int32", "optional": False, "field": "id"},
            {"type": "string", "optional": True, "field": "item"},
        ],
    }  # fmt: skip
    event = {
        "type": "struct", "optional": False, "name": "db.public.orders.Envelope",
        "fields": [
            {**row, "field": "before"}, {**row, "field": "after"},
            {"type": "string", "optional": False, "field": "op"},
        ],
    }  # fmt: skip
    key = {
        "type": "struct", "optional": False, "name": "db.public.orders.Key",
        "fields": [{"type": "int32", "optional": False, "field": "id"}],
    }  # fmt: skip
    with Producer({"bootstrap.servers": bootstrap}) as producer:

        def send(number: int, value: Mapping[str, Any] | None) -> None:
            whole = None if value is None else {"schema": event, "payload": dict(value)}
            producer.send(
                "db.public.orders",
                None if whole is None else json.dumps(whole).encode(),
                key=json.dumps({"schema": key, "payload": {"id": number}}).encode(),
            )

        send(1, {"before": None, "after": {"id": 1, "item": "tea"}, "op": "c"})
        send(2, {"before": None, "after": {"id": 2, "item": "cup"}, "op": "r"})
        send(2, {"before": None, "after": {"id": 2, "item": "pot"}, "op": "u"})
        send(1, {"before": {"id": 1, "item": "tea"}, "after": None, "op": "d"})
        send(1, None)
