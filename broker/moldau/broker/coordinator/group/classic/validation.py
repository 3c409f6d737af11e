"""Checks of a request that do not depend on its group. They come before the group is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.classic.answers import refused_join, refused_sync
from moldau.broker.settings import coordinator
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_SYNC_NAMES_PROTOCOL_SINCE: Final = 5


def check_join(message: JoinGroupRequest, settings: Settings) -> JoinGroupResponse | None:
    """Return the rejection of a join, or None. The broker limits the session timeout."""
    least = settings[coordinator.group_min_session_timeout_ms]
    most = settings[coordinator.group_max_session_timeout_ms]
    if least <= message.session_timeout_ms <= most:
        return None
    return refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, message.member_id)


def check_sync(message: SyncGroupRequest, api_version: int) -> SyncGroupResponse | None:
    """Return the rejection of a sync, or None. Since KIP-559 members send their protocol."""
    if api_version < _SYNC_NAMES_PROTOCOL_SINCE:
        return None
    if message.protocol_type is not None and message.protocol_name is not None:
        return None
    return refused_sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
