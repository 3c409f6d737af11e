"""What `moldau produce` says while it waits for its topic, or while a broker refuses records that
the producer sends again.

A refusal that may pass (a full disk, too few replicas, a broker that restarts) is tried again for
`delivery.timeout.ms`, two minutes unless told otherwise: too long to say nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.cli.progress import Progress
    from moldau.client import Producer

PATIENCE_S: Final = 2.0


class Trouble:
    """Tells each new trouble once."""

    def __init__(self, progress: Progress, client: Producer) -> None:
        self._progress = progress
        self._client = client
        self._told: set[tuple[str, str]] = set()
        self._missed: set[bool] = set()

    def miss(self, topic: str, seconds: float) -> None:
        """So long nothing has been known of the topic. Where no broker answers, it is not the topic
        that is to blame."""
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

    def tell(self, seconds: float) -> None:
        """So long it has taken already."""
        from moldau.client.settings import producer as rows

        troubles = self._client.troubles()
        news = [
            (where, error)
            for where, error in troubles.items()
            if (error.code.name, error.reason) not in self._told
        ]
        if not news:
            return
        where, error = news[0]
        self._told |= {(error.code.name, error.reason) for _, error in news}
        others = f" and {len(troubles) - 1} more partitions" if len(troubles) > 1 else ""
        limit_s = self._client.settings[rows.delivery_timeout_ms] / 1000
        self._write(
            f"{where}{others}: not acknowledged for {seconds:.0f} s, tried again until "
            f"delivery.timeout.ms ({limit_s:g} s) is over: {error}"
        )

    def _write(self, line: str) -> None:
        self._progress.tell([f"moldau: {line}"])
