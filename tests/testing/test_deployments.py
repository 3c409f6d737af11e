"""The systemd unit and the Helm chart of docker/: their own tools accept them, and what they start
works, without an engine and without a cluster of machines."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from base64 import urlsafe_b64decode
from configparser import ConfigParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.broker.settings import BROKER_SETTINGS
from moldau.client.sync import Admin
from moldau.config import setting_name
from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import Login, Role
from moldau.console.command import command as console
from moldau.console.options import VisitorOptions, check_options
from moldau.runtime.http_door import ALLOWED_HOSTS_VARIABLE
from tests.testing.charts import CHART, await_ready, containers, helm, rendered
from tests.testing.images import BIN, DOCKER, Machine, service, stop_all
from tests.testing.round_trip import sends_and_reads

UNIT: Final = DOCKER / "systemd" / "moldau-broker.service"
EVERYTHING: Final = "connect.enabled=true,registry.enabled=true,console.enabled=true"
ISSUER: Final = "https://id.example.org"
OIDC: Final = (
    f"console.login.oidc.issuer={ISSUER},"
    "console.login.oidc.redirectUri=https://console.example.org/login/done"
)
NODE: Final = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=localhost:9093
log.dirs=/var/lib/moldau/data
offsets.topic.replication.factor=1
"""


def unit() -> ConfigParser:
    found = ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read_string(UNIT.read_text())
    return found


@pytest.mark.real
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/moldau/bin/moldau", str(BIN / "moldau")))
    done = subprocess.run(  # noqa: S603
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, lines) == (0, []), done.stderr


@pytest.mark.real
@pytest.mark.deep
def test_the_unit_formats_and_starts_a_broker(tmp_path: Path) -> None:
    """With the commands of its comment and of ExecStart, as this user."""
    machine = Machine(tmp_path, ("unit",))
    config = tmp_path / "server.properties"
    (tmp_path / "unit").mkdir()
    config.write_text(machine.here("unit", NODE))

    def command(line: str) -> list[str]:
        text = line.replace("/opt/moldau/bin/", "").replace(
            "/etc/moldau/server.properties", str(config)
        )
        return shlex.split(text)

    (line,) = (each for each in UNIT.read_text().splitlines() if "storage format" in each)
    words = command(line.removeprefix("#").partition("moldau ")[2])
    words = words[words.index("storage") - 1 :]
    subprocess.run([str(BIN / "moldau"), *words[1:]], check=True, timeout=120)  # noqa: S603
    start = command(unit()["Service"]["ExecStart"])
    with service(machine, "unit", start, {}, entrypoint=()) as running:
        at = machine.here("unit", "localhost:9092")
        await_ready(machine, running)
        sends_and_reads(at, "of-a-service")
        assert running.stop() == 0


@pytest.mark.real
@pytest.mark.parametrize("values", [EVERYTHING, "controllers.replicas=0,brokers.replicas=1"])
def test_helm_accepts_the_chart_and_its_parts_fit_together(values: str) -> None:
    done = helm("lint", "--strict", str(CHART), "--set", values)
    assert done.returncode == 0, done.stdout
    objects = rendered(values)
    workloads = list(containers(objects))
    services = [each for each in objects if each["kind"] == "Service"]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each, _ in workloads]
    for each in services:
        assert any(each["spec"]["selector"].items() <= found.items() for found in labels)
    for each, container in workloads:
        assert each["spec"]["selector"]["matchLabels"] in labels
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["runAsNonRoot"]
        ports = {port["name"] for port in container["ports"]}
        assert container["readinessProbe"]["httpGet"]["port"] in ports
        if container["name"] in ("broker", "controller"):
            assert " --insecure " in container["args"][0], "its listeners have no login"
        for variable in container["env"]:
            name = variable["name"]
            is_setting = name.startswith("MOLDAU_") and name != ALLOWED_HOSTS_VARIABLE
            assert not is_setting or BROKER_SETTINGS.find(setting_name(name))
    if values == EVERYTHING:
        parts = {each["metadata"]["name"].removeprefix("kafka-") for each, _ in workloads}
        assert parts == {"broker", "controller", "connect", "registry", "console"}


@pytest.mark.real
@pytest.mark.parametrize(("values", "told"), [
    ("clusterId=short", "clusterId has 22 characters"),
    ("console.login.roles.roles.admin.users=ann", "console.login.roles needs a login"),
    (f"console.login.oidc.issuer={ISSUER}", "redirectUri is the https address"),
    (f"{OIDC},console.admin=true", "console.admin has no effect"),
    (f"{OIDC},console.login.oidc.clientSecretKey=k", "a key of console.login.secret"),
])  # fmt: skip
def test_values_that_cannot_work_are_refused(values: str, told: str) -> None:
    done = helm("template", "kafka", str(CHART), "--set", values)
    assert done.returncode != 0
    assert told in done.stderr


def console_of(values: str) -> tuple[Namespace, dict[str, Any]]:
    """The options of the chart's console, as its command reads them, and its pod."""
    objects = rendered(f"console.enabled=true,{values}")
    found = {each["metadata"]["name"]: (each, container) for each, container in containers(objects)}
    each, container = found["kafka-console"]
    parser = ArgumentParser()
    console.configure(parser)
    assert container["args"][0] == "console"
    return parser.parse_args(container["args"][1:]), each["spec"]["template"]["spec"]


