"""The bill of materials of a release, as CycloneDX 1.6 in JSON.

It names our archives with their hashes, and every package that an installation with all extras may
bring, in the version that this repository pins. Licences come from the metadata of what is
installed here; a package that is not installed has none. The same archives give the same text.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from collections.abc import Iterable, Sequence
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, cast

from release.build import DISTRIBUTIONS, ROOT

NAME: Final = "moldau.cdx.json"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_OTHER_PLACE: Final = re.compile(r"sys_platform\s*==\s*['\"]win32|platform_system\s*==\s*['\"]Win")


def write_sbom(out: Path, archives: Iterable[Path]) -> Path:
    """Write the bill of materials beside the archives, and return its path."""
    written = out / NAME
    text = json.dumps(sbom(sorted(archives)), indent=2, sort_keys=True)
    written.write_text(f"{text}\n", encoding="utf-8")
    return written


def sbom(archives: Sequence[Path]) -> dict[str, Any]:
    """Return the document."""
    own = {"moldau", *(f"moldau-{each}" for each in DISTRIBUTIONS)}
    pins = _pins()
    components = [_archive(each) for each in archives]
    components += [_package(name, pins.get(name)) for name in sorted(_closure() - own)]
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    version = _manifest(ROOT)["project"]["version"]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "framework",
                "bom-ref": f"pkg:pypi/moldau@{version}",
                "name": "moldau",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/moldau@{version}",
            }
        },
        "components": components,
    }


def _archive(path: Path) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": path.name,
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def _package(name: str, version: str | None) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}" + (f"@{version}" if version else "")
    found: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "purl": purl}
    if version:
        found["version"] = version
    licence = _licence(name)
    if licence:
        found["licenses"] = [licence]
    return found


def _licence(name: str) -> dict[str, Any] | None:
    """Return the licence as its metadata state it: an expression, a short name or a classifier."""
    try:
        stated = cast("Message", distribution(name).metadata)
    except PackageNotFoundError:
        return None
    expression = stated.get("License-Expression")
    if expression:
        return {"expression": expression}
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in stated.get_all("Classifier") or ()
        if each.startswith("License :: ") and not each.endswith("OSI Approved")
    ]
    text = classifiers[0] if classifiers else (stated.get("License") or "").strip()
    return {"license": {"name": text}} if text and "\n" not in text else None


def _closure() -> set[str]:
    """Return every package that an installation with all extras may bring, by normal name."""
    seen: set[tuple[str, str]] = set()
    waiting = [
        each
        for folder in (ROOT, *(ROOT / each for each in DISTRIBUTIONS))
        for each in _declared(_manifest(folder)["project"])
    ]
    names: set[str] = set()
    while waiting:
        name, extras = _parsed(waiting.pop())
        names.add(name)
        for extra in ("", *extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _required_by(name, extra)
    return names


def _declared(project: dict[str, Any]) -> list[str]:
    optional = project.get("optional-dependencies", {}).values()
    return [*project.get("dependencies", ()), *(each for group in optional for each in group)]


def _required_by(name: str, extra: str) -> list[str]:
    """Return what an installed package needs, for one of its extras or without one."""
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        return []
    found = []
    for each in requirements:
        requirement, _, marker = each.partition(";")
        match = _EXTRA.search(marker)
        if (match.group(1) if match else "") == extra and not _OTHER_PLACE.search(marker):
            found.append(requirement)
    return found


def _parsed(requirement: str) -> tuple[str, list[str]]:
    match = _REQUIREMENT.match(requirement.strip())
    assert match is not None, requirement
    extras = [each.strip() for each in (match.group(2) or "").split(",") if each.strip()]
    return re.sub(r"[-_.]+", "-", match.group(1)).lower(), extras


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name: version for name, _, version in pairs}


def _manifest(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
