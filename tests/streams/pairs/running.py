"""Runs a case: an app in processes of its own, with a fault in the middle of its input."""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, Self

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.streams import Asker, ReplyTimeout
from tests.streams.pairs import model
from tests.streams.pairs.handing import hand_over
from tests.streams.pairs.hosts import PREFIX, Host
from tests.streams.pairs.model import Case, Line
from tests.streams.pairs.workers import Workers

PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.3
_STARTING_S: Final = 1.0
_RESTING: Final = threading.Event()
_INPUTS: Final = ("lines", "rows", "names", "requests", "more")
_REQUESTS: Final = 40
_REPLY: Final = "2m"
"""How long a request waits: an app that stops for commands is away for a minute, at a load."""
_BETWEEN_S: Final = 0.25
_EVERY_S: Final = 0.25
_AT_A_TIME: Final = 5
"""Records of an input at a time, while workers are stopped."""
_OUTPUTS: Final = ("step", "step-even", "fold", "join", "copy", "dead")
_MORE_PARTITIONS: Final = 2
_numbers: Final = count(1)


class Output:
    """What is committed in the outputs of a case."""

    def __init__(self, host: Host, name: str) -> None:
        self.records: dict[str, list[tuple[str, str]]] = {each: [] for each in _OUTPUTS}
        reading = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        with Consumer({**host.client, **reading}) as consumer:
            topics = [f"{name}-{each}" for each in _OUTPUTS]
            where = [part for topic in topics for part in consumer.partitions(topic)]
            consumer.assign(where)
            ends = consumer.end_offsets(where)
            while any((consumer.position(each) or 0) < end for each, end in ends.items()):
                for part in consumer.poll(1.0):
                    topic = part.topic.removeprefix(f"{name}-")
                    for each in part.records:
                        value = b"" if each.value is None else each.value
                        self.records[topic].append(((each.key or b"").decode(), value.decode()))
        self.records["step"] += self.records.pop("step-even")

    def problems(self, case: Case, ends: Mapping[str, model.End]) -> list[str]:
        """Return what is wrong with the outputs that are to end so."""
        wrong = []
        for output, end in ends.items():
            found = self.records[output]
            values = Counter(value for _, value in found)
            keys = sum(bool(value) for _, value in found)
            double = model.may_double(case)
            wrong += [
                f"{output}: {each}"
                for each in end.problems(values, dict(found), keys=keys, may_double=double)
            ]
        return wrong

    def letter_problems(self, case: Case) -> list[str]:
        """Return what is wrong with the dead letters."""
        found = {int(value.split()[1]) for _, value in self.records["dead"]}
        wanted = model.letters(case)
        return [] if found == wanted else [f"dead letters {sorted(found)}, not {sorted(wanted)}"]


def run_case(host: Host, folder: Path, case: Case) -> list[str]:
    """Return what is wrong with the ends of the app."""
    name = f"{PREFIX}{next(_numbers)}"
    _make_topics(host, name, case)
    workers = Workers(case, name, host, folder)
    requests = Requests(host, name) if case["branch"] == "reply" else None
    half = model.RECORDS // 2
    _send(workers, "names", model.names(case))
    _send(workers, "rows", model.rows(case)[:half])
    _send(workers, "lines", model.lines(case)[:half])
    try:
        workers.start_all()
        wrong = _repaired(workers) if case["policy"] == "stop" else []
        _await(lambda: bool(workers.ended() or Output(host, name).records["step"]))
        wrong += workers.ended()
        with Load(workers, case) as load:
            if not wrong and case["hand-over"] != "none":
                wrong += hand_over(workers, case, load.begin)
            wrong += _fault(workers, case) if not wrong else []
        wrong = wrong or _come_to(workers, case, is_closed=False)
        _send(workers, "lines", model.closing())
        wrong = wrong or _come_to(workers, case, is_closed=True)
        if requests is not None:
            wrong += requests.problems(may_double=case["guarantee"] == "at_least_once")
        for worker in list(workers.processes):
            wrong += workers.stop(worker)
        # What comes after it was right, such as a record that counts twice.
        return wrong or _problems(workers, case, is_closed=True)
    finally:
        for worker in list(workers.processes):
            workers.kill(worker)


