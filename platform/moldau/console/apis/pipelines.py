"""The status that `moldau pipeline run --status HOST:PORT` serves, as the console asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, ValidationError

from moldau.console.apis.rest import Refused, Rest

if TYPE_CHECKING:
    from moldau.runtime import Runtime

TIMEOUT_S: Final = 15.0
_HINT: Final = "start it with `moldau pipeline run --status HOST:PORT`"


class PipelineRefused(Refused):
    """The pipeline does not answer."""

    title: ClassVar[str] = "The pipeline does not answer"
    silent_title: ClassVar[str] = "The pipeline does not answer"


class Part(BaseModel):
    """A part: a source, an app, a job, a sink, or the broker or worker below them."""

    part: str
    kind: str
    state: str
    lag: int | None = None
    rate: float | None = None
    restarts: int = 0
    error: str | None = None
    missed: int | None = None
    detail: str = ""
    group: str | None = None
    reads: list[str] = []
    writes: list[str] = []


class PipelineTopic(BaseModel):
    """A topic of the pipeline."""

    name: str
    partitions: int
    is_external: bool


class Pipeline(BaseModel):
    """A pipeline and the state of its parts."""

    pipeline: str
    parts: list[Part]
    topics: list[PipelineTopic]


class PipelineApi:
    """The status of one running pipeline."""

    def __init__(self, runtime: Runtime, url: str) -> None:
        """Take an address, which may have user:password@. Raise ConfigError."""
        self._rest = Rest(runtime, url, "pipeline", _HINT, TIMEOUT_S)
        self.url = self._rest.url

    async def read(self) -> Pipeline:
        """Return the present state. Raise PipelineRefused."""
        found = await self._rest.request("GET", "/status", PipelineRefused)
        try:
            return Pipeline.model_validate(found)
        except ValidationError:
            text = f"{self.url} answers, but not as a pipeline of this version does"
            raise PipelineRefused(text) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._rest.aclose()
