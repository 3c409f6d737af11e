"""A Kubernetes of one process each: etcd, the API server, its controllers and the scheduler, built
from their Go modules. No container runs: `Kubelet` says of each pod that it does.

All listen on loopback and keep their files in one folder.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import yaml

from moldau.runtime.node_processes import free_ports
from tests.conformance.built import go_program
from tests.peers.eventually import eventually
from tests.testing.charts import program

TOKEN: Final = "tests-only"  # noqa: S105 - of a server on loopback
NODES: Final = {"node-a": "zone-a", "node-b": "zone-b", "node-c": "zone-c"}
_ZONE: Final = "topology.kubernetes.io/zone"
_WITHIN_S: Final = 180.0
_LOOK_S: Final = 0.2
_CONTROLLERS: Final = (
    "*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller"
)
"""Without those that would miss a kubelet."""

Object = dict[str, Any]


class Refused(Exception):
    """The API server refuses."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass
class Api:
    """The API server, asked as an administrator."""

    url: str
    authority: Path
    kubeconfig: Path

    def ask(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Any:
        """Return the answer. `kind` is that of a patch. Raise Refused."""
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.url}{path}",
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {TOKEN}",
                "Content-Type": f"application/{kind + '-patch+' if kind else ''}json",
            },
            method=method,
        )
        context = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as error:
            text = error.read().decode()
            raise Refused(error.code, json.loads(text).get("message", text)) from None

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.ask("GET", path)["items"]
        return found

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run helm on this cluster."""
        return subprocess.run(  # noqa: S603 - a tool that was found, with our arguments
            [program("helm"), *words, "--kubeconfig", str(self.kubeconfig)],
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass
class Kubelet:
    """Stands for the kubelets of all nodes: pods that are bound to a node run and are ready, those
    of a Job have succeeded, and those that are to stop are gone."""

    api: Api
    unready: set[str] = field(default_factory=set)
    """Names of pods that run, and are not ready."""
    problem: BaseException | None = None
    _is_ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look after pods until `stop`."""
        try:
            while not self._is_ending.wait(_LOOK_S):
                for number, pod in enumerate(self.api.items("/api/v1/pods"), 1):
                    try:
                        self._look_after(pod, f"10.1.0.{number}")
                    except Refused as refused:
                        if refused.code not in (404, 409):  # gone, or changed meanwhile
                            raise
        except BaseException as error:  # told by the test
            self.problem = error

    def stop(self) -> None:
        self._is_ending.set()

    def _look_after(self, pod: Object, address: str) -> None:
        meta, status = pod["metadata"], pod["status"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            self.api.ask("DELETE", path, {"gracePeriodSeconds": 0})
            return
        if "nodeName" not in pod["spec"] or status["phase"] == "Succeeded":
            return
        is_job = any(each["kind"] == "Job" for each in meta.get("ownerReferences", ()))
        wanted = {
            "phase": "Succeeded" if is_job else "Running",
            "podIP": status.get("podIP", address),
            "podIPs": [{"ip": status.get("podIP", address)}],
            "conditions": [_condition("Ready", meta["name"] not in self.unready and not is_job)],
        }
        if _is_there(wanted, status):
            return
        self.api.ask("PATCH", f"{path}/status", {"status": wanted}, kind="strategic-merge")


def _condition(name: str, is_true: bool) -> Object:
    return {"type": name, "status": str(is_true), "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _is_there(wanted: Object, status: Object) -> bool:
    ready = [each["status"] for each in status.get("conditions", ()) if each["type"] == "Ready"]
    is_like = [wanted["conditions"][0]["status"]] == ready
    return is_like and status["phase"] == wanted["phase"]


@contextmanager
def control_plane(folder: Path) -> Iterator[tuple[Api, Kubelet]]:
    """Start all of it; skips where it cannot be built."""
    binary = go_program("control-plane")
    ports = free_ports(5)
    api = Api(f"https://127.0.0.1:{ports[2]}", folder / "pki" / "apiserver.crt", folder / "config")
    (folder / "tokens.csv").write_text(f'{TOKEN},tests,tests,"system:masters"\n')
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)  # noqa: S603, S607
    running: list[subprocess.Popen[bytes]] = []
    kubelet = Kubelet(api)
    looking = threading.Thread(target=kubelet.run)
    try:
        for name, options in _commands(api, folder, key, ports).items():
            with (folder / f"{name}.log").open("wb") as log:
                words = [binary, name, *options]
                running.append(subprocess.Popen(words, stdout=log, stderr=log))  # noqa: S603
            if name == "kube-apiserver":
                eventually(lambda: _is_up(api, folder, running), within_s=_WITHIN_S)
        _make_nodes(api)
        looking.start()
        yield api, kubelet
    finally:
        kubelet.stop()
        if looking.ident is not None:
            looking.join()
        for each in reversed(running):
            each.terminate()
        for each in running:
            try:
                each.wait(30)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()


def _commands(api: Api, folder: Path, key: Path, ports: list[int]) -> dict[str, list[str]]:
    """Each program with its options, in the order in which they start."""
    etcd, peers, secure, controllers, scheduler = ports
    return {
        "etcd": [
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure}",
            f"--cert-dir={folder}/pki",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://tests",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--endpoint-reconciler-type=none",
        ],
        "kube-controller-manager": [
            f"--kubeconfig={api.kubeconfig}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={api.authority}",
            f"--controllers={_CONTROLLERS}",
            "--bind-address=127.0.0.1",
            f"--secure-port={controllers}",
            f"--cert-dir={folder}/controllers",
            "--leader-elect=false",
        ],
        "kube-scheduler": [
            f"--kubeconfig={api.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={scheduler}",
            f"--cert-dir={folder}/scheduler",
            "--leader-elect=false",
        ],
    }


def _is_up(api: Api, folder: Path, running: list[subprocess.Popen[bytes]]) -> bool:
    for each in running:
        if each.poll() is not None:
            logs = [path.read_text()[-2000:] for path in folder.glob("*.log")]
            raise AssertionError("\n".join(logs))
    if not api.authority.exists():
        return False
    cluster = {"server": api.url, "certificate-authority": str(api.authority)}
    context = {"cluster": "tests", "user": "tests"}
    api.kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "tests", "cluster": cluster}],
                "users": [{"name": "tests", "user": {"token": TOKEN}}],
                "contexts": [{"name": "tests", "context": context}],
                "current-context": "tests",
            }
        )
    )
    try:
        api.ask("GET", "/api/v1/namespaces/default")
    except (OSError, Refused, ValueError) as error:
        print(error, file=sys.stderr)
        return False
    return True


def _make_nodes(api: Api) -> None:
    for name, zone in NODES.items():
        labels = {_ZONE: zone, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        api.ask("POST", "/api/v1/nodes", node)
        # A new node is tainted; the controller that takes that away is one of those left out.
        api.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, kind="merge")
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
        status = {"capacity": room, "allocatable": room, "conditions": [_condition("Ready", True)]}
        api.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, kind="strategic-merge")


def make_volumes(api: Api, count: int, size: str) -> None:
    """Make volumes, as an administrator without a provisioner does."""
    for number in range(count):
        api.ask("POST", "/api/v1/persistentvolumes", {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{size.lower()}-{number}"},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": f"/volumes/{size}-{number}"},
            },
        })  # fmt: skip
