"""The protection of an instance without a cluster: settings that are refused, the warning of an
open one, and the connections to other instances."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from moldau.client.serdes.registry.http import HttpRequest
from moldau.link.http.protection import load_peer_context
from moldau.registry.refusals import Refusal
from moldau.registry.server import Options, SchemaRegistryServer, _Peers
from moldau.runtime import Runtime
from tests.cli.fresh import moldau
from tests.registry.served import log_of, run_real

pytestmark = pytest.mark.real

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ssl.client.auth=required", "certificates of clients need TLS"),
        ("http.users.file={folder}/none", "http.users.file"),
        ("ssl.keystore.location={folder}/none.pem", "ssl.keystore.location"),
    ],
)
def test_an_unusable_file_is_an_error_at_start(tmp_path: Path, line: str, said: str) -> None:
    config = tmp_path / "http.properties"
    config.write_text(line.format(folder=tmp_path) + "\n")
    done = moldau("registry", "start", "-b", "127.0.0.1:1", "--http-config", str(config))
    assert done.code != 0
    assert said in done.err


def test_an_instance_sends_no_login_to_a_leader_of_another_scheme() -> None:
    async def main(runtime: Runtime) -> None:
        options = Options(("127.0.0.1", 0))
        server = SchemaRegistryServer(runtime, NOWHERE, options, log_of(runtime))
        with pytest.raises(Refusal, match="must be served by http"):
            await server.forward("https://127.0.0.1:1", HttpRequest("POST", "/"), "Basic secret")

    run_real(main)


def test_new_certificates_count_from_the_next_request_on() -> None:
    async def main(runtime: Runtime) -> None:
        contexts = [ssl.create_default_context(), ssl.create_default_context()]
        now = contexts[0]
        peers = _Peers(runtime, lambda: now)
        first = peers.now()
        assert peers.now() is first
        now = contexts[1]
        assert peers.now() is not first
        await peers.aclose()

    run_real(main)


def test_without_tls_there_is_no_context_for_other_instances(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token\n")
    config = tmp_path / "http.properties"
    config.write_text(f"http.tokens.file={tmp_path}/tokens\n")

    async def main(runtime: Runtime) -> None:
        assert load_peer_context(str(config), runtime.clock) is None

    run_real(main)
