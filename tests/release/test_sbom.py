"""The bill of materials: every package with its version and licence, the same each time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from release.sbom import sbom
from tests.architecture.pins import constraints


def test_it_names_archives_by_their_hashes_and_packages_by_their_pins(tmp_path: Path) -> None:
    archive = tmp_path / "moldau-0.1.0-py3-none-any.whl"
    archive.write_bytes(b"content")
    found = sbom([archive])
    components = {each["bom-ref"]: each for each in found["components"]}

    (digest,) = components[archive.name]["hashes"]
    assert digest == {"alg": "SHA-256", "content": hashlib.sha256(b"content").hexdigest()}
    pins = dict(line.split("==") for line in constraints() if not line.startswith("#"))
    for name in ("pydantic", "pydantic-core", "rocksdict", "starlette", "pyspark"):
        package = components[f"pkg:pypi/{name}@{pins[name]}"]
        assert package["version"] == pins[name]
    assert components[f"pkg:pypi/pydantic@{pins['pydantic']}"]["licenses"]
    assert not any(ref.startswith("pkg:pypi/moldau") for ref in components)
    assert sbom([archive]) == found


def test_another_archive_is_another_document(tmp_path: Path) -> None:
    archive = tmp_path / "moldau-0.1.0-py3-none-any.whl"
    archive.write_bytes(b"content")
    before = sbom([archive])["serialNumber"]
    archive.write_bytes(b"other")

    assert sbom([archive])["serialNumber"] != before
