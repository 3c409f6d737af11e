"""The newest values that clients have pushed, for `/metrics` and OTLP. A pure core.

Invariants: counters are cumulative, also where a client pushes differences; a client has
SERIES_OF_CLIENT series at most and all together SERIES_MAX: what is over is counted and left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moldau.metrics.otlp_reading import Figure

SERIES_OF_CLIENT: Final = 1_000
SERIES_MAX: Final = 20_000
_PREFIX: Final = "kafka_client_"
_KAFKAS: Final = "org.apache.kafka."
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_.\-]{0,199}")
_NOT_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, bool, Labels]


class ClientFigures:
    """The series of all clients, by client."""

    def __init__(self) -> None:
        self._series: dict[bytes, dict[Key, float]] = {}
        self._count = 0
        self.left_out = 0

    def __len__(self) -> int:
        return self._count

    def take(self, instance_id: bytes, own: Labels, figures: Iterable[Figure]) -> None:
        """Take a push. `own` are the labels of its client."""
        series = self._series.setdefault(instance_id, {})
        for each in figures:
            name = series_name(each.name, is_counter=each.is_counter)
            if name is None or not math.isfinite(each.value):
                self.left_out += 1
                continue
            pairs = {_NOT_LABEL.sub("_", label): value for label, value in each.labels if value}
            key = name, each.is_counter, tuple({**pairs, **dict(own)}.items())
            if key not in series:
                if len(series) >= SERIES_OF_CLIENT or self._count >= SERIES_MAX:
                    self.left_out += 1
                    continue
                self._count += 1
                series[key] = 0.0
            is_added = each.is_counter and each.is_delta
            series[key] = series[key] + each.value if is_added else each.value

    def keep(self, is_known: Callable[[bytes], bool]) -> None:
        """Forget the series of clients that are not known any more."""
        for instance_id in [each for each in self._series if not is_known(each)]:
            self._count -= len(self._series.pop(instance_id))

    def series(self) -> Iterator[tuple[Key, float]]:
        """Yield every series with its value. Each name has one kind: that of its first series."""
        kinds: dict[str, bool] = {}
        for series in list(self._series.values()):
            for key, value in zip(list(series), list(series.values()), strict=True):
                if kinds.setdefault(key[0], key[1]) == key[1]:
                    yield key, value


def series_name(name: str, *, is_counter: bool) -> str | None:
    """Return the name in `/metrics`: `org.apache.kafka.producer.record.send.total` of a counter is
    `kafka_client_producer_record_send_total`. None: it cannot be one."""
    if _NAME.fullmatch(name) is None:
        return None
    short = name.removeprefix(_KAFKAS).replace(".", "_").replace("-", "_").lower()
    ended = short.removesuffix("_total") + "_total" if is_counter else short
    return _PREFIX + ended
