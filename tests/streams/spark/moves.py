"""Apps that move between the engines: the part on Spark, and what was counted."""

from __future__ import annotations

from pathlib import Path
from random import Random

from moldau.streams import Streams
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches


def given(servers: str, **settings: str) -> dict[str, object]:
    return {"bootstrap.servers": servers, **settings}


EXACTLY_ONCE = "exactly_once_v2"


class Calm(Random):
    """Nothing happens by chance."""

    def random(self) -> float:
        return 0.5


def on_stages(
    servers: str, app: Streams, folder: Path, guarantee: str = EXACTLY_ONCE, *, dies: bool = False
) -> None:
    """Run what is there; or one batch, and let its driver die before it commits that. Without
    transactions no driver dies: batches would count twice."""
    chance = Random(1) if guarantee == EXACTLY_ONCE else Calm()
    sizes = (1_000_000,)
    batches = Batches(app.plan(), servers, folder, chance, sizes, processing_guarantee=guarantee)
    try:
        if dies:
            batches.die()
        else:
            batches.settle()
    finally:
        batches.close()


def check_counts(servers: str, app: Streams, lines: int) -> None:
    """Each word of the lines was counted once, in order."""
    found = apps.in_order(apps.outs_of(servers, app), app.name)
    assert sum(map(len, found.values())) == 2 * lines
    for outs in found.values():
        assert [int(value) for value, _, _ in outs] == list(range(1, len(outs) + 1))
