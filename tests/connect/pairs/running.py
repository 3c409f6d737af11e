"""Runs a case: a table or a file over a topic into another one, with workers in processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from moldau.client.sync import Consumer, Producer
from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.chain import Chain
from tests.connect.pairs.databases import Databases
from tests.connect.pairs.ends import Origin, found_rows
from tests.connect.pairs.model import Case, Row, bad_values, problems, rows
from tests.connect.processes import Worker
from tests.databases.target import TestDatabase

PATIENCE_S: Final = 90.0
LATE: Final = 20
"""How many rows commit late."""
_POLLS_S: Final = 1.5
"""Time for a source to read what is committed."""
_LOOK_S: Final = 0.2
_RESTING: Final = threading.Event()


class Scene:
    """What all cases share."""

    def __init__(
        self, broker: MoldauBroker, registry: str, folder: Path, databases: Databases
    ) -> None:
        self.broker = broker
        self.registry = registry
        self.folder = folder
        self.databases = databases


def run_case(scene: Scene, case: Case) -> list[str]:
    """Return what is wrong with what the sink has in the end."""
    database, target = (scene.databases.new(case["database"]) for _ in range(2))
    chain = Chain(scene.broker, scene.registry, scene.folder, case)
    origin = Origin(chain, database)
    given = rows(case)
    half = len(given) // 2
    origin.insert(given[:half])
    with ExitStack() as on_end:
        workers = [on_end.enter_context(chain.worker()) for _ in range(int(case["workers"]))]
        _create(workers[0], f"{chain.name}-in", chain.source(database))
        _create(workers[0], f"{chain.name}-out", chain.sink(target))
        _await(lambda: len(found_rows(chain, target)) > half // 4)
        _send_bad(chain)
        _fault(scene, chain, workers, on_end)
        if case["change"] == "column":
            origin.change()
        if case["commits"] == "late":
            _insert_late(origin, database, given[half:])
        else:
            origin.insert(given[half:])
        wrong: list[str] = []

        def is_right() -> bool:
            wrong[:] = problems(case, found_rows(chain, target)) + _letters(chain)
            return not wrong

        _await(is_right)
        if wrong:
            wrong += [f"states {_states(chain, each)}" for each in workers[-1:]]
        for worker in workers:
            if worker.process.poll() is None and worker.stop() != 0:
                wrong.append("a worker did not stop in order")
    # What comes after it was right, such as a row that comes twice.
    return wrong or problems(case, found_rows(chain, target)) + _twice_in_topic(chain)


def _create(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    """Create a connector; again while the group of workers finds itself (409)."""
    given = {"name": name, "config": dict(config)}
    answer = worker.ask("POST", "/connectors", given)
    until = time.monotonic() + PATIENCE_S
    while answer[0] == 409 and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
        answer = worker.ask("POST", "/connectors", given)
    assert answer[0] == 201, answer


def _insert_late(origin: Origin, database: TestDatabase, given: list[Row]) -> None:
    """Commit the first of these rows after the others, which have been read meanwhile."""
    with database.session() as connection:
        for each in given[:LATE]:
            origin.insert_one(connection, each)
        origin.insert(given[LATE:])
        _RESTING.wait(_POLLS_S)
        connection.commit()


def _fault(scene: Scene, chain: Chain, workers: list[Worker], on_end: ExitStack) -> None:
    match chain.case["fault"]:
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
        case "database":
            scene.databases.kill(chain.case["database"])


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
    wanted = len(rows(chain.case))
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
