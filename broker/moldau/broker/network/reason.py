"""The reasons why a connection ended, for metrics and log lines."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """The reason why a connection ended. Only the first one is kept: later ones follow from it."""

    PEER = "the other side closed"
    IDLE = "idle"
    MALFORMED = "what came is no request"
    UNKNOWN_API = "unknown API"
    UNSUPPORTED_VERSION = "unsupported version"
    STALLED_REQUEST = "half a request, and memory is short"
    SLOW_READER = "answers are not read"
    UNREADABLE_FILE = "part of an answer could not be read"
    FILES_FULL = "the process has no file for it (ulimit -n)"
    ADDRESS_FULL = "too many connections from this address"
    ADDRESS_FAST = "connections from this address come faster than its quota"
    LINE_FULL = "too many connections are waiting"
    MADE_ROOM = "made room for a connection between brokers"
    NO_LOGIN = "a request before the login"
    LOGIN_FAILED = "the client did not log in"
    LOGIN_EXPIRED = "the login has expired"
    NO_PRINCIPAL = "no principal can be made of the client's certificate"
    FAILED = "a bug of ours"
    SERVICE = "the service closed it"
    STOPPED = "the server stops"

    @property
    def label(self) -> str:
        """The name for metrics."""
        return self.name.lower()
