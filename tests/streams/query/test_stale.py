"""Answers of copies over HTTP: which worker is asked for which partition, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from moldau.streams import Streams
from moldau.streams.plan.placement import Placement
from moldau.streams.plan.plan import Program
from moldau.streams.query.api import Api
from moldau.streams.query.http import Answer, Request
from moldau.streams.query.questions import (
    Behind,
    Count,
    Get,
    NotHere,
    PositionedAnswer,
    PositionQuestion,
    Question,
    Row,
    StoreUnavailable,
)
from moldau.streams.query.routing import Routes
from moldau.streams.query.watch import WatchPages
from moldau.streams.worker.queries import AppStore
from moldau.streams.worker.tasks import TaskState

COUNT: Final = 3
OWNERS: Final = {0: "a:1", 1: "b:1", 2: "c:1"}
COPIES: Final = {0: ("b:1",), 1: ("c:1", "a:1"), 2: ("b:1",)}


@dataclass
class Replica:
    """What one worker has of one partition: keys that it counts, up to a position."""

    position: int
    rows: dict[str, int]
    state: TaskState = TaskState.RUNNING


@dataclass
class Worker:
    """One of three workers, each with a task; `down` are those that do not answer."""

    server: str
    replicas: dict[int, Replica]
    down: set[str]
    workers: dict[str, Worker] = field(default_factory=dict)
    asked: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        app = Streams("app")
        app.stream("in", str, key=str).group_by_key().count(name="counts")
        self.app, self.plan = "app", app.plan()
        (program,) = self.plan.programs
        self.stores = {each.name: AppStore(each, program) for each in program.stores}
        self.api = Api(self, self.server, self.forward, WatchPages(), self.figures)

    async def figures(self) -> Any:
        return []

    def store(self, name: str) -> AppStore:
        return self.stores[name]

    def placement(self, name: str) -> Placement:
        return Placement(is_known=True)

    def partition(self, name: str, key: bytes) -> int:
        return key[0] - ord("a")

    def partitions(self, program: Program) -> int:
        return COUNT

    def owner(self, program: Program, partition: int) -> str | None:
        return OWNERS[partition]

    def copy_owners(self, program: Program, partition: int) -> tuple[str, ...]:
        return COPIES[partition]

    def here(self, program: Program) -> dict[int, TaskState]:
        return {
            each: held.state
            for each, held in self.replicas.items()
            if held.state is not TaskState.STANDBY
        }

    def copies(self, program: Program) -> dict[int, TaskState]:
        return {
            each: held.state
            for each, held in self.replicas.items()
            if held.state is not TaskState.RUNNING
        }

    async def ask(self, store: str, question: Question | PositionQuestion) -> Any:
        assert isinstance(question, PositionQuestion)
        self.asked.append((self.server, question.partitions))
        position: dict[int, int] = {}
        rows: dict[str, int] = {}
        is_stale = False
        for each in question.partitions:
            held = self.replicas.get(each)
            if held is None:
                raise NotHere("another worker has it", OWNERS[each])
            if held.state is not TaskState.RUNNING and not question.is_stale:
                raise StoreUnavailable("it is being restored")
            if held.position < question.at_least.get(each, 0):
                raise Behind(f"partition={each}: it holds offsets below {held.position}")
            position[each] = held.position
            rows |= held.rows
            is_stale |= held.state is not TaskState.RUNNING
        found: Any = [Row(key, value, 7) for key, value in sorted(rows.items())]
        if isinstance(question.question, Get):
            found = next((each for each in found if each.key == question.question.key), None)
        elif isinstance(question.question, Count):
            found = len(found)
        return PositionedAnswer(found, position, is_stale)

    async def forward(self, server: str, request: Request) -> Answer:
        if server in self.down:
            raise StoreUnavailable(f"{server} does not answer")
        path, _, query = request.target.partition("?")
        options = dict(each.split("=") for each in query.replace("%2C", ",").split("&"))
        options = {name: text.replace("%3A", ":") for name, text in options.items()}
        segments = tuple(each for each in path.split("/") if each)
        other = self.workers[server]
        return await other.api.answer(Request("GET", request.target, segments, options, True))

    async def get(self, path: str, **options: str) -> tuple[int, Any]:
        query = "&".join(f"{name}={text}" for name, text in options.items())
        segments = tuple(each for each in path.split("/") if each)
        answer = await self.api.answer(Request("GET", f"{path}?{query}", segments, options))
        return answer.status, msgspec.json.decode(answer.body)


def three() -> tuple[Worker, Worker, Worker, set[str]]:
    """Three workers; the copies are one offset behind."""
    down: set[str] = set()
    rows = [{"a": 1}, {"b": 2}, {"c": 3}]
    replicas: dict[str, dict[int, Replica]] = {server: {} for server in OWNERS.values()}
    for each, server in OWNERS.items():
        replicas[server][each] = Replica(10 + each, rows[each])
        for copy in COPIES[each]:
            replicas[copy][each] = Replica(9 + each, rows[each], TaskState.STANDBY)
    a, b, c = (Worker(server, held, down) for server, held in replicas.items())
    for worker in (a, b, c):
        worker.workers = {"a:1": a, "b:1": b, "c:1": c}
    return a, b, c, down


async def test_the_workers_with_the_tasks_answer_while_they_are_there() -> None:
    a, _, _, _ = three()
    status, found = await a.get("/stores/counts", stale="true")
    assert status == 200
    assert [row["key"] for row in found["rows"]] == ["a", "b", "c"]
    assert found["position"] == {"0": 10, "1": 11, "2": 12}
    assert found["stale"] is False


async def test_a_copy_answers_for_a_worker_that_is_away_and_says_how_far_it_is() -> None:
    a, _, c, down = three()
    down.add("b:1")
    status, found = await a.get("/stores/counts", stale="true")
    assert status == 200
    assert [row["value"] for row in found["rows"]] == [1, 2, 3]
    assert found["position"] == {"0": 10, "1": 10, "2": 12}
    assert found["stale"] is True
    assert (await a.get("/stores/counts/count", stale="true"))[1]["count"] == 3
    assert (await c.get("/stores/counts/keys/b", stale="true"))[1] == {
        "key": "b",
        "value": 2,
        "timestamp": 7,
        "position": {"1": 10},
        "stale": True,
    }


async def test_a_restoring_task_here_is_asked_only_for_an_answer_that_may_be_old() -> None:
    a, _, _, _ = three()
    a.replicas[0].state = TaskState.RESTORING
    a.replicas[0].position = 4
    status, found = await a.get("/stores/counts/keys/a", at_least="0:1")
    assert (status, found["again"]) == (503, True)
    status, found = await a.get("/stores/counts/keys/a", stale="true")
    assert (status, found["position"], found["stale"]) == (200, {"0": 4}, True)


async def test_a_position_is_kept_by_the_next_candidate_or_refused() -> None:
    a, b, _, _ = three()
    a.replicas[0].state = TaskState.RESTORING
    a.replicas[0].position = 4
    status, found = await a.get("/stores/counts/keys/a", stale="true", at_least="0:9")
    assert (status, found["position"]) == (200, {"0": 9}), "of the standby at b"
    assert b.asked == [("b:1", (0,))]
    status, found = await a.get("/stores/counts/keys/a", stale="true", at_least="0:50")
    assert status == 503
    assert "below 9" in found["error"]


async def test_a_key_that_is_not_there_has_a_position_too() -> None:
    a, b, _, _ = three()
    b.replicas[1].rows.clear()
    for worker in (a, b):
        status, found = await worker.get("/stores/counts/keys/b", stale="true")
        assert (status, found["position"]) == (404, {"1": 11})


@pytest.mark.parametrize("text", ["3", "0:x", "a:4", "0:1;1:2"])
async def test_a_position_of_another_form_is_a_mistake(text: str) -> None:
    a, _, _, _ = three()
    status, found = await a.get("/stores/counts/keys/a", at_least=text)
    assert status == 400
    assert text in found["error"]


def test_each_partition_is_answered_by_one_candidate() -> None:
    routes = Routes("counts", {0: ["a", "b"], 1: ["b", "a"], 2: ["b"]})
    assert routes.ready() == {"a": (0,), "b": (1, 2)}
    routes.on_answered((1, 2))
    routes.on_failed((0,), StoreUnavailable("away"))
    assert routes.ready() == {"b": (0,)}
    routes.on_failed((0,), StoreUnavailable("also away"))
    with pytest.raises(StoreUnavailable, match="also away"):
        routes.ready()
