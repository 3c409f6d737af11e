"""A worker gives up tasks: it joins again only after they have stopped, whatever happens meanwhile.

The member is real, without a broker: rounds are the calls that a group makes.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.client import GenerationAssignment, GroupMember
from moldau.connect.herder.connect_protocol import EMPTY, Share, read_state, write_share
from moldau.connect.herder.group import GroupMembership
from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.configs import ConfigImage
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.stores import ConfigStore
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import RealClock, run

SETTINGS = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "workers",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
    "rebalance.timeout.ms": "60000",
}


def tasks(*numbers: int) -> Assignment:
    return Assignment(frozenset(), frozenset(TaskId("orders", number) for number in numbers))


class Scene:
    """A membership, the stops that it waits for, and how often it has joined again."""

    def __init__(self, runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
        self.image = ConfigImage()
        configs = SimpleNamespace(log=self, image=self.image, position=0)
        log = Loggers(RealClock(), lambda line: None).get("moldau.connect")
        self.membership = GroupMembership(
            runtime, SETTINGS, "http://a", cast(ConfigStore, configs), log
        )
        self.membership.stops = self.stops
        self.position = 0
        self.waits: asyncio.Queue[Assignment] = asyncio.Queue()
        self.have_stopped = asyncio.Event()
        self.joins: asyncio.Queue[str] = asyncio.Queue()

        async def rejoin(member: GroupMember, reason: str) -> None:
            self.joins.put_nowait(reason)

        patch.setattr(GroupMember, "rejoin", rejoin)

    async def read_to_end(self) -> None:
        """The configs are read."""

    async def stops(self, given_up: Assignment) -> None:
        self.waits.put_nowait(given_up)
        await self.have_stopped.wait()

    def owned(self) -> Assignment:
        """What the worker reports when it joins."""
        return read_state(dict(self.membership.metadata())["sessioned"]).owned

    async def round(self, assigned: Assignment, revoked: Assignment = EMPTY) -> None:
        share = write_share(2, Share("b", "http://b", 0, assigned, revoked))
        await self.membership.on_assigned(GenerationAssignment(1, "a", "b", "sessioned", share))

    def runs(self) -> Assignment:
        """What is to run on the worker."""
        return self.membership.assignment(self.image)


def play(play_in: Any, patch: pytest.MonkeyPatch) -> None:
    async def main(runtime: Runtime) -> None:
        async with asyncio.timeout(20):
            await play_in(Scene(runtime, patch))

    run(main)


def test_a_change_of_configs_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def change(scene: Scene) -> None:
        scene.owned()
        await scene.round(tasks(0, 1))
        scene.owned()
        await scene.round(EMPTY, revoked=tasks(1))
        assert await scene.waits.get() == tasks(1)

        scene.image.apply(b"connector-more", b'{"properties": {"name": "more"}}')
        scene.membership.on_configs_changed()

        assert await scene.waits.get() == tasks(1)
        assert scene.joins.empty()
        assert scene.runs() == tasks(0)
        scene.have_stopped.set()
        assert "changed" in await scene.joins.get()
        assert scene.owned() == tasks(0)

    play(change, monkeypatch)


def test_a_round_of_another_worker_hears_of_what_still_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hear(scene: Scene) -> None:
        scene.owned()
        await scene.round(tasks(0, 1))
        scene.owned()
        await scene.round(EMPTY, revoked=tasks(1))

        assert scene.owned() == tasks(0, 1)
        await scene.round(EMPTY, revoked=tasks(1))
        scene.have_stopped.set()
        await scene.joins.get()
        assert scene.owned() == tasks(0)

    play(hear, monkeypatch)


def test_what_is_not_revoked_again_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(scene: Scene) -> None:
        scene.owned()
        await scene.round(tasks(0, 1))
        scene.owned()
        await scene.round(EMPTY, revoked=tasks(1))
        assert await scene.waits.get() == tasks(1)

        scene.owned()
        await scene.round(EMPTY)

        assert scene.runs() == tasks(0, 1)
        await scene.joins.get()  # it does not wait for a stop that never comes
        assert scene.owned() == tasks(0, 1)

    play(keep, monkeypatch)


def test_a_lost_member_stops_also_what_it_was_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(scene: Scene) -> None:
        scene.owned()
        await scene.round(tasks(0, 1))
        scene.owned()
        await scene.round(EMPTY, revoked=tasks(1))
        assert await scene.waits.get() == tasks(1)

        lost = asyncio.create_task(scene.membership.on_lost())

        assert await scene.waits.get() == tasks(0, 1)
        scene.have_stopped.set()
        await lost
        assert scene.runs() == EMPTY

    play(lose, monkeypatch)
