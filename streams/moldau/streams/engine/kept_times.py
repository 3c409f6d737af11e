"""The stream times of a task as the text that is committed with its offsets.

Brokers keep 4,096 bytes of text with an offset and refuse a commit with more; an engine may need
some for a record of its own. If the times do not
fit with the names of their operators, they are written with digests of the names, which leaves room
for about three hundred; beyond that only the lowest time is kept. After a restart it is a lower
bound for each operator: the time is never ahead of what the operator has seen, so no record becomes
late that was not.
"""

from __future__ import annotations

import json
import logging
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

LOG: Final = logging.getLogger("moldau.streams")
TEXT_BYTES_MAX: Final = 3968
_DIGEST_BYTES: Final = 6
_TIME: Final = Struct(">Q")


class KeptTimes:
    """The stream times of one task, as text."""

    def __init__(self, task: str) -> None:
        """`task` is the name of the task in the log."""
        self._task = task
        self._is_reported = False

    def text(self, times: Mapping[str, int]) -> str:
        """Return the times as at most `TEXT_BYTES_MAX` bytes, all ASCII."""
        if not times:
            return ""
        for candidate in ({"time": dict(times)}, {"packed": _packed(times)}):
            found = json.dumps(candidate, separators=(",", ":"))
            if len(found) <= TEXT_BYTES_MAX:
                return found
        if not self._is_reported:
            self._is_reported = True
            LOG.warning(
                "streams: task %s: the stream times of %d operators do not fit beside an offset; "
                "after a restart all of them begin at the least one, so windows may stay open "
                "longer: split the app",
                self._task,
                len(times),
            )
        return json.dumps({"least": min(times.values())}, separators=(",", ":"))


def times_in(text: str, names: Iterable[str]) -> dict[str, int]:
    """Return the times of these operators in a text; nothing if the text has another form."""
    try:
        found: Any = json.loads(text) if text else {}
        if "packed" in found:
            found["time"] = _unpacked(found["packed"], names)
        elif "least" in found:
            found["time"] = dict.fromkeys(names, found["least"])
        times = found.get("time", {})
        return {name: time for name, time in times.items() if isinstance(time, int)}
    except (ValueError, TypeError, AttributeError, zlib.error):
        return {}


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=_DIGEST_BYTES).digest()


def _packed(times: Mapping[str, int]) -> str:
    """Return the times, compressed by columns of bytes, since most times share the high ones."""
    columns = zip(*(_TIME.pack(time) for time in times.values()), strict=True)
    data = b"".join((*map(_digest, times), *map(bytes, columns)))
    return b85encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str, names: Iterable[str]) -> dict[str, int]:
    data = zlib.decompress(b85decode(text))
    count, rest = divmod(len(data), _DIGEST_BYTES + _TIME.size)
    if rest:
        raise ValueError("these are no times")
    begin = count * _DIGEST_BYTES
    times = {
        data[at * _DIGEST_BYTES : (at + 1) * _DIGEST_BYTES]: _TIME.unpack(
            data[begin + at :: count]
        )[0]
        for at in range(count)
    }
    known = {name: times.get(_digest(name)) for name in names}
    return {name: time for name, time in known.items() if time is not None}
