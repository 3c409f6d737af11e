"""The user's interceptors: they see the records and commits of a consumer.

Invariants: interceptors run in their order, each on the result of the one before. An exception from
one is logged and changes nothing: the positions have moved already, so records held back because of
it would be lost silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.base.user_code import close_all, guarded, load_interceptors
from moldau.client.consumer.records import PartitionRecords
from moldau.link.arguments import told
from moldau.link.metadata import TopicPartition
from moldau.plugins import Plugins


class Interceptors:
    """The interceptors of one consumer."""

    def __init__(self, given: Sequence[object] = (), plugins: Plugins | None = None) -> None:
        """Take objects, or names as in `interceptor.classes`. ConfigError for anything else."""
        self._all = tuple(load_interceptors(given, ConsumerInterceptor, plugins))
        self._lent = tuple(given)

    def __bool__(self) -> bool:
        return bool(self._all)

    def consumed(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Return the records of a poll as the interceptors changed them."""
        for each in self._all:
            made = guarded(f"{type(each).__name__}.on_consume", _on_consume, each, parts)
            if made is not None:
                parts = [part for part in made if part.records]
        return parts

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for each in self._all:
            guarded(f"{type(each).__name__}.on_commit", each.on_commit, offsets)

    def close(self, *, is_for_good: bool = True) -> None:
        """Close each interceptor once; unless `is_for_good`, not those given as objects."""
        ended, self._all = self._all, ()
        self._all = close_all(ended, but=() if is_for_good else self._lent)


def _on_consume(
    interceptor: ConsumerInterceptor, parts: list[PartitionRecords]
) -> list[PartitionRecords] | None:
    """Return the interceptor's records, or None. Raise TypeError if it returned anything else."""
    made: object = interceptor.on_consume(parts)
    if made is None:
        return None
    if isinstance(made, list | tuple) and all(isinstance(each, PartitionRecords) for each in made):
        return list(made)
    what = f"{type(interceptor).__name__}.on_consume"
    raise TypeError(f"{what} must return a list of PartitionRecords, not {told(made)}")
