"""Finds the endpoint of a path. Segments are unquoted one by one, so a subject may have slashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from moldau.deferred import dataclass
from moldau.registry import requests
from moldau.registry.refusals import bad_request
from moldau.registry.subjects import qualified

Endpoint: TypeAlias = Callable[["Call"], Any]
"""Returns the answer, an awaitable of it, or for a write the outcome of its decision."""
Row: TypeAlias = tuple[str, str, Endpoint]

_TRUE: Final = ("true", "", "1")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: what stands in its path, its query and its body."""

    parts: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    many: Callable[[str], Sequence[str]]
    """Returns all values of a parameter of the query."""

    @property
    def subject(self) -> str:
        """The subject in the path, with the context that the path may begin with."""
        return qualified(self.parts.get("context", "."), self.parts["subject"])

    @property
    def scope(self) -> str | None:
        """What settings are for: a subject, a context, or everything."""
        if "subject" in self.parts:
            return self.subject
        context = self.parts.get("context", ".")
        return None if context == "." else f":{context}:"

    @property
    def hint(self) -> str | None:
        """The subject: an id is looked up in its context."""
        given = self.query.get("subject")
        if given:
            return qualified(self.parts.get("context", "."), given)
        return self.scope

    @property
    def prefix(self) -> str:
        """The beginning of the subjects that are asked for."""
        given = self.query.get("subjectPrefix", "" if "context" in self.parts else ":*:")
        return qualified(self.parts["context"], given) if "context" in self.parts else given

    @property
    def version(self) -> int | None:
        """The number of a version, None for the latest."""
        return requests.version_of(self.parts["version"])

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false."""
        return name in self.query and self.query[name].lower() in _TRUE

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a whole number. Raise Refusal."""
        try:
            return int(self.query.get(name, default))
        except ValueError:
            raise bad_request(f"{name} must be a whole number") from None

    def text(self, name: str) -> str:
        """Return a parameter, empty if it is not given."""
        return self.query.get(name, "")


class Routes:
    """A table of endpoints by method and path. Each is there a second time below a context."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows: dict[int, list[tuple[list[str], dict[str, Endpoint]]]] = {}
        for method, path, endpoint in rows:
            self._add(method, path, endpoint)
            if not path.startswith("/contexts"):
                self._add(method, f"/contexts/{{context}}{path.rstrip('/')}", endpoint)

    def _add(self, method: str, path: str, endpoint: Endpoint) -> None:
        pattern = path.strip("/").split("/")
        known = self._rows.setdefault(len(pattern), [])
        for each, methods in known:
            if each == pattern:
                methods[method] = endpoint
                return
        known.append((pattern, {method: endpoint}))

    def find(self, path: str) -> tuple[Mapping[str, Endpoint], dict[str, str]] | None:
        """Return the endpoints of a path by method, and the parts of the path by name."""
        segments = path.strip("/").split("/")
        for pattern, methods in self._rows.get(len(segments), ()):
            parts = {}
            for wanted, given in zip(pattern, segments, strict=True):
                if wanted[:1] == "{":
                    parts[wanted[1:-1]] = unquote(given)
                elif wanted != given:
                    break
            else:
                return methods, parts
        return None
