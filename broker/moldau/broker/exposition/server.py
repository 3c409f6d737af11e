"""Serves metrics and health at the address of `moldau.metrics.listener`: those of the node in this
process, or those of all shards of the host.

A shard answers the questions of its supervisor (`answers_of`), which has one page for all
(`ShardFigures`). It is not a broker's work to add up the others: the supervisor is idle otherwise,
and answers while shard 0 is down.

Invariant: the host is ready if each shard is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.exposition.application import Figures, NodeFigures, application_of
from moldau.broker.exposition.health import STARTING, Health, Observable
from moldau.broker.exposition.recent import Recent
from moldau.broker.exposition.shards import added_up, merged
from moldau.broker.server.standalone import parse_listen
from moldau.runtime.http_door import NO_BODY
from moldau.runtime.http_server import HttpServer
from moldau.runtime.questions import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Collection

    from moldau.link.http.protection import HttpProtection
    from moldau.runtime import Runtime
    from moldau.runtime.questions import Questions

HEALTH: Final = "health"
METRICS: Final = "metrics"
HISTORY: Final = "history"
HEALTH_SECONDS: Final = 3.0
PAGE_SECONDS: Final = 15.0
NOT_RUNNING: Final = "it does not run, and is started again"
_ADVICE: Final = "choose another --metrics"


def _is_probe(method: str, path: str) -> bool:
    """Whether it is a question of a supervisor, which has no login and learns no names."""
    return path in ("/healthz", "/readyz")


class Sampled:
    """The figures of the node of this process, with a sample now and then of its past."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._node: Observable | None = None
        turn = partial(asyncio.sleep, 0)
        self.recent = Recent(runtime.clock, turn)
        self.figures = NodeFigures(runtime.clock, turn, lambda: self._node, self.recent)
        self._sampling: asyncio.Task[None] | None = None

    def watch(self, node: Observable) -> None:
        """Begin to tell about a node: it is started."""
        self._node = node
        self._sampling = self._runtime.spawn(self._sample(node), name="sample the metrics")

    async def _sample(self, node: Observable) -> None:
        while True:
            await asyncio.sleep(self.recent.seconds_to_next())
            await self.recent.sample(node.observed())

    async def aclose(self) -> None:
        """Take no more samples."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.wait([self._sampling])


class MetricsServer:
    """An HTTP server from before the start of what it tells about until after its end."""

    def __init__(self, runtime: Runtime, figures: Figures) -> None:
        self._server = HttpServer(runtime, "the metrics", _ADVICE)
        self._figures = figures

    async def start(
        self, address: str, protection: HttpProtection, names: Collection[str] = ()
    ) -> tuple[str, int]:
        """Serve, and return host and port. `names` are those by which clients reach the node. Raise
        ConfigError or CannotListen."""
        host, port = parse_listen(address)
        bound = self._server.bind(host, port)
        rules = protection.rules(NO_BODY, names)
        guarded = protection.guard(application_of(self._figures), _is_probe)
        await self._server.start(guarded, rules, protection.context)
        return bound

    async def aclose(self) -> None:
        """Finish the current requests, and free the port."""
        await self._server.aclose()


Shards: TypeAlias = Callable[[], Mapping[int, "Questions | None"]]
"""Returns the shards by number; None for one that does not run."""


def answers_of(figures: Figures) -> Callable[[str], AsyncIterator[bytes]]:
    """Return what a shard answers its supervisor."""

    async def answer(question: str) -> AsyncIterator[bytes]:
        kind, _, rest = question.partition(" ")
        if kind == METRICS:
            async for piece in figures.metrics():
                yield piece
        elif kind == HISTORY:
            asked = json.loads(rest)
            found = await figures.history(asked["topic"], asked["group"])
            yield json.dumps(found).encode()
        else:
            yield json.dumps(await figures.health()).encode()

    return answer


class ShardFigures:
    """The figures of all shards."""

    def __init__(self, shards: Shards, own: Callable[[], str] = str) -> None:
        """`own` returns the series of the process that asks them."""
        self._shards = shards
        self._own = own

    async def health(self) -> Health:
        """Return whether all shards serve clients, with a line for each. A shard that ended is
        started again, which is no reason to end the others; one that is stuck is."""
        answers = await self._ask(HEALTH, HEALTH_SECONDS)
        found = {
            number: Health(*json.loads(each)) if isinstance(each, bytes) else each
            for number, each in answers.items()
        }
        lines = [f"shard {number}: {each.text}" for number, each in found.items()]
        return Health(
            is_alive=all(each.is_alive for each in found.values()),
            is_ready=bool(found) and all(each.is_ready for each in found.values()),
            text="\n".join(lines) or STARTING.text,
        )

    async def metrics(self) -> AsyncIterator[bytes]:
        """Yield the page of all shards in pieces."""
        answers = await self._ask(METRICS, PAGE_SECONDS)
        pages = {
            number: each.decode() for number, each in answers.items() if isinstance(each, bytes)
        }
        for piece in merged(pages):
            yield piece.encode()
            await asyncio.sleep(0)
        yield self._own().encode()

    async def history(self, topic: str | None, group: str | None) -> dict[str, Any] | None:
        """Return the sums of all shards."""
        question = f"{HISTORY} {json.dumps({'topic': topic, 'group': group})}"
        answers = await self._ask(question, PAGE_SECONDS)
        parts = [json.loads(each) for each in answers.values() if isinstance(each, bytes)]
        return added_up([each for each in parts if each is not None])

    async def _ask(self, question: str, timeout_s: float) -> dict[int, bytes | Health]:
        shards = self._shards()
        answers = await asyncio.gather(
            *(_answer(each, question, timeout_s) for each in shards.values())
        )
        return dict(zip(shards, answers, strict=True))


async def _answer(shard: Questions | None, question: str, timeout_s: float) -> bytes | Health:
    if shard is None:
        return Health(is_alive=True, is_ready=False, text=NOT_RUNNING)
    try:
        return await shard.ask(question, timeout_s)
    except NoAnswer as error:
        return Health(is_alive=False, is_ready=False, text=str(error))
