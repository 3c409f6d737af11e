"""A program with a registry's client, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import Any

from moldau.client.serdes import SchemaRegistry
from tests.client.serdes.registry_world import RegistryWorld

Main = Callable[[SchemaRegistry], Coroutine[Any, Any, Any]]


async def now(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


def run(main: Main, **options: Any) -> Any:
    with RegistryWorld() as world:
        return world.run_client(main, **options)
