"""An HTTP API beside the cluster, as the console asks it: a Connect worker, an app, a pipeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from moldau.errors import ConfigError, MoldauError
from moldau.runtime.http_client import HttpAnswer, HttpClient, HttpTimeouts, NoAnswer, base_url

if TYPE_CHECKING:
    from moldau.runtime import Runtime

T = TypeVar("T")

_FAILED: Final = 400
_MISSING: Final = 404
_IDLE_MAX: Final = 4


class Refused(MoldauError):
    """The API rejected a request (`status` says how), or does not answer (`status` 0)."""

    title: ClassVar[str] = "It refuses"
    """The heading of a page about it."""
    silent_title: ClassVar[str] = "It does not answer"
    """That heading if there was no answer."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def is_missing(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.status == _MISSING


class Rest:
    """The connections to one API."""

    def __init__(self, runtime: Runtime, url: str, what: str, hint: str, timeout_s: float) -> None:
        """Take an address, which may have user:password@. Messages say `what` the API is of, and
        a `hint` if nothing answers. Raise ConfigError."""
        self._what, self._hint = what, hint
        try:
            self.url, self._headers = base_url(url)
        except ValueError as error:
            raise ConfigError(f"no URL of a {what}: {error}") from None
        self._client = HttpClient(runtime, HttpTimeouts(timeout_s, timeout_s), idle_max=_IDLE_MAX)

    async def request(
        self,
        method: str,
        path: str,
        refused: type[Refused],
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """Return the JSON answer, or None if it is empty. Raise `refused`."""
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._headers}
        try:
            found = await self._client.request(method, url, content, headers)
        except NoAnswer as error:
            text = f"no {self._what} answers at {self.url}: {error}; {self._hint}"
            raise refused(text) from None
        if found.status >= _FAILED:
            raise refused(_reason(found, self.url), found.status)
        try:
            return found.json()
        except ValueError:
            raise refused(
                f"{self.url} answers, but not in JSON: is it the right address?"
            ) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _reason(answer: HttpAnswer, url: str) -> str:
    """Return why a request was rejected, in the words of the API."""
    try:
        found = answer.json()
        text = found.get("message") or found.get("error")
    except (ValueError, AttributeError):
        text = ""
    return str(text or "") or f"{urlsplit(url).netloc} answers HTTP {answer.status}"


async def ask_all(questions: Iterable[Awaitable[T]]) -> list[T]:
    """Return all answers, in the order of the questions; raise the first error."""
    return list(await asyncio.gather(*questions))


async def ask_within(
    runtime: Runtime,
    timeout_s: float,
    questions: Mapping[str, Coroutine[Any, Any, T]],
    awaited: Collection[str],
) -> dict[str, T | Refused | None]:
    """Return what is answered when the `awaited` questions are, or the time is over: the others
    have None. A rejection is an answer; raise any other error."""
    tasks = {
        name: runtime.spawn(each, name=f"ask {name}", reported=False)
        for name, each in questions.items()
    }
    if awaited:
        await asyncio.wait([tasks[name] for name in awaited], timeout=timeout_s)
    late = [task for task in tasks.values() if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    found: dict[str, T | Refused | None] = {}
    for name, task in tasks.items():
        error = None if task in late else task.exception()
        if error is not None and not isinstance(error, Refused):
            raise error
        found[name] = None if task in late else error or task.result()
    return found
