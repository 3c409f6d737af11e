"""No secret is shown: there is one in each secret setting, and all that the programs write is read.

Each secret has the word `canary` in it. The programs run with all levels of logs, refuse logins,
and are asked for everything that they tell about themselves.
"""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx2
import pytest

from moldau.runtime.node_processes import free_ports_in_row
from tests.connect.processes import wait_until
from tests.e2e.terminal import Terminal

pytestmark = [pytest.mark.real, pytest.mark.deep]

CANARY: Final = "canary"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS: Final = f'{PLAIN} required username="admin" password="canary-plain"'
NOWHERE: Final = "http://localhost:1"
"""Here is no identity provider, no receiver of traces, and no database."""
ENV: Final = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
STORAGE: Final = ("config", "offset", "status")
COMMANDS: Final = (
    "moldau config describe broker 1",
    "moldau config describe broker 1 --json",
    "moldau security check --command-config admin.properties",
    "moldau security check --config node.properties --json",
    "moldau user list",
    "moldau token list",
    "moldau export",
    "moldau --debug export connectors --connect http://ann:canary-rest@{1}",
    "moldau --debug connect status --connect http://ann:canary-wrong@{1}",
    "moldau --debug schema list --registry http://ann:canary-rest@{2}",
    "moldau --debug schema list --registry http://ann:canary-wrong@{2}",
    "moldau --debug schema list --registry http://ann:canary/wrong@{2}",
    "moldau --debug topic list --command-config wrong.properties",
    "moldau --debug topic list --command-config tokens.properties",
    "moldau --debug topic list --set sasl.jaas.config='canary required;'",
    "moldau --debug topic list --set ssl.key.password.x=canary-x",
    "moldau --debug broker start --config broken.properties",
    "moldau --debug broker start --config unknown.properties",
    "moldau --debug broker start --set delegation.token.secret.key:canary-key",
    "moldau --debug broker start --otlp http://ann:canary-otlp@[x",
    "moldau --debug registry start --otlp http://ann:canary-otlp@[x",
    "moldau --debug registry start --set moldau.metrics.otlp.endpoint=http://ann:canary-otlp@a:1",
    "moldau --debug connect start -c worker.properties --otlp http://ann:canary-otlp@a:1",
    "moldau --debug streams run words:app --otlp http://ann:canary-otlp@a:1",
    "moldau --debug mirror --from-config tokens.properties --to-config wrong.properties --once",
    "moldau --debug console --http-config broken.properties",
    "moldau profile create here --command-config admin.properties",
    "moldau profile show here",
)
PROGRAM: Final = """
import sys
from moldau.cli import main
for number, words in enumerate({commands}):
    print("command", number, flush=True)
    try:
        main(words)
    except SystemExit as end:
        print("ends with", end.code, flush=True)
    sys.stdout.flush()
    sys.stderr.flush()
"""
PATHS: Final = (
    (0, "/metrics"),
    (1, "/connectors?expand=info&expand=status"),
    (1, "/connectors/base/config"),
    (1, "/connectors/base/tasks"),
    (1, "/connectors/copy"),
    (1, "/admin/loggers"),
    (1, "/metrics"),
    (1, "/"),
    (2, "/config"),
    (2, "/subjects"),
    (2, "/metrics"),
    (3, "/"),
    (3, "/brokers"),
    (3, "/connectors"),
    (3, "/connectors/base"),
    (3, "/connectors/copy"),
    (3, "/rights"),
    (6, "/"),
    (6, "/rights"),
    (6, "/login"),
)


