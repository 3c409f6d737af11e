"""The settings of one group, looked up once for all its heartbeats until they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.settings import ResourceSettings, streams
from moldau.broker.settings.group import (
    bounded,
    streams_acceptable_recovery_lag,
    streams_assignor_name,
    streams_heartbeat_interval_ms,
    streams_num_standby_replicas,
    streams_num_warmup_replicas,
    streams_rack_aware_assignment_tags,
    streams_session_timeout_ms,
    streams_task_offset_interval_ms,
)
from moldau.deferred import dataclass

_STANDBYS: Final = "num.standby.replicas"
_TAGS: Final = "rack.aware.assignment.tags"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a heartbeat needs of the settings."""

    settings: ResourceSettings
    session_ms: int
    interval_ms: int
    task_offset_interval_ms: int
    acceptable_lag: int
    standby_count: int
    warmup_count: int
    spread_tags: tuple[str, ...]
    assignor: str
    """The name of the assignor. Another one counts from the next target on."""
    assignment: Mapping[str, str]
    """The settings for which the group is assigned anew when they change, as record 17 has them."""


def terms_of(settings: ResourceSettings) -> Terms:
    """Return the terms of these settings of a group."""
    standbys = bounded(settings, streams_num_standby_replicas)
    tags = tuple(settings[streams_rack_aware_assignment_tags])
    assignment = {_STANDBYS: str(standbys)}
    if tags:
        assignment[_TAGS] = ",".join(tags)
    return Terms(
        settings,
        bounded(settings, streams_session_timeout_ms),
        bounded(settings, streams_heartbeat_interval_ms),
        bounded(settings, streams_task_offset_interval_ms),
        bounded(settings, streams_acceptable_recovery_lag),
        standbys,
        bounded(settings, streams_num_warmup_replicas),
        tags,
        _assignor(settings),
        assignment,
    )


def _assignor(settings: ResourceSettings) -> str:
    """Return the broker's first assignor if the group names none, or one that the broker does not
    offer any more."""
    offered: tuple[str, ...] = settings.broker[streams.group_streams_assignors]
    named = settings[streams_assignor_name]
    return named if named in offered else offered[0]
