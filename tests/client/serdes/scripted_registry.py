"""A Schema Registry in memory, which refuses, stalls and hangs up when a test says so.

It speaks HTTP through h11's server side, in the simulator as well as on real sockets, and keeps
what Confluent's does: ids are for schemas, versions for subjects.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from moldau.runtime import Runtime

PORT = 8081


@dataclass
class Asked:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedRegistry:
    """The store, and what happens to the next requests."""

    refuse: deque[int] = field(default_factory=deque)
    hang_up: deque[bool] = field(default_factory=deque)
    """For each of the next requests whether the connection ends instead of an answer, which is all
    that does not happen."""
    stalls: bool = False
    stalled: threading.Event = field(default_factory=threading.Event)
    """Whether somebody waits for ever."""
    closes_after_answer: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    """Whether a connection has ended."""
    connections: int = 0
    """How many came."""
    asked: list[Asked] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    instead: dict[str, tuple[int, bytes, str]] = field(default_factory=dict)
    """Status, body and Location of the answers for a path, where it is not the registry's own."""
    by_format: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What a schema is in a format that is asked for by name."""

    def counts(self) -> Counter[str]:
        return Counter(f"{each.method} {each.path}" for each in self.asked)

    def main(self) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
        """For a node of a simulation."""

        async def serve(runtime: Runtime) -> None:
            async with await runtime.network.serve_streams(self.serve, None, PORT):
                await asyncio.Event().wait()

        return serve

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            talk = h11.Connection(our_role=h11.SERVER)
            while (asked := await self._next(talk, reader)) is not None:
                self.asked.append(asked)
                status, body = self._answer(asked)
                if self.hang_up and self.hang_up.popleft():
                    return
                if self.stalls:
                    self.stalled.set()
                    await asyncio.Event().wait()
                data, location = json.dumps(body).encode(), ""
                if asked.path in self.instead:
                    status, data, location = self.instead[asked.path]
                headers = [("Content-Length", str(len(data)))]
                headers += [("Location", location)] if location else []
                writer.write(talk.send(h11.Response(status_code=status, headers=headers)) or b"")
                writer.write(talk.send(h11.Data(data=data)) or b"")
                writer.write(talk.send(h11.EndOfMessage()) or b"")
                await writer.drain()
                if self.closes_after_answer:
                    return
                talk.start_next_cycle()
        except (OSError, h11.RemoteProtocolError):
            return
        finally:
            writer.close()
            self.ended.set()

    async def _next(self, talk: h11.Connection, reader: asyncio.StreamReader) -> Asked | None:
        request, body = None, b""
        while True:
            event = talk.next_event()
            if event is h11.NEED_DATA:
                talk.receive_data(await reader.read(1000))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
        assert request is not None
        url = urlsplit(request.target.decode())
        headers = {name.decode(): value.decode() for name, value in request.headers}
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        loaded = json.loads(body) if body else None
        return Asked(request.method.decode(), url.path, query, headers, loaded)

    def _answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.path in self.instead:
            return 200, None
        if self.refuse and (status := self.refuse.popleft()) != 200:
            return status, {"error_code": status * 100 + 1, "message": "as the test wants it"}
        parts = [unquote(each) for each in asked.path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            in_format = self.by_format.get(asked.query.get("format", ""))
            return self._by_id(int(parts[2])) if in_format is None else (200, in_format)
        if parts[:2] == ["schemas", "guids"]:  # here an id, written as a GUID
            return self._by_id(int(parts[2].replace("-", ""), 16))
        if parts[0] == "compatibility":  # of new versions: only a field with a default is tried
            return 200, {"is_compatible": bool(self.subjects.get(parts[2]))}
        if parts[0] != "subjects":
            return 404, {"error_code": 404, "message": "no such page"}
        if len(parts) == 1:
            return 200, list(self.subjects)
        if asked.method == "POST":
            return self._posted(parts, asked.body)
        if asked.method == "DELETE":
            return self._deleted(parts[1], parts[3])
        if len(parts) == 3:
            return 200, list(range(1, len(self.subjects.get(parts[1], [])) + 1))
        return self._version(parts[1], parts[3])

    def put(self, subject: str, schema: dict[str, Any]) -> int:
        """Registers; gives the id."""
        if schema not in self.texts:
            self.texts.append(schema)
        found = self.texts.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    def _by_id(self, schema_id: int) -> tuple[int, Any]:
        if not 0 < schema_id <= len(self.texts):
            return 404, {"error_code": 40403, "message": f"Schema {schema_id} not found"}
        return 200, self.texts[schema_id - 1]

    def _posted(self, parts: list[str], schema: dict[str, Any]) -> tuple[int, Any]:
        if len(parts) == 3:
            return 200, {"id": self.put(parts[1], schema)}
        versions = self.subjects.get(parts[1], [])
        if schema in self.texts and self.texts.index(schema) + 1 in versions:
            found = versions.index(self.texts.index(schema) + 1)
            return self._version(parts[1], str(found + 1))
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _deleted(self, subject: str, version: str) -> tuple[int, Any]:
        """Only the last version of a subject goes."""
        versions = self.subjects.get(subject, [])
        number = len(versions) if version in ("latest", "-1") else int(version)
        if not versions or number != len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        versions.pop()
        return 200, number

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self.subjects.get(subject)
        if not versions:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(versions) if version == "latest" else int(version)
        schema_id = versions[number - 1]
        named = {"subject": subject, "version": number, "id": schema_id}
        return 200, {**named, **self.texts[schema_id - 1]}
