"""The errors that reject a request, each with its HTTP status. No IO."""

from __future__ import annotations

from moldau.errors import MoldauError


class Refusal(MoldauError):
    """A request was rejected. `code` is the HTTP status."""

    code = 500


class BadRequest(Refusal):
    """The request is malformed, or the config is invalid."""

    code = 400


class Forbidden(Refusal):
    """The worker's settings do not allow the request."""

    code = 403


class NotFound(Refusal):
    """The connector, task, plugin or logger does not exist."""

    code = 404


class Conflict(Refusal):
    """The connector exists already, or the group of workers is rebalancing."""

    code = 409


class Rebalancing(Conflict):
    """The workers cannot serve the request now; the client should try again soon."""


class NotLeader(Refusal):
    """Another worker has to serve this request: it is forwarded to `leader_url`."""

    code = 409

    def __init__(self, leader_url: str) -> None:
        super().__init__("this worker is not the leader", leader=leader_url)
        self.leader_url = leader_url
