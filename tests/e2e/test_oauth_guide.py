"""docs/security-oauth.md: a secured node, and clients with tokens of a provider."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.main.init_command import command as init
from moldau.runtime.node_processes import free_ports
from tests.broker.main.one_command import run
from tests.broker.main.processes import broker_process
from tests.e2e.terminal import Terminal, blocks
from tests.link.token_provider import token_provider
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM, run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

GUIDE = "security-oauth.md"
CLIENT, JAVA = "## The client", "## Files of Java's clients"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A node by the page's lines, with the topic and the rights of its commands."""
    folder = tmp_path_factory.mktemp("oauth")
    (port,) = free_ports(1)
    with token_provider() as provider:
        provider.secret = "change-me"  # noqa: S105 - of the page

        def adapted(text: str) -> str:
            places = {
                "https://id.example.com": provider.address,
                "secured/": f"{folder}/secured/",
                "9092": str(port),
            }
            for page, here in places.items():
                text = text.replace(page, here)
            return text

        found = Terminal(folder, adapted)
        run(init, str(folder / "secured"), "--secure", "--port", str(port))
        config = folder / "secured" / "server.properties"
        (lines,) = blocks("## The broker", "properties", GUIDE)
        kept = [
            each
            for each in config.read_text().splitlines()
            if not each.startswith("sasl.enabled.mechanisms")
        ]
        config.write_text("\n".join([*kept, adapted(lines)]))
        for name, title in (("orders", CLIENT), ("java", JAVA)):
            (text,) = blocks(title, "properties", GUIDE)
            (folder / f"{name}.properties").write_text(adapted(text))
        with broker_process(folder, "--config", str(config)):
            found.do(blocks("## The broker", "sh", GUIDE)[0])
            yield found


def test_commands_a_program_and_java_s_tools_log_in_with_tokens(terminal: Terminal) -> None:
    (commands,) = blocks(CLIENT, "sh", GUIDE)
    assert terminal.do(commands).endswith("first\n")
    (program,) = blocks(CLIENT, "python", GUIDE)
    body = textwrap.indent(terminal.adapted(program), "    ")
    found: dict[str, Any] = {}
    exec(compile(f"async def main():\n{body}", GUIDE, "exec"), found)  # noqa: S102
    asyncio.run(found["main"]())
    kafka = fetch_or_skip()
    endpoint = terminal.adapted("https://id.example.com/realms/shop/protocol/openid-connect/token")
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint}"
    there = ("--bootstrap-server", terminal.adapted("localhost:9092"), "--topic", "orders")
    config = ("--command-config", str(terminal.folder / "java.properties"))
    producer, jvm = "org.apache.kafka.tools.ConsoleProducer", (*TOOL_JVM, allowed)
    run_tool(kafka, producer, *there, *config, input_text="from java\n", jvm=jvm)
    told = terminal.do("moldau consume orders --command-config java.properties")
    assert told.split("\n") == ["first", "second", "from java", ""]
