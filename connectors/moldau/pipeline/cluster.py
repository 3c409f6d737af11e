"""Read and change a Kafka cluster for a pipeline: its topics and the progress of its groups."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from moldau.client.admin.admin import Admin
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.operations.hidden import check_visible
from moldau.operations.plan import Action, PlanStep
from moldau.operations.topics import KIND, do, found_topics
from moldau.pipeline.data_directory import RunState
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.plan import Facts, Plan
from moldau.pipeline.settled import Offsets
from moldau.pipeline.status import GroupStatus
from moldau.pipeline.worker import ConnectApi
from moldau.runtime import Runtime
from moldau.runtime.node_processes import pause_s
from moldau.runtime.real import RealRuntime
from moldau.runtime.threaded import ThreadedRuntime

if TYPE_CHECKING:
    from moldau.client.admin.progress import GroupProgress
    from moldau.client.base.offsets import Found

T = TypeVar("T")

GROUP_EMPTY_S: Final = 20.0
"""A stopped consumer leaves its group within this time."""
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ExistingNames:
    """The names of all topics and groups of a cluster."""

    topics: frozenset[str]
    groups: frozenset[str]


class Cluster:
    """A connection to one Kafka cluster. Use it in a `with` block, which closes it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        async def start(runtime: Runtime) -> Admin:
            admin = Admin(dict(settings), runtime=runtime)
            await admin.start()
            return admin

        with ExitStack() as stack:
            self._threaded = stack.enter_context(ThreadedRuntime("pipeline"))
            self._admin = self._threaded.run(start)
            stack.callback(lambda: self._run(lambda admin: admin.aclose()))
            self._opened = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _run(self, action: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        return self._threaded.run(lambda _: action(self._admin))

    def id(self) -> str:
        """Return the id of the cluster."""
        return self._run(lambda admin: admin.describe_cluster()).cluster_id or "unknown"

    def existing(self) -> ExistingNames:
        """Return the names of all topics and groups."""
        return ExistingNames(
            frozenset(each.name for each in self._run(lambda admin: admin.list_topics())),
            frozenset(each.group_id for each in self._run(lambda admin: admin.list_groups())),
        )

    def facts(self, pipeline: Pipeline, connect: ConnectApi | None, state: RunState) -> Facts:
        """Return which of the pipeline's topics, connectors and apps exist, and their settings.
        Raise HiddenNames if one of its topics is hidden, which would count as absent.

        `state` tells which connectors `run` has made. Without `connect` they count as existing."""
        named: dict[str, list[int] | None] = {each.name: None for each in pipeline.topics}
        named |= {topic: None for app in pipeline.apps if app.plan for topic in app.plan.makes}
        if named:
            self._run(lambda admin: check_visible(admin, named))
        configured = {each.name for each in pipeline.topics if each.config}
        existing = self._run(lambda admin: found_topics(admin, configured))
        topics = {
            each.name: existing[each.name] for each in pipeline.topics if each.name in existing
        }
        groups = {each.group for each in pipeline.apps}
        progress = self.progress(groups)
        running = {
            name for name, each in progress.items() if each.state not in ("Empty", "Dead", "EMPTY")
        }
        connectors = {} if connect is None else connect.configs()
        made = frozenset(state.connectors)
        return Facts(
            topics,
            connectors,
            frozenset(running),
            made if connect is None else made & connectors.keys(),
            state.is_own_broker,
        )

    def apply_topics(self, plan: Plan) -> list[PlanStep]:
        """Create and change the topics of a plan. Return the steps of the new ones."""
        made = []
        for step in plan.steps:
            if step.kind == KIND and step.action in (Action.CREATE, Action.UPDATE):
                self._run(partial(do, step=step))
                made += [step] if step.action is Action.CREATE else []
        return made

    def progress(self, groups: Iterable[str]) -> dict[str, GroupStatus]:
        """Return the progress of those groups that exist."""
        wanted = sorted(set(groups))
        if not wanted:
            return {}
        found = {}
        for name, each in self._run(lambda admin: admin.groups_progress(wanted)).items():
            if isinstance(each, KafkaError):
                continue
            committed = sum(
                part.committed.offset for part in each.partitions if part.committed is not None
            )
            lags = [
                lag_of(0 if part.committed is None else part.committed.offset, part.end)
                for part in each.partitions
            ]
            lag = sum(lags) if lags else None
            known = frozenset((part.where.topic, part.where.partition) for part in each.partitions)
            found[name] = GroupStatus(str(each.group.state), lag, committed, known)
        return found

    def offsets(self, pipeline: Pipeline) -> Offsets:
        """Return the ends of the pipeline's topics and of those that its apps make, and what the
        groups have committed."""
        names = {each.name for each in pipeline.topics}
        names |= {topic for app in pipeline.apps if app.plan for topic in app.plan.makes}

        async def read(admin: Admin) -> tuple[Found, Found, dict[str, GroupProgress | KafkaError]]:
            partitions = [
                TopicPartition(topic.name, each.index)
                for topic in await admin.list_topics()
                if topic.name in names
                for each in topic.partitions
            ]
            begins = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
            ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
            return begins, ends, await admin.groups_progress(sorted(set(pipeline.groups)))

        begins, ends, groups = self._run(read)
        committed: dict[str, dict[tuple[str, int], int]] = {
            name: {
                part.where: part.committed.offset
                for part in each.partitions
                if part.committed is not None
            }
            for name, each in groups.items()
            if not isinstance(each, KafkaError)
        }
        return Offsets(
            {where: each.offset for where, each in begins.items()},
            {where: each.offset for where, each in ends.items()},
            committed,
        )

    def delete(self, topics: Iterable[str], groups: Iterable[str]) -> list[str]:
        """Delete topics and groups. Return a line for each one that could not be deleted.

        One that does not exist is no failure. A group whose members are still leaving it is tried
        again for GROUP_EMPTY_S."""
        problems = []
        if to_delete := list(topics):
            deleted = self._run(lambda admin: admin.delete_topics(to_delete))
            problems = [
                f"topic {name}: {error}"
                for name, error in deleted.items()
                if error and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ]
        return problems + self._delete_groups(list(groups))

    def _delete_groups(self, groups: list[str]) -> list[str]:
        clock = RealRuntime("pipeline").clock
        until = clock.monotonic() + GROUP_EMPTY_S
        problems = []
        while groups:
            is_last = clock.monotonic() >= until
            results = self._run(partial(Admin.delete_groups, groups=groups))
            groups = []
            for name, error in results.items():
                if error is None or error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                    continue
                if error.code is ErrorCode.NON_EMPTY_GROUP and not is_last:
                    groups.append(name)
                else:
                    problems.append(f"group {name}: {error}")
            if groups:
                pause_s(_POLL_S)
        return problems


def lag_of(committed: int, end: int | None) -> int:
    """Return how many records are left to read: 0 if the topic was made again and is shorter."""
    return max(0, (end or 0) - committed)
