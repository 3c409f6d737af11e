"""The HTTP API of a Streams app's workers, as the console asks it (docs/streams.md "Over HTTP").

Invariant: a request for rows has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from moldau.console.apis.rest import Refused, Rest

if TYPE_CHECKING:
    from moldau.runtime import Runtime

TIMEOUT_S: Final = 15.0
_HINT: Final = "start it with `moldau streams run APP --listen HOST:PORT`"
Model = TypeVar("Model", bound=BaseModel)


class AppRefused(Refused):
    """A worker of the app rejected a question, or does not answer."""

    title: ClassVar[str] = "The app does not answer that"
    silent_title: ClassVar[str] = "The app does not answer"


class Step(BaseModel):
    """A step of a sub-topology. `parents` and `lookups` are steps of the same one."""

    name: str
    kind: str
    parents: list[str]
    lookups: list[str]
    text: str
    reads: list[str]
    writes: list[str]
    stores: list[str]


class Program(BaseModel):
    """A sub-topology."""

    index: int
    reads: list[str]
    writes: list[str]
    stores: list[str]
    steps: list[Step]


class Topology(BaseModel):
    """The plan of an app."""

    app: str
    reads: list[str]
    writes: list[str]
    programs: list[Program]


class Input(BaseModel):
    """How far a task has come in one topic; `lag` is None if it is not known."""

    topic: str
    done: int
    lag: int | None


class StoreSize(BaseModel):
    """About how large a store of a task is."""

    name: str
    rows: int
    bytes: int


class Task(BaseModel):
    """A task; `state` is None if no worker tells of it, `server` if its worker does not listen."""

    program: int
    partition: int
    server: str | None
    state: str | None
    processed: int = 0
    seconds: float = 0.0
    buffered: int = 0
    dropped: int = 0
    inputs: list[Input] = []
    stores: list[StoreSize] = []
    restored: int = 0
    to_restore: int = 0

    @property
    def name(self) -> str:
        """Its name, as in Kafka Streams."""
        return f"{self.program}_{self.partition}"

    @property
    def lag(self) -> int | None:
        """How many records it is behind; None if that is not known."""
        known = [each.lag for each in self.inputs if each.lag is not None]
        return sum(known) if known else None


class Tasks(BaseModel):
    """The tasks of all workers, and why some workers do not answer."""

    tasks: list[Task]
    problems: dict[str, str]


class Store(BaseModel):
    """A store; `key` and `value` are names of types, `topic` is that of its changes."""

    name: str
    topic: str
    kind: str
    key: str
    value: str

    @property
    def has_times(self) -> bool:
        """Whether its rows are those of windows or sessions."""
        return self.kind in ("window", "session")


class _Stores(BaseModel):
    stores: list[Store]


class Rows(BaseModel):
    """Rows of a store, as JSON values, and whether there are more."""

    rows: list[dict[str, Any]]
    more: bool


class StreamsApi:
    """One worker of an app, which asks the others itself."""

    def __init__(self, runtime: Runtime, url: str) -> None:
        """Take an address, which may have user:password@. Raise ConfigError."""
        self._rest = Rest(runtime, url, "Streams app", _HINT, TIMEOUT_S)
        self.url = self._rest.url

    async def topology(self) -> Topology:
        """Return the plan. Raise AppRefused, as all calls do."""
        return await self._ask(Topology, "/topology")

    async def tasks(self) -> Tasks:
        """Return the tasks of all workers."""
        return await self._ask(Tasks, "/tasks")

    async def stores(self) -> list[Store]:
        """Return the stores."""
        return (await self._ask(_Stores, "/stores")).stores

    async def rows(self, store: str, limit: int, options: Mapping[str, str]) -> Rows:
        """Return rows of a store."""
        return await self._ask(Rows, f"/stores/{_quoted(store)}", limit, options)

    async def of_key(self, store: Store, key: str, limit: int, options: Mapping[str, str]) -> Rows:
        """Return the row of a key, or its windows or sessions; none if it has none."""
        path = f"/stores/{_quoted(store.name)}/keys/{_quoted(key)}"
        if store.has_times:
            return await self._ask(Rows, path, limit, options)
        try:
            found = await self._get(path, options)
        except AppRefused as error:
            if error.is_missing:
                return Rows(rows=[], more=False)
            raise
        return Rows(rows=[found], more=False)

    async def _ask(
        self,
        model: type[Model],
        path: str,
        limit: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Model:
        bounded = {} if limit is None else {"limit": str(limit)}
        found = await self._get(path, {**(options or {}), **bounded})
        try:
            return model.model_validate(found)
        except ValidationError:
            text = f"{self.url} answers, but not as a Streams app of this version does"
            raise AppRefused(text) from None

    async def _get(self, path: str, options: Mapping[str, str]) -> Any:
        return await self._rest.request("GET", path, AppRefused, query=options)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._rest.aclose()


def _quoted(name: str) -> str:
    return quote(name, safe="")
