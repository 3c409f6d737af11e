"""The command that installs what an extra of moldau needs.

    install_command("avro")  ->  pip install 'fastavro>=1.9' 'httpcore2[asyncio]>=2.16'

The packages come from the metadata of the installed distributions. So the command works wherever
moldau itself came from: a clone, a folder of wheels or an index.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from moldau.runtime.packages import installed_packages, normalized

_PREFIX: Final = "moldau-"
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_OWN: Final = re.compile(r"moldau-[a-z]+\[([^\]]+)\]")


def install_command(*extras: str, also: Iterable[str] = ()) -> str:
    """Return the line that installs the packages of these extras, and those of `also`."""
    needed = dict.fromkeys(each for extra in extras for each in _requirements(extra, set()))
    if not needed and extras:
        needed = {f"moldau[{','.join(extras)}]": None}
    return " ".join(("pip install", *map(shlex.quote, (*needed, *also))))


def _requirements(extra: str, seen: set[str]) -> Iterator[str]:
    """Yield the packages of an extra. An extra may name another one of moldau's."""
    if extra in seen:
        return
    seen.add(extra)
    for requirement, name in _declared():
        if name != extra:
            continue
        own = _OWN.match(requirement)
        if own is None:
            yield requirement
            continue
        for each in own.group(1).split(","):
            yield from _requirements(each.strip(), seen)


def _declared() -> Iterator[tuple[str, str]]:
    """Yield each requirement of the installed distributions that belongs to an extra, with it."""
    for package in installed_packages():
        if not normalized(package.basename).startswith(_PREFIX):
            continue
        try:
            lines = package.requirements()
        except (OSError, ValueError):
            continue
        for line in lines:
            requirement, _, marker = line.partition(";")
            match = _EXTRA.search(marker)
            if match is not None:
                yield requirement.strip(), match.group(1)
