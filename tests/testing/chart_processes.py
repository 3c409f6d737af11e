"""The processes that the pods of the chart would be: the same commands, files and variables.

Addresses inside the cluster are ports of 127.0.0.1, as `Machine` says. The Services for clients
outside listen where the chart says that they do: `outside` makes them of the chart's own objects.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.client import load_settings
from moldau.runtime.node_processes import free_ports_in_row
from tests.chaos.proxy import Proxies
from tests.peers.eventually import eventually
from tests.testing.charts import (
    MOUNTS,
    await_ready,
    containers,
    content,
    mount,
    mounted,
    variables,
)
from tests.testing.images import Machine, Service, environment, service

MOUNTED_AS: Final = "kafka-broker-0.kafka-broker"
"""All pods have the mounted files of this one."""
_SHARDED: Final = (9092, 9192, 9292)

Objects = list[dict[str, Any]]


def of_kind(objects: Objects, kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


@dataclass
class Running:
    """The pods of a release, and what they were made of."""

    machine: Machine
    objects: Objects
    services: dict[str, Service] = field(default_factory=dict)
    """By the name of the pod."""
    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def secret(self, name: str) -> dict[str, str]:
        return content(of_kind(self.objects, "Secret")[name])

    def administrator(self) -> dict[str, str]:
        """The settings in the Secret of the release's administrator, for this machine."""
        text = self.secret("kafka-admin")["client.properties"]
        path = self.machine.folder / "admin.properties"
        path.write_text(mounted(self.machine, self.machine.here(MOUNTED_AS, text)))
        return load_settings(path)

    def write_certificate(self, secret: dict[str, Any]) -> None:
        """Change the mounted files of the nodes' certificate, as a kubelet does."""
        for file, text in content(secret).items():
            Path(mounted(self.machine, f"{MOUNTS}/tls/{file}")).write_text(text)

    def client(self, user: str, password: str, servers: str = "") -> dict[str, str]:
        """The settings of a client that logs in, by default at the Service of the release."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return {
            "bootstrap.servers": servers or self.machine.here(MOUNTED_AS, "kafka-bootstrap:9092"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": mounted(self.machine, f"{MOUNTS}/tls/ca.crt"),
        }

    def port(self, broker: int, port: int) -> int:
        """Where a port of a broker is on this machine."""
        return self.machine.port(f"kafka-broker-{broker}.kafka-broker", port)


@contextmanager
def nodes(folder: Path, objects: Objects) -> Iterator[Running]:
    """Start the controllers and brokers, and wait until they are ready."""
    pods = [
        (f"{each['metadata']['name']}-{number}", each, container)
        for each, container in containers(objects)
        if each["kind"] == "StatefulSet"
        for number in range(each["spec"]["replicas"])
    ]
    names = [f"{pod}.{each['metadata']['name']}" for pod, each, _ in pods]
    machine = Machine(folder, (*names, "kafka-bootstrap", *of_kind(objects, "Deployment")))
    sharded = [(name, port + shard) for name in names for port in _SHARDED for shard in (0, 1)]
    first = free_ports_in_row(len(sharded))  # in one row, because two could overlap
    machine.ports.update({place: first + number for number, place in enumerate(sharded)})
    machine.ports["kafka-bootstrap", 9092] = machine.port(MOUNTED_AS, 9092)
    running = Running(machine, objects)
    with ExitStack() as stack:
        for name, (pod, each, container) in zip(names, pods, strict=True):
            words = [text.replace("$POD.", f"{pod}.") for text in container["args"]]
            started = _started(running, name, pod, each, container, words)
            stack.enter_context(started)
        for one in running.services.values():
            await_ready(machine, one)
        yield running


@contextmanager
def parts(running: Running) -> Iterator[None]:
    """Start the pods of the Deployments, one each, and wait until they answer."""
    with ExitStack() as stack:
        for each, container in containers(running.objects):
            if each["kind"] != "Deployment":
                continue
            name = each["metadata"]["name"]
            words = [text.replace("$(POD_IP)", "127.0.0.1") for text in container["args"]]
            stack.enter_context(_started(running, name, name, each, container, words))
            probe = container["readinessProbe"]["httpGet"]["path"]
            (port,) = (port["containerPort"] for port in container["ports"])
            eventually(lambda: _answers(running, name, port, probe), within_s=600)  # noqa: B023
        yield


@contextmanager
def _started(
    running: Running,
    name: str,
    pod: str,
    each: dict[str, Any],
    container: dict[str, Any],
    words: list[str],
) -> Iterator[None]:
    machine, template = running.machine, each["spec"]["template"]
    mount(machine, template["spec"], running.objects, MOUNTED_AS)
    given = variables(machine, container, pod, running.objects)
    here = [mounted(machine, text) for text in words]
    entry = container.get("command")
    with service(machine, name, here, given, entrypoint=entry) as running.services[pod]:
        running.labels[pod] = template["metadata"]["labels"]
        yield


def _answers(running: Running, name: str, port: int, path: str) -> bool:
    one = running.services[name]
    assert one.process.poll() is None, one.log.read_text()
    url = running.machine.here(name, f"http://localhost:{port}{path}")
    return not subprocess.run(["curl", "-fsS", url], capture_output=True, check=False).returncode  # noqa: S603, S607


def apply(running: Running, on_start: Callable[[int, dict[str, str]], None] | None = None) -> None:
    """Run the job as often as Kubernetes would. `on_start` gets each process and its labels."""
    (job,) = of_kind(running.objects, "Job").values()
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    mount(running.machine, template["spec"], running.objects, MOUNTED_AS)
    words = ["moldau", *(mounted(running.machine, each) for each in container["args"])]
    given = environment(variables(running.machine, container, "job", running.objects))

    def is_applied() -> bool:
        with (running.machine.folder / "job.log").open("wb") as log:
            process = subprocess.Popen(words, env=given, stdout=log, stderr=log)  # noqa: S603
        if on_start is not None:
            on_start(process.pid, template["metadata"]["labels"])
        return process.wait(timeout=200) == 0

    eventually(is_applied, within_s=240)


@contextmanager
def outside(running: Running, hosts: list[str]) -> Iterator[None]:
    """The Services for clients outside, each at its own host: a connection to the port of a Service
    goes to the port of the pod that it selects."""
    with Proxies() as proxies:
        for each in of_kind(running.objects, "Service").values():
            spec = each["spec"]
            pod = spec.get("selector", {}).get("statefulset.kubernetes.io/pod-name")
            if pod is None:
                continue
            number = int(pod.rpartition("-")[2])
            for port in spec["ports"]:
                seen = port["nodePort"] if spec["type"] == "NodePort" else port["port"]
                proxies.add(running.port(number, port["port"]), hosts[number], seen)
        yield
