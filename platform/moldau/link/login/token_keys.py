"""The public keys that signed tokens are checked with: from a file, or from a URL.

Invariants: keys that cannot be used leave the present ones as they are. Without keys no token is
accepted. A URL is asked once at a time, after a failure with growing pauses, and for unknown keys
at most once a pause: clients that send nonsense cannot make the node ask more often. What may be
secret in a URL, its user and its query, is in no log.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.errors import ConfigError
from moldau.link.login.signed_tokens import key_set, no_keys
from moldau.link.login.token_endpoint import shown_url
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import HttpClient, HttpTimeouts, NoAnswer
from moldau.runtime.real_files import RealFiles
from moldau.runtime.timeouts import timeout

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.runtime import Clock, Runtime

_LOOK_SECONDS: Final = 1.0
_WAITS: Final = HttpTimeouts(5.0, 5.0)
_FIRST_SECONDS: Final = 6.0
_BYTES_MAX: Final = 1 << 20
_UNKNOWN_PAUSE_S: Final = 10.0


class KeyFile:
    """The public keys in a file, which are read again when it has changed. It reads in the thread
    that calls it, so logins with such keys are checked beside the event loop, one at a time."""

    def __init__(self, path: str, clock: Clock, log: Logger, setting: str) -> None:
        """`setting` is the name of the setting that has the path, for errors."""
        self._path = path
        self._setting = setting
        self._clock = clock
        self._log = log
        self._seen = self._look()
        self._looked_at = self._clock.monotonic()
        self._keys = self._read()

    def __call__(self) -> Any:
        """Return the present keys. A file that cannot be used leaves them as they were."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._keys = self._read()
                except ConfigError as error:
                    self._log.failure("the new keys of tokens cannot be used", error)
        return self._keys

    def on_unknown(self) -> None:
        """Do nothing: the file is looked at anyway."""

    def _look(self) -> tuple[int, int] | None:
        try:
            found = RealFiles().stat(self._path)
        except OSError:
            return None
        return found.modified_ms, found.size_bytes

    def _read(self) -> Any:
        try:
            return key_set(RealFiles().read_text(self._path))
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(
                "the keys of tokens cannot be read",
                setting=self._setting,
                path=self._path,
                why=str(error),
            ) from error


class KeyTiming(NamedTuple):
    """When keys are fetched: how often, and the pauses after failures."""

    refresh_s: float
    backoff: Backoff


class KeyUrl:
    """The public keys at a URL, fetched beside the logins. What has time to wait for the first ones
    calls `first`, or `fetch` where a token needs them. Without keys no token is let in."""

    def __init__(self, url: str, timing: KeyTiming, runtime: Runtime, log: Logger) -> None:
        self._url = url
        self._timing = timing
        self._runtime = runtime
        self._client = HttpClient(runtime, _WAITS, bytes_max=_BYTES_MAX)
        self._log = log
        self._keys: Any = no_keys()
        self._failures = 0
        self._is_asking = False
        self._unknown_until = 0.0
        self._due_at = runtime.clock.monotonic()

    async def first(self) -> None:
        """Fetch the first keys. After a few seconds they are waited for no longer: logins ask for
        them again."""
        self._is_asking = True
        with suppress(TimeoutError):
            async with timeout(_FIRST_SECONDS):
                await self._refresh()

    def __call__(self) -> Any:
        """Return the present keys, and fetch new ones if it is time."""
        if not self._is_asking and self._runtime.clock.monotonic() >= self._due_at:
            self._is_asking = True
            self._runtime.spawn(self._refresh(), name="token-keys")
        return self._keys

    def on_unknown(self) -> None:
        """Fetch the keys soon: a token names one that is not there, which may be new."""
        now = self._runtime.clock.monotonic()
        if now >= self._unknown_until:
            self._unknown_until = now + _UNKNOWN_PAUSE_S
            self._due_at = now
            self()

    async def fetch(self) -> None:
        """Fetch the keys now, unless that is under way, or a token asked for it a moment ago."""
        now = self._runtime.clock.monotonic()
        if not self._is_asking and now >= self._unknown_until:
            self._unknown_until = now + _UNKNOWN_PAUSE_S
            self._is_asking = True
            await self._refresh()

    async def _refresh(self) -> None:
        """Use the fetched keys, or keep the present ones and ask again after a pause."""
        try:
            keys = key_set((await self._client.fetch(self._url)).decode())
        except (NoAnswer, ConfigError, UnicodeDecodeError) as error:
            self._failures += 1
            pause_s = self._timing.backoff.plain_ms(self._failures) / 1000
            self._due_at = self._runtime.clock.monotonic() + pause_s
            self._log.warn(
                "the keys of tokens cannot be fetched; those that are known stay",
                url=shown_url(self._url),
                why=str(error),
                known=len(self._keys.keys),
            )
        else:
            self._keys = keys
            self._failures = 0
            self._due_at = self._runtime.clock.monotonic() + self._timing.refresh_s
        finally:
            self._is_asking = False
