"""A registry behind https, with certificates of our own, on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from moldau.client.serdes.registry import RegistryError, SchemaRegistry
from moldau.errors import ConfigError
from moldau.runtime.real import RealRuntime
from tests.client.serdes.scripted_registry import ScriptedRegistry
from tests.runtime.localhost_certificate import certificate as certificate

HOST = "localhost"


def ask(certificate: Path, host: str = HOST, *, wants_client: bool = False, **options: Any) -> Any:
    """What a registry behind TLS answers."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    if wants_client:
        serving.load_verify_locations(certificate)
        serving.verify_mode = ssl.CERT_REQUIRED

    async def main() -> Any:
        script = ScriptedRegistry()
        async with RealRuntime() as runtime, asyncio.timeout(20):
            listener = await runtime.network.serve_streams(script.serve, HOST, 0, tls=serving)
            async with (
                listener,
                SchemaRegistry(
                    f"https://{host}:{listener.port}", runtime=runtime, max_retries=0, **options
                ) as registry,
            ):
                return [await registry.subjects(), await registry.subjects()]

    return asyncio.run(main())


def test_the_authority_of_the_truststore_is_believed(certificate: Path) -> None:
    assert ask(certificate, schema_registry_ssl_truststore_location=certificate) == [[], []]


def test_a_certificate_of_nobody_known_is_refused(certificate: Path) -> None:
    with pytest.raises(RegistryError, match="certificate"):
        ask(certificate)


def test_a_certificate_of_another_host_is_refused_unless_nobody_looks(certificate: Path) -> None:
    trusted: dict[str, Any] = {"schema_registry_ssl_truststore_location": certificate}
    with pytest.raises(RegistryError, match="certificate"):
        ask(certificate, "127.0.0.1", **trusted)
    trusted["schema_registry_ssl_endpoint_identification_algorithm"] = ""
    assert ask(certificate, "127.0.0.1", **trusted) == [[], []]


def test_a_client_shows_its_own_certificate(certificate: Path) -> None:
    stores: dict[str, Any] = {
        "schema_registry_ssl_truststore_location": certificate,
        "schema_registry_ssl_keystore_location": certificate,
    }
    assert ask(certificate, wants_client=True, **stores) == [[], []]


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_file_that_cannot_be_used_is_told_with_its_setting(store: str, tmp_path: Path) -> None:
    name = f"schema.registry.ssl.{store}.location"
    (tmp_path / "bad.pem").write_text("no certificate")
    for path in (tmp_path / "bad.pem", tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            SchemaRegistry({"schema.registry.url": "https://h", name: str(path)})
