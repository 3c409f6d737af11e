"""The row of an API: what serves it, which listeners offer it, and the form of its refusal.

    Api(topics.serve_delete_topics, BOTH, is_forwarded=True, refuse=refused_response)

A new API is one line of the table in `handlers`, and one of the rights in `rights.table`. Only a
forwarded API may be in an envelope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.refused import error_response
from moldau.deferred import dataclass
from moldau.errors import without_frames

if TYPE_CHECKING:
    from moldau.broker.api.refused import Refuse
    from moldau.broker.api.request import Handler
    from moldau.errors.codes import KafkaError
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response

BROKER: Final = frozenset(("broker",))
CONTROLLER: Final = frozenset(("controller",))
BOTH: Final = BROKER | CONTROLLER


@dataclass(frozen=True, slots=True)
class Api:
    """One API; see the module."""

    serve: Handler | None
    """The handler on a broker's listener. None: only controllers offer the API."""
    listeners: frozenset[str] = BROKER
    is_forwarded: bool = False
    refuse: Refuse | None = None
    """The form of a refused request. None: the response's `error_code` has it."""
    off: KafkaError | None = None
    """The error of an API that Kafka always offers, and that is off here: every request gets it."""

    def __post_init__(self) -> None:
        assert (self.serve is not None) == ("broker" in self.listeners)
        assert not self.is_forwarded or self.listeners == BOTH or self.serve is not None

    @classmethod
    def of_off(cls, error: KafkaError, listeners: frozenset[str] = BROKER) -> Api:
        """Return the row of an API that is off."""

        def serve(node: object, request: object) -> None:
            raise without_frames(error)

        return cls(serve, listeners, off=error)

    def refusal(self, message: Message, version: int, error: KafkaError) -> Response | None:
        """Return the response to a refused request. None: the API has no place for the error."""
        if self.refuse is not None:
            return self.refuse(message, version, error)
        key = type(message).spec.key
        assert key is not None
        return error_response(key, version, error)
