"""What the console shows beside the cluster: Streams apps and pipelines, each by its HTTP API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.console.pipeline_api import PipelineApi
from moldau.console.streams_api import StreamsApi
from moldau.errors import ConfigError

STREAMS: Final = "streams.urls"
PIPELINES: Final = "pipeline.urls"
"""The console's settings for apps and pipelines: NAME=URL, divided by spaces."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The apps and pipelines of one console, by the names that it was given."""

    apps: Mapping[str, StreamsApi] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineApi] = field(default_factory=dict)

    @classmethod
    def of(cls, apps: str, pipelines: str) -> Beside:
        """Read the settings. Raise ConfigError."""
        return cls(
            {name: StreamsApi(url) for name, url in named(STREAMS, apps.split()).items()},
            {name: PipelineApi(url) for name, url in named(PIPELINES, pipelines.split()).items()},
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
