"""A wheel with one module more, and so for one platform: made of the wheel for everywhere.

What both have in common is equal in both, to the byte; the same input makes the same wheel.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import zipfile
from pathlib import Path


def with_module(plain: Path, name: Path, module: Path, tag: str) -> Path:
    """Write a wheel beside `plain` that also has `module` under `name`, and return its path.
    `tag` is as in the name of a wheel: `cp311-cp311-musllinux_1_2_x86_64`."""
    distribution, version = plain.name.split("-")[:2]
    info = f"{distribution}-{version}.dist-info"
    made = plain.with_name(f"{distribution}-{version}-{tag}.whl")
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(made, "w") as target:
        contents = {each: source.read(each) for each in source.infolist()}
        record = next(each for each in contents if each.filename == f"{info}/RECORD")
        wheel = next(each for each in contents if each.filename == f"{info}/WHEEL")
        del contents[record]
        contents[wheel] = _retagged(contents[wheel].decode(), tag).encode()
        added = zipfile.ZipInfo(name.as_posix(), wheel.date_time)
        added.external_attr = 0o100755 << 16
        contents[added] = module.read_bytes()
        lines = []
        for each, content in contents.items():
            _write(target, each, content)
            lines.append(f"{each.filename},sha256={_digest(content)},{len(content)}\n")
        _write(target, record, "".join([*lines, f"{info}/RECORD,,\n"]).encode())
    return made


def _retagged(wheel: str, tag: str) -> str:
    """The text of WHEEL for a wheel that fits one platform."""
    python, abi, platforms = tag.split("-")
    kept = [line for line in wheel.splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib"))]
    single = itertools.product(python.split("."), abi.split("."), platforms.split("."))
    tags = [f"Tag: {'-'.join(each)}" for each in single]
    return "\n".join([*filter(None, kept), "Root-Is-Purelib: false", *tags, ""])


def _write(target: zipfile.ZipFile, entry: zipfile.ZipInfo, content: bytes) -> None:
    target.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _digest(content: bytes) -> str:
    raw = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
