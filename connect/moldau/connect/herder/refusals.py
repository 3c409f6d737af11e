"""Why a request is not done, with the HTTP status that says so. No IO."""

from __future__ import annotations

from moldau.errors import MoldauError


class Refusal(MoldauError):
    """`code` is the HTTP status."""

    code = 500


class BadRequest(Refusal):
    """The request makes no sense, or the config is wrong."""

    code = 400


class Forbidden(Refusal):
    """The worker's settings do not allow it."""

    code = 403


class NotFound(Refusal):
    """There is no such connector, task, plugin or logger."""

    code = 404


class Conflict(Refusal):
    """It exists already, or the workers are being shared out anew."""

    code = 409


class Rebalancing(Conflict):
    """Try again in a moment."""


class NotLeader(Refusal):
    """Another worker decides this: the request is forwarded to it."""

    code = 409

    def __init__(self, leader_url: str) -> None:
        super().__init__("this worker is not the leader", leader=leader_url)
        self.leader_url = leader_url
