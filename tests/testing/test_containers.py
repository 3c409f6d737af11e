"""The files of docker/ keep the house rules; `MoldauContainer` says what it needs, and works."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from moldau.client.sync import Admin, NewTopic
from moldau.testing import ContainerFailed, MoldauContainer
from moldau.testing.container import broker_words, health_words
from tests.testing.images import (
    DOCKER,
    VOLUME,
    Machine,
    await_health,
    compose,
    compose_files,
    image,
    service,
)

ROOT = DOCKER.parent


def test_the_image_does_not_run_as_root_and_keeps_its_data_in_a_volume() -> None:
    ours = image()

    assert ours.user == "moldau"
    assert ours.volume == VOLUME
    assert ours.exposed == (9092, 8083)
    assert any("useradd --uid 1000 " in line for line in ours.lines)
    assert ours.health, "an engine can tell whether it works"


def test_what_the_image_installs_is_here_and_gets_into_the_build() -> None:
    install = next(line for line in image().lines if "pip install" in line)
    folders = [word.strip('"').partition("[")[0] for word in install.split() if "./" in word]
    rules = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]

    assert folders == ["./platform", "./broker", "./streams", "./connect", "./connectors"]
    for name in (*(each.removeprefix("./") for each in folders), "pyproject.toml", "README.md"):
        assert (ROOT / name).exists()
        assert any(fnmatch(name, rule) for rule in kept), name


@pytest.mark.parametrize("name", compose_files())
def test_each_service_is_healthy_or_restarted_and_open_to_this_machine_only(name: str) -> None:
    found = compose(name)

    for service_name, spec in found["services"].items():
        assert spec["healthcheck"]["test"][0] == "CMD", service_name
        assert spec["restart"] == "unless-stopped"
        assert all(each.startswith("127.0.0.1:") for each in spec["ports"])
        for volume in spec.get("volumes", ()):
            assert volume.partition(":")[0] in found["volumes"]
        for needed, condition in spec.get("depends_on", {}).items():
            assert needed in found["services"]
            assert condition == {"condition": "service_healthy"}
    assert found["name"].startswith("moldau")


def test_four_compose_files_are_there() -> None:
    assert compose_files() == [
        "compose.cluster.yaml",
        "compose.connect.yaml",
        "compose.tiered.yaml",
        "compose.yaml",
    ]


@pytest.mark.real
@pytest.mark.deep
def test_the_command_of_the_container_serves_the_port_that_the_engine_gave(tmp_path: Path) -> None:
    """Without an engine: the container's command, with the port that an engine could give."""
    machine = Machine(tmp_path, ("broker",))
    mapped = machine.port("broker", 9092)
    words = broker_words("127.0.0.1", 9092, "broker")
    with service(machine, "broker", words[1:], {}) as running:
        await_health(machine, running, health_words(), {})
        with Admin(bootstrap_servers=f"127.0.0.1:{mapped}") as admin:
            admin.create_topic(NewTopic("t", 1))
            (broker,) = admin.describe_cluster().brokers
        assert broker.address.port == mapped


@pytest.mark.skipif(
    importlib.util.find_spec("testcontainers") is not None, reason="testcontainers is installed"
)
def test_without_testcontainers_one_line_says_what_to_install() -> None:
    with pytest.raises(ContainerFailed, match="pip install testcontainers") as caught:
        MoldauContainer()
    assert "\n" not in str(caught.value)


@pytest.mark.real
@pytest.mark.deep
def test_a_container_serves_the_host() -> None:
    engine = shutil.which("docker")
    if engine is None or importlib.util.find_spec("testcontainers") is None:
        pytest.skip("no container engine, or no testcontainers, is here")
    if subprocess.run([engine, "info"], capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("the container engine does not answer")
    build = [engine, "build", "-q", "-t", "moldau", "-f", str(DOCKER / "Dockerfile"), str(ROOT)]
    subprocess.run(build, check=True, timeout=900)  # noqa: S603

    with MoldauContainer() as container:
        with Admin(bootstrap_servers=container.get_bootstrap_server()) as admin:
            admin.create_topic(NewTopic("t", 1))
        assert container.get_internal_bootstrap_server() == "localhost:19092"


def test_the_guide_names_each_file_and_its_python_is_sound() -> None:
    guide = (ROOT / "docs" / "containers.md").read_text()

    assert re.findall(r"^\| `docker/(compose\S*)`", guide, re.MULTILINE) == [
        "compose.yaml",
        "compose.connect.yaml",
        "compose.cluster.yaml",
        "compose.tiered.yaml",
    ]
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "containers.md", "exec")
        for method in re.findall(r"\.((?:get|with)_\w+)", block):
            assert callable(getattr(MoldauContainer, method))