def _repaired(workers: Workers) -> list[str]:
    """Wait until a record has stopped all workers, and start the repaired app. Return what is wrong
    with their ends."""
    _await(workers.have_stopped)
    wrong = workers.stop_problems()
    workers.is_repaired = True
    workers.start_all()
    return wrong


def _come_to(workers: Workers, case: Case, *, is_closed: bool) -> list[str]:
    """Wait until the ends are right, and return what is wrong with them."""
    found = ["nothing was read"]

    def is_right() -> bool:
        found[:] = _problems(workers, case, is_closed=is_closed)
        return not found or bool(workers.ended())

    _await(is_right)
    return [*workers.ended(), *found]


def _problems(workers: Workers, case: Case, *, is_closed: bool) -> list[str]:
    """Before the last lines only the step is looked at: all lines before them are done then."""
    output, ends = Output(workers.host, workers.name), model.ends(case, is_closed=is_closed)
    if not is_closed:
        return output.problems(case, {"step": ends["step"]})
    return output.problems(case, ends) + output.letter_problems(case)


def _fault(workers: Workers, case: Case) -> list[str]:
    """Have the fault of the case. Return what is wrong with workers that stop in order."""
    match case["fault"]:
        case "kill":
            workers.kill(0)
            workers.start(0)
        case "again":
            for _ in range(2):
                workers.kill(0)
                workers.start(0)
                _RESTING.wait(_STARTING_S)
        case "lost":
            workers.kill(0)
            workers.wipe(0)
            workers.start(0)
        case "wiped":
            wrong = workers.stop(0)
            workers.wipe(0)
            workers.start(0)
            return wrong
        case "moved":
            workers.start(int(case["workers"]))
            _RESTING.wait(_STARTING_S)
            return workers.stop(0)
        case "resized":
            more, less = workers.command("workers", "3"), workers.command("workers", "1")
            return more + less
        case "savepoint":
            return _saved_and_restored(workers)
        case "forgotten":
            return _forgotten(workers)
        case "divided":
            return _saved_and_restored(workers, more=_MORE_PARTITIONS)
        case "broker":
            workers.host.kill(workers.name)
            workers.host.start()
    return []


def _saved_and_restored(workers: Workers, more: int = 0) -> list[str]:
    """Stop the app, save it, let it begin anew, and restore it, with more partitions of its lines.
    Return what is wrong with that."""
    known = list(workers.processes)
    wrong = [problem for worker in known for problem in workers.stop(worker)]
    place = f"file://{workers.folder}/{workers.name}-savepoint"
    wrong = wrong or workers.command("savepoint", place)
    wrong = wrong or workers.command("reset", "--execute")
    for worker in known:
        workers.wipe(worker)
    if more:
        workers.partitions += more
        with Admin(workers.host.client) as admin:
            admin.create_partitions(f"{workers.name}-lines", workers.partitions)
    wrong = wrong or workers.command("restore", place)
    for worker in known:
        workers.start(worker)
    return wrong


def _forgotten(workers: Workers) -> list[str]:
    """Stop the app, delete its offsets of one input at a time, until the plan notices that of one
    that feeds rows, and put them back. Return what is wrong with what a start says. Rows of the
    first worker are looked for: a store without a changelog has one worker."""
    known = list(workers.processes)
    wrong = [problem for worker in known for problem in workers.stop(worker)]
    is_noticed = False
    state = ("--state", str(workers.state(0)))
    with Admin(workers.host.client) as admin:
        committed = admin.group_offsets(workers.name)
        for topic in sorted({where.topic for where in committed}):
            lost = {where: each for where, each in committed.items() if where.topic == topic}
            admin.delete_group_offsets(workers.name, list(lost))
            code, said = workers.run("plan", *state)
            is_noticed = "no offsets" in said
            if is_noticed:
                is_refused = workers.case["guarantee"] == "exactly_once_v2" and bool(code)
                wrong += _refused(workers) if is_refused else []
            admin.alter_group_offsets(workers.name, lost)
            if is_noticed:
                break
    for worker in known:
        workers.start(worker)
    return wrong if is_noticed else [*wrong, "lost offsets of no input are noticed"]


def _refused(workers: Workers) -> list[str]:
    """Start a worker that is to end by itself. Return what is wrong with its end."""
    workers.start(0)
    _await(lambda: bool(workers.ended()))
    ended, said = workers.ended(), workers.said(0)
    workers.kill(0)
    is_right = ended and "its group has no offsets" in said and "Traceback" not in said
    return [] if is_right else [f"a start is not refused: {said[-600:]}"]


