"""The values of the Helm chart: their types, their table in the guide, and the guide's examples."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.testing.charts import CHART, helm, rendered

pytestmark = pytest.mark.real

GUIDE: Final = CHART.parents[2] / "docs" / "containers.md"
SECURE_LINES_MAX: Final = 10
"""Of the values for a chart with TLS, logins and a user."""
SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())


def kubernetes() -> str:
    """The guide's section about the chart."""
    return GUIDE.read_text("utf-8").partition("## Kubernetes")[2].partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", kubernetes(), re.DOTALL)
    return [str(each) for each in found]


def leaves(values: Any, path: str = "") -> Iterator[str]:
    """Settings have names of their own, and count as one."""
    if isinstance(values, dict) and values and path != "settings":
        for name, value in values.items():
            yield from leaves(value, f"{path}.{name}".removeprefix("."))
    else:
        yield path


def in_the_table() -> set[str]:
    """The names in the table; `.kind` is beside the one before it."""
    names = set()
    for row in kubernetes().partition("### All values")[2].splitlines():
        beside = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]) if row.startswith("| `") else ():
            full = f"{beside}{name}" if name.startswith(".") else name
            beside = full.rpartition(".")[0] if full is name else beside
            names.add(full)
    return names


def typed(path: str) -> bool:
    """Whether the schema has a value of its own for this path."""
    at = SCHEMA
    for name in path.split("."):
        at = at.get("properties", {}).get(name, {})
        at = SCHEMA["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at
    return bool(at)


def test_each_value_is_typed_and_stands_in_the_table() -> None:
    values = set(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert len(values) > 50
    assert [each for each in sorted(values) if not typed(each)] == []
    assert values ^ in_the_table() == set()


@pytest.mark.parametrize(("values", "told"), [
    ("brokers.replica=5", "at '/brokers': additional properties 'replica' not allowed"),
    ("broker.replicas=5", "additional properties 'broker' not allowed"),
    ("users.shop.password=p", "at '/users/shop': additional properties 'password' not allowed"),
    ("brokers.pod.toleration=x", "at '/brokers/pod': additional properties 'toleration'"),
    ("console.login.oidc.isuer=x", "'isuer' not allowed"),
    ("brokers.replicas=three", "at '/brokers/replicas': got string, want integer"),
    ("brokers.shards=0", "at '/brokers/shards': minimum: got 0, want 1"),
    ("security.enabled=yes", "at '/security/enabled': got string, want boolean"),
    ("settings.num\\.partitions={3}", "at '/settings/num.partitions': got array"),
    ("external.type=ClusterIP", "at '/external/type': value must be one of 'NodePort'"),
    ("brokers.storage=10GB", "at '/brokers/storage': '10GB' does not match"),
])  # fmt: skip
def test_a_mistyped_value_is_named(values: str, told: str) -> None:
    done = helm("template", "kafka", str(CHART), "--set", values)
    assert done.returncode != 0
    (line,) = (each for each in done.stderr.splitlines() if each.startswith("- at "))
    assert told in line


def test_the_values_of_the_guide_are_taken(tmp_path: Path) -> None:
    written = blocks("yaml")
    assert len(written) > 1
    path = tmp_path / "values.yaml"
    for each in written:
        path.write_text(each)
        rendered("brokers.replicas=3", "-f", str(path))
    for each in re.findall(r"^helm install (.*?[^\\])$", kubernetes(), re.DOTALL | re.MULTILINE):
        name, _, *words = shlex.split(each.replace("\\\n", " ").replace("values.yaml", str(path)))
        rendered("brokers.replicas=3", *words, release=name)


def test_few_lines_make_the_chart_secure(tmp_path: Path) -> None:
    (values, *_) = (each for each in blocks("yaml") if "security:" in each)
    assert len(values.splitlines()) <= SECURE_LINES_MAX
    path = tmp_path / "values.yaml"
    path.write_text(values)
    objects = rendered("brokers.replicas=3", "-f", str(path))
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Secret"}
    assert {"kafka-authority", "kafka-tls", "kafka-admin"} <= made
    (document,) = (
        yaml.safe_load(each["data"]["cluster.yaml"])
        for each in objects
        if each["metadata"]["name"] == "kafka-apply" and each["kind"] == "ConfigMap"
    )
    assert document["users"].keys() == {"admin", "shop"}


def test_a_setting_that_is_a_number_keeps_its_digits(tmp_path: Path) -> None:
    """Helm reads the numbers of a file as floats."""
    path = tmp_path / "values.yaml"
    path.write_text(
        "settings: {log.retention.ms: 604800000, log.cleaner.min.cleanable.ratio: 0.25}\n"
        "connect: {enabled: true, settings: {offset.flush.interval.ms: 60000000}}\n"
    )
    text = yaml.safe_dump(rendered("brokers.replicas=3", "-f", str(path)))
    assert text.count("value: '604800000'") == text.count("value: '0.25'") == 2
    assert "offset.flush.interval.ms=60000000" in text
