"""The scripted registry on a real socket, in a thread: for clients that have threads or processes
of their own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moldau.runtime import Listener, Runtime
from moldau.runtime.threaded import ThreadedRuntime
from tests.client.serdes.scripted_registry import ScriptedRegistry

ADDRESS = "127.0.0.1"
NAME = "localhost"
"""As in the URL: what a certificate may be for, and what has to be looked up."""


@dataclass
class ServedRegistry:
    """Where it is, and what happens there."""

    url: str
    script: ScriptedRegistry


@contextmanager
def served_registry(tls: ssl.SSLContext | None = None) -> Iterator[ServedRegistry]:
    """While it runs."""
    script = ScriptedRegistry()
    serving: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await script.serve(reader, writer)

    async def begin(runtime: Runtime) -> Listener:
        return await runtime.network.serve_streams(serve, ADDRESS, 0, tls=tls)

    async def end(runtime: Runtime) -> None:
        listener.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    with ThreadedRuntime("registry") as threaded:
        listener = threaded.run(begin)
        try:
            yield ServedRegistry(f"{'https' if tls else 'http'}://{NAME}:{listener.port}", script)
        finally:
            threaded.run(end)
