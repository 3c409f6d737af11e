"""What a registry that fails, or a record that is damaged, does to the records after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.settings import serdes as rows
from moldau.console.connection import Connection
from moldau.console.pages.decoding import DOWN_S, REFUSED_S, Decoder, Refusals
from moldau.console.pages.encoding import value_form
from moldau.runtime.real import RealRuntime
from moldau.values.wire import frame
from tests.console.hand_clock import HandClock

PLACE: Final = Place("orders", False)
GOOD: Final = frame(1) + b'{"name": "Ada"}'
DAMAGED: Final = frame(1) + b'{"name": "A'


class Registry:
    """What the client of a registry is answered: `refusal` if there is one, else a schema."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.refusal: RegistryError | None = None
        self.asked: list[str] = []
        answers = self

        async def ask(
            client: SchemaRegistry, method: str, path: str, read: Callable[[object], Any], *_: Any
        ) -> Any:
            answers.asked.append(path)
            if answers.refusal is not None:
                raise answers.refusal
            return read({"schema": '{"type": "object"}', "schemaType": "JSON"})

        patch.setattr(SchemaRegistry, "_ask", ask)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return Registry(monkeypatch)


def decoder(clock: HandClock) -> Decoder:
    return Decoder({"schema.registry.url": "http://localhost:1"}, clock)


def test_a_damaged_record_says_nothing_of_the_next_one(registry: Registry) -> None:
    async def run() -> None:
        refused: Refusals = {}
        reads = decoder(HandClock())
        assert "not decoded" in await reads.text(DAMAGED, PLACE, refused, 100)
        assert await reads.decoded(DAMAGED, PLACE, refused) is None
        found = await reads.decoded(GOOD, PLACE, refused)
        assert found is not None
        assert found.json == {"name": "Ada"}
        await reads.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("status", [0, 404, 500])
def test_a_registry_that_fails_is_asked_again_soon_but_not_for_each_record(
    registry: Registry, status: int
) -> None:
    async def run() -> None:
        refused: Refusals = {}
        clock = HandClock()
        reads = decoder(clock)
        registry.refusal = RegistryError("it fails", status=status)
        for _ in range(3):
            assert "it fails" in await reads.text(GOOD, PLACE, refused, 100)
        assert len(registry.asked) == 1
        registry.refusal = None
        clock.now_s += max(REFUSED_S, DOWN_S)
        assert "Ada" in await reads.text(GOOD, PLACE, refused, 100)
        await reads.aclose()

    asyncio.run(run())


def test_a_registry_that_does_not_answer_is_not_asked_for_other_schemas(
    registry: Registry,
) -> None:
    async def run() -> None:
        reads = decoder(HandClock())
        assert await reads.decoded(GOOD, PLACE, {}) is not None
        registry.refusal = RegistryError("nobody answers")
        for key in range(2, 9):
            assert "nobody answers" in await reads.text(frame(key) + b"{}", PLACE, {}, 100)
        assert len(registry.asked) == 2
        assert await reads.decoded(GOOD, PLACE, {}) is not None, "it has that schema"
        await reads.aclose()

    asyncio.run(run())


def test_a_page_of_messages_does_not_wait_again_for_a_registry_that_is_down(
    registry: Registry,
) -> None:
    async def run() -> None:
        clock = HandClock()
        reads = decoder(clock)
        registry.refusal = RegistryError("nobody answers")
        for topic in ("orders", "clicks", "orders"):
            with pytest.raises(RegistryError, match="nobody answers"):
                await value_form(reads, topic)
        assert len(registry.asked) == 1
        clock.now_s += DOWN_S
        registry.refusal = RegistryError("no such subject", status=404, code=40401)
        assert await value_form(reads, "orders") is None
        assert await value_form(reads, "clicks") is None, "a refusal is an answer"
        assert len(registry.asked) == 3
        await reads.aclose()

    asyncio.run(run())


def test_the_client_of_the_registry_answers_a_page_soon_unless_it_is_told_otherwise() -> None:
    async def run() -> None:
        async with RealRuntime("console") as runtime:
            given = {"bootstrap.servers": "localhost:1"}
            url = "http://localhost:1"
            own = Connection(given, runtime, url)
            other = Connection(
                given | {"max.retries": "7", "latest.cache.ttl.sec": "-1"}, runtime, url
            )
            assert own.decoder is not None
            assert other.decoder is not None
            found = own.decoder.registry().settings
            assert found[rows.retries_max] == 0
            assert 0 <= found[rows.latest_cache_ttl_s] <= 10
            assert max(found[rows.connect_timeout_ms], found[rows.read_timeout_ms]) <= 5_000
            found = other.decoder.registry().settings
            assert (found[rows.retries_max], found[rows.latest_cache_ttl_s]) == (7, -1)
            for each in (own, other):
                await each.aclose()

    asyncio.run(run())
