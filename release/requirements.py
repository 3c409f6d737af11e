"""The file by which an installer takes what was built, and nothing else of the same names.

    pip install --no-deps -r dist/moldau.txt && pip install moldau

An installer that looks into a folder and into an index takes the newest version of both, also a
stranger's of an index. So the file names our wheels alone, by version and hash, and no index. The
second command finds moldau installed, and brings the packages of others that it needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NAME: Final = "moldau.txt"
_HEAD: Final = f"""\
# pip install --no-deps -r {NAME} && pip install moldau
# The first command takes nothing but these wheels, the second one the packages of others.
--no-index
--find-links .
"""


def write_requirements(out: Path, archives: Iterable[Path]) -> Path:
    """Write the file beside the archives, and return its path."""
    hashes: dict[str, list[str]] = {}
    for wheel in sorted(each for each in archives if each.suffix == ".whl"):
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        hashes.setdefault(f"{name.replace('_', '-')}=={version}", []).append(digest)
    lines = [
        " \\\n    ".join([pin, *(f"--hash=sha256:{each}" for each in digests)])
        for pin, digests in hashes.items()
    ]
    written = out / NAME
    written.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return written
