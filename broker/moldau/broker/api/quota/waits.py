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
_OF_CONTROLLER: Final = frozenset((19, 20, 37))
"""Requests that change topics or partitions: the controller's wait is in their response."""


class ThrottleTimes:
    """How long the clients of open requests wait after their responses."""

    __slots__ = ("_began_ns", "_node", "_served", "_throttle", "_waits")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._throttle = Throttle(
            lambda: node.image.client_quotas,
            node.settings[quota.quota_window_num],
            node.settings[quota.quota_window_size_seconds] * 1000,
        )
        self._waits: dict[ApiRequest, int] = {}
        self._served: ApiRequest | None = None
        """The request that is handled now, if its time counts."""
        self._began_ns = 0

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

    def charge_share_fetch(self, request: ApiRequest, size: int) -> None:
        """Count the records of a share fetch, which are sent."""
        wait_ms = self._throttle.on_given(_client(request), size, self._now_ms())
        self._note(request, wait_ms)

    def fetch_bytes_max(self, request: ApiRequest) -> int | None:
        """Return how many bytes of records a response may have; None for a client without quota."""
        return self._throttle.fetch_bytes_max(_client(request))

    def begin(self, request: ApiRequest) -> None:
        """Begin to measure the time of a handler."""
        self._served = request
        self._began_ns = self._node.runtime.clock.monotonic_ns()

    def exempt(self) -> None:
        """Do not count the request that is served: it is of another broker."""
        self._served = None

    def end(self) -> None:
        """Count the time of a handler that did not answer yet."""
        if self._served is not None:
            self._worked(self._served)

    def _worked(self, request: ApiRequest) -> int:
        """Count the time since the handler began, and return the wait for it."""
        self._served = None
        now_ns = self._node.runtime.clock.monotonic_ns()
        work_ns = now_ns - self._began_ns
        return self._throttle.on_worked(_client(request), work_ns, now_ns // _NS_PER_MS)

    def take(self, request: ApiRequest, response: Response | None) -> int:
        """Return the wait of a request that is answered now, in ms. Satisfies `Throttle`."""
        wait_ms = self._waits.pop(request, 0) if self._waits else 0
        if self._served is request:
            wait_ms = max(wait_ms, self._worked(request))
        if response is not None and request.arrival.key in _OF_CONTROLLER:
            wait_ms = max(wait_ms, response.throttle_time_ms)  # type: ignore[attr-defined]
        return wait_ms

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
