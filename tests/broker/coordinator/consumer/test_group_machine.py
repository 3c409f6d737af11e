"""Members come, go, fall silent, lose answers and change their minds in any order; topics change,
the log refuses records, the coordinator moves.

After every step the invariants of the group hold (see `shard` and `invariants`), and no two clients
that are members hold one partition. When it is quiet again, everybody has what it shall have, and
together they have everything.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.target import wanted_topics
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.coordinator.consumer.clients import ClassicClient, Client, TopicPartitionId
from tests.broker.coordinator.consumer.shard import GROUP, Shard

TOPICS = {"t1": 5, "t2": 3, "u1": 4}
NAMES = st.lists(st.sampled_from([*TOPICS, "later"]), max_size=3, unique=True)
REGEXES = st.sampled_from([None, None, "t.*", "[tu]1", ".*", "none"])
SIZE_MAX = 9
ROUNDS_MAX = 40


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []
        self.classic: list[ClassicClient] = []
        self.count = 0

    @initialize(interval_ms=st.sampled_from([0, 0, 1000]))
    def begin(self, interval_ms: int) -> None:
        named = {
            "group.consumer.max.size": 5,
            "group.consumer.session.timeout.ms": 2500,
            "group.consumer.assignment.interval.ms": interval_ms,
        }
        self.shard = Shard(TOPICS, named)

    @rule(
        topics=NAMES,
        regex=REGEXES,
        instance=st.sampled_from([None, None, "i1", "i2"]),
        assignor=st.sampled_from([None, "uniform", "range"]),
    )
    def join(
        self, topics: list[str], regex: str | None, instance: str | None, assignor: str | None
    ) -> None:
        self.count += 1
        client = Client(self.shard, f"m{self.count}", topics, regex, instance, assignor)
        client.beat()
        self.clients.append(client)

    @precondition(lambda self: isinstance(self.shard.group, ConsumerGroup))
    @rule(topics=NAMES)
    def join_classic(self, topics: list[str]) -> None:
        if not self.shard.state.members:
            return  # an empty group would become a classic one
        self.count += 1
        client = ClassicClient(self.shard, f"m{self.count}", topics)
        client.step()
        self.classic.append(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), gives_up=st.booleans(), hears=st.booleans(), is_full=st.booleans())
    def beat(self, data: st.DataObject, gives_up: bool, hears: bool, is_full: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.beat(gives_up=gives_up, hears=hears, is_full=is_full)

    @rule()
    def everybody_beats(self) -> None:
        for client in self.clients:
            client.beat()
        for classic in self.classic:
            classic.step()
        self._if_downgraded()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=NAMES, regex=REGEXES)
    def want_others(self, data: st.DataObject, topics: list[str], regex: str | None) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.topics, client.regex = topics, regex or ""
        client.beat(is_full=True)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        is_away = for_a_while and client.instance is not None
        client.leave(-2 if is_away else -1)
        self.clients.remove(client)
        self._if_downgraded()

    @precondition(lambda self: self.classic)
    @rule(data=st.data())
    def classic_steps(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.classic)).step()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """It is silent from now on."""
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @rule(wait_ms=st.sampled_from([10, 900, 2_600, 11_000]))
    def wait(self, wait_ms: int) -> None:
        self.shard.wait(wait_ms)
        self._if_downgraded()

    @rule(name=st.sampled_from([*TOPICS, "later"]), more=st.integers(1, 3))
    def grow_topic(self, name: str, more: int) -> None:
        known = self.shard.world.cluster.by_name(name)
        size = (known.partition_count if known else 0) + more
        if size <= SIZE_MAX:
            self.shard.change_topic(name, size)

    @rule(name=st.sampled_from([*TOPICS, "later"]))
    def delete_topic(self, name: str) -> None:
        if self.shard.world.cluster.by_name(name) is not None:
            self.shard.change_topic(name, None)

    @rule()
    def fail_over(self) -> None:
        self.shard.fail_over()

    @rule()
    def refuse_the_next_append(self) -> None:
        self.shard.refusal = ErrorCode.NOT_ENOUGH_REPLICAS

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = getattr(self, "shard", None) and self.shard.group
        if not isinstance(group, ConsumerGroup):
            return
        holder: dict[TopicPartitionId, str] = {}
        for client in self._everybody():
            member = group.state.members.get(client.member_id)
            if member is not None:
                for partition in client.owned:
                    assert holder.setdefault(partition, client.member_id) == client.member_id

    def teardown(self) -> None:
        """Quiet: all beat, nothing else happens."""
        self.shard.refusal = None
        for _ in range(ROUNDS_MAX):
            self.everybody_beats()
            self.shard.wait(1100)
            if self._is_settled():
                break
        else:
            raise AssertionError(f"not settled: {self.shard.describe()}")

    def _is_settled(self) -> bool:
        group = self.shard.group
        if not isinstance(group, ConsumerGroup) or group.is_empty:
            return True
        state = group.state
        alive = {each.member_id: each for each in self._everybody()}
        if state.name.value != "Stable" or state.members.keys() - alive.keys():
            return False
        if state.volatile.search is not None or any(
            regex not in state.resolved for regex in state.regexes
        ):
            return False  # expressions are resolved at most every 10 s
        shall = {
            member_id: {
                (topic_id, partition)
                for topic_id, partitions in state.target.get(member_id, {}).items()
                for partition in partitions
            }
            for member_id in state.members
        }
        if any(alive[member_id].owned != target for member_id, target in shall.items()):
            return False
        wanted = {
            name for each in state.members.values() for name in wanted_topics(state, each.profile)
        }
        everything = {
            (topic.topic_id, partition)
            for name in wanted
            if (topic := self.shard.world.cluster.by_name(name)) is not None
            for partition in range(topic.partition_count)
        }
        return set().union(*shall.values()) == everything

    def _everybody(self) -> list[Client | ClassicClient]:
        return [*self.clients, *self.classic]

    def _if_downgraded(self) -> None:
        """Classic members of a classic group are another story: here they go."""
        group = self.shard.group
        if group is None or isinstance(group, ConsumerGroup):
            return
        for client in self.classic:
            identity = MemberIdentity(member_id=client.member_id)
            self.shard.ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        self.classic.clear()


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
