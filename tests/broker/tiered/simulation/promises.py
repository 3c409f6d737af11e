"""What the remote tier promises, as a failure names it and as a planted bug must break it."""

from __future__ import annotations

from enum import StrEnum


class Promise(StrEnum):
    """What holds after every step, and what holds in the end."""

    KEPT = "an acknowledged record is in one tier at least"
    ONE_EPOCH = "an offset is served in the epoch and with the record that the log has there"
    IN_ORDER = "offsets are served once and in order"
    ABORTED_KNOWN = "a reader of committed records knows the aborted transactions"
    WHOLE = "a segment that is served has all its objects"
    DELETED_STAYS = "what is deleted stays deleted"
    ID_ONCE = "the id of a segment is used once"
    NO_ORPHANS = "objects without a served segment disappear in the end"
    CATCHES_UP = "in the end everything is copied that can be"
    SETTLES = "the work comes to an end"
