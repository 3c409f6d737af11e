"""`moldau init --secure`, `moldau cert` and `moldau security check`: from nothing to a login."""

from __future__ import annotations

import re
import signal
import stat
from pathlib import Path

import pytest

from moldau.broker.main.cert_command import command as cert
from moldau.broker.main.init_command import command as init
from moldau.broker.main.security_command import command as security
from moldau.broker.main.security_command import findings
from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.cli.command import Exit
from moldau.client import Admin, NewTopic, Producer, TokenAdmin, sync
from moldau.client.base.file import load_settings
from moldau.config import load_file, overrides
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError
from moldau.link.certificates import issue, make_authority
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports, free_ports_in_row
from moldau.runtime.real_files import RealFiles
from tests.broker.main.one_command import command_of, run
from tests.broker.main.processes import moldau
from tests.runtime.arena import play

NOW_MS = 1_800_000_000_000


def test_a_node_is_made_that_only_its_admin_can_use(tmp_path: Path) -> None:
    folder = tmp_path / "secured"
    (port,) = free_ports(1)
    code, told = run(init, str(folder), "--secure", "--port", str(port))
    assert code == Exit.DONE
    for path in folder.iterdir():
        assert not path.stat().st_mode & (stat.S_IRWXO | stat.S_IRWXG) or path.name == "data"
    assert {each.name for each in (folder / "authority").iterdir()} == {"authority.key", "ca.pem"}
    assert stat.S_IMODE((folder / "authority" / "authority.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not (folder / "authority.key").exists()
    assert f"{folder}/authority has the key of the authority" in told
    found = re.search(r'password="([^"]+)"', (folder / "admin.properties").read_text())
    assert found is not None
    password = found[1]
    key = re.search(r"secret\.key=(\S{64})$", (folder / "server.properties").read_text(), re.M)
    assert key is not None
    assert password not in told
    assert key[1] not in told
    assert run(security, "check", "--config", str(folder / "server.properties"))[0] == Exit.DONE
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        settings = broker_settings(load_file(RealFiles(), str(folder / "server.properties")))
        loggers = Loggers(runtime.clock, lines.append, level=Level.INFO)
        broker = await Broker.start(runtime, settings, loggers=loggers)
        try:
            given = load_settings(folder / "admin.properties")
            async with Admin(given) as admin, Producer(given) as producer:
                await admin.create_topic(NewTopic("t", 1, 1))
                await producer.send_and_wait("t", b"value")
                token = await TokenAdmin(admin).create()
            by_token = {**given, "sasl.jaas.config": token.jaas_config()}
            async with Admin(by_token) as admin:
                assert [each.name for each in await admin.list_topics()] == ["t"]
            anonymous = {**given, "security.protocol": "SSL", "start.timeout.ms": "1"}
            with pytest.raises(KafkaError):
                async with Admin(anonymous):
                    pass
        finally:
            await broker.aclose()

    play("asyncio", main)
    assert not [each for each in lines if password in each]


@pytest.mark.real
@pytest.mark.deep
def test_a_secured_node_of_two_shards(tmp_path: Path) -> None:
    port = free_ports_in_row(3)
    folder = tmp_path / "secured"
    words = (str(folder), "--secure", "--port", str(port), "--shards", "2")
    code, said = run(init, *words)
    assert code == Exit.DONE
    start = f"moldau broker start --config {folder}/server.properties --shards 2"
    assert f"  start    {start}\n" in said
    process = moldau(*start.split()[1:], home=tmp_path)
    try:
        assert process.stdout is not None
        assert any(line.startswith("Ctrl-C") for line in process.stdout)
        given = load_settings(folder / "admin.properties")
        with sync.Admin(given) as admin:
            admin.create_topics([NewTopic("t", 2, 1)])
        with sync.Producer(given) as producer:
            for partition in range(2):
                assert producer.send_and_wait("t", b"value", partition=partition).offset == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_ports_for_all_shards_are_needed(tmp_path: Path) -> None:
    words = (str(tmp_path / "new"), "--secure", "--port", "65533", "--shards", "3")
    assert command_of(init, *words)[0] == Exit.MISUSED
    assert not (tmp_path / "new").exists()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = command_of(init, str(tmp_path), "--secure")
    assert (code, "is not empty" in err) == (Exit.MISUSED, True)
    code, _, err = command_of(init, str(tmp_path / "new"))
    assert (code, "--secure" in err) == (Exit.MISUSED, True)
    assert not (tmp_path / "new").exists()


def test_certificates_are_signed_for_nodes_and_clients(tmp_path: Path) -> None:
    folder = tmp_path / "secured"
    run(init, str(folder), "--secure")
    for words in (("node", "b2", "10.0.0.2"), ("client", "bob")):
        path = tmp_path / f"{words[0]}.pem"
        assert run(cert, *words, "--in", str(folder), "--out", str(path))[0] == Exit.DONE
        assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        code, _, err = command_of(cert, *words, "--in", str(folder), "--out", str(path))
        assert (code, "cannot be written" in err) == (Exit.MISUSED, True)
    apart = folder / "authority"
    eve = ("client", "eve", "--in", str(apart), "--out", str(tmp_path / "eve.pem"))
    assert run(cert, *eve)[0] == Exit.DONE
    (apart / "authority.key").rename(folder / "authority.key")  # as earlier versions had it
    dan = ("client", "dan", "--in", str(folder), "--out", str(tmp_path / "dan.pem"))
    assert run(cert, *dan)[0] == Exit.DONE
    nowhere = ("client", "bob", "--in", str(tmp_path), "--out", str(tmp_path / "x"))
    assert "moldau init --secure" in command_of(cert, *nowhere)[2]


def test_an_authority_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "secured"
    assert run(cert, "authority", str(folder))[0] == Exit.DONE
    assert stat.S_IMODE((folder / "authority.key").stat().st_mode) == 0o600
    before = (folder / "ca.pem").read_text()
    assert "already" in command_of(cert, "authority", str(folder))[2]
    assert (folder / "ca.pem").read_text() == before
    assert run(cert, "node", "b1", "--in", str(folder), "--out", str(tmp_path / "b1.pem"))[0] == 0


def test_a_key_that_is_none_is_told() -> None:
    authority = make_authority("ca", NOW_MS)
    assert authority.key not in repr(authority)
    with pytest.raises(ConfigError, match="cannot be read"):
        issue(authority._replace(key="nonsense"), "a", (), NOW_MS)
    with pytest.raises(ConfigError, match="1 to 64"):
        issue(authority, "x" * 65, (), NOW_MS)


@pytest.mark.parametrize(
    ("given", "open_by"),
    [
        ({}, ["listener.security.protocol.map", "authorizer.class.name"]),
        ({"authorizer.class.name": "standard"}, ["listener.security.protocol.map"]),
        (
            {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": "TRUE"},
            ["listener.security.protocol.map", "allow.everyone.if.no.acl.found"],
        ),
        (
            {
                "listeners": "SSL://:9092,CONTROLLER://localhost:9093",
                "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
                "inter.broker.listener.name": "SSL",
                "listener.name.controller.ssl.client.auth": "required",
                "ssl.truststore.location": "/etc/ca.pem",
                "authorizer.class.name": "standard",
            },
            ["listener.name.ssl.ssl.client.auth"],
        ),
        (
            {
                "listeners": "SSL://:9092,SASL_SSL://:9094,CONTROLLER://localhost:9093",
                "listener.security.protocol.map": "SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:SSL",
                "inter.broker.listener.name": "SSL",
                "ssl.client.auth": "required",
                "listener.name.controller.ssl.truststore.location": "/etc/ca.pem",
                "authorizer.class.name": "standard",
            },
            [
                "listener.name.ssl.ssl.truststore.location",
                "listener.name.sasl_ssl.ssl.client.auth",
            ],
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://localhost:9093",
                "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL",
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "ssl.client.auth": "required",
                "ssl.truststore.location": "/etc/ca.pem",
                "ssl.endpoint.identification.algorithm": "",
                "authorizer.class.name": "standard",
            },
            ["listener.security.protocol.map", "ssl.endpoint.identification.algorithm"],
        ),
        (
            {
                "listeners": "SASL_SSL://:9092,CONTROLLER://localhost:9093",
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
                "inter.broker.listener.name": "SASL_SSL",
                "listener.name.controller.ssl.client.auth": "required",
                "ssl.truststore.location": "/etc/ca.pem",
                "sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.sasl_ssl.sasl.kerberos.principal.to.local.rules": "RULE:[1:$1],"
                r"RULE:[2:$1@$0](.*@A\.COM)s/@.*//,DEFAULT",
                "authorizer.class.name": "standard",
            },
            ["sasl.kerberos.principal.to.local.rules"],
        ),
        (
            {"authorizer.class.name": "standard", "moldau.registry.listener": "0.0.0.0:8081"},
            ["listener.security.protocol.map", "moldau.registry.http.config"],
        ),
        (
            {"authorizer.class.name": "standard", "moldau.registry.listener": "127.0.0.1:8081"},
            ["listener.security.protocol.map"],
        ),
    ],
)
def test_what_is_open_is_listed(given: dict[str, str], open_by: list[str]) -> None:
    settings = broker_settings(standalone_layer("/d"), overrides(dict(given)))
    assert list(dict.fromkeys(each.setting for each in findings(settings))) == open_by
