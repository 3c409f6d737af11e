"""Settings from files: for the client they were written for, and for an Admin beside it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Admin, Consumer, Producer, load_settings, sync
from moldau.client.settings import consumer as rows
from moldau.config import BadSettings
from moldau.errors import ConfigError
from moldau.link.settings import client_id
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.runtime.pipes import filled_pipe

JAVAS = f"""\
# a Java consumer's file
bootstrap.servers={BOOTSTRAP}
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
group.id=g
client.id=app
max.poll.records=100
basic.auth.credentials.source=USER_INFO
schema.registry.basic.auth.user.info=me:hush
specific.avro.reader=true
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_java_clients_file_is_a_mapping_for_ours(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, "consumer.properties", JAVAS))
    assert settings["group.id"] == "g"
    consumer = Consumer(settings, client_id="mine")
    assert consumer.settings[rows.max_poll_records] == 100
    assert consumer.settings[client_id] == "mine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.properties", "client.id=x\nbootstrap.servers=a:1,b:2\n"),
        ("consumer.conf", "\ufeffclient.id=x\nbootstrap.servers=a:1,b:2\n"),
        ("config", "client.id=x\nbootstrap.servers=a:1,b:2\n"),
        ("a.toml", 'client.id = "x"\nbootstrap.servers = ["a:1", "b:2"]\n'),
        ("a.yaml", "client.id: x\nbootstrap.servers: [a:1, b:2]\ntransactional.id:\n"),
        ("a.json", '{"client.id": "x", "bootstrap.servers": "a:1,b:2"}'),
    ],
)
def test_the_name_says_the_format_or_else_it_is_properties(
    name: str, text: str, tmp_path: Path
) -> None:
    settings = load_settings(str(written(tmp_path, name, text)))
    assert settings == {"client.id": "x", "bootstrap.servers": "a:1,b:2"}


def test_a_pipe_is_as_good_as_a_file() -> None:
    with filled_pipe(b"client.id=x\n") as path:
        assert load_settings(path) == {"client.id": "x"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_settings(tmp_path / "none.conf")
    assert caught.value.context["file"] == str(tmp_path / "none.conf")


@pytest.mark.parametrize(
    "client", [Producer, Consumer, Admin, sync.Producer, sync.Consumer, sync.Admin]
)
def test_a_path_instead_of_settings_says_how_to_read_it(client: Any) -> None:
    with pytest.raises(TypeError, match=r"not a str: load_settings\(path\) makes one of a file"):
        client("consumer.properties")


def test_an_admin_passes_over_what_other_clients_have_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"{JAVAS}acks=all\nretries=5\n"

    async def main(runtime: Runtime) -> str:
        settings = load_settings(written(tmp_path, "consumer.properties", text))
        async with Admin(settings, runtime=runtime) as admin:
            return admin.settings[client_id]

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        assert world.run_client(main) == "app"
    retries, passed_over = (each.getMessage() for each in caplog.records)
    assert retries.startswith("admin: retries has no effect: ")
    assert passed_over == (
        "admin: passed over what only other clients have: key.deserializer, group.id, "
        "max.poll.records, basic.auth.credentials.source, schema.registry.basic.auth.user.info, "
        "specific.avro.reader, acks"
    )


def test_nothing_is_said_where_nothing_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def main(runtime: Runtime) -> None:
        async with Admin({"bootstrap.servers": BOOTSTRAP}, runtime=runtime):
            pass

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    assert not caplog.records


def test_an_admin_refuses_what_no_client_has_and_what_is_said_to_it_alone() -> None:
    with pytest.raises(BadSettings, match=r"groop\.id: unknown setting"):
        Admin({"bootstrap.servers": "a:1", "groop.id": "g"})
    keywords: dict[str, Any] = {"bootstrap_servers": "a:1", "group_id": "g"}
    with pytest.raises(BadSettings, match=r"group\.id: unknown setting"):
        Admin(**keywords)


CONTROLLERS = {"bootstrap.controllers": "c:9093"}


@pytest.mark.parametrize("servers", [{}, {"bootstrap.servers": BOOTSTRAP}])
def test_an_admin_says_that_controllers_are_not_asked_directly(servers: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as caught:
        Admin({**CONTROLLERS, **servers})
    assert str(caught.value) == (
        "bootstrap.controllers: controllers are not asked directly, brokers pass on what is for "
        "them: give bootstrap.servers instead"
    )


@pytest.mark.parametrize("given", ["", [], None])
def test_no_controllers_are_as_good_as_none_given(given: Any) -> None:
    admin = Admin({"bootstrap.controllers": given, "bootstrap.servers": BOOTSTRAP})
    assert repr(admin.settings) == repr(Admin({"bootstrap.servers": BOOTSTRAP}).settings)


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_producers_and_consumers_pass_controllers_over(
    client: type[Producer | Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        async with client({**CONTROLLERS, "bootstrap.servers": BOOTSTRAP}, runtime=runtime):
            pass

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    (notice,) = (each.getMessage() for each in caplog.records)
    assert notice.endswith(
        ": bootstrap.controllers has no effect: only an Admin may want controllers"
    )
