"""Which workers are asked for which partitions of a store, and in which order. No IO.

A partition has candidates: the worker that runs its task, then those with a copy of its state. Each
is asked when the ones before it have failed; those of several partitions are asked once for all of
them. Invariant: each partition is answered by one worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from moldau.streams.plan.plan import Program
from moldau.streams.query.questions import QueryFailed, StoreUnavailable


class Partitions(Protocol):
    """Where a worker knows the partitions of a store to be."""

    def owner(self, program: Program, partition: int) -> str | None: ...

    def copy_owners(self, program: Program, partition: int) -> tuple[str, ...]: ...

    def here(self, program: Program) -> Any: ...

    def copies(self, program: Program) -> Any: ...


def candidates(
    known: Partitions, server: str, program: Program, is_stale: bool, partition: int
) -> list[str]:
    """Return the workers to ask for a partition: the one with the task, then, if its answer may be
    old, a copy at this worker, whose address is `server`, then the copies of others."""
    is_ours = partition in known.here(program)
    servers = [server if is_ours else known.owner(program, partition)]
    if is_stale:
        servers += [server] if partition in known.copies(program) else []
        servers += known.copy_owners(program, partition)
    return list(dict.fromkeys(each for each in servers if each is not None))


class Routes:
    """The partitions that are not answered yet, with the candidates that are left."""

    def __init__(self, store: str, candidates: Mapping[int, Sequence[str]]) -> None:
        """`candidates` has addresses by partition, the best one first."""
        self._store = store
        self._left = {partition: list(found) for partition, found in candidates.items()}
        self._reasons: dict[int, str] = {}

    def ready(self) -> dict[str, tuple[int, ...]]:
        """Return the addresses to ask now, each with its partitions; empty when all are answered.
        Raise StoreUnavailable if a partition has no candidate left."""
        found: dict[str, tuple[int, ...]] = {}
        for partition, servers in sorted(self._left.items()):
            if not servers:
                raise StoreUnavailable(self._reasons.get(partition) or self._unserved(partition))
            found[servers[0]] = (*found.get(servers[0], ()), partition)
        return found

    def on_answered(self, partitions: Iterable[int]) -> None:
        """These are answered."""
        for partition in partitions:
            del self._left[partition]

    def on_failed(self, partitions: Iterable[int], error: QueryFailed) -> None:
        """The first candidate of these has no answer now."""
        for partition in partitions:
            self._left[partition].pop(0)
            self._reasons[partition] = str(error)

    def _unserved(self, partition: int) -> str:
        return (
            f"store={self._store} partition={partition}: the worker that has it serves no queries, "
            "or it moves: start all workers with --listen, or ask again"
        )
