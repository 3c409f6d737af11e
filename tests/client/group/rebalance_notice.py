"""A heartbeat's answer that begins a rebalance."""

from __future__ import annotations

from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from tests.client.group.single_members import asked


def hears_of_a_rebalance(member: ClassicConsumer, now: float = 1.5) -> None:
    """Its next sign of life is answered so."""
    member.on_poll(now)
    asked(member, now)
    member.on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now)
