"""The offsets at which a new generation begins: one for each partition that the query reads.

Altered offsets name some partitions, and the checkpoint before them names those of its time. The
data source wants exactly the partitions of now.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.connectors.spark.checkpoint.address import read_batch_numbers
from moldau.connectors.spark.checkpoint.generations import Generation, Generations
from moldau.connectors.spark.config import SparkSinkConfig, subscription
from moldau.spark.lookups import Lookups
from moldau.spark.options import parse_read
from moldau.spark.ranges import Checkpoint, from_checkpoint, to_checkpoint

LOG: Final = logging.getLogger("moldau.connectors.spark")
_EARLIEST: Final = "earliest"


def with_all_partitions(
    generations: Generations,
    generation: Generation,
    config: SparkSinkConfig,
    clients: Mapping[str, str],
) -> Generation:
    """Return the generation with an offset for each partition that the query reads now.

    If a generation before it has read records, a partition without an offset was added since, and
    all its records are new. Otherwise `starting.offsets` decides.
    """
    has_read = any(
        read_batch_numbers(f"{generations.path(Generation(number))}/rows/commits")
        for number in range(generation.number)
    )
    starting = complete_offsets(
        generation.starting,
        present_partitions(config, clients),
        _EARLIEST if has_read else config.starting_offsets,
    )
    return replace(generation, starting=starting)


def present_partitions(config: SparkSinkConfig, clients: Mapping[str, str]) -> list[TopicPartition]:
    """Return the partitions that the query reads now, by a request to the brokers."""
    settings = {**clients, **config.with_prefix("kafka.")}
    options = {f"kafka.{name}": text for name, text in settings.items()}
    lookups = Lookups(parse_read({**options, **subscription(config.originals)}, is_stream=True))
    try:
        return lookups.partitions()
    finally:
        lookups.close()


def complete_offsets(
    starting: Mapping[str, Mapping[str, Any]],
    present: Iterable[TopicPartition],
    starting_offsets: str,
) -> Checkpoint:
    """Return an offset for each present partition.

    A partition that `starting` does not name has the offset that `starting_offsets` says: earliest,
    latest, or JSON. One that is not in JSON begins at the earliest offset. A partition that does
    not exist is left out, and the log says so.
    """
    given, partitions = from_checkpoint(starting), sorted(present)
    gone = sorted(given.keys() - set(partitions))
    if gone:
        LOG.warning(
            "the altered offsets name partitions that do not exist, which are left out: %s",
            ", ".join(map(str, gone)),
        )
    edge = LATEST if starting_offsets.strip().lower() == "latest" else EARLIEST
    configured = {}
    if starting_offsets.lstrip().startswith("{"):
        configured = from_checkpoint(json.loads(starting_offsets))
    default = {each: configured.get(each, edge) for each in partitions}
    return to_checkpoint({each: given.get(each, default[each]) for each in partitions})
