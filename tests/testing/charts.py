"""The Helm chart: helm on it, what it renders, and the processes that its pods would be."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.peers.eventually import eventually
from tests.testing.images import DOCKER, Machine, Service

CHART: Final = DOCKER / "helm" / "moldau"
MOUNTS: Final = "/etc/moldau"
SHOP: Final = """
security:
  enabled: true
users:
  shop:
    secret: shop-login
    acls:
      - {allow: [READ, WRITE, DESCRIBE], resource: "topic:shop-*"}
      - {allow: READ, resource: "group:shop-*"}
"""
EVERYTHING: Final = f"""{SHOP}
topics: {{shop-orders: {{partitions: 3}}}}
quotas: [{{user: shop, producer_byte_rate: 100000000}}]
brokers: {{shards: 2, pod: {{tolerations: [{{key: kafka, operator: Exists}}]}}}}
rack: {{nodeLabel: topology.kubernetes.io/zone}}
external: {{enabled: true, hosts: [a.example.org, b.example.org, c.example.org]}}
networkPolicy: {{enabled: true}}
metrics: {{serviceMonitor: true, prometheusRule: true}}
connect: {{enabled: true}}
registry: {{enabled: true}}
console: {{enabled: true}}
"""


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart. `.ci/run` says how it is built where it is not installed."""
    return subprocess.run(  # noqa: S603
        [program("helm"), *words], capture_output=True, text=True, check=False
    )


def rendered(values: str, *more: str, release: str = "kafka") -> list[dict[str, Any]]:
    """The objects of the chart, released under this name."""
    done = helm("template", release, str(CHART), "--set", values, *more)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def containers(objects: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each workload with its container."""
    for each in objects:
        if each["kind"] in ("StatefulSet", "Deployment"):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            yield each, container


def program(name: str) -> str:
    """The path of a program that go may have built, as `.ci/run` says."""
    go = Path.home() / "go" / "bin"
    found = shutil.which(name, path=f"{os.environ['PATH']}:{go}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def content(each: dict[str, Any]) -> dict[str, str]:
    """The files of a Secret or ConfigMap."""
    if each["kind"] == "ConfigMap":
        return dict(each["data"])
    coded = {name: b64decode(text).decode() for name, text in each.get("data", {}).items()}
    return {**coded, **each.get("stringData", {})}


def mount(machine: Machine, pod: dict[str, Any], objects: list[dict[str, Any]], name: str) -> None:
    """Write the files of the pod's Secrets and ConfigMaps, as for all pods of this machine."""
    named = {
        (each["kind"], each["metadata"]["name"]): content(each)
        for each in objects
        if each["kind"] in ("Secret", "ConfigMap")
    }
    volumes = {each["name"]: each for each in pod["volumes"]}
    (container,) = pod["containers"]
    for each in container["volumeMounts"]:
        volume = volumes.get(each["name"], {})
        if "secret" in volume:
            files = named["Secret", volume["secret"]["secretName"]]
        elif "configMap" in volume:
            files = named["ConfigMap", volume["configMap"]["name"]]
        else:
            continue
        folder = Path(mounted(machine, each["mountPath"]))
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(mounted(machine, machine.here(name, text)))


def mounted(machine: Machine, text: str) -> str:
    """The same text with the places of mounted files on this machine."""
    return text.replace(MOUNTS, f"{machine.folder}/mounts")


def variables(
    machine: Machine, container: dict[str, Any], pod: str, objects: list[dict[str, Any]]
) -> dict[str, str]:
    """The environment of a container."""
    secrets = {
        each["metadata"]["name"]: content(each) for each in objects if each["kind"] == "Secret"
    }
    found = {}
    for each in container["env"]:
        source = each.get("valueFrom", {}).get("secretKeyRef")
        value = each.get("value", pod) if source is None else secrets[source["name"]][source["key"]]
        found[each["name"]] = mounted(machine, value)
    return found


def await_ready(machine: Machine, running: Service) -> None:
    """The readiness page answers, or the process ended."""
    url = machine.here(running.name, "http://localhost:9404/readyz")

    def is_ready() -> bool:
        assert running.process.poll() is None, running.log.read_text()
        done = subprocess.run(["curl", "-fsS", url], capture_output=True, check=False)  # noqa: S603, S607
        return done.returncode == 0

    eventually(is_ready, within_s=120)
