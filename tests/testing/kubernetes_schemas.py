"""Kubernetes' own schemas, from a package, as kubeconform reads them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

VERSION: Final = "v1.35.0"
_DEFINITIONS: Final = "/api/_definitions.json#"


def kubernetes_schemas(folder: Path) -> str:
    """Write the schemas into the folder, so that an unknown field is an error, and return where
    kubeconform finds that of a kind."""
    found = find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        pytest.skip("kubernetes-validate is not installed: make peers")
    source = Path(found.origin).parent / "kubernetes-json-schema" / f"{VERSION}-local"
    for each in source.glob("*.json"):
        if each.name == "all.json":
            continue
        schema = json.loads(each.read_text().replace(_DEFINITIONS, _DEFINITIONS[5:]))
        for part in (schema, *schema.get("$defs", {}).values()):
            _close(part)
        (folder / each.name).write_text(json.dumps(schema))
    return f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _close(schema: dict[str, Any]) -> None:
    schema.pop("$id", None)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
