"""A refused request is freed as it is answered, for every API: no cycle of objects keeps its bytes
until the collector comes, which in a broker is rare."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any, Final

from moldau.broker.api.service import served_versions
from moldau.broker.server.standalone import CLIENTS
from moldau.protocol.declare import Request
from moldau.protocol.messages import api, request_class
from moldau.protocol.spec import ArrayOf, StructSpec
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire, wired
from tests.fuzz.extremes import INTEGERS
from tests.runtime.arena import play

COUNT: Final = int(os.environ.get("MOLDAU_REFUSALS", "20"))
"""How many requests of each API are refused. A thousand show what leaks slowly."""
WARM: Final = 3
LARGE: Final = 20_000
ANSWER_SECONDS: Final = 60
LOGIN: Final = frozenset((17, 36))
"""The login, which ends a connection that asks for none."""
KEYS: Final = sorted(served_versions().keys() - LOGIN)


def large(spec: StructSpec, version: int) -> Any:
    """Return a message with large fields, none of which names what exists."""
    return spec.cls(**{
        each.name: value_of(each.name, each.type, version)
        for each in spec.fields
        if each.is_present(version)
    })  # fmt: skip


def value_of(name: str, kind: Any, version: int) -> Any:
    if isinstance(kind, ArrayOf):
        return [value_of(name, kind.element, version)]
    if isinstance(kind, StructSpec):
        return large(kind, version)
    plain: dict[str, Any] = {
        "bool": False,
        "string": name + "x" * LARGE,
        "uuid": b"\7" * 16,
        "float64": 1.0,
    }
    if kind.name in INTEGERS:
        return 0 if any(word in name for word in ("wait", "timeout")) else 1
    return plain.get(kind.name, bytes(LARGE))


async def unreachable(wire: Wire, request: Request, version: int) -> int:
    """Return how many objects only the collector finds after some requests."""
    for _ in range(WARM):
        await ask(wire, request, version)
    gc.collect()
    for _ in range(COUNT):
        await ask(wire, request, version)
    return gc.collect()


async def ask(wire: Wire, request: Request, version: int) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        wire.writer.writelines(wire.protocol.send(request, version, expects_answer=True))
        size = int.from_bytes(await wire.reader.readexactly(4), "big")
        wire.protocol.receive(await wire.reader.readexactly(size))


def test_a_refused_request_is_freed_without_the_collector() -> None:
    async def main(runtime: Runtime) -> dict[str, int]:
        found = {}
        async with house(runtime) as home, home.open() as (broker, _):
            for key in KEYS:
                version = served_versions()[key].last
                request = large(request_class(key).spec, version)
                async with wired(runtime, *broker.endpoints[CLIENTS]) as wire:
                    found[api(key).name] = await unreachable(wire, request, version)
        return found

    gc.disable()
    try:
        found = play("simulated", main)
    finally:
        gc.enable()
    assert {name: each for name, each in found.items() if each >= COUNT} == {}
