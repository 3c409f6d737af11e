"""Code of the user's that sees what a consumer gives out and commits.

Invariants: interceptors see it in their order, each what the one before made of it; whatever one
raises is logged and changes nothing: the positions have moved already, so records that were kept
back because of it would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.consumer.records import PartitionRecords
from moldau.client.settings.arguments import OffsetAndMetadata
from moldau.client.settings.user_code import close_all, guarded, load_interceptors
from moldau.link.arguments import told
from moldau.link.metadata import TopicPartition
from moldau.plugins import Plugins


class ConsumerInterceptor:
    """Sees what goes through a consumer; what is not overridden changes nothing.

    Whatever it raises is logged and otherwise passed over; so is what it returns, if that is no
    list of records. Its methods are called and not awaited.
    """

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """What a poll is about to give; gives what it shall give instead."""
        return parts

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""
        return

    def close(self) -> None:
        """The consumer is closed."""
        return


class Interceptors:
    """Those of one consumer."""

    def __init__(self, given: Sequence[object] = (), plugins: Plugins | None = None) -> None:
        """Objects, or names as in `interceptor.classes`; ConfigError with the reason if one is no
        interceptor."""
        self._all = tuple(load_interceptors(given, ConsumerInterceptor, plugins))
        self._lent = tuple(given)

    def __bool__(self) -> bool:
        return bool(self._all)

    def consumed(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """What they make of what a poll has found."""
        for each in self._all:
            made = guarded(f"{type(each).__name__}.on_consume", _on_consume, each, parts)
            if made is not None:
                parts = [part for part in made if part.records]
        return parts

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for each in self._all:
            guarded(f"{type(each).__name__}.on_commit", each.on_commit, offsets)

    def close(self, *, is_for_good: bool = True) -> None:
        """Ends them, each once; if it is not for good, without those that were given as objects."""
        ended, self._all = self._all, ()
        self._all = close_all(ended, but=() if is_for_good else self._lent)


def _on_consume(
    interceptor: ConsumerInterceptor, parts: list[PartitionRecords]
) -> list[PartitionRecords] | None:
    """What it makes of the records; what are none counts as a failure of its own."""
    made: object = interceptor.on_consume(parts)
    if made is None:
        return None
    if isinstance(made, list | tuple) and all(isinstance(each, PartitionRecords) for each in made):
        return list(made)
    what = f"{type(interceptor).__name__}.on_consume"
    raise TypeError(f"{what} must return a list of PartitionRecords, not {told(made)}")
