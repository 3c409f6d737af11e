"""Compiles .proto files by protoc, which runs inside this process (the package `grpcio-tools`).

protoc reads files, so the texts are written to a temporary folder first. It is removed again, and
nothing outside of it and of protoc's own files can be imported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from moldau.runtime.forks import import_whole


class ProtocFailed(Exception):
    """The text is no valid file, or an import is missing."""


def compile_proto(main: str, files: Mapping[str, str]) -> bytes:
    """Return the serialized FileDescriptorSet of the file `main` and of all that it imports.

    `files` are texts by name. Raise ProtocFailed.
    """
    tools: Any = import_whole("grpc_tools")
    compiler: Any = import_whole("grpc_tools._protoc_compiler")
    shipped = os.path.join(os.path.dirname(tools.__file__), "_proto")
    folder = tempfile.mkdtemp(prefix="moldau-proto-")
    try:
        for name, text in files.items():
            path = os.path.join(folder, _checked(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        places = [folder.encode(), shipped.encode()]
        try:
            compiler.get_protos(main.encode(), places)  # its errors are raised and not printed
        except compiler.ProtocErrors as error:
            raise ProtocFailed(_said(error)) from None
        target = os.path.join(folder, ".descriptors")
        words = [b"protoc", *(b"-I" + each for each in places), b"--include_imports"]
        words += [b"--descriptor_set_out=" + target.encode(), main.encode()]
        if compiler.run_main(words) != 0:
            raise ProtocFailed("protoc failed")
        with open(target, "rb") as made:
            return made.read()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _checked(name: str) -> str:
    """Return the name of a file. Raise ProtocFailed for one that would lie outside the folder."""
    parts = name.split("/")
    if not name or "\\" in name or "\0" in name or {"", ".", ".."} & set(parts):
        raise ProtocFailed(f"{name!r} is no name of a file that can be imported")
    return name


def _said(error: Exception) -> str:
    """Return protoc's errors: line, column and words."""
    found = error.args[0] if error.args else None
    if not isinstance(found, (list, tuple)):
        return str(error)
    return "; ".join(
        f"{_text(each.filename)}:{each.line + 1}:{each.column + 1}: {_text(each.message)}"
        for each in found
    )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
