"""The table of coordinators. A new kind of coordinator is one row here.

FindCoordinator, the loading and unloading of shards, metrics and shutdown follow from the row.

Carrying out what groups want of others: share groups states for new partitions, of the share
coordinator; streams groups internal topics, of the controller, and the ends of changelogs, of the
leaders.

A report goes to the shard that wanted them. If that is closed by then, the next coordinator of the
group asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from moldau.broker.api.coordination import ShareStatesNode, TransactionsNode
from moldau.broker.api.streams_group import create_internal_topics
from moldau.broker.coordinator.coordinator import CoordinatorNode
from moldau.broker.coordinator.coordinators import Coordinators
from moldau.broker.coordinator.group.coordinator import groups_kind
from moldau.broker.coordinator.group.share.initialization import (
    LEADER_CHOOSES,
    InitializeStates,
    on_initialized,
    on_refused,
)
from moldau.broker.coordinator.group.streams.internal_topics import (
    CreateInternalTopics,
    on_created,
)
from moldau.broker.coordinator.share.coordinator import shares_kind
from moldau.broker.coordinator.transaction.coordinator import transactions_kind
from moldau.broker.server.late_transactions import LateTransactions
from moldau.broker.server.markers import MarkerWriter
from moldau.broker.share.persister import ShareKey
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.partition_ends import FoundEnds
    from moldau.broker.coordinator.outcome import Effect
    from moldau.broker.coordinator.running_shard import RunningShard
    from moldau.ids import Uuid

_NAME: Final = "share states"
_INTERNAL_TOPICS: Final = "internal topics"
_ENDS: Final = "ends of changelogs"


class GroupEffects:
    """Carries out the effects of the group coordinator of this node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def carry_out(self, effects: tuple[Effect, ...], shell: RunningShard[Any]) -> None:
        """Set up states of share partitions, create internal topics, and find the ends of
        changelogs, for groups of a shard."""
        for effect in effects:
            if isinstance(effect, CreateInternalTopics):
                report = partial(_report_topics, shell, effect.group_id)
                create_internal_topics(self._node, effect.topics, report)
            elif isinstance(effect, InitializeStates):
                _Initialization(self._node, effect, shell).begin()
            else:
                _find_changelog_ends(self._node, effect, shell)


def _report_topics(
    shell: RunningShard[Any], group_id: str, created: Collection[str], errors: Mapping[str, str]
) -> None:
    shell.run(
        lambda groups, now_ms: on_created(groups, group_id, created, errors),
        _ignored,
        name=_INTERNAL_TOPICS,
    )


def _find_changelog_ends(node: Node, effect: Effect, shell: RunningShard[Any]) -> None:
    from moldau.broker.api.partition_ends import find_ends
    from moldau.broker.coordinator.group.streams.changelog_ends import FindChangelogEnds, on_found

    assert isinstance(effect, FindChangelogEnds)
    group_id = effect.group_id

    def report(found: FoundEnds) -> None:
        ends = {place: end for place, end in found.items() if isinstance(end, int)}
        shell.run(
            lambda groups, now_ms: on_found(groups, group_id, ends, now_ms), _ignored, name=_ENDS
        )

    find_ends(node, effect.partitions, report)


class _Initialization:
    """The states of one effect, until all are set up or refused."""

    def __init__(self, node: Node, effect: InitializeStates, shell: RunningShard[Any]) -> None:
        self._node = node
        self._effect = effect
        self._shell = shell
        self._left = sum(map(len, effect.partitions.values()))
        self._done: dict[Uuid, set[int]] = {}
        self._refused: dict[Uuid, set[int]] = {}

    def begin(self) -> None:
        effect = self._effect
        starts = effect.start_offsets or {}
        for topic_id, partitions in effect.partitions.items():
            for partition in sorted(partitions):
                place = topic_id, partition
                self._node.share_persister.initialize(
                    ShareKey(effect.group_id, topic_id, partition),
                    effect.state_epoch,
                    starts.get(place, LEADER_CHOOSES),
                    partial(self._on_result, place),
                )

    def _on_result(self, place: tuple[Uuid, int], result: Any) -> None:
        topic_id, partition = place
        is_fine = result.error_code == ErrorCode.NONE
        (self._done if is_fine else self._refused).setdefault(topic_id, set()).add(partition)
        if not is_fine:
            self._node.log.warn(
                "the state of a share partition is not set up",
                group=self._effect.group_id,
                partition=partition,
                error=ErrorCode(result.error_code).name,
            )
        self._left -= 1
        if self._left == 0:
            self._report()

    def _report(self) -> None:
        group_id, run = self._effect.group_id, self._shell.run
        done, refused = _frozen(self._done), _frozen(self._refused)
        if done:
            run(lambda groups, now_ms: on_initialized(groups, group_id, done), _ignored, name=_NAME)
        if refused:
            run(lambda groups, now_ms: on_refused(groups, group_id, refused), _ignored, name=_NAME)


def _frozen(found: dict[Uuid, set[int]]) -> dict[Uuid, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def _ignored(answer: object) -> None:
    """Ignore a refused report: the group asks for the states again."""


class NodeWatcher(Protocol):
    """A part that looks at the node from time to time, until it is closed."""

    def close(self) -> None: ...


def coordinators_of(
    node: Node, watch: Callable[[Node], NodeWatcher] = LateTransactions
) -> Coordinators:
    """Return the coordinators of a node, without any shard. `watch` starts to look for transactions
    that are open for too long, on the running event loop."""
    markers, late = MarkerWriter(node), watch(node)

    def close_transactions() -> None:
        markers.close()
        late.close()

    def close_shares() -> None:
        node.shares.close()
        node.share_persister.close()
        node.dead_letters.close()

    return Coordinators(
        coordinator_node(node),
        (
            groups_kind(node.coordinator_node, GroupEffects(node).carry_out),
            transactions_kind(TransactionsNode(node), markers.carry_out, close_transactions),
            shares_kind(ShareStatesNode(node), node.log, close_shares),
        ),
    )


def coordinator_node(node: Node) -> CoordinatorNode:
    """Return what coordinators of every kind use of the node."""

    def partition_count(topic: str) -> int:
        known = node.image.topics.by_name(topic)
        return 0 if known is None else len(known.partitions)

    return CoordinatorNode(
        runtime=node.runtime,
        replicas=node.replicas,
        log=node.log,
        metrics=node.metrics,
        settings=lambda: node.settings,
        partition_count=partition_count,
    )
