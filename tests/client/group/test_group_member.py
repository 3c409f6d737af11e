"""Members of groups with a protocol of their own, among scripted brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from moldau.client import (
    ClientClosed,
    ClientNotStarted,
    ConfigError,
    ErrorCode,
    GenerationAssignment,
    GroupMetadata,
    KafkaError,
    TopicPartition,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.runtime import Runtime
from tests.client.group.classic_model import ClassicModel
from tests.client.group.classic_model import _join_error as join_error
from tests.client.group.greeters import WORDS, Greeters
from tests.client.group.greeting_member import eventually, member
from tests.client.world import BOOTSTRAP, ClientWorld


def group_of(world: ClientWorld) -> ClassicModel:
    model = world.cluster.groups.groups["g"]
    assert isinstance(model, ClassicModel)
    return model


def test_members_share_what_their_leader_assigns() -> None:
    async def main(runtime: Runtime) -> None:
        first, second = Greeters(b"one"), Greeters(b"two")
        async with member(runtime, first) as one:
            await first.until(1)
            assert first.words == WORDS
            assert (one.generation, one.is_leader) == (1, True)
            assert one.group_metadata() == GroupMetadata("g", 1, one.member_id, None)
            async with member(runtime, second) as two:
                await first.until(2)
                await second.until(1)
                assert sorted(first.words + second.words) == sorted(WORDS)
                assert dict(first.seen) == {one.member_id: b"one", two.member_id: b"two"}
                assert second.assigned == GenerationAssignment(
                    2, two.member_id, one.member_id, "greet", b" ".join(second.words)
                )
                assert not two.is_leader
                assert not second.assigned.is_leader
            assert second.calls == ["metadata", "assigned", "revoked"]
            await first.until(3)
            assert first.words == WORDS
        cycle = ["metadata", "assigned", "revoked"]
        assert first.calls == cycle * 3

    with ClientWorld() as world:
        world.run_client(main)
        assert group_of(world).seats == {}
        assert {type(each).__name__ for each in (group_of(world),)} == {"ClassicModel"}


def test_its_repr_says_where_it_is_in_its_group() -> None:
    async def main(runtime: Runtime) -> None:
        greeters = Greeters()
        one = member(runtime, greeters)
        shown = [repr(one)]
        async with one:
            await greeters.until(1)
            shown.append(repr(one))
        shown.append(repr(one))
        assert shown == [
            f"<GroupMember {BOOTSTRAP} (not started) group g (greet): not in it>",
            f"<GroupMember {BOOTSTRAP} (started) group g (greet): generation 1, leader>",
            f"<GroupMember {BOOTSTRAP} (closed) group g (greet): not in it>",
        ]

    with ClientWorld() as world:
        world.run_client(main)


def test_a_rejoin_tells_the_leader_new_metadata() -> None:
    async def main(runtime: Runtime) -> None:
        first, second = Greeters(b"one"), Greeters(b"two")
        async with member(runtime, first) as one, member(runtime, second) as two:
            await first.until(1)
            await second.until(1)
            second.told = b"second thoughts"
            generation = two.generation
            await eventually(lambda: one.generation == generation)
            await two.rejoin("thought again")
            await eventually(
                lambda: two.generation > generation and bool(first.words and second.words)
            )
            assert first.seen[two.member_id] == b"second thoughts"

    with ClientWorld() as world:
        world.run_client(main)


def test_a_rejoin_while_the_group_rebalances_is_not_forgotten() -> None:
    class Slow(Greeters):
        async def assign(self, *given: Any) -> Any:  # type: ignore[override]
            await asyncio.sleep(1.5)
            return Greeters.assign(self, *given)

    async def main(runtime: Runtime) -> None:
        alone = Slow(b"old")
        async with member(runtime, alone) as one:
            await eventually(lambda: one.generation == 1)
            alone.told = b"new"
            await one.rejoin()
            await alone.until(2)
            assert dict(alone.seen) == {one.member_id: b"new"}

    with ClientWorld() as world:
        world.run_client(main)


def test_heartbeats_go_on_while_the_user_works() -> None:
    class Slow(Greeters):
        async def work(self) -> None:
            await asyncio.sleep(8)  # longer than a session

    async def main(runtime: Runtime) -> None:
        slow = Slow()
        async with member(runtime, slow, rebalance_timeout_ms=60_000) as one:
            await slow.until(1)
            before = one.member_id
            await one.rejoin()
            await slow.until(2)
            assert one.member_id == before
        assert "lost" not in slow.calls

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("how", ["thrown out", "not heard of", "nothing heard"])
def test_a_lost_membership_is_told_and_begun_anew(how: str) -> None:
    async def main(runtime: Runtime) -> None:
        greeters = Greeters()
        async with member(runtime, greeters) as one:
            await greeters.until(1)
            before = one.member_id
            if how == "thrown out":
                group_of(world).seats.clear()
            elif how == "not heard of":
                world.network.isolate("client1")
                await asyncio.sleep(10)
                world.network.heal()
            else:
                world.cluster.silence.add(HeartbeatRequest)
                await greeters.until(1, "lost")
                world.cluster.silence.clear()
            await greeters.until(2)
            assert one.member_id not in ("", before)
        assert greeters.calls[:2] == ["metadata", "assigned"]
        assert "lost" in greeters.calls
        assert greeters.calls[-3:] == ["metadata", "assigned", "revoked"]

    with ClientWorld() as world:
        world.run_client(main)


def test_without_on_lost_a_lost_share_is_revoked() -> None:
    class Old:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def metadata(self) -> list[tuple[str, bytes]]:
            return [("old", b"")]

        def assign(self, protocol: str, leader_id: str, members: Mapping[str, bytes]) -> Any:
            return dict(members)

        def on_assigned(self, assigned: GenerationAssignment) -> None:
            self.calls.append("assigned")

        def on_revoked(self) -> None:
            self.calls.append("revoked")

    async def main(runtime: Runtime) -> None:
        old = Old()
        async with member(runtime, old):
            await eventually(lambda: bool(old.calls))
            group_of(world).seats.clear()
            await eventually(lambda: len(old.calls) == 3)
        assert old.calls == ["assigned", "revoked", "assigned", "revoked"]

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("broken", ["metadata", "assign", "on_assigned", "on_revoked", "answer"])
def test_a_method_that_raises_ends_the_membership_of_its_member_alone(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Any:
        if broken == "answer":
            return [("greet", "no bytes")]
        raise ZeroDivisionError("no idea")

    async def main(runtime: Runtime) -> None:
        bad, good = Greeters(), Greeters()
        monkeypatch.setattr(bad, "metadata" if broken == "answer" else broken, fail)
        kind: type[Exception] = TypeError if broken == "answer" else ZeroDivisionError
        async with member(runtime, bad) as one:
            if broken == "on_revoked":
                await bad.until(1)
            async with member(runtime, good) as two:
                with pytest.raises(kind):
                    await one.wait()
                assert isinstance(one.error, kind)
                await eventually(lambda: good.words == WORDS)
                assert one.member_id == ""
                waiting = asyncio.create_task(two.wait())
                await asyncio.sleep(0)
            await waiting  # closed, which is no error
            monkeypatch.undo()
            await one.rejoin("mended")
            await eventually(lambda: one.error is None and bad.words == WORDS)

    caplog.set_level(logging.ERROR, "moldau.client")
    with ClientWorld() as world:
        world.run_client(main)
    assert [each.name for each in caplog.records] == ["moldau.client"]


def test_an_error_that_no_retry_heals_is_raised_by_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, request: object, reply: Any, now: float) -> None:
        reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))

    async def main(runtime: Runtime) -> KafkaError:
        greeters = Greeters()
        async with member(runtime, greeters) as one:
            await greeters.until(1)
            with monkeypatch.context() as patched:
                patched.setattr(ClassicModel, "_join", refuse)
                await one.rejoin()
                with pytest.raises(KafkaError, match="no protocol is common") as caught:
                    await one.wait()
            await greeters.until(1, "lost")
            await one.rejoin()
            await greeters.until(2)
        return caught.value

    with ClientWorld() as world:
        error = world.run_client(main)
    assert error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error.context == {"group": "g", "protocol_type": "greet"}


def test_offsets_are_committed_in_the_generation() -> None:
    t0 = TopicPartition("t", 0)

    async def main(runtime: Runtime) -> None:
        greeters = Greeters()
        async with member(runtime, greeters) as one:
            with pytest.raises(KafkaError, match="no member") as caught:
                await one.commit({t0: 1})
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            await greeters.until(1)
            await one.commit({("t", 0): 5}, "five")
            found = await one.committed([t0, ("t", 1)])
            assert found[t0] == (5, "", -1)
            assert found[TopicPartition("t", 1)] is None
            group_of(world).generation += 1
            with pytest.raises(KafkaError, match="not committed") as caught:
                await one.commit({t0: 6})
            assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
            await greeters.until(2)
            await one.commit({t0: 6})

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 1])
        world.run_client(main)
        assert [offset for _, _, offset in world.cluster.groups.commits] == [5, 6]


def test_a_static_member_stays_when_it_is_closed() -> None:
    async def main(runtime: Runtime) -> None:
        greeters = Greeters()
        async with member(runtime, greeters, group_instance_id="one"):
            await greeters.until(1)
        assert greeters.calls[-1] == "revoked"
        assert [each.instance_id for each in group_of(world).seats.values()] == ["one"]
        other = member(runtime, greeters, group_instance_id="one")
        await other.start()
        await greeters.until(2)
        await other.aclose(leave_group=True)
        assert group_of(world).seats == {}

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("parked", [JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest])
def test_a_close_does_not_wait_for_what_the_coordinator_keeps(parked: Any) -> None:
    async def main(runtime: Runtime) -> None:
        greeters = Greeters()
        one = member(runtime, greeters, rebalance_timeout_ms=100_000)
        world.cluster.silence.add(parked)
        await one.start()
        await asyncio.sleep(1)
        began = runtime.clock.monotonic()
        await one.aclose()
        assert runtime.clock.monotonic() - began < 5
        await one.aclose()
        with pytest.raises(ClientClosed):
            await one.rejoin()

    with ClientWorld() as world:
        world.run_client(main)


def test_a_call_that_takes_longer_than_a_close_may_is_cut_off() -> None:
    class Endless(Greeters):
        async def on_revoked(self) -> None:
            await asyncio.Event().wait()

    async def main(runtime: Runtime) -> None:
        endless = Endless()
        one = member(runtime, endless)
        await one.start()
        await endless.until(1)
        began = runtime.clock.monotonic()
        await one.aclose(2.0)
        assert 1.9 < runtime.clock.monotonic() - began < 3

    with ClientWorld() as world:
        world.run_client(main)


def test_what_cannot_be_is_said_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(TypeError, match="metadata, assign, on_assigned, on_revoked"):
            member(runtime, object())
        with pytest.raises(TypeError, match="Greeters"):
            member(runtime, Greeters)
        with pytest.raises(ConfigError, match=r"session\.timeout\.ms"):
            member(runtime, Greeters(), heartbeat_interval_ms=7_000)
        one = member(runtime, Greeters())
        with pytest.raises(ClientNotStarted, match="group member"):
            await one.rejoin()
        with pytest.raises(KafkaError, match="no broker can be reached"):
            await member(runtime, Greeters(), bootstrap_servers="b1:1").start()

    with ClientWorld() as world:
        world.run_client(main)


class Story(ClientWorld):
    """Members come and go while the network and the coordinator fail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.greeters: dict[str, Greeters] = {}
        self.is_over = False

    def add_member(self, name: str) -> None:
        random = self.random(name)

        async def main(runtime: Runtime) -> None:
            greeters = self.greeters[name] = Greeters(name.encode())
            async with member(runtime, greeters) as one:
                while not self.is_over:
                    await asyncio.sleep(random.uniform(0.1, 3))
                    assert one.error is None
                    if self.now < 30 and random.random() < 0.2:
                        await one.rejoin("for fun")

        self.add_node(name, main)

    def fail_for(self, seconds: float) -> None:
        random = self.random("faults")
        lost = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)

        def fail() -> None:
            chosen = random.randrange(4)
            if chosen == 0:
                self.cluster.lose_answers.add(random.choice(lost))
            elif chosen == 1:
                self.network.reset(random.choice(("m1", "m2", "m3")), random.choice(("b1", "b2")))
            elif chosen == 2:
                self.cluster.groups.coordinator = random.choice((1, 2))
            elif "g" in self.cluster.groups.groups and group_of(self).seats:
                seats = group_of(self).seats
                del seats[random.choice(sorted(seats))]
            if self.now < seconds:
                self.after(random.uniform(0.05, 1.5), fail)

        self.after(0.3, fail)

    def is_settled(self) -> bool:
        """Whether all words are said, each by one member, in one generation."""
        said = [word for each in self.greeters.values() for word in each.words]
        generations = {each.assigned.generation for each in self.greeters.values() if each.assigned}
        return self.now > 40 and sorted(said) == sorted(WORDS) and len(generations) == 1


@pytest.mark.parametrize("seed", range(8))
def test_members_agree_in_the_end_whatever_fails(seed: int) -> None:
    with Story(seed) as story:
        for name in ("m1", "m2", "m3"):
            story.add_member(name)
        story.fail_for(30)
        story.run_until(story.is_settled, within=200)
        assert any("lost" in each.calls for each in story.greeters.values())
        story.is_over = True
        story.run_until(lambda: not group_of(story).seats, within=60)
