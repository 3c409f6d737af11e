"""Which addresses are this machine's own alone."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from moldau.broker.main.exposure import exposed
from moldau.broker.settings import Listener
from moldau.runtime.node_processes import free_ports
from tests.broker.main.processes import broker_process, finished


@pytest.mark.parametrize(
    ("host", "is_exposed"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("", True),
        ("0.0.0.0", True),  # noqa: S104 (as people write it)
        ("::", True),
        ("10.0.0.1", True),
        ("kafka.example.com", True),
    ],
)
def test_a_listener_is_exposed_unless_only_this_machine_reaches_it(
    host: str, is_exposed: bool
) -> None:
    listener = Listener("OUT", host, 9092, "PLAINTEXT")
    assert exposed([listener]) == ([listener] if is_exposed else [])


def test_what_is_encrypted_is_not() -> None:
    assert exposed([Listener("OUT", "", 9092, "SASL_SSL")]) == []


@pytest.mark.real
def test_metrics_with_a_token_are_read_by_no_other_client(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("scrape-token\n")
    config = tmp_path / "http.properties"
    config.write_text(f"http.tokens.file={tmp_path}/tokens\n")
    (port,) = free_ports(1)
    words = ("--metrics", f"127.0.0.1:{port}", "--set", f"moldau.metrics.http.config={config}")
    with broker_process(tmp_path, *words) as broker, httpx.Client(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}"
        assert client.get(f"{url}/metrics").status_code == 401
        found = client.get(f"{url}/metrics", headers={"Authorization": "Bearer scrape-token"})
        assert (found.status_code, "kafka_server" in found.text) == (200, True)
        assert client.get(f"{url}/readyz").status_code == 200
        assert "open to everyone" not in broker.stop()[1]


@pytest.mark.real
def test_a_live_broker_is_asked_what_is_open(tmp_path: Path) -> None:
    """It tells what it was given, also that nothing is denied, which its log says at the start."""
    audit = tmp_path / "audit.jsonl"
    dry_run = (
        *("--set", "authorizer.class.name=standard", "--set", "super.users=User:ANONYMOUS"),
        *("--set", "moldau.authorizer.dry.run=true", "--set", f"moldau.audit.log={audit}"),
    )
    check = ("security", "check", "--bootstrap")
    with broker_process(tmp_path, *dry_run) as broker:
        address = f"{broker.host}:{broker.port}"
        code, out, err = finished(*check, address, "--json", home=tmp_path)
        assert (code, err) == (1, "")
        found = {each["setting"]: each["what"] for each in json.loads(out)}
        assert set(found) == {"listener.security.protocol.map", "moldau.authorizer.dry.run"}
        assert all(each.startswith("broker 1: ") for each in found.values())
        code, out, err = finished(*check, address, "--data", "x", home=tmp_path)
        assert (code, out) == (2, "")
        assert "give them, or --bootstrap" in err
        assert "it is a dry run setting=moldau.authorizer.dry.run" in broker.stop()[1]
