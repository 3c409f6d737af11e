"""What the console shows beside the cluster: Streams apps and pipelines, each by its HTTP API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from moldau.console.apis.pipelines import PipelineApi
from moldau.console.apis.streams import StreamsApi
from moldau.deferred import dataclass
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.runtime import Runtime

STREAMS: Final = "streams.urls"
PIPELINES: Final = "pipeline.urls"
"""The console's settings for apps and pipelines: NAME=URL, divided by spaces."""


@dataclass(frozen=True, slots=True)
class LinkedServices:
    """The apps and pipelines of one console, by the names that it was given."""

    apps: Mapping[str, StreamsApi] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineApi] = field(default_factory=dict)

    @classmethod
    def of(cls, runtime: Runtime, apps: str, pipelines: str) -> LinkedServices:
        """Read the settings. Raise ConfigError."""
        return cls(
            {name: StreamsApi(runtime, url) for name, url in named(STREAMS, apps.split()).items()},
            {
                name: PipelineApi(runtime, url)
                for name, url in named(PIPELINES, pipelines.split()).items()
            },
        )

    async def aclose(self) -> None:
        """Close the connections."""
        for app in self.apps.values():
            await app.aclose()
        for pipeline in self.pipelines.values():
            await pipeline.aclose()


def named(what: str, words: Iterable[str]) -> dict[str, str]:
    """Return the URLs by their names. Raise ConfigError."""
    found: dict[str, str] = {}
    for word in words:
        name, _, url = word.partition("=")
        if not name or not url or "/" in name or any(each.isspace() for each in word):
            raise ConfigError(f"{what} takes NAME=URL, not {word!r}: the name has no slash")
        if name in found:
            raise ConfigError(f"{what}: the name {name} is given twice")
        found[name] = url
    return found
