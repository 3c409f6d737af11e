"""CRC-32C, the checksum of record batches: the compiled function of the package `crc32c`.

The package itself also imports its command line, the readers of metadata and those of archives.
That is a twentieth of a broker's start, so only its extension module is loaded here.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, Final

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"


def _extension() -> Any:
    package = find_spec(_PACKAGE)
    folders = None if package is None else package.submodule_search_locations
    found = PathFinder.find_spec(_EXTENSION, folders)
    if found is None or found.loader is None:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = _extension().crc32c

__all__ = ["crc32c"]
