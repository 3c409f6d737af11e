"""How an admin asks: one request for many items, those that may work later asked for again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from moldau.client.cluster import CONTROLLER, Cluster
from moldau.errors.codes import KafkaError
from moldau.protocol.declare import Request, Response

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Response)


class AdminRequests:
    """What all parts of the admin client stand on."""

    _cluster: Cluster

    async def _ask(
        self,
        request: Request,
        response: type[R],
        *,
        node_id: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """One answer, from any broker or from that one; asked for again when it is lost."""

        async def attempt() -> R:
            if node_id is None:
                return await self._cluster.call(request, response)
            return await self._cluster.call(request, response, node_id=node_id)

        if node_id is not None and node_id not in self._cluster.metadata.brokers:
            await self._cluster.refresh()
        return await self._cluster.retry(attempt, timeout_s=timeout_s)

    async def _ask_controller(self, request: Request, response: type[R]) -> R:
        return await self._ask(request, response, node_id=CONTROLLER)

    async def _for_each(
        self,
        items: Iterable[K],
        ask: Callable[[list[K]], Awaitable[dict[K, V | KafkaError]]],
    ) -> dict[K, V | KafkaError]:
        """`ask` for all items, then for those whose error is retriable, until the time is over.
        The answer has each item: its value, or the KafkaError that it ended with."""
        results: dict[K, V | KafkaError] = {}
        pending = list(dict.fromkeys(items))

        async def attempt() -> None:
            results.update(await ask([each for each in pending if _is_open(results.get(each))]))
            for each in pending:
                result = results.get(each)
                if isinstance(result, KafkaError) and result.retriable:
                    raise result

        try:
            await self._cluster.retry(attempt)
        except KafkaError:
            if results.keys() < set(pending):
                raise  # some item has no answer at all: the cluster cannot be reached
        return {each: results[each] for each in pending}


def _is_open(result: object) -> bool:
    return result is None or (isinstance(result, KafkaError) and result.retriable)


def error_of(code: int, message: str | None, **context: object) -> KafkaError | None:
    """The error of an item of an answer, in the broker's words where it has some."""
    return KafkaError(code, message or "", **context) if code else None
