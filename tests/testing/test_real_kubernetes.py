"""The Helm chart in a real Kubernetes: API server, admission, controllers and scheduler.

No container runs there: what pods start is run by `test_secure_chart`.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chaos.older import ROOT, older_commit
from tests.peers.eventually import eventually
from tests.testing.charts import CHART, EVERYTHING, content
from tests.testing.control_plane import Api, Kubelet, Object, Refused, control_plane, make_volumes

pytestmark = [pytest.mark.real, pytest.mark.deep]

WITHIN: Final = ("--wait", "--timeout", "10m")
TAKEN: Final = EVERYTHING.replace(
    "metrics: {serviceMonitor: true, prometheusRule: true}\n", ""
)  # kinds of Prometheus' operator
PASSWORD: Final = {"kind": "Secret", "apiVersion": "v1", "stringData": {"password": "a-long-one"}}
STRICT: Final = {
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Service": "/api/v1/namespaces/{}/services",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Kubelet]]:
    with control_plane(tmp_path_factory.mktemp("kubernetes")) as (api, kubelet):
        make_volumes(api, 12, "10Gi")
        make_volumes(api, 12, "2Gi")
        yield api, kubelet
        assert kubelet.problem is None, kubelet.problem


def made_namespace(api: Api, name: str) -> str:
    """A namespace that takes pods of Kubernetes' strictest standard only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    login = {**PASSWORD, "metadata": {"name": "shop-login"}}
    api.ask("POST", f"/api/v1/namespaces/{name}/secrets", login)
    return name


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    assert "would violate" not in done.stderr, done.stderr
    return done.stdout


def secret(api: Api, space: str, name: str) -> dict[str, str]:
    return content(api.ask("GET", f"/api/v1/namespaces/{space}/secrets/{name}"))


def pods(api: Api, space: str, part: str) -> dict[str, Object]:
    found = api.items(f"/api/v1/namespaces/{space}/pods")
    return {
        each["metadata"]["name"]: each
        for each in found
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == part
    }


def test_a_secure_chart_is_installed_scaled_and_taken_away_one_by_one(
    cluster: tuple[Api, Kubelet], tmp_path: Path
) -> None:
    api, kubelet = cluster
    space = made_namespace(api, "shop")
    values = tmp_path / "values.yaml"
    values.write_text(TAKEN)
    words = ["kafka", str(CHART), "-n", space, "-f", str(values)]
    good(api.helm("install", *words, *WITHIN))

    brokers = pods(api, space, "broker")
    assert brokers.keys() == {f"kafka-broker-{each}" for each in range(3)}
    hosts = {each["spec"]["nodeName"] for each in brokers.values()}
    assert len(hosts) == 3, "each has a host of its own"
    (applied,) = pods(api, space, "apply").values()
    assert applied["status"]["phase"] == "Succeeded", "the job has run after the installation"
    claims = api.items(f"/api/v1/namespaces/{space}/persistentvolumeclaims")
    assert [each["status"]["phase"] for each in claims] == ["Bound"] * 6
    assert {len(addresses(api, space, f"kafka-{each}")) for each in ("bootstrap", "broker")} == {3}
    assert may(api, space, "get", "nodes")
    assert not may(api, space, "list", "secrets")
    assert not may(api, space, "get", "pods")

    before = {each: secret(api, space, f"kafka-{each}") for each in ("authority", "tls", "admin")}
    good(api.helm("upgrade", *words, *WITHIN))
    assert before == {each: secret(api, space, f"kafka-{each}") for each in before}, "all is kept"
    more = "brokers.replicas=5,external.hosts={a.example,b.example,c.example,d.example,e.example}"
    good(api.helm("upgrade", *words, "--set", more, *WITHIN))
    assert len(pods(api, space, "broker")) == 5
    after = {each: secret(api, space, f"kafka-{each}") for each in before}
    assert after["authority"] == before["authority"]
    assert after["admin"] == before["admin"]
    assert after["tls"] != before["tls"], "the new brokers' names are in the certificate"

    budget = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/kafka-broker"
    eventually(lambda: api.ask("GET", budget)["status"]["disruptionsAllowed"] == 1, within_s=60)
    kubelet.unready.add("kafka-broker-0")
    evict(api, space, "kafka-broker-0")
    eventually(lambda: api.ask("GET", budget)["status"]["disruptionsAllowed"] == 0, within_s=60)
    with pytest.raises(Refused, match="disruption budget") as refused:
        evict(api, space, "kafka-broker-1")
    assert refused.value.code == 429
    kubelet.unready.clear()
    eventually(lambda: api.ask("GET", budget)["status"]["disruptionsAllowed"] == 1, within_s=60)
    good(api.helm("uninstall", "kafka", "-n", space))


