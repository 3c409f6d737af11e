"""The pages of several shards as one."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from moldau.broker.exposition.application import application_of
from moldau.broker.exposition.health import Health
from moldau.broker.exposition.server import NOT_RUNNING, ShardFigures, answers_of
from moldau.broker.exposition.shards import added_up, merged
from moldau.metrics.ring import EVERY_MS
from moldau.runtime.questions import NoAnswer, Questions
from tests.broker.exposition.scraped import Scraped, get


def page(*series: tuple[str, str]) -> str:
    """A page of gauges: a name, and a line for each label and value."""
    return "".join(
        f"# HELP {name} It is.\n# TYPE {name} gauge\n"
        + "".join(f"{name}{each}\n" for each in lines.split("|"))
        for name, lines in series
    )


def merge(*pages: str) -> Scraped:
    return Scraped("".join(merged(dict(enumerate(pages)))))


def test_a_series_of_several_shards_stands_once_with_their_numbers() -> None:
    found = merge(
        page(("cpu", " 1.5"), ("bytes", '{topic="a b}"} 7')),
        page(("cpu", " 2"), ("other", " 9")),
    )

    assert found.labelled("cpu", "shard") == {"0": 1.5, "1": 2.0}
    assert found.value("bytes", shard="0", topic="a b}") == 7
    assert found.value("other", shard="1") == 9


OFFSETS = (
    "kafka_consumergroup_current_offset",
    '{consumergroup="g",topic="t",partition="0"} 5|{consumergroup="g",topic="t",partition="1"} 8',
)


def test_a_lag_is_made_of_what_two_shards_know() -> None:
    coordinator = page(
        OFFSETS,
        ("kafka_topic_partition_current_offset", '{topic="t",partition="0"} 6'),
        ("kafka_consumergroup_lag", '{consumergroup="g",topic="t",partition="0"} 1'),
    )
    leader = page(("kafka_topic_partition_current_offset", '{topic="t",partition="1"} 10'))

    found = merge(coordinator, leader)

    labels = {"shard": "0", "consumergroup": "g", "topic": "t"}
    assert found.value("kafka_consumergroup_lag", partition="0", **labels) == 1
    assert found.value("kafka_consumergroup_lag", partition="1", **labels) == 2
    assert found.value("kafka_consumergroup_lag_sum", **labels) == 3


def test_a_lag_that_no_shard_knows_is_left_out() -> None:
    found = merge(
        page(OFFSETS, ("kafka_topic_partition_current_offset", '{topic="t",partition="1"} 8'))
    )

    labels = {"shard": "0", "consumergroup": "g", "topic": "t"}
    assert len(found.values["kafka_consumergroup_lag"]) == 1
    assert found.value("kafka_consumergroup_lag", partition="1", **labels) == 0
    assert "kafka_consumergroup_lag_sum" not in found.values


def test_the_past_is_the_sum_of_samples_of_about_the_same_time() -> None:
    at, next_at = 100 * EVERY_MS, 101 * EVERY_MS
    columns = ["bytes_in", "lag"]
    one = {"node": 1, "columns": columns, "readings": [[at + 3, 1.0, 2.0], [next_at, 4.0, None]]}
    two = {"node": 2, "columns": columns, "readings": [[at - 5, 10.0, 20.0], [next_at, 40.0, 1.0]]}

    assert added_up([one, two]) == {
        "node": 1,
        "columns": columns,
        "readings": [[at, 11.0, 22.0], [next_at, 44.0, None]],
    }
    assert added_up([]) is None


class Shard:
    """One that answers, or that is stuck."""

    def __init__(self, health: Health | None) -> None:
        self._health = health

    async def ask(self, question: str, timeout_s: float) -> bytes:
        if self._health is None:
            raise NoAnswer("it does not answer in time")
        if question == "health":
            return json.dumps(self._health).encode()
        return b"null" if question.startswith("history") else page(("up", " 1")).encode()


SERVES = Shard(Health(is_alive=True, is_ready=True, text="running"))
STARTS = Shard(Health(is_alive=True, is_ready=False, text="starting"))
FAILED = Shard(Health(is_alive=False, is_ready=False, text="its disk failed"))
STUCK = Shard(None)
HOSTS: dict[str, tuple[list[Shard | None], int, int, str]] = {
    "all serve": ([SERVES, SERVES], 200, 200, "running"),
    "one starts": ([SERVES, STARTS], 200, 503, "starting"),
    "one has ended and starts again": ([SERVES, None], 200, 503, NOT_RUNNING),
    "one has failed": ([SERVES, FAILED], 503, 503, "its disk failed"),
    "one is stuck": ([SERVES, STUCK], 503, 503, "it does not answer in time"),
    "none has started": ([], 200, 503, "starting"),
}


@pytest.mark.parametrize("case", HOSTS)
def test_a_host_is_ready_when_all_shards_are(case: str) -> None:
    shards, alive, ready, text = HOSTS[case]
    found = {number: cast("Questions | None", each) for number, each in enumerate(shards)}
    application = application_of(ShardFigures(lambda: found))

    async def run() -> None:
        assert (await get(application, "/healthz")).status_code == alive
        answer = await get(application, "/readyz")
        assert answer.status_code == ready
        assert answer.text.splitlines()[-1].endswith(text)
        assert (await get(application, "/history")).status_code == 503
        written = (await get(application, "/metrics")).text
        assert written.count("up{shard=") == sum(each not in (None, STUCK) for each in shards)

    asyncio.run(run())


def test_the_series_of_the_process_that_asks_stand_beside_those_of_the_shards() -> None:
    figures = ShardFigures(lambda: {0: cast(Questions, SERVES)}, lambda: page(("own", " 5")))

    async def run() -> None:
        found = Scraped((await get(application_of(figures), "/metrics")).text)
        assert (found.value("up", shard="0"), found.value("own")) == (1, 5)

    asyncio.run(run())


def test_a_shard_answers_what_its_supervisor_asks() -> None:
    both = ShardFigures(lambda: {0: cast(Questions, SERVES), 1: cast(Questions, STARTS)})

    async def answered(question: str) -> str:
        return b"".join([piece async for piece in answers_of(both)(question)]).decode()

    assert Health(*json.loads(asyncio.run(answered("health")))).is_ready is False
    assert asyncio.run(answered('history {"topic": null, "group": null}')) == "null"
    assert 'up{shard="1"} 1' in asyncio.run(answered("metrics"))
