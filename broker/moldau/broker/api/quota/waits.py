"""The waits of requests because of quotas, from the arrival of a request to its response.

Invariant: where no quota is set, a request pays for one question and no more. A wait is taken when
the response leaves (`network.Request.answer`), in the same turn for a fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.quota.throttle import Client, Throttle
from moldau.broker.settings import quota

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.protocol.declare import Response

_WAITS_MAX: Final = 10_000
_INT_MAX: Final = 2**31 - 1
_NS_PER_MS: Final = 1_000_000


class Waits:
    """How long the clients of open requests wait after their responses."""

    __slots__ = ("_node", "_throttle", "_waits")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._throttle = Throttle(
            lambda: node.image.client_quotas,
            node.settings[quota.quota_window_num],
            node.settings[quota.quota_window_size_seconds] * 1000,
        )
        self._waits: dict[ApiRequest, int] = {}

    @property
    def is_limiting(self) -> bool:
        """Whether any client has a quota."""
        return bool(self._node.image.client_quotas.by_entity)

    def charge_produce(self, request: ApiRequest) -> None:
        """Count a produce that has arrived."""
        wait_ms = self._throttle.on_produced(_client(request), request.size_bytes, self._now_ms())
        self._note(request, wait_ms)

    def holds_fetch(self, request: ApiRequest, size: int) -> bool:
        """Whether the response must have no records because of the quota. If not, they count."""
        wait_ms = self._throttle.on_fetched(_client(request), size, self._now_ms())
        self._note(request, wait_ms)
        return wait_ms > 0

    def fetch_bytes_max(self, request: ApiRequest) -> int | None:
        """Return how many bytes of records a response may have; None for a client without quota."""
        return self._throttle.fetch_bytes_max(_client(request))

    def take(self, request: ApiRequest, response: Response | None) -> int:
        """Return the wait of a request that is answered now, in ms. Satisfies `Throttle`."""
        return self._waits.pop(request, 0) if self._waits else 0

    def _note(self, request: ApiRequest, wait_ms: int) -> None:
        if not wait_ms:
            return
        if len(self._waits) >= _WAITS_MAX:
            self._waits.clear()  # of clients that are gone
        self._waits[request] = min(wait_ms, _INT_MAX)

    def _now_ms(self) -> int:
        return self._node.runtime.clock.monotonic_ns() // _NS_PER_MS


def _client(request: ApiRequest) -> Client:
    context = request.context
    return Client(context.principal.name, context.client_id)
