"""All targets by name."""

from __future__ import annotations

from tests.fuzz.batches import COMPRESSION, RECORDS
from tests.fuzz.connections import REQUESTS, RESPONSES
from tests.fuzz.messages import MESSAGES
from tests.fuzz.settings import PROPERTIES, SETTINGS
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (MESSAGES, REQUESTS, RESPONSES, RECORDS, COMPRESSION, PROPERTIES, SETTINGS)
}
