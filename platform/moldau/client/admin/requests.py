"""How an admin sends requests: many items in one, to several brokers at once, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from moldau.client.base.lifecycle import Lifecycle, comes_with_start
from moldau.client.base.unknown_topic import maybe_final
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, raise_for
from moldau.link.cluster import ANY_BROKER, CONTROLLER, Cluster
from moldau.link.settings import default_api_timeout_ms, request_timeout_ms
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import api_of

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Response)


class Requests:
    """The request methods of one admin client, shared by its parts."""

    cluster: Cluster = comes_with_start("admin client")

    def __init__(self, world: Lifecycle) -> None:
        self._world = world

    @property
    def timeout_ms(self) -> int:
        """How long a broker may take for a change. Less than this client waits, because the error
        of a broker that gives up says why."""
        settings = self.cluster.settings
        return min(settings[request_timeout_ms], settings[default_api_timeout_ms]) * 3 // 4

    async def ask(self, request: Request, response: type[R], node_id: int = ANY_BROKER) -> R:
        """Send the request to that broker, or any. Return the response; retry if it is lost."""

        async def attempt() -> R:
            return await self.ask_once(request, response, node_id)

        await self.require_broker(node_id)
        return await self.cluster.retry(attempt)

    async def ask_once(self, request: Request, response: type[R], node_id: int = ANY_BROKER) -> R:
        """Send the request once, for callers that retry as a whole."""
        return await self.cluster.call(request, response, node_id=node_id)

    async def ask_controller(self, request: Request, response: type[R], **facts: object) -> R:
        """Send the request to the controller. Raise the top-level error of the response."""
        answer = await self.ask(request, response, CONTROLLER)
        whole: Any = answer
        raise_for(
            api_of(answer), whole.error_code, getattr(whole, "error_message", None) or "", **facts
        )
        return answer

    async def require_broker(self, node_id: int) -> None:
        """Raise KafkaError at once if no live broker has that id: a wrong number should be an
        error, not a wait."""
        if node_id < 0 or node_id in self.cluster.metadata.brokers:
            return
        brokers = await self.brokers()
        if node_id not in brokers:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                "the cluster has no living broker of that id",
                broker=node_id,
                brokers=brokers,
            )

    async def ask_all(self, request: Request, response: type[R]) -> dict[int, R]:
        """Return the answer of each living broker. One that dies meanwhile is left out: others have
        what it had. Raise the top-level error of an answer."""

        async def ask(broker: int) -> R | None:
            async def attempt() -> R | None:
                if broker not in self.cluster.metadata.brokers:
                    return None
                answer = await self.ask_once(request, response, broker)
                whole: Any = answer
                raise_for(api_of(answer), whole.error_code, broker=broker)
                return answer

            return await self.cluster.retry(attempt)

        found = await at_once(await self.brokers(), ask)
        answers = {broker: value_of(each) for broker, each in found.items()}
        return {broker: each for broker, each in answers.items() if each is not None}

    async def brokers(self) -> list[int]:
        """Return the ids of the brokers that are alive now."""
        await self.cluster.refresh()
        return sorted(self.cluster.metadata.brokers)

    async def for_each(
        self, items: Iterable[K], ask: Callable[[list[K]], Awaitable[dict[K, V | KafkaError]]]
    ) -> dict[K, V | KafkaError]:
        """Call `ask` for all items, then for those with a retriable error, until the time is over.

        Return the value or the final KafkaError of each item. `ask` must not retry itself: if both
        retried equally long, this method would not know what failed.
        """
        results: dict[K, V | KafkaError] = {}
        chosen = open_ones = list(dict.fromkeys(items))

        async def attempt() -> None:
            nonlocal open_ones
            results.update(await ask(open_ones))
            failed = {each: found for each in open_ones if (found := _failed(results[each]))}
            open_ones = list(failed)
            for error in failed.values():
                raise error

        try:
            await self.cluster.retry(attempt)
        except KafkaError:
            if len(results) < len(chosen):
                raise  # some item has no result at all: the cluster cannot be reached
        return {each: results[each] for each in chosen}

    async def for_one(
        self, ask: Callable[[], Awaitable[V | KafkaError]], node_id: int = ANY_BROKER
    ) -> V:
        """Call `ask` for one item, with retries as in `for_each`. Raise its KafkaError."""

        async def all_of_it(only: list[None]) -> dict[None, V | KafkaError]:
            return {None: await ask()}

        await self.require_broker(node_id)
        return value_of((await self.for_each([None], all_of_it))[None])


async def at_once(items: Iterable[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V | KafkaError]:
    """Call `ask` for all items at the same time. The result of one that fails is its KafkaError."""

    async def one(item: K) -> V | KafkaError:
        try:
            return await ask(item)
        except KafkaError as error:
            return without_frames(error)

    chosen = list(dict.fromkeys(items))
    return dict(zip(chosen, await asyncio.gather(*map(one, chosen)), strict=True))


def _failed(result: object) -> KafkaError | None:
    """Return the error if it is retriable, else None."""
    return result if isinstance(result, KafkaError) and result.retriable else None


def value_of(result: V | KafkaError) -> V:
    """Return the result, or raise it if it is a KafkaError."""
    if isinstance(result, KafkaError):
        raise result
    return result


def error_of(
    api: str, code: int, message: str | None = None, **context: object
) -> KafkaError | None:
    """Return an item's error, with the broker's message if there is one; None for code 0."""
    return error_from(api, code, message or "", **context) if code else None


def final_error(api: str, item: Any, **context: object) -> KafkaError | None:
    """Return the error of one item as `error_of`, made non-retriable if the item does not exist."""
    return maybe_final(error_of(api, item.error_code, item.error_message, **context))
