"""The user's part of a small protocol: words are shared among the members of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from moldau.client import GenerationAssignment

WORDS = [b"ahoj", b"nazdar", b"servus", b"cau"]


class Greeters:
    """Shares `WORDS` out, and writes down what it is told. Asserts the order of its calls."""

    def __init__(self, told: bytes = b"", name: str = "greet") -> None:
        self.told = told
        self.name = name
        self.calls: list[str] = []
        self.words: list[bytes] = []
        self.assigned: GenerationAssignment | None = None
        self.seen: Mapping[str, bytes] = {}
        self.has_changed = asyncio.Event()
        self.is_busy = False

    def metadata(self) -> list[tuple[str, bytes]]:
        assert not self.is_busy
        assert self.calls[-1:] != ["assigned"], "a member joins again, and nothing was revoked"
        self.calls.append("metadata")
        return [(self.name, self.told), ("older", b"")]

    def assign(self, protocol: str, leader_id: str, members: Mapping[str, bytes]) -> dict[str, Any]:
        assert not self.is_busy
        assert leader_id in members
        assert protocol == self.name
        self.seen = members
        names = sorted(members)
        shares: dict[str, list[bytes]] = {name: [] for name in names}
        for number, word in enumerate(WORDS):
            shares[names[number % len(names)]].append(word)
        return {name: b" ".join(each) for name, each in shares.items()}

    async def on_assigned(self, assigned: GenerationAssignment) -> None:
        await self.work()
        self.assigned = assigned
        self.words = assigned.assignment.split()
        self.note("assigned")

    async def on_revoked(self) -> None:
        await self.work()
        assert self.calls[-1] == "assigned"
        self.words = []
        self.note("revoked")

    async def on_lost(self) -> None:
        await self.work()
        assert {"assigned", "revoked"} & set(self.calls)
        self.words = []
        self.note("lost")

    async def work(self) -> None:
        assert not self.is_busy, "calls overlap"
        self.is_busy = True
        await asyncio.sleep(0)
        self.is_busy = False

    def note(self, call: str) -> None:
        self.calls.append(call)
        self.has_changed.set()

    async def until(self, count: int, call: str = "assigned") -> None:
        """Returns when it was called so often."""
        while self.calls.count(call) < count:
            self.has_changed.clear()
            await self.has_changed.wait()
