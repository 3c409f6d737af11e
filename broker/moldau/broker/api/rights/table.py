"""The guard of each API, by key. An API without one has no right on what its message names, or its
handler checks it (`gate.allowed`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.api.rights import groups, offsets, records, settings, tokens, topics
from moldau.broker.api.rights.guard import Guard

GUARDS: Final[Mapping[int, Guard]] = {
    0: records.guard_produce,
    3: topics.guard_metadata,
    8: offsets.guard_commit,
    9: offsets.guard_fetch,
    10: groups.guard_coordinator,
    15: groups.guard_describe,
    16: groups.guard_list,
    21: records.guard_delete_records,
    22: records.guard_producer_id,
    23: records.guard_epochs,
    32: settings.guard_describe,
    33: settings.guard_alter,
    41: tokens.guard_describe,
    42: groups.guard_delete,
    44: settings.guard_alter,
    47: groups.guard_offset_delete,
    60: settings.guard_cluster,
    68: groups.guard_heartbeat,
    69: groups.guard_consumer_describe,
    75: topics.guard_topic_partitions,
    77: groups.guard_share_describe,
}
"""Guards of requests that brokers answer, or answer in part."""

DECISION_GUARDS: Final[Mapping[int, Guard]] = {
    19: topics.guard_create,
    20: topics.guard_delete,
    33: settings.guard_alter,
    37: topics.guard_partitions,
    38: tokens.guard_create,
    41: tokens.guard_describe,
    44: settings.guard_alter,
}
"""Guards of requests that controllers decide."""