class Load:
    """The second half of rows and lines: all at the end, or little by little from `begin` on."""

    def __init__(self, workers: Workers, case: Case) -> None:
        half = model.RECORDS // 2
        self._workers = workers
        self._rows, self._lines = model.rows(case)[half:], model.lines(case)[half:]
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def begin(self) -> None:
        """Write from now on, until the end."""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while (self._rows or self._lines) and not self._is_over.wait(_EVERY_S):
            self._send(_AT_A_TIME)

    def _send(self, count: int | None) -> None:
        for topic, given in (("rows", self._rows), ("lines", self._lines)):
            _send(self._workers, topic, given[:count])
            del given[:count]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        self._send(None)


class Requests:
    """Asks the app all along: no reply may be missing or wrong."""

    def __init__(self, host: Host, name: str) -> None:
        self._settings, self._name = host.client, name
        self._wrong: list[str] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask_all()), daemon=True)
        self._thread.start()

    def problems(self, *, may_double: bool) -> list[str]:
        """Wait for the last reply. Return what was wrong, and which requests have several replies:
        one that was cut off at least once may have."""
        self._thread.join(3 * PATIENCE_S)
        wrong = [*self._wrong, *["requests still wait"] * self._thread.is_alive()]
        twice = [] if may_double else [each for each, count in self._replies().items() if count > 1]
        return [*wrong, *[f"several replies to requests: {twice[:3]}"] * bool(twice)]

    def _replies(self) -> Counter[object]:
        """Return how many committed replies each request has, by the headers that say which."""
        found: Counter[object] = Counter()
        reading = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        with Consumer({**self._settings, **reading}) as consumer:
            where = consumer.partitions(f"{self._name}-asker-replies")
            consumer.assign(where)
            ends = consumer.end_offsets(where)
            while any((consumer.position(each) or 0) < end for each, end in ends.items()):
                for part in consumer.poll(1.0):
                    found.update(tuple(each.headers)[:1] for each in part.records)
        return found

    async def _ask_all(self) -> None:
        async with Asker(f"{self._name}-asker", self._settings) as asker:
            waiting = []
            for number in range(_REQUESTS):
                waiting.append(asyncio.create_task(self._ask(asker, f"request {number}")))
                await asyncio.to_thread(_RESTING.wait, _BETWEEN_S)
            await asyncio.gather(*waiting)

    async def _ask(self, asker: Asker, request: str) -> None:
        try:
            found = await asker.ask(
                f"{self._name}-requests", request, key=request, type=str, timeout=_REPLY
            )
        except ReplyTimeout:
            self._wrong.append(f"no reply to {request}")
            return
        if found != model.answer_to(request):
            self._wrong.append(f"{request} has the reply {found}")


def _make_topics(host: Host, name: str, case: Case) -> None:
    with Admin(host.client) as admin:
        for topic in (*_INPUTS, *_OUTPUTS):
            admin.create_topic(NewTopic(f"{name}-{topic}", int(case["partitions"]), host.replicas))


def _partition(workers: Workers, topic: str, number: int, key: bytes | None) -> int | None:
    """Return where the writer of an input puts a record; None as our client does (murmur2). All
    rows of a key are in one partition, and the names where the app looks for them."""
    writer = workers.case["writer"]
    partitions = workers.partitions if topic == "lines" else int(workers.case["partitions"])
    if writer == "round robin":
        return number % partitions if topic == "lines" else None
    if writer == "undeclared crc32" and topic == "names":
        return None
    if writer.endswith("crc32") and key is not None:
        return zlib.crc32(key) % partitions
    return None


def _send(workers: Workers, topic: str, given: Iterable[Line]) -> None:
    with Producer(workers.host.client) as producer:
        for each in given:
            key = None if each.key is None else each.key.encode()
            producer.send(
                f"{workers.name}-{topic}",
                None if each.value is None else each.value.encode(),
                key=key,
                partition=_partition(workers, topic, each.number, key),
                timestamp_ms=each.timestamp_ms,
            )
        producer.flush()


def _await(is_enough: Callable[[], bool]) -> None:
    """Wait until it is so, or the time is over: what is wrong is found by the caller."""
    until = time.monotonic() + PATIENCE_S
    while not is_enough() and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
