"""Our group by itself plays the broker of a script, and time is the test's."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request, Response
from tests.broker.coordinator.classic.place import GROUP, Place
from tests.broker.coordinator.classic.script import SETTINGS


class OurPeer:
    """See above."""

    group_id = GROUP

    def __init__(self) -> None:
        self.place = Place(SETTINGS)

    def ask(self, label: str, request: Request, version: int) -> None:
        self.place.ask(label, request, version)

    def collect(self, count: int, wait_ms: int) -> list[tuple[str, Response]]:
        self.place.wait(wait_ms)
        return [(asked.label, response) for asked, response in self.place.take_answers()]

    def disturb(self, command: str, argument: str) -> None:
        if command == "refuse":
            self.place.refuse_next(ErrorCode[argument])
        else:
            self.place.fail_over()
