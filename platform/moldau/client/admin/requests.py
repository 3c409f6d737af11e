"""How an admin asks: one request for many items, those that may work later asked for again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import ANY_BROKER, CONTROLLER, Cluster
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
        node_id: int = ANY_BROKER,
        timeout_s: float | None = None,
    ) -> R:
        """One answer, from any broker or from that one; asked for again when it is lost."""

        async def attempt() -> R:
            return await self._ask_once(request, response, node_id)

        await self._require_broker(node_id)
        return await self._cluster.retry(attempt, timeout_s=timeout_s)

    async def _ask_once(self, request: Request, response: type[R], node_id: int = ANY_BROKER) -> R:
        """One try, for what is tried again as a whole."""
        return await self._cluster.call(request, response, node_id=node_id)

    async def _ask_controller(self, request: Request, response: type[R]) -> R:
        return await self._ask(request, response, node_id=CONTROLLER)

    async def _require_broker(self, node_id: int) -> None:
        """KafkaError, at once, when no living broker has that id: a wrong number should raise an
        error, not a wait."""
        if node_id < 0 or node_id in self._cluster.metadata.brokers:
            return
        await self._cluster.refresh()
        brokers = sorted(self._cluster.metadata.brokers)
        if node_id not in brokers:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                "the cluster has no living broker of that id",
                broker=node_id,
                brokers=brokers,
            )

    async def _for_each(
        self,
        items: Iterable[K],
        ask: Callable[[list[K]], Awaitable[dict[K, V | KafkaError]]],
    ) -> dict[K, V | KafkaError]:
        """`ask` for all items, then for those whose error is retriable, until the time is over.
        The answer has each item: its value, or the KafkaError that it ended with. `ask` itself
        tries once: if both retried equally long, this one could not say what failed."""
        results: dict[K, V | KafkaError] = {}
        pending = list(dict.fromkeys(items))

        def is_open(item: K) -> bool:
            return item not in results or _may_change(results[item])

        async def attempt() -> None:
            results.update(await ask([each for each in pending if is_open(each)]))
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


def _may_change(result: object) -> bool:
    return isinstance(result, KafkaError) and result.retriable


def error_of(code: int, message: str | None, **context: object) -> KafkaError | None:
    """The error of an item of an answer, in the broker's words where it has some."""
    return KafkaError(code, message or "", **context) if code else None
