"""The path of a worker by which its supervisor is asked for another number of workers."""

from __future__ import annotations

import msgspec
import pytest

from moldau.streams.query.http import Answer, Request, json_answer
from moldau.streams.query.supervised import SupervisedApi, SupervisorLink, change_of_count


class Inner:
    """The worker's own API."""

    async def answer(self, request: Request) -> Answer:
        return json_answer({"path": request.path})


def request(method: str, target: str = "/workers", **options: str) -> Request:
    return Request(method, target, tuple(target.strip("/").split("/")), options)


async def test_a_number_is_passed_on_and_all_else_is_the_workers_own() -> None:
    asked: list[int] = []
    api = SupervisedApi(Inner(), SupervisorLink("one", asked.append))
    answer = await api.answer(request("GET"))
    assert msgspec.json.decode(answer.body) == {"supervisor": "one"}
    answer = await api.answer(request("POST", count="4"))
    assert (answer.status, asked) == (200, [4])
    answer = await api.answer(request("GET", "/stores"))
    assert msgspec.json.decode(answer.body) == {"path": ["stores"]}


@pytest.mark.parametrize("count", ["", "0", "-1", "two", "1001", "2.5"])
async def test_what_is_no_number_of_workers_is_refused(count: str) -> None:
    asked: list[int] = []
    api = SupervisedApi(Inner(), SupervisorLink("one", asked.append))
    answer = await api.answer(request("POST", count=count))
    assert (answer.status, asked) == (400, [])
    assert (await api.answer(request("PUT", count="2"))).status == 405


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(1, 3, "1 worker becomes 3"), (3, 1, "3 workers become 1"), (0, 2, "0 workers become 2")],
)
def test_a_change_of_the_number_is_said_in_the_words_of_the_count(
    before: int, after: int, said: str
) -> None:
    assert change_of_count(before, after) == said


async def test_a_supervisor_that_is_gone_is_an_answer() -> None:
    def gone(count: int) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    api = SupervisedApi(Inner(), SupervisorLink("one", gone))
    answer = await api.answer(request("POST", count="2"))
    assert (answer.status, answer.is_retryable) == (503, True)
