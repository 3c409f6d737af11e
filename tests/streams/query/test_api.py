"""The HTTP API over two workers that are made by hand: routing, merging, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from moldau.metrics import Metric, MetricKind, Point
from moldau.streams import Streams, tumbling
from moldau.streams.plan.placement import Placement, placements
from moldau.streams.plan.plan import Program
from moldau.streams.query.answers import answer as read
from moldau.streams.query.api import Api, key_from_text
from moldau.streams.query.http import Answer, Request
from moldau.streams.query.lifecycle import Lifecycle
from moldau.streams.query.questions import (
    BadQuery,
    Fetch,
    Get,
    NoSuchStore,
    NotHere,
    PositionQuestion,
    Question,
    StoreUnavailable,
)
from moldau.streams.query.watch import WatchPages
from moldau.streams.testing.driver import Driver
from moldau.streams.worker.queries import AppStore
from moldau.streams.worker.tasks import TaskState


def app() -> Streams:
    made = Streams("app")
    grouped = made.stream("in", str, key=str).group_by_key()
    grouped.count(name="counts")
    grouped.window(tumbling(10, grace=100)).count(name="windows")
    made.stream("numbers", int, key=int).group_by_key().count(name="numbers")
    return made


class Worker:
    """Has the keys that begin with its letter; two of them are an app."""

    def __init__(self, letter: str, server: str, others: dict[str, str]) -> None:
        self.app = "app"
        self.letter = letter
        self.servers = {letter: server, **others}
        self.is_restoring = self.is_declared = False
        self.driver: Driver = app().test()
        self.plan = self.driver.plan
        self.stores = {
            store.name: AppStore(store, program)
            for program in self.plan.programs
            for store in program.stores
        }

    def store(self, name: str) -> AppStore:
        if name not in self.stores:
            raise NoSuchStore(f"there is no store {name}")
        return self.stores[name]

    async def ask(self, store: str, question: Question | PositionQuestion) -> Any:
        assert not isinstance(question, PositionQuestion)
        if self.is_restoring:
            raise StoreUnavailable("it is being restored: 5 of 10 changelog offsets: ask again")
        if isinstance(question, Get | Fetch) and question.partitions:
            assert question.partitions == ("ab".index(self.letter),)
        elif isinstance(question, Get | Fetch) and not str(question.key).startswith(self.letter):
            first = str(question.key)[0]
            raise NotHere(f"another worker has {question.key}", self.servers.get(first))
        return read(self.driver._queried(store)[0], question)

    async def figures(self) -> dict[str, list[dict[str, Any]]]:
        partition = "ab".index(self.letter)
        task = {"program": 0, "partition": partition, "state": "running", "processed": 3}
        copy = {"program": 0, "partition": 1 - partition, "state": "standby", "lag": 2}
        return {"tasks": [task], "standbys": [copy]}

    def copies(self, program: Program) -> dict[int, TaskState]:
        return {}

    def partition(self, name: str, key: bytes) -> int:
        raise AssertionError("these workers answer plain questions alone")

    def copy_owners(self, program: Program, partition: int) -> tuple[str, ...]:
        return (self.servers["ba"[partition]],) if "ba"[partition] in self.servers else ()

    def placement(self, name: str) -> Placement:
        return Placement(is_known=True) if self.is_declared else placements(self.plan)[name]

    def owner(self, program: Program, partition: int) -> str | None:
        return self.servers.get("ab"[partition])

    def partitions(self, program: Program) -> int:
        return 2

    def here(self, program: Program) -> dict[int, TaskState]:
        return {"ab".index(self.letter): TaskState.RUNNING}


class Two:
    def __init__(self) -> None:
        self.workers = {
            "one:1": Worker("a", "one:1", {"b": "two:2"}),
            "two:2": Worker("b", "two:2", {"a": "one:1"}),
        }
        self.lives = {server: Lifecycle("app") for server in self.workers}
        self.asked: list[str] = []
        self.is_cut = False
        self.missing: str | None = "task 0_1 is restoring"
        self.pages = WatchPages()
        self.pages.watch(self.metrics, lambda: self.missing)
        self.apis = {
            server: Api(
                worker, server, self.forward, self.pages, worker.figures, self.lives[server]
            )
            for server, worker in self.workers.items()
        }
        for worker in self.workers.values():
            keys = [f"{worker.letter}{number}" for number in range(3)]
            worker.driver.pipe_all("in", [(key, "x", 5) for key in keys])

    async def metrics(self) -> Sequence[Metric]:
        return [Metric("up", "up", "Whether it is up.", "", MetricKind.GAUGE, (Point((), 1),))]

    async def forward(self, server: str, asked: Request) -> Answer:
        if self.is_cut:
            raise StoreUnavailable(f"{server} does not answer")
        self.asked.append(server)
        told = request(asked.target, is_forwarded=True, method=asked.method)
        return await self.apis[server].answer(told)

    def get(self, server: str, target: str, method: str = "GET") -> tuple[int, Any]:
        answer = asyncio.run(self.apis[server].answer(request(target, method=method)))
        return answer.status, msgspec.json.decode(answer.body)


def request(target: str, *, is_forwarded: bool = False, method: str = "GET") -> Request:
    path, _, query = target.partition("?")
    options = dict(each.partition("=")[::2] for each in query.split("&") if each)
    segments = tuple(each for each in path.split("/") if each)
    return Request(method, target, segments, options, is_forwarded)


def test_a_supervisor_learns_whether_the_worker_is_ready() -> None:
    two = Two()

    def asked(target: str) -> tuple[int, str]:
        answer = asyncio.run(two.apis["one:1"].answer(request(target)))
        return answer.status, answer.body.decode()

    assert asked("/healthz") == (200, "alive\n")
    assert asked("/readyz") == (503, "task 0_1 is restoring\n")
    two.missing = None
    assert asked("/readyz") == (200, "ready\n")
    assert asked("/metrics") == (200, "# HELP up Whether it is up.\n# TYPE up gauge\nup 1\n")


def test_all_workers_are_paused_by_a_request_to_one_and_resumed_one_by_one() -> None:
    two = Two()

    def paused() -> list[bool]:
        return [life.is_paused for life in two.lives.values()]

    answer = {"paused": True, "workers": ["one:1", "two:2"], "problems": {}}
    assert two.get("one:1", "/pause", "POST") == (200, answer)
    assert paused() == [True, True]
    assert two.get("two:2", "/")[1]["paused"] is True
    assert two.get("two:2", "/resume?only=true", "POST")[1]["workers"] == ["two:2"]
    assert paused() == [True, False]
    two.is_cut = True
    status, found = two.get("one:1", "/resume", "POST")
    assert (status, found["problems"]) == (502, {"two:2": "two:2 does not answer"})
    assert paused() == [False, False]
    for target, method in (("/pause", "GET"), ("/stores", "POST")):
        assert two.get("one:1", target, method)[0] == 405


def test_before_the_worker_is_made_only_the_process_is_well() -> None:
    def asked(target: str) -> int:
        return asyncio.run(WatchPages().answer(request(target))).status

    paths = ("/healthz", "/readyz", "/metrics", "/stores")
    assert [asked(path) for path in paths] == [200, 503, 503, 404]


def test_a_key_is_found_at_either_worker() -> None:
    two = Two()
    for server in two.workers:
        for key in ("a1", "b1"):
            assert two.get(server, f"/stores/counts/keys/{key}") == (
                200,
                {"key": key, "value": 1, "timestamp": 5},
            )
    assert two.asked == ["two:2", "one:1"]
    status, body = two.get("one:1", "/stores/counts/keys/b9")
    assert (status, body["error"]) == (404, "store=counts: it has no key b9")


def test_a_row_in_another_partition_than_that_of_its_key_is_found() -> None:
    """The source does not say how its topic is written, so all partitions are looked into."""
    two = Two()
    two.workers["two:2"].driver.pipe("in", "x", key="a9", timestamp=7)

    for server in two.workers:
        assert two.get(server, "/stores/counts/keys/a9")[1]["timestamp"] == 7
        assert two.get(server, "/stores/windows/keys/a9")[1]["rows"][0]["key"] == "a9"
        assert two.get(server, "/stores/windows/keys/a8") == (200, {"rows": [], "more": False})
    assert two.get("two:2", "/stores/counts/keys/a9?partitions=1")[0] == 200
    assert two.get("one:1", "/stores/counts/keys/a9?partitions=one")[0] == 400


def test_a_key_of_a_declared_partitioner_is_looked_for_in_its_partition_only() -> None:
    two = Two()
    for worker in two.workers.values():
        worker.is_declared = True

    assert two.get("one:1", "/stores/counts/keys/a8")[0] == 404
    assert two.asked == []


def test_windows_of_a_key() -> None:
    assert Two().get("one:1", "/stores/windows/keys/b0") == (
        200,
        {"rows": [{"key": "b0", "start": 0, "end": 10, "value": 1, "timestamp": 5}], "more": False},
    )


def test_windows_in_the_order_of_their_times_end_at_a_limit() -> None:
    two = Two()
    for worker in two.workers.values():
        worker.driver.pipe_all("in", [(f"{worker.letter}0", "x", at) for at in (15, 25)])
    for target, starts in (
        ("/stores/windows?by_time=true&limit=7", [0, 0, 0, 0, 0, 0, 10]),
        ("/stores/windows?by_time=true&reverse=true&limit=3", [20, 20, 10]),
        ("/stores/windows/keys/b0?limit=2", [0, 10]),
    ):
        status, body = two.get("one:1", target)
        assert (status, [row["start"] for row in body["rows"]], body["more"]) == (200, starts, True)
    assert two.get("one:1", "/stores/windows/keys/b0?limit=0")[0] == 400


def test_the_plan_and_the_tasks_of_all_workers() -> None:
    two = Two()
    status, plan = two.get("one:1", "/topology")
    assert (status, plan["app"], plan["reads"]) == (200, "app", ["in", "numbers"])
    steps = {step["name"]: step for step in plan["programs"][0]["steps"]}
    assert [name for name, step in steps.items() if step["reads"] == ["in"]]
    assert {store for step in steps.values() for store in step["stores"]} == {"counts", "windows"}
    status, found = two.get("one:1", "/tasks")
    running = {"state": "running", "processed": 3}

    def copy(server: str) -> dict[str, object]:
        return {"state": "standby", "lag": 2, "server": server}

    assert (status, found["problems"]) == (200, {})
    assert found["tasks"][:2] == [
        {"program": 0, "partition": 0, "server": "one:1", **running, "standbys": [copy("two:2")]},
        {"program": 0, "partition": 1, "server": "two:2", **running, "standbys": [copy("one:1")]},
    ]
    assert {each["state"] for each in found["tasks"][2:]} == {None}, "nothing tells of them"


def test_a_worker_that_does_not_answer_is_a_problem_and_no_failure() -> None:
    two = Two()
    two.is_cut = True
    status, found = two.get("one:1", "/tasks")
    assert (status, found["problems"]) == (200, {"two:2": "two:2 does not answer"})
    assert [each["state"] for each in found["tasks"][:2]] == ["running", None]


def test_rows_of_all_workers_are_merged_in_order() -> None:
    two = Two()
    status, body = two.get("two:2", "/stores/counts?first=a1&last=b1")
    assert status == 200
    assert [row["key"] for row in body["rows"]] == ["a1", "a2", "b0", "b1"]
    assert body["more"] is False
    _, body = two.get("two:2", "/stores/counts?limit=2&reverse=true")
    assert [row["key"] for row in body["rows"]] == ["b2", "b1"]
    assert body["more"] is True
    assert two.get("one:1", "/stores/counts/count") == (200, {"count": 6})


def test_a_worker_that_restores_answers_503() -> None:
    two = Two()
    two.workers["two:2"].is_restoring = True
    for target in ("/stores/counts/keys/b1", "/stores/counts", "/stores/counts/count"):
        for server in two.workers:
            status, body = two.get(server, target)
            assert (status, body["again"]) == (503, True)
            assert "it is being restored: 5 of 10 changelog offsets: ask again" in body["error"]


def test_a_request_is_passed_on_once() -> None:
    two = Two()
    two.workers["one:1"].letter = two.workers["two:2"].letter = "-"
    status, body = two.get("one:1", "/stores/counts/keys/b1")
    assert (status, body["error"]) == (503, "another worker has b1")
    assert two.asked == ["two:2"]


def test_a_worker_without_an_address() -> None:
    two = Two()
    del two.workers["one:1"].servers["b"]
    status, body = two.get("one:1", "/stores/counts")
    assert status == 503
    assert body["error"] == (
        "partition=1: the worker that has it serves no queries, or it moves: start all workers "
        "with --listen, or ask again"
    )


def test_what_a_client_may_get_wrong() -> None:
    two = Two()
    assert two.get("one:1", "/nothing")[0] == 404
    assert two.get("one:1", "/stores/none/keys/a")[0] == 404
    assert two.get("one:1", "/stores/counts?limit=0")[0] == 400
    assert two.get("one:1", "/stores/counts?limit=x")[1]["error"] == (
        "limit=x: it must be milliseconds or a number"
    )
    assert two.get("one:1", "/stores/numbers/keys/x")[0] == 400
    for option in ("stale", "reverse"):
        status, found = two.get("one:1", f"/stores/counts?{option}=maybe")
        assert (status, found["error"]) == (400, f"{option}=maybe: it must be true or false")
    status, found = two.get("one:1", "/pause?only=maybe", "POST")
    assert (status, two.get("one:1", "/")[1]["paused"]) == (400, False)
    status, found = two.get("one:1", "/workers?count=3", "POST")
    assert (status, "has no supervisor: stop it, and start it with" in found["error"]) == (
        404,
        True,
    )
    post = Request("POST", "/stores", ("stores",))
    assert asyncio.run(two.apis["one:1"].answer(post)).status == 405


def test_what_there_is() -> None:
    status, body = Two().get("one:1", "/stores")
    assert status == 200
    counts = body["stores"][0]
    assert (counts["name"], counts["kind"], counts["key"]) == ("counts", "key-value", "str")
    assert counts["partitions"] == [
        {"partition": 0, "owner": "one:1", "standbys": ["two:2"], "here": "running"},
        {"partition": 1, "owner": "two:2", "standbys": ["one:1"], "here": None},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "key"), [(str, "5", "5"), (int, "5", 5), (bytes, "AA==", b"\0")]
)
def test_keys_in_a_url(kind: type, text: str, key: object) -> None:
    made = Streams("app")
    made.table("in", str, key=kind, name="table")
    [spec] = made.plan().programs[0].stores
    assert key_from_text(spec, text) == key


def test_a_key_that_is_none() -> None:
    made = Streams("app")
    made.table("in", str, key=int, name="table")
    [spec] = made.plan().programs[0].stores
    with pytest.raises(BadQuery, match="store=table: 'x' is no key of it, which are int"):
        key_from_text(spec, "x")
