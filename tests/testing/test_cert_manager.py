"""The Helm chart's certificate by cert-manager fits the schema of its CRD. No controller runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema_rs import validator_for

from tests.testing.charts import SHOP, rendered

pytestmark = pytest.mark.real

MODULE: Final = "github.com/cert-manager/cert-manager@v1.21.2"
VALUES: Final = f"""{SHOP}
external: {{enabled: true, hosts: [a.example.org, 203.0.113.9, "[2001:db8::1]"]}}
"""


def crds() -> list[dict[str, Any]]:
    """The definitions in cert-manager's module, from Go's module proxy."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    done = subprocess.run(  # noqa: S603
        ["go", "mod", "download", "-json", MODULE],  # noqa: S607
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        pytest.skip(f"go gets no {MODULE} here: {done.stderr[-300:]}")
    folder = Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    return [yaml.safe_load(each.read_text()) for each in sorted(folder.glob("*.yaml"))]


def test_its_schemas_know_every_field_of_the_certificate(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(VALUES)
    words = ("-f", str(path), "--set", "security.certManager.issuer=company")
    (certificate,) = (
        each for each in rendered("brokers.replicas=3", *words) if each["kind"] == "Certificate"
    )
    (served,) = (
        version["schema"]["openAPIV3Schema"]
        for each in crds()
        for version in each["spec"]["versions"]
        if each["spec"]["names"]["kind"] == "Certificate" and version["name"] == "v1"
    )
    assert certificate["spec"]["ipAddresses"] == ["127.0.0.1", "203.0.113.9", "2001:db8::1"]
    known = validator_for(_closed(served))
    assert [each.message for each in known.iter_errors(certificate)] == []
    certificate["spec"]["dnsName"] = "a"
    assert "dnsName" in next(each.message for each in known.iter_errors(certificate))


def _closed(schema: Any) -> Any:
    """The same without fields that have no name in it, but for metadata, which is Kubernetes'."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
