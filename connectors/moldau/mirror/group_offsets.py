"""Translates the offsets of the source's groups, and sets them on the target.

A pass reads the new offset syncs, asks the source for the groups' offsets and returns the
checkpoints that are new. `set_offsets` then gives them to those groups on the target that have no
members there; a group that works on the target is left alone, and so is a partition that the target
refuses, such as one of a copy that was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Final

from moldau.client import KafkaError, OffsetsNotStored, TopicPartition
from moldau.client.sync import Admin
from moldau.errors.codes import ErrorCode
from moldau.mirror.clusters import open_admin
from moldau.mirror.formats import BadMirrorRecord, Checkpoint, OffsetSync
from moldau.mirror.settings import CheckpointConfig
from moldau.mirror.tail import TopicTail
from moldau.mirror.translation import Checkpoints, OffsetTranslation, offsets_to_set

_log = logging.getLogger(__name__)
_IDLE: Final = frozenset({"empty", "dead"})
_OF_CONSUMERS: Final = frozenset({"", "consumer"})
_KINDS: Final = frozenset({"", "classic", "consumer"})
_MEMBERS_CAME: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.ILLEGAL_GENERATION,
)


def chosen_groups(config: CheckpointConfig, source: Admin) -> list[str]:
    """Return the consumer groups of the source that are followed."""
    takes = config.group_filter().takes
    return sorted(
        each.group_id
        for each in source.list_groups()
        if each.protocol_type in _OF_CONSUMERS
        and each.type.lower() in _KINDS
        and takes(each.group_id)
    )


class GroupOffsets:
    """The groups of one task. It owns its clients."""

    def __init__(self, config: CheckpointConfig, props: Mapping[str, str]) -> None:
        self._config = config
        self._route = config.route()
        self._translation = OffsetTranslation()
        self._checkpoints = Checkpoints()
        self._refused: set[tuple[str, TopicPartition]] = set()
        """What was warned of: the target does not take offsets of these groups and partitions."""
        with ExitStack() as stack:
            self._open(props, stack)
            self._opened = stack.pop_all()

    def _open(self, props: Mapping[str, str], stack: ExitStack) -> None:
        config = self._config
        self.source = stack.enter_context(open_admin(props, "source", config.admin_timeout_ms))
        self.target = stack.enter_context(open_admin(props, "target", config.admin_timeout_ms))
        self._syncs = TopicTail(props, config.syncs_location, config.syncs_topic, self._take_sync)
        stack.callback(self._syncs.close)
        checkpoints = config.policy().checkpoints_topic(config.source)
        with closing(TopicTail(props, "target", checkpoints, self._take_checkpoint)) as known:
            known.read()

    def _take_checkpoint(self, key: bytes, value: bytes) -> None:
        try:
            self._checkpoints.on_checkpoint(Checkpoint.read(key, value))
        except BadMirrorRecord as error:
            _log.warning("a checkpoint is passed over: %s", error)

    def _take_sync(self, key: bytes, value: bytes) -> None:
        try:
            self._translation.on_sync(OffsetSync.read(key, value))
        except BadMirrorRecord as error:
            _log.warning("an offset sync is passed over: %s", error)

    def close(self) -> None:
        """Close the clients."""
        self._opened.close()

    def new_checkpoints(self, groups: Iterable[str]) -> Iterator[Checkpoint]:
        """Yield the checkpoints of these groups that are new. Each one is yielded once, so keep
        those that came before an error."""
        self._syncs.read()
        for group in groups:
            for where, at in self.source.group_offsets(group).items():
                checkpoint = self._checkpoint(group, where, at.offset, at.metadata or "")
                if checkpoint is not None and self._checkpoints.on_checkpoint(checkpoint):
                    yield checkpoint

    def _checkpoint(
        self, group: str, where: TopicPartition, offset: int, metadata: str
    ) -> Checkpoint | None:
        if offset < 0 or not self._route.takes(where.topic):
            return None
        downstream = self._translation.translate(where, offset)
        if downstream is None:
            return None
        remote = TopicPartition(self._route.remote(where.topic), where.partition)
        return Checkpoint(group, remote, offset, downstream, metadata)

    def set_offsets(self, groups: Iterable[str]) -> int:
        """Set the offsets of groups without members on the target. Return the number of offsets
        that were set."""
        states = {each.group_id: each.state.lower() for each in self.target.list_groups()}
        count = 0
        for group in groups:
            checkpoints = self._checkpoints.of_group(group)
            if checkpoints and states.get(group, "empty") in _IDLE:
                count += self._set(group, checkpoints, is_new=group not in states)
        return count

    def _set(self, group: str, checkpoints: list[Checkpoint], *, is_new: bool) -> int:
        try:
            present = {} if is_new else self.target.group_offsets(group)
            committed = {where: at.offset for where, at in present.items()}
            wanted = offsets_to_set(checkpoints, committed)
            if wanted:
                self.target.alter_group_offsets(group, wanted)
        except OffsetsNotStored as error:
            return self._stored_in_part(group, error)
        except KafkaError as error:
            self._check_members(group, error)
            return 0
        self._refused.difference_update((group, where) for where in wanted)
        return len(wanted)

    def _stored_in_part(self, group: str, error: OffsetsNotStored) -> int:
        """Warn, once, of partitions that the target refuses. Return the number of others. Raise the
        error if it is worth another try."""
        failed = {where: each for where, each in error.results.items() if each is not None}
        if error.retriable:
            raise error
        for where, each in failed.items():
            if each.code in _MEMBERS_CAME:
                self._check_members(group, each)
                break
            if not each.retriable and (group, where) not in self._refused:
                self._refused.add((group, where))
                _log.warning("the offset of %s in %s is not set on the target: %s",
                             group, where, each)  # fmt: skip
        self._refused.difference_update((group, where) for where in error.stored)
        return len(error.stored)

    @staticmethod
    def _check_members(group: str, error: KafkaError) -> None:
        """Raise the error, unless it says that the group works on the target."""
        if error.code not in _MEMBERS_CAME:
            raise error
        _log.info("%s has members on the target now, so its offsets stay", group)
