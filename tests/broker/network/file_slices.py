"""Answers with slices of files, and how a client receives one."""

from __future__ import annotations

from typing import Any, cast

from moldau.broker.network import Request
from moldau.protocol.declare import Response
from moldau.runtime import Runtime
from moldau.runtime.files import File

MEBIBYTE = 1 << 20


class FilePiece:
    """A slice of a file, as the log gives them."""

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.read_bytes = 0

    def __len__(self) -> int:
        return self.size

    def read_at(self, start: int, size: int) -> bytes:
        self.read_bytes += size
        return self.file.read_at(self.position + start, size)

    def fileno(self) -> int | None:
        return self.file.fileno()


class InParts:
    """An answer that is made of these parts."""

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def encode_parts(self, version: int) -> list[Any]:
        return self.parts


def give(request: Request, *parts: Any) -> None:
    request.answer(cast(Response, InParts(*parts)))


def slice_file(runtime: Runtime, size: int) -> tuple[File, bytes]:
    folder = runtime.files.temporary_dir()
    content = bytes(range(251)) * (size // 251 + 1)
    file = runtime.files.open(f"{folder}/slices", "create")
    file.append(content[:size])
    # Open handles go on.
    runtime.files.remove_tree(folder)
    return file, content[:size]


async def received(client: Any) -> bytes:
    size = int.from_bytes(await client.reader.readexactly(4), "big")
    return bytes(await client.reader.readexactly(size))[5:]
