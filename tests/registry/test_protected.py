"""Two instances as processes whose API asks for a certificate and a login. One of them passes
writes on to the other with the login of the client."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from moldau.client.serdes.registry import Schema
from moldau.client.sync import SchemaRegistry
from moldau.link.certificates import issue, make_authority
from moldau.runtime.real import RealRuntime
from moldau.testing import SyncEmbeddedBroker
from tests.cli.fresh import moldau
from tests.registry.served import process

pytestmark = pytest.mark.real

ASKS = {"schema": '"string"'}


def protection(folder: Path) -> Path:
    """Write certificates, users, tokens and the settings that name them."""
    now_ms = RealRuntime("test").clock.wall_ms()
    authority = make_authority("ca", now_ms)
    for name, hosts in (("node", ("localhost", "127.0.0.1")), ("ann", ())):
        made = issue(authority, name, hosts, now_ms)
        (folder / f"{name}.pem").write_text(made.key + made.certificate)
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "users").write_text("ann=secret\n")
    (folder / "tokens").write_text("a-token\n")
    path = folder / "http.properties"
    path.write_text(
        f"ssl.keystore.location={folder}/node.pem\n"
        f"ssl.truststore.location={folder}/ca.pem\n"
        "ssl.client.auth=required\n"
        f"http.users.file={folder}/users\n"
        f"http.tokens.file={folder}/tokens\n"
    )
    return path


def client(folder: Path, url: str, **more: object) -> httpx2.Client:
    """Return a client that trusts the authority."""
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    if more.pop("certificate", True):
        context.load_cert_chain(f"{folder}/ann.pem")
    return httpx2.Client(base_url=url, verify=context, trust_env=False, timeout=60, **more)  # type: ignore[arg-type]


def test_protected_instances_serve_users_and_pass_their_writes_on(tmp_path: Path) -> None:
    words = ("--http-config", str(protection(tmp_path)))
    with SyncEmbeddedBroker() as broker, ExitStack() as stack:
        urls = []
        for _ in range(2):
            _, url = stack.enter_context(process(broker.bootstrap_servers, *words))
            assert url.startswith("https://")
            urls.append(url)
        for number, url in enumerate(urls):  # one of them is not the one that writes
            with client(tmp_path, url) as rest:
                path = f"/subjects/s{number}/versions"
                assert rest.get("/subjects").status_code == 401
                answers = [rest.get(each) for each in ("/healthz", "/readyz")]
                assert [each.status_code for each in answers] == [200] * 2
                assert [each.text for each in answers] == ["alive\n", "ready\n"]
                assert rest.post(path, json=ASKS).status_code == 401
                assert rest.get("/subjects", auth=("ann", "wrong")).status_code == 401
                made = rest.post(path, json={"schema": f'"{number}"'}, auth=("ann", "secret"))
                assert (made.status_code, made.json()["error_code"]) == (422, 42201)
                made = rest.post(path, json=ASKS, auth=("ann", "secret"))
                assert (made.status_code, made.json()["id"]) == (200, 1), made.text
                token = {"Authorization": "Bearer a-token"}
                made = rest.post(path, json={"schema": '"int"'}, headers=token)
                assert made.status_code == 409, made.text
                assert rest.get("/subjects", headers=token).status_code == 200
            with (
                client(tmp_path, url, certificate=False) as without,
                pytest.raises(httpx2.HTTPError),
            ):
                without.get("/subjects", auth=("ann", "secret"))
        settings = {
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": "ann:secret",
            "schema.registry.ssl.truststore.location": f"{tmp_path}/ca.pem",
            "schema.registry.ssl.keystore.location": f"{tmp_path}/ann.pem",
        }
        with SchemaRegistry({"schema.registry.url": urls[1], **settings}) as registry:
            assert registry.register("s0", Schema('"string"')) == 1
        config = tmp_path / "client.properties"
        config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        listed = moldau("schema", "list", "--registry", urls[0], "--command-config", str(config))
        assert [line.split()[0] for line in listed.out.splitlines()[1:]] == ["s0", "s1"], listed