@pytest.mark.real
def test_the_console_of_the_chart_shows_what_the_chart_starts() -> None:
    options, pod = console_of("connect.enabled=true,registry.enabled=true")
    assert options.connect == "http://kafka-connect:8083"
    assert options.registry == "http://kafka-registry:8081"
    assert (options.admin, options.roles, options.http_config) == (False, None, None)
    probe = pod["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/healthz", "it needs no login, and makes no page"
    others, _ = console_of(
        "console.connect=http://c:1,console.registry=http://r:2,console.admin=true"
    )
    assert (others.connect, others.registry, others.admin) == ("http://c:1", "http://r:2", True)
    alone, _ = console_of("image.tag=other")
    assert (alone.connect, alone.registry) == (None, None)


@pytest.mark.real
def test_the_console_of_the_chart_asks_for_a_login() -> None:
    roles = "console.login.roles.roles.admin.users={ann}"
    options, pod = console_of(f"console.login.secret=keys,{roles}")
    assert options.http_config == "/etc/moldau/login/http.properties"
    mounts = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert {"/etc/moldau/login", "/etc/moldau/roles"} <= mounts
    assert "tcpSocket" in pod["containers"][0]["readinessProbe"], "the secret may turn TLS on"
    (config,) = (
        each
        for each in rendered(f"console.enabled=true,console.login.secret=keys,{roles}")
        if each["metadata"]["name"] == "kafka-console-roles"
    )
    policy = read_policy(config["data"]["roles.yaml"], "roles.yaml").policy
    assert policy.visitor(Login("ann")).role is Role.ADMIN
    key = "console.login.secret=keys,console.login.oidc.clientSecretKey=secret"
    provider, pod = console_of(f"{OIDC},{key}")
    assert "httpGet" in pod["containers"][0]["readinessProbe"], "/healthz needs no login"
    check_options(VisitorOptions.of_arguments(provider))
    assert provider.oidc_issuer == ISSUER
    assert Path(provider.oidc_client_secret_file) == Path("/etc/moldau/login/secret")


@pytest.mark.real
def test_the_console_is_another_pod_when_its_roles_change() -> None:
    def annotations(values: str) -> dict[str, str]:
        objects = rendered(f"console.enabled=true,{values}")
        found = {
            each["metadata"]["name"]: each["spec"]["template"]["metadata"]
            for each, _ in containers(objects)
        }
        assert "annotations" not in found["kafka-broker"]
        made: dict[str, str] = found["kafka-console"].get("annotations", {})
        return made

    secret, roles = "console.login.secret=keys", "console.login.roles.roles.admin.users"
    of_ann = annotations(f"{secret},{roles}={{ann}}")
    assert of_ann.keys() == {"checksum/roles", "checksum/login"}
    assert annotations(f"{secret},{roles}={{ann}}") == of_ann
    of_jan = annotations(f"{secret},{roles}={{jan}}")
    assert of_jan["checksum/roles"] != of_ann["checksum/roles"]
    assert of_jan["checksum/login"] == of_ann["checksum/login"]
    assert annotations("image.tag=other") == {}


@pytest.mark.real
def test_each_release_has_a_cluster_id_of_its_own_and_an_upgrade_keeps_it() -> None:
    def cluster_id(values: str = "brokers.replicas=1", **given: str) -> str:
        more = ("--namespace", given["namespace"]) if "namespace" in given else ()
        objects = rendered(values, *more, release=given.get("release", "kafka"))
        ids = {
            " ".join(container["args"]).partition("--cluster-id ")[2].split()[0]
            for each, container in containers(objects)
            if each["kind"] == "StatefulSet"
        }
        (found,) = ids
        return found

    first = cluster_id()
    assert cluster_id("brokers.replicas=3,settings.num\\.partitions=5") == first, "an upgrade"
    others = {cluster_id(release="other"), cluster_id(namespace="other")}
    assert len({first, *others}) == 3
    assert all(len(urlsafe_b64decode(f"{each}==")) == 16 for each in {first, *others})
    given = "5L6g3nShT-eMCtK--X86sw"
    assert cluster_id(f"clusterId={given}") == given


@pytest.mark.real
@pytest.mark.deep
def test_what_the_chart_starts_is_a_cluster(tmp_path: Path) -> None:
    """A controller and a broker, with the commands and variables of their pods."""
    objects = rendered("brokers.replicas=1,controllers.replicas=1,settings.num\\.partitions=5")
    pods = {
        f"{each['metadata']['name']}-0.{each['metadata']['name']}": container
        for each, container in containers(objects)
    }
    assert sorted(pods) == ["kafka-broker-0.kafka-broker", "kafka-controller-0.kafka-controller"]
    machine = Machine(tmp_path, tuple(pods))
    with ExitStack() as stack:
        running = []
        for name, container in pods.items():
            pod = name.partition(".")[0]
            variables = {each["name"]: each.get("value", pod) for each in container["env"]}
            words = [each.replace("$POD.", f"{pod}.") for each in container["args"]]
            running.append(
                stack.enter_context(
                    service(machine, name, words, variables, entrypoint=container["command"])
                )
            )
        for each in running:
            await_ready(machine, each)
        at = machine.here("kafka-broker-0.kafka-broker", "localhost:9092")
        sends_and_reads(at, "of-a-chart")
        with Admin(bootstrap_servers=at) as admin:
            (broker,) = admin.describe_cluster().brokers
            assert broker.node_id == 0
            assert [each.node_id for each in admin.describe_quorum().voters] == [100]
        assert stop_all(running[::-1]) == [0, 0]
