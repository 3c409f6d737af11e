"""The inputs that are kept: one text file a target, one input a line, `label base64`.

Text, so that a diff shows what was added and the repository holds no binaries. Seeds are made by
the target and can be made again; a line whose label begins with `crash-` was found, and stays.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
CRASH = "crash-"

Input = tuple[str, bytes]


def load(target: str, folder: Path = FOLDER) -> list[Input]:
    """All inputs of a target with their labels; none where nothing was kept yet."""
    path = folder / f"{target}.txt"
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines()
    return [_parse(line) for line in lines if line and not line.startswith("#")]


def save(target: str, inputs: Iterable[Input], folder: Path = FOLDER) -> None:
    """Write the file anew: sorted by label, one line for each different input."""
    unique = {data: label for label, data in sorted(inputs, reverse=True)}
    lines = sorted(f"{label} {_text(data)}" for data, label in unique.items())
    folder.mkdir(exist_ok=True)
    (folder / f"{target}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def keep_crash(target: str, data: bytes, folder: Path = FOLDER) -> str:
    """Add an input that broke something; returns its label."""
    label = CRASH + hashlib.sha256(data).hexdigest()[:12]
    save(target, [*load(target, folder), (label, data)], folder)
    return label


def renew(target: str, seeds: Iterable[Input], folder: Path = FOLDER) -> None:
    """Replace the seeds, keep what was found."""
    found = [each for each in load(target, folder) if each[0].startswith(CRASH)]
    save(target, [*seeds, *found], folder)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii") or "="


def _parse(line: str) -> Input:
    label, _, text = line.partition(" ")
    return label, b"" if text == "=" else base64.b64decode(text, validate=True)
