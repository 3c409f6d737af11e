"""Settings that mean the same to every client: followed, known without effect, or refused.

Together with the rows in `settings` these are all settings that Kafka 4.3's own clients have, so a
.properties file that Java reads is read here too. `moldau.client.base.given` tells once, when the
client starts, what means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.settings.unused import (
    UNUSED_BY_ADMINS,
    UNUSED_BY_ALL,
    UNUSED_BY_CONSUMERS,
    reasons,
)
from moldau.config import INT, LIST, LONG, Setting, at_least
from moldau.link.security_settings import WITHOUT_EFFECT

# fmt: off
metrics_sample_window_ms = Setting("metrics.sample.window.ms", LONG, 30_000, check=at_least(1),
    doc="How long one sample of a rate or an average lasts.")
metrics_num_samples = Setting("metrics.num.samples", INT, 2, check=at_least(1),
    doc="How many samples a rate or an average is made of.")
interceptor_classes = Setting("interceptor.classes", LIST, (),
    doc="What sees records on their way, and what became of them: plugins of the group "
    "moldau.interceptors, dotted names of classes, or (in Python) objects.")
# fmt: on

METRICS_ROWS: Final = (metrics_sample_window_ms, metrics_num_samples)
RECORD_ROWS: Final = (interceptor_classes, *METRICS_ROWS)

WITHOUT_MEANING: Final[Mapping[str, str]] = reasons(UNUSED_BY_ALL)
"""Settings that are known and change nothing, each with the reason."""
WITHOUT_MEANING_PREFIXES: Final = WITHOUT_EFFECT
BOOTSTRAP_CONTROLLERS: Final = "bootstrap.controllers"
WITHOUT_CONTROLLERS: Final[Mapping[str, str]] = {
    BOOTSTRAP_CONTROLLERS: "only an Admin may want controllers"
}
"""What producers and consumers pass over, and an Admin refuses."""
WITHOUT_MEANING_TO_CONSUMERS: Final[Mapping[str, str]] = {
    **WITHOUT_CONTROLLERS,
    **reasons(UNUSED_BY_CONSUMERS),
}
WITHOUT_MEANING_TO_ADMINS: Final[Mapping[str, str]] = reasons(UNUSED_BY_ADMINS)


def why_without_meaning(name: str) -> str | None:
    """Why a setting changes nothing for any client, if that is so."""
    for prefix, why in WITHOUT_MEANING_PREFIXES.items():
        if name.startswith(prefix):
            return why
    return WITHOUT_MEANING.get(name)
