"""The Helm chart with TLS, logins and rules: what it renders, and what its pods start."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.errors.codes import ErrorCode, KafkaError
from tests.peers.eventually import eventually
from tests.testing.chart_processes import Running, apply, nodes, of_kind
from tests.testing.charts import (
    CHART,
    EVERYTHING,
    SHOP,
    containers,
    helm,
    mounted,
    program,
    rendered,
)
from tests.testing.images import environment
from tests.testing.kubernetes_schemas import kubernetes_schemas

pytestmark = pytest.mark.real

ONE_CONTROLLER: Final = ("--set", "controllers.replicas=1")
CUSTOM: Final = "ServiceMonitor,PrometheusRule,Certificate"
"""Kinds that are not Kubernetes' own."""


def chart(folder: Path, values: str, *more: str) -> list[dict[str, Any]]:
    path = folder / "values.yaml"
    path.write_text(values)
    return rendered("brokers.replicas=3", "-f", str(path), *more)


@pytest.mark.deep
@pytest.mark.parametrize("values", ["{}", SHOP, EVERYTHING])
def test_kubernetes_knows_every_field(tmp_path: Path, values: str) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(values)
    done = helm("lint", "--strict", str(CHART), "-f", str(path))
    assert done.returncode == 0, done.stdout
    text = helm("template", "kafka", str(CHART), "-f", str(path)).stdout
    (tmp_path / "schemas").mkdir()
    where = kubernetes_schemas(tmp_path / "schemas")

    def conformed(manifest: str) -> subprocess.CompletedProcess[str]:
        words = [program("kubeconform"), "-schema-location", where, "-skip", CUSTOM, "-"]
        return subprocess.run(  # noqa: S603
            words, input=manifest, capture_output=True, text=True, check=False
        )

    assert conformed(text).returncode == 0, conformed(text).stdout
    planted = conformed(text.replace("serviceName:", "serviceNames:", 1))
    assert "'serviceNames' not allowed" in planted.stdout


def test_the_parts_of_a_secure_chart_fit_together(tmp_path: Path) -> None:
    objects = chart(tmp_path, EVERYTHING)
    accounts = of_kind(objects, "ServiceAccount")
    ports = {"kafka": 9092, "kafka-1": 9093, "inner-0": 9192, "inner-1": 9193}
    for each, container in containers(objects):
        pod = each["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] in accounts
        assert not pod["automountServiceAccountToken"]
        volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
        assert {given["name"] for given in container["volumeMounts"]} <= volumes
        if container["name"] == "broker":
            assert "--insecure" not in container["args"][0]
            assert pod["tolerations"] == [{"key": "kafka", "operator": "Exists"}]
            assert pod["terminationGracePeriodSeconds"] > 120
            found = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert ports.items() <= found.items()
    outside = of_kind(objects, "Service")["kafka-external-2"]["spec"]
    assert [port["nodePort"] for port in outside["ports"]] == [31096, 31097]
    alerts = of_kind(objects, "PrometheusRule")["kafka"]["spec"]["groups"]
    known = CHART.parents[1] / "monitoring" / "alerts.yml"
    assert alerts == yaml.safe_load(known.read_text())["groups"]
    (job,) = of_kind(objects, "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    managed = chart(tmp_path, EVERYTHING, "--set", "security.certManager.issuer=company")
    certificate = of_kind(managed, "Certificate")["kafka-tls"]["spec"]
    assert certificate["secretName"] not in of_kind(managed, "Secret")
    assert {"kafka-broker-2.kafka-broker", "a.example.org"} <= {*certificate["dnsNames"]}


@pytest.mark.parametrize(("values", "told"), [
    ("external.enabled=true", "external.enabled needs security.enabled"),
    ("security.enabled=true,external.enabled=true", "one host for each of brokers.replicas"),
    ("users.shop.secret=s", "applied with security.enabled only"),
    ("security.enabled=true,users.shop.acls=null", "users.shop.secret"),
    ("security.enabled=true,users.admin.secret=s", "admin is there already"),
    ("brokers.shards=2,controllers.replicas=0", "brokers.shards needs controllers"),
])  # fmt: skip
def test_secure_values_that_cannot_work_are_refused(values: str, told: str) -> None:
    done = helm("template", "kafka", str(CHART), "--set", values)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.deep
def test_what_a_secure_chart_starts_serves_the_users_of_its_values(tmp_path: Path) -> None:
    """A controller and three brokers, with commands, files and variables of their pods; the job;
    two clients."""
    objects = chart(tmp_path, SHOP, *ONE_CONTROLLER)
    password = {"password": "p1"}
    objects.append({"kind": "Secret", "metadata": {"name": "shop-login"}, "stringData": password})
    with nodes(tmp_path, objects) as running:
        apply(running)
        _serves(running)
        _renews(running, chart(tmp_path, SHOP, *ONE_CONTROLLER))
        broker = of_kind(objects, "StatefulSet")["kafka-broker"]
        (container,) = broker["spec"]["template"]["spec"]["containers"]
        hook = container["lifecycle"]["preStop"]["exec"]["command"]
        done = subprocess.run(  # noqa: S603
            [mounted(running.machine, each) for each in hook],
            env=environment({"POD": "kafka-broker-0"}),
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        assert "nothing is at risk" in done.stdout, done
        brokers_first = sorted(running.services.items(), key=lambda each: "controller" in each[0])
        assert [each.stop() for _, each in brokers_first] == [0] * 4


def _serves(running: Running) -> None:
    shop = running.client("shop", "p1")
    with Admin(running.administrator()) as client:
        client.create_topics([NewTopic("shop-orders", 1, 3), NewTopic("payroll", 1, 3)])
    with Producer({**shop, "acks": "all"}) as producer:
        producer.send("shop-orders", b"hello").result(30)
        with pytest.raises(KafkaError) as refused:
            producer.send("payroll", b"hello").result(30)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Consumer({**shop, "auto.offset.reset": "earliest", "group.id": "shop-1"}) as consumer:
        consumer.subscribe(["shop-orders"])
        found: list[bytes | None] = []
        while not found:
            found = [record.value for part in consumer.poll(1.0) for record in part.records]
    assert found == [b"hello"]
    with pytest.raises(KafkaError) as unknown, Admin(running.client("shop", "wrong")):
        pass
    assert unknown.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def _renews(running: Running, renewed: list[dict[str, Any]]) -> None:
    """Certificates of a new authority are served by the same process."""
    address = ("127.0.0.1", running.port(0, 9092))
    before = ssl.get_server_certificate(address)
    running.write_certificate(of_kind(renewed, "Secret")["kafka-tls"])
    eventually(lambda: ssl.get_server_certificate(address) != before)
