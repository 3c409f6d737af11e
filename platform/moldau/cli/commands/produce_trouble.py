"""Messages of `moldau produce` while its topic is unknown, or a broker rejects records for now.

The producer retries after a temporary error (a full disk, too few replicas, a broker that restarts)
for `delivery.timeout.ms`, by default two minutes: too long to be silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.cli.progress import Progress
    from moldau.client import Producer
    from moldau.client.producer.delivery import Part

PATIENCE_S: Final = 2.0


class Tally:
    """Counts acknowledged records. It keeps the batches that are not decided, and no others."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[Part] = []

    def add(self, parts: Sequence[Part]) -> None:
        """Count these records as soon as they are acknowledged."""
        self._open += parts
        self.acknowledged()

    def acknowledged(self) -> int:
        """Return how many records are acknowledged now; with acks=0, how many were sent."""
        still_open = []
        for batch, first, count in self._open:
            if not batch.is_done:
                still_open.append((batch, first, count))
            elif batch.error is None:
                self._count += count
        self._open = still_open
        return self._count


class Trouble:
    """Reports each new trouble once."""

    def __init__(self, progress: Progress, client: Producer) -> None:
        self._progress = progress
        self._client = client
        self._reported: set[tuple[str, str]] = set()
        self._missed: set[bool] = set()

    def miss(self, topic: str, seconds: float) -> None:
        """Report that the topic has been unknown, or no broker has answered, for `seconds`."""
        from moldau.client.settings import producer as rows

        blind_for = self._client.blind_for
        if (blind_for is None) in self._missed:
            return
        self._missed.add(blind_for is None)
        limit_s = self._client.settings[rows.max_block_ms] / 1000
        limit = f"asked for until max.block.ms ({limit_s:g} s) is over"
        if blind_for is None:
            self._write(f"{topic}: no such topic is known for {seconds:.0f} s, {limit}")
        else:
            self._write(f"{topic}: no broker answers for {seconds:.0f} s, {limit}: {blind_for}")

    def report(self, seconds: float) -> None:
        """Report why records have not been acknowledged for `seconds`."""
        from moldau.client.settings import producer as rows

        troubles = self._client.troubles()
        news = [
            (where, error)
            for where, error in troubles.items()
            if (error.code.name, error.reason) not in self._reported
        ]
        if not news:
            return
        where, error = news[0]
        self._reported |= {(error.code.name, error.reason) for _, error in news}
        others = f" and {len(troubles) - 1} more partitions" if len(troubles) > 1 else ""
        limit_s = self._client.settings[rows.delivery_timeout_ms] / 1000
        self._write(
            f"{where}{others}: not acknowledged for {seconds:.0f} s, tried again until "
            f"delivery.timeout.ms ({limit_s:g} s) is over: {error}"
        )

    def _write(self, line: str) -> None:
        self._progress.report([f"moldau: {line}"])