class Programs:
    """The folder of all programs, their ports, and what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        first = free_ports_in_row(7)
        self.at = [f"127.0.0.1:{first + each}" for each in range(7)]
        """The metrics of the broker, Connect, the registry, the console, broker, controller, and
        the console inside the broker."""
        self.terminal = Terminal(folder, str)
        self.terminal.environment |= {
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic canary-otlp",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "FILE_OF_LINES": "/canary-env/file",
            "MOLDAU_COMMAND_CONFIG": str(folder / "admin.properties"),
        }

    def write(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("\n".join((*lines, "")))

    def node(self) -> tuple[str, ...]:
        """The settings of the broker."""
        return (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{self.at[5]}",
            f"listeners=SASL_PLAINTEXT://{self.at[4]},CONTROLLER://{self.at[5]}",
            "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=SASL_PLAINTEXT",
            f"log.dirs={self.folder}/data",
            "offsets.topic.replication.factor=1",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol=PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config="
            f'{JAAS} user_admin="canary-plain" user_bob="canary-bob";',
            f"sasl.oauthbearer.jwks.endpoint.url={NOWHERE}/keys?key=canary-jwks",
            "sasl.oauthbearer.expected.issuer=https://idp",
            "sasl.oauthbearer.expected.audience=kafka",
            "sasl.oauthbearer.client.credentials.client.secret=canary-oauth",
            "listener.name.sasl_plaintext.ssl.key.pasword=canary-misspelled",
            "listener.name.sasl_plaintext.oauthbearer."
            "sasl.oauthbearer.client.credentials.client.secret=canary-oauth-own",
            "ssl.key.password=canary-key",
            "ssl.keystore.password=canary-store",
            "ssl.truststore.password=canary-trust",
            "delegation.token.secret.key=canary-delegation",
            "authorizer.class.name=standard",
            "super.users=User:admin",
            f"moldau.audit.log={self.folder}/audit.out",
            f"moldau.console.listener={self.at[6]}",
            f"moldau.console.http.config={self.folder}/http.properties",
            f"moldau.console.oidc.issuer={NOWHERE}",
            "moldau.console.oidc.client.id=console",
            f"moldau.console.oidc.client.secret.file={self.folder}/oidc-secret",
            f"moldau.console.audit={self.folder}/visitors.out",
            "moldau.console.connect=http://ann:canary-console@localhost:1",
        )

    def write_settings(self) -> None:
        """The files of settings of all programs."""
        node = self.node()
        login = (
            f"bootstrap.servers={self.at[4]}",
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
        )
        self.write("node.properties", *node)
        self.write("broken.properties", *node, "ssl.keystore.location=node.properties",
                   "listener.security.protocol.map=SASL_PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
                   "http.users.file=canary-none")  # fmt: skip
        self.write("unknown.properties", *node, "ssl.key.pasword=canary-misspelled",
                   "sasl.jaas.config.x=canary-x", "ssl.key.password=canary-twice")  # fmt: skip
        self.write("admin.properties", *login, f"sasl.jaas.config={JAAS};")
        self.write(
            "wrong.properties", *login, f"sasl.jaas.config={JAAS.replace('-plain', '-wrong')};"
        )
        self.write(
            "tokens.properties", *login[:2], "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={NOWHERE}/token?key=canary-token-url",
            "sasl.oauthbearer.client.credentials.client.id=ann",
            "sasl.oauthbearer.client.credentials.client.secret=canary-oauth-client",
            "sasl.login.retry.backoff.max.ms=1",
        )  # fmt: skip
        self.write(
            "words.py", "from moldau.streams import Streams", "app = Streams('words')",
            "app.stream('orders').to('copies')",
        )  # fmt: skip
        self.write("users", "ann=canary-rest")
        self.write("oidc-secret", "canary-oidc")
        self.write("http.properties", f"http.users.file={self.folder}/users")
        self.write(
            "worker.properties", *login, f"sasl.jaas.config={JAAS};", "group.id=workers",
            *(f"{each}.storage.topic=connect-{each}" for each in STORAGE),
            *(f"{each}.storage.replication.factor=1" for each in STORAGE),
            f"moldau.rest.http.config={self.folder}/http.properties",
            "connect.file.directories=/",
            "config.providers=env", f"config.providers.env.class={ENV}",
            "config.providers.env.param.allowlist.pattern=FILE_.*",
        )  # fmt: skip

    def connectors(self) -> dict[str, dict[str, str]]:
        """Connectors with secrets, none of which can do its work."""
        jaas = f'{PLAIN} required username="ann" password="canary-override";'
        return {
            "base": {
                "connector.class": "JdbcSink",
                "topics": "orders",
                "connection.url": "postgresql://ann:canary-jdbc-url@localhost:1/shop",
                "connection.password": "canary-jdbc",
                "consumer.override.sasl.jaas.config": jaas,
            },
            "copy": {
                "connector.class": "MirrorSource",
                "source.cluster.alias": "a",
                "target.cluster.alias": "b",
                "source.cluster.bootstrap.servers": self.at[4],
                "source.cluster.security.protocol": "SASL_PLAINTEXT",
                "source.cluster.sasl.mechanism": "PLAIN",
                "source.cluster.sasl.jaas.config": jaas,
                "target.cluster.bootstrap.servers": self.at[4],
                "target.cluster.sasl.jaas.config": jaas,
                "topics": "orders",
            },
            "lines": {
                "connector.class": "FileStreamSource",
                "file": "${env:FILE_OF_LINES}",
                "topic": "orders",
            },
        }

    def ask(self) -> None:
        """Ask all programs for what they tell, and keep the answers."""
        with httpx2.Client(trust_env=False, timeout=30, auth=("ann", "canary-rest")) as client:
            worker = f"http://{self.at[1]}"
            said = []
            for name, config in self.connectors().items():
                said.append(client.put(f"{worker}/connectors/{name}/config", json=config))
                kind = config["connector.class"]
                checked = f"{worker}/connector-plugins/{kind}/config/validate"
                said.append(client.put(checked, json={**config, "name": name, "tasks.max": "x"}))

            def state(name: str) -> str:
                answer = client.get(f"{worker}/connectors/{name}/status")
                said.append(answer)
                return answer.text

            for name in ("base", "copy"):
                wait_until(lambda name=name: "FAILED" in state(name), f"{name} fails", 60)  # type: ignore[misc]
            for number, path in PATHS:
                for auth in (("ann", "canary-rest"), ("ann", "canary-wrong")):
                    said.append(client.get(f"http://{self.at[number]}{path}", auth=auth))
        text = "\n".join(f"{each.url} {each.status_code}\n{each.text}" for each in said)
        (self.folder / "http.out").write_text(text)

    def run_commands(self) -> None:
        """Run the commands one after the other, in one process."""
        commands = [shlex.split(each.format(*self.at))[1:] for each in COMMANDS]
        self.write("commands.py", PROGRAM.format(commands=commands))
        self.terminal.do("python commands.py >commands.out 2>&1")


def test_no_program_shows_a_secret(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.write_settings()
    http = "--http-config http.properties --log-level debug"
    with ExitStack() as stack:

        def start(command: str) -> Path:
            return stack.enter_context(programs.terminal.start(command))

        scram = "SCRAM-SHA-256=[name=carol,password=canary-scram]"
        formatting = f"moldau storage format --config node.properties --add-scram '{scram}'"
        programs.terminal.do(f"{formatting} >format.out 2>&1")
        said = [
            start(
                "moldau broker start --config node.properties --log-level trace "
                f"--metrics {programs.at[0]} --otlp {NOWHERE}"
            )
        ]
        wait_until(lambda: "console at" in said[0].read_text(), "the broker is up", 120)
        programs.terminal.do("moldau topic create orders")
        programs.terminal.do("moldau topic create copies")
        said.append(
            start(
                f"moldau connect start -c worker.properties --listen {programs.at[1]} "
                f"--log-level debug --traces {NOWHERE} --otlp {NOWHERE}"
            )
        )
        said.append(
            start(f"moldau registry start --listen {programs.at[2]} {http} --otlp {NOWHERE}")
        )
        said.append(
            start(
                f"moldau console --listen {programs.at[3]} --http-config http.properties "
                f"--registry http://ann:canary-rest@{programs.at[2]} "
                f"--connect http://ann:canary-rest@{programs.at[1]} "
                f"--streams words=http://ann:canary-streams@{programs.at[2]}"
            )
        )
        for path in said:
            wait_until(lambda path=path: "Ctrl-C" in path.read_text(), f"{path} is up", 60)  # type: ignore[misc]
        words = start(
            f"moldau streams run words:app --state words-state --otlp {NOWHERE} --log-level debug"
        )
        wait_until(lambda: "metrics cannot be pushed" in words.read_text(), "a push is tried", 60)
        programs.ask()
        programs.run_commands()
    texts = {path.name: path.read_text() for path in tmp_path.glob("*.out")}
    shown = [
        f"{name}: {line[:500]}"
        for name, text in texts.items()
        for line in text.splitlines()
        if CANARY in line.lower()
    ]
    assert not shown, "\n".join(shown)
    commands = texts["commands.out"]
    assert all(f"command {each}\n" in commands for each in range(len(COMMANDS)))
    for name in ("ssl.key.password", "carol", "sasl.jaas.config=(hidden)", "Traceback"):
        assert name in commands
    assert "there is no file [hidden]" in texts["connect.out"]
    assert '"password":"[hidden]"' in texts["http.out"].replace("connection.", "").replace(" ", "")
    assert "login failed" in texts["broker.out"]
    for name in ("broker.out", "connect.out", "registry.out", "streams.out"):
        assert texts[name].count("metrics cannot be pushed") == 1, name
    for name in ("commands.out", "http.out"):
        assert "uthentication failed" in texts[name], name
