"""An HTTP API beside the cluster, as the console asks it: a Connect worker, an app, a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.errors import ConfigError, MoldauError

if TYPE_CHECKING:
    import httpx

_FAILED: Final = 400
_MISSING: Final = 404


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

    def __init__(self, url: str, what: str, hint: str, timeout_s: float) -> None:
        """Take an address, which may have user:password@. Messages say `what` the API is of, and
        a `hint` if nothing answers. Raise ConfigError."""
        try:
            import httpx
        except ImportError:
            from moldau.plugins.extras import install_command

            text = f"the pages of a {what} need httpx: {install_command('console')}"
            raise ConfigError(text) from None

        self._what, self._hint = what, hint
        scheme, divider, place = url.rstrip("/").partition("://")
        if not divider:
            scheme, place = "http", scheme
        self.url = f"{scheme}://{place.rpartition('@')[2]}"  # without a password, for messages
        try:
            self._client = httpx.AsyncClient(
                base_url=f"{scheme}://{place}", timeout=timeout_s, trust_env=False
            )
        except httpx.InvalidURL as error:
            raise ConfigError(f"no URL of a {what}: {error}") from None

    async def request(self, method: str, path: str, refused: type[Refused], **given: Any) -> Any:
        """Return the JSON answer, or None if it is empty. Raise `refused`."""
        import httpx

        try:
            found = await self._client.request(method, path, **given)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            text = f"no {self._what} answers at {self.url}: {reason}; {self._hint}"
            raise refused(text) from None
        if found.status_code >= _FAILED:
            raise refused(_reason(found), found.status_code)
        try:
            return found.json() if found.content else None
        except ValueError:
            raise refused(
                f"{self.url} answers, but not in JSON: is it the right address?"
            ) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _reason(answer: httpx.Response) -> str:
    """Return why a request was rejected, in the words of the API."""
    try:
        found = answer.json()
        text = found.get("message") or found.get("error")
    except (ValueError, AttributeError):
        text = ""
    return (
        str(text or "") or f"{answer.url.host}:{answer.url.port} answers HTTP {answer.status_code}"
    )
