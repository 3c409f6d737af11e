"""A member of a group with a protocol of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from moldau.client import GroupMember
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP


def member(runtime: Runtime, protocols: Any, **options: Any) -> GroupMember:
    return GroupMember(
        group_id="g",
        protocol_type="greet",
        protocols=protocols,
        runtime=runtime,
        **{
            "bootstrap_servers": BOOTSTRAP,
            "request_timeout_ms": 2_000,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "rebalance_timeout_ms": 4_000,
            **options,
        },
    )


async def eventually(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 in virtual time, where nothing else tells
        await asyncio.sleep(0.1)
