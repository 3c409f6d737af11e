"""The group of an app: its members, and the offsets that it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client import KafkaError, OffsetAndMetadata, TopicPartition
from moldau.streams.problems import StreamsError

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def stopped_offsets(admin: Any, app: str) -> Offsets:
    """Return the offsets of the app's group. Raise StreamsError if the app runs."""
    members, found = group_facts(admin, app)
    if members:
        raise StreamsError(
            f"app={app}: it still runs, with {members} worker{'s' * (members > 1)} in its "
            "group: stop it first, which commits"
        )
    return found


def group_facts(admin: Any, app: str) -> tuple[int, Offsets]:
    """Return how many members the group of an app has, and its offsets."""
    try:
        members = len(admin.describe_group(app).members)
        found: Offsets = admin.group_offsets(app, require_stable=not members)
    except KafkaError as error:
        if error.code.name != "GROUP_ID_NOT_FOUND":
            raise
        return 0, {}
    return members, found