def addresses(api: Api, space: str, service: str) -> set[str]:
    """The addresses behind a service, as its controller sees them."""
    label = f"kubernetes.io/service-name%3D{service}"
    path = f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices?labelSelector={label}"
    endpoints = [each for part in api.items(path) for each in part["endpoints"] or ()]
    return {each["addresses"][0] for each in endpoints}


def may(api: Api, space: str, verb: str, resource: str) -> bool:
    """Whether the service account of the nodes may do that."""
    review = {
        "spec": {
            "user": f"system:serviceaccount:{space}:kafka",
            "resourceAttributes": {"verb": verb, "resource": resource, "namespace": space},
        }
    }
    asked = api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(asked["status"].get("allowed"))


def evict(api: Api, space: str, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    api.ask("POST", f"/api/v1/namespaces/{space}/pods/{pod}/eviction", eviction)


def test_the_api_server_knows_every_field(cluster: tuple[Api, Kubelet], tmp_path: Path) -> None:
    """Helm lets an unknown field pass with a warning."""
    import yaml

    api, _ = cluster
    space = made_namespace(api, "strict")
    values = tmp_path / "values.yaml"
    values.write_text(TAKEN)
    text = good(api.helm("template", "kafka", str(CHART), "-n", space, "-f", str(values)))
    objects: list[Any] = [each for each in yaml.safe_load_all(text) if each]
    seen = set()
    for each in objects:
        if each["kind"] in STRICT:
            seen.add(each["kind"])
            path = STRICT[each["kind"]].format(space)
            api.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", each)
    assert seen == STRICT.keys()
    (planted, *_) = (each for each in objects if each["kind"] == "StatefulSet")
    planted["spec"]["serviceNames"] = "kafka"
    path = STRICT["StatefulSet"].format(space)
    with pytest.raises(Refused, match="serviceNames"):
        api.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", planted)


def test_a_release_of_the_last_version_is_upgraded(
    cluster: tuple[Api, Kubelet], tmp_path: Path
) -> None:
    api, _ = cluster
    space = made_namespace(api, "older")
    api.ask("PATCH", f"/api/v1/namespaces/{space}", UNRESTRICTED, kind="merge")
    archive = subprocess.run(  # noqa: S603 (our own command)
        ["git", "-C", str(ROOT), "archive", older_commit(), "docker"],  # noqa: S607
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tmp_path, filter="data")
    older = tmp_path / "docker" / "helm" / "moldau"
    values = tmp_path / "values.yaml"
    values.write_text("security: {enabled: true}\nusers: {shop: {secret: shop-login}}\n")
    words = ["-n", space, "-f", str(values), *WITHIN]
    good(api.helm("install", "kafka", str(older), *words))
    before = {each: secret(api, space, f"kafka-{each}") for each in ("authority", "tls", "admin")}
    good(api.helm("upgrade", "kafka", str(CHART), *words))
    assert before == {each: secret(api, space, f"kafka-{each}") for each in before}
    images = {
        each["spec"]["containers"][0]["image"] for each in pods(api, space, "broker").values()
    }
    version = (CHART / "Chart.yaml").read_text().rpartition("appVersion: ")[2].strip()
    assert images == {f"moldau:{version}"}, "each broker has been restarted"


UNRESTRICTED: Final = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
