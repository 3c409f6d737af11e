"""A broker without logs and sockets: handlers stand on its node, its controller is a `Cluster`.

What is asked goes through bytes both ways, so that a message which its version cannot carry fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from moldau.broker.api.assembly import assemble
from moldau.broker.api.node import Node, OnAnswer
from moldau.broker.api.service import BrokerService
from moldau.broker.controller.levels import SUPPORTED
from moldau.broker.coordinator.coordinators import Coordinators
from moldau.broker.decision.context import RequestContext
from moldau.broker.server.coordinators import coordinators_of
from moldau.broker.settings import broker_settings
from moldau.config import Settings
from moldau.config.given import GivenValue, Source, SourceKind
from moldau.errors.codes import KafkaError
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.versions import Versions
from tests.broker.controller.cluster import CLUSTER_ID, Cluster

R = TypeVar("R", bound=Response)
ENDPOINTS = {"PLAINTEXT": ("here", 9092), "INSIDE": ("inside", 9094)}


def settings(**given: str) -> Settings:
    """Of a plain node; `__` in a name is a point."""
    plain = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": "1",
        **{name.replace("__", "."): value for name, value in given.items()},
    }
    source = Source(SourceKind.FILE)
    return broker_settings(tuple(GivenValue(name, value, source) for name, value in plain.items()))


class Channel:
    """The way to the controller. `refusals` are given back instead of asking, one each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: list[Request] = []
        self.contexts: list[RequestContext] = []
        self.refusals: deque[KafkaError] = deque()
        self.is_slow = False
        self._late: deque[tuple[OnAnswer, Response | KafkaError]] = deque()

    def submit(self, request: Request, context: RequestContext, on_answer: OnAnswer) -> None:
        self.asked.append(request)
        self.contexts.append(context)
        answer = self._decide(request, context)
        if self.is_slow:
            self._late.append((on_answer, answer))
        else:
            on_answer(answer)

    def answer_late(self) -> None:
        """What was asked while `is_slow` is answered now."""
        while self._late:
            on_answer, answer = self._late.popleft()
            on_answer(answer)

    def _decide(self, request: Request, context: RequestContext) -> Response | KafkaError:
        if self.refusals:
            return self.refusals.popleft()
        cluster = self.cluster
        version = context.version
        arrived = type(request).decode(_body(request.encode_parts(version)), version)
        outcome = cluster.controller.on_request(arrived, context, cluster.inputs)
        cluster.append(outcome.records)
        return outcome.response


class Asked:
    """A request that came; satisfies `ApiRequest`."""

    def __init__(self, request: Request, version: int, listener: str) -> None:
        self.holds_order = False
        key = type(request).spec.key
        assert key is not None
        self.arrival = SimpleNamespace(key=key, version=version, client_id="test")
        self.connection: Any = SimpleNamespace(
            listener=listener,
            address="127.0.0.1",
            peer_port=1,
            session=None,
            grants=None,
            software=("", ""),
        )
        self.context = RequestContext("test", "/127.0.0.1", version, listener)
        self.is_gone = False
        self.answers: list[Response] = []
        self._body = _body(request.encode_parts(version))

    @property
    def body(self) -> Any:
        return self._body

    @property
    def size_bytes(self) -> int:
        return len(self._body)

    def decode(self) -> Request:
        return request_class(self.arrival.key).decode(self._body, self.arrival.version)

    def keep(self) -> None:
        raise AssertionError("nothing here holds views")

    def hold_order(self) -> None:
        """Note it; nothing follows on this connection."""
        self.holds_order = not self.answers

    def release_order(self) -> None:
        self.holds_order = False

    def answer(self, response: Response) -> None:
        version = self.arrival.version
        body = _body(response.encode_parts(version))
        self.answers.append(response_class(self.arrival.key).decode(body, version))
        assert len(self.answers) == 1

    def answer_nothing(self) -> None:
        raise AssertionError("each of these has an answer")


class _ClockOf:
    """The clock of a controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def monotonic_ns(self) -> int:
        return self._cluster.now_ms * 1_000_000


class _Timeless:
    """A purgatory in which no time passes: what waits in it waits for its answer alone."""

    def watch(self, operation: object, keys: tuple[()], timeout_ms: int) -> None:
        """For an end that does not come."""
        assert keys == ()
        assert timeout_ms > 0

    def cancel(self, operation: object) -> None:
        """The answer has come."""


class _Unwatched:
    """No time passes, and nothing looks for transactions that are open for too long."""

    def close(self) -> None:
        """Nothing was begun."""


_UNWATCHED = partial(coordinators_of, watch=lambda node: _Unwatched())


class Administered:
    """The broker with the number 1, and others that only the controller knows."""

    def __init__(
        self,
        *brokers: int,
        loggers: Loggers | None = None,
        make_coordinators: Callable[[Node], Coordinators] = _UNWATCHED,
        **given: str,
    ) -> None:
        self.cluster = Cluster(*(brokers or (1,)))
        self.channel = Channel(self.cluster)
        self.lines: list[str] = []
        log = Loggers(SimpleNamespace(wall_ms=lambda: 0), self.lines.append).get("broker")
        self.node = Node(
            runtime=cast(Any, SimpleNamespace(random=Random(1), clock=_ClockOf(self.cluster))),
            node_id=1,
            cluster_id=CLUSTER_ID,
            settings=settings(**given),
            image=self.cluster.image,
            metadata_offset=len(self.cluster.log),
            replicas=cast(
                Any, SimpleNamespace(purgatory=_Timeless(), is_making=lambda topics: False)
            ),
            directories=cast(Any, None),
            controller=self.channel,
            endpoints=ENDPOINTS,
            features={name: Versions(*levels) for name, levels in SUPPORTED.items()},
            log=log,
            metrics=Registry(),
            loggers=loggers,
        )
        assemble(self.node, make_coordinators)

    def send(self, request: Request, version: int | None = None, via: str = "PLAINTEXT") -> Asked:
        """The request, served; perhaps not answered yet."""
        last = type(request).spec.versions.last if version is None else version
        asked = Asked(request, last, via)
        self.serve(asked)
        return asked

    def serve(self, asked: Asked) -> None:
        """Serve a request that came."""
        BrokerService(self.node).serve(asked)

    def ask(
        self, request: Request, answer: type[R], version: int | None = None, via: str = "PLAINTEXT"
    ) -> R:
        """The answer, which has to be there at once."""
        (response,) = self.send(request, version, via).answers
        assert isinstance(response, answer)
        return response


def _body(parts: Sequence[Any]) -> bytes:
    return b"".join(bytes(each) for each in parts)
