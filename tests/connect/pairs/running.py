"""Runs a case: a table over a topic into a table or a file, with workers in processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

from moldau.client.sync import Consumer, Producer
from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.model import ADDED, Row, bad_values, problems, rows
from tests.connect.processes import Worker, command
from tests.databases import TestDatabase

PATIENCE_S: Final = 90.0
LATE: Final = 20
"""How many rows commit late."""
_POLLS_S: Final = 1.5
"""Time for a source to read what is committed."""
_LOOK_S: Final = 0.2
_RESTING: Final = threading.Event()
_numbers: Final = count(1)
_CONVERTERS: Final[Mapping[str, str]] = {
    "json with schemas": "org.apache.kafka.connect.json.JsonConverter",
    "avro": "io.confluent.connect.avro.AvroConverter",
}
_TRANSFORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "insert": {"type": "InsertField$Value", "static.field": "region", "static.value": ADDED},
    "cast": {"type": "Cast$Value", "spec": "amount:string"},
    "replace": {"type": "ReplaceField$Value", "exclude": "name"},
    "mask": {"type": "MaskField$Value", "fields": "name"},
}


class Chain:
    """The connectors of a case."""

    def __init__(
        self, broker: MoldauBroker, registry: str, folder: Path, case: Mapping[str, str]
    ) -> None:
        self.broker = broker
        self.case = case
        self.name = f"pairs{next(_numbers)}"
        self.topic = f"{self.name}-item"
        self.file = folder / f"{self.name}.jsonl"
        self.dead = f"{self.name}-dead"
        converter = {"value.converter": _CONVERTERS[case["converter"]]}
        if case["converter"] == "avro":
            converter["value.converter.schema.registry.url"] = registry
        self._converter = converter

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        once = "enabled" if self.case["once"] == "exactly" else "disabled"
        given = {
            "group.id": self.name,
            "config.storage.topic": f"{self.name}-configs",
            "offset.storage.topic": f"{self.name}-offsets",
            "status.storage.topic": f"{self.name}-status",
            "offset.storage.partitions": "2",
            "offset.flush.interval.ms": "200",
            "errors.restart.backoff.ms": "100",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
            "exactly.once.source.support": once,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        with command(
            "start", "--bootstrap", self.broker.bootstrap_servers, "--listen", "127.0.0.1:0",
            *words, environment={},
        ) as worker:  # fmt: skip
            yield worker

    def source(self, url: str) -> dict[str, str]:
        case = self.case
        keys = {"incrementing.column.name": "id", "timestamp.column.name": "changed"}
        transform = _TRANSFORMS[case["transform"]]
        return {
            "connector.class": "JdbcSource",
            "connection.url": url,
            "mode": case["source"],
            **{
                name: column
                for name, column in keys.items()
                if name.split(".")[0] in case["source"]
            },
            "table.whitelist": "item",
            "topic.prefix": f"{self.name}-",
            "poll.interval.ms": "50",
            "batch.max.rows": "20",
            **self._converter,
            **({"transforms": "t"} if transform else {}),
            **{f"transforms.t.{name}": value for name, value in transform.items()},
        }

    def sink(self, url: str) -> dict[str, str]:
        case = self.case
        tolerance: dict[str, str] = {}
        if case["tolerance"] != "none":
            tolerance["errors.tolerance"] = "all"
        if case["tolerance"] == "dead letters":
            tolerance["errors.deadletterqueue.topic.name"] = self.dead
            tolerance["errors.deadletterqueue.topic.replication.factor"] = "1"
        given = {"topics": self.topic, **self._converter, **tolerance}
        if case["sink"] == "lines":
            return {
                **given,
                "connector.class": "FileStreamSink",
                "file": str(self.file),
                "format": "jsonl",
            }
        key = {"pk.mode": "record_value", "pk.fields": "id"} if case["sink"] == "upsert" else {}
        return {
            **given,
            **key,
            "connector.class": "JdbcSink",
            "connection.url": url,
            "table.name.format": "copies",
            "insert.mode": case["sink"],
            "auto.create": "true",
        }


def run_case(
    broker: MoldauBroker, registry: str, folder: Path, databases: tuple[TestDatabase, TestDatabase],
    case: Mapping[str, str],
) -> list[str]:  # fmt: skip
    """Return what is wrong with what the sink has in the end."""
    origin, target = databases
    chain = Chain(broker, registry, folder, case)
    origin.run(
        "CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(4000), amount BIGINT, "
        "changed TIMESTAMP NOT NULL)"
    )
    given = rows()
    half = len(given) // 2
    _insert(origin, given[:half])
    with ExitStack() as on_end:
        workers = [on_end.enter_context(chain.worker()) for _ in range(int(case["workers"]))]
        _create(workers[0], f"{chain.name}-in", chain.source(origin.url))
        _create(workers[0], f"{chain.name}-out", chain.sink(target.url))
        _await(lambda: len(_found(chain, target)) > half // 4)
        _send_bad(chain)
        _fault(chain, case, workers, on_end)
        if case["commits"] == "late":
            _insert_late(origin, given[half:])
        else:
            _insert(origin, given[half:])
        wrong: list[str] = []

        def is_right() -> bool:
            wrong[:] = problems(case, _found(chain, target)) + _letters(chain)
            return not wrong

        _await(is_right)
        if wrong:
            wrong += [f"states {_states(chain, each)}" for each in workers[-1:]]
        for worker in workers:
            if worker.process.poll() is None and worker.stop() != 0:
                wrong.append("a worker did not stop in order")
    # What comes after it was right, such as a row that comes twice.
    return wrong or problems(case, _found(chain, target)) + _twice_in_topic(chain)


def _create(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    """Create a connector; again while the group of workers finds itself (409)."""
    given = {"name": name, "config": dict(config)}
    answer = worker.ask("POST", "/connectors", given)
    until = time.monotonic() + PATIENCE_S
    while answer[0] == 409 and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
        answer = worker.ask("POST", "/connectors", given)
    assert answer[0] == 201, answer


def _insert(database: TestDatabase, given: list[Row]) -> None:
    database.insert("item", [_fields(each) for each in given])


def _insert_late(database: TestDatabase, given: list[Row]) -> None:
    """Commit the first of these rows after the others, which have been read meanwhile."""
    with database.session() as connection:
        for each in given[:LATE]:
            connection.exec_driver_sql("INSERT INTO item VALUES (%s, %s, %s, %s)", _fields(each))
        _insert(database, given[LATE:])
        _RESTING.wait(_POLLS_S)
        connection.commit()


def _fields(row: Row) -> tuple[Any, ...]:
    """Return a row as it is inserted now: a source by time knows no row of the past."""
    at = datetime.now(UTC) + timedelta(microseconds=10 * row.id)
    return row.id, row.name, row.amount, at.strftime("%Y-%m-%d %H:%M:%S.%f")


def _fault(chain: Chain, case: Mapping[str, str], workers: list[Worker], on_end: ExitStack) -> None:
    match case["fault"]:
        case "task":
            for pid in workers[0].task_pids()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        case "worker":
            workers[0].kill()
            workers.append(on_end.enter_context(chain.worker()))
        case "stop":
            workers[0].stop()
            workers.append(on_end.enter_context(chain.worker()))
        case "broker":
            chain.broker.kill()
            chain.broker.start()


def _found(chain: Chain, target: TestDatabase) -> list[tuple[str, ...]]:
    """Return what the sink has: id, name, amount, region, as texts."""
    names = ("id", "name", "amount", "region")
    if chain.case["sink"] == "lines":
        if not chain.file.exists():
            return []
        text = chain.file.read_text(encoding="utf-8")
        whole = [json.loads(each) for each in text[: text.rfind("\n") + 1].splitlines()]
        return [tuple(_text(each.get(name)) for name in names) for each in whole]
    try:
        columns = _columns(target)
        chosen = ", ".join(each if each in columns else "NULL" for each in names)
        found = target.rows(f"SELECT {chosen} FROM copies")  # noqa: S608 - our own names
    except Exception:  # no table yet
        return []
    return [tuple(map(_text, each)) for each in found]


def _columns(target: TestDatabase) -> set[str]:
    import sqlalchemy as sa

    return {each["name"] for each in sa.inspect(target.session().engine).get_columns("copies")}


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _send_bad(chain: Chain) -> None:
    with Producer(bootstrap_servers=chain.broker.bootstrap_servers) as producer:
        for each in bad_values(chain.case):
            producer.send(chain.topic, each)
        producer.flush()


def _letters(chain: Chain) -> list[str]:
    case = chain.case
    if case["tolerance"] != "dead letters" or case["bad"] == "none":
        return []
    wanted = set(bad_values(case))
    missing = wanted - set(_read(chain, chain.dead))
    return [f"{len(missing)} of {len(wanted)} dead letters are missing"] if missing else []


def _twice_in_topic(chain: Chain) -> list[str]:
    """What a source that is exactly once has written twice."""
    if chain.case["once"] != "exactly" or chain.case["bad"] != "none":
        return []
    found = len(_read(chain, chain.topic))
    wanted = len(rows())
    return [] if found == wanted else [f"the topic has {found} records and not {wanted}"]


def _read(chain: Chain, topic: str) -> list[bytes]:
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    servers = chain.broker.bootstrap_servers
    with Consumer({"bootstrap.servers": servers, **settings}) as consumer:
        where = consumer.partitions(topic)
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        found = []
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in consumer.poll(1.0):
                found += [bytes(each.value or b"") for each in part.records]
    return found


def _states(chain: Chain, worker: Worker) -> Any:
    with suppress(Exception):
        return [
            worker.ask("GET", f"/connectors/{chain.name}-{each}/status")[1]
            for each in ("in", "out")
        ]
    return "no answer"


def _await(is_enough: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_enough() and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
