"""`moldau console --http-config`, as a user starts it: TLS and a login before any page."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from moldau.client.sync import Admin, NewTopic
from moldau.link.certificates import issue, make_authority
from moldau.runtime.real import RealRuntime
from moldau.testing import SyncEmbeddedBroker
from tests.cli.fresh import moldau
from tests.cli.serving import serving

pytestmark = pytest.mark.real


def protection(folder: Path) -> Path:
    """Write a certificate, a user and the settings that name them."""
    now_ms = RealRuntime("test").clock.wall_ms()
    authority = make_authority("ca", now_ms)
    node = issue(authority, "console", ("localhost", "127.0.0.1"), now_ms)
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "node.pem").write_text(node.key + node.certificate)
    (folder / "users").write_text("ann=secret\n")
    path = folder / "http.properties"
    path.write_text(f"ssl.keystore.location={folder}/node.pem\nhttp.users.file={folder}/users\n")
    return path


@contextmanager
def console(bootstrap: str, config: Path) -> Iterator[str]:
    """`moldau console` as a process, and its address."""
    words = ("console", "-b", bootstrap, "--listen", "127.0.0.1:0", "--http-config", str(config))
    with serving(*words, told="moldau console is up at") as (_, address):
        yield address


def test_pages_need_a_login_over_tls(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers = moldau_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(NewTopic(moldau_topic, 1))
    with console(servers, protection(tmp_path)) as url:
        assert url.startswith("https://")
        context = ssl.create_default_context(cafile=f"{tmp_path}/ca.pem")
        with httpx2.Client(
            base_url=url, verify=context, trust_env=False, timeout=120, follow_redirects=True
        ) as client:
            for path in ("/", "/topics", "/nowhere"):
                refused = client.get(path)
                assert refused.status_code == 401
                assert moldau_topic not in refused.text
            health = client.get("/healthz")
            assert (health.status_code, health.text) == (200, "ok\n")
            assert client.post("/healthz").status_code == 401
            # Its own page: other tests have more topics than one page of the list shows.
            path = f"/topics/{moldau_topic}"
            assert client.get(path, auth=("ann", "wrong")).status_code == 401
            shown = client.get(path, auth=("ann", "secret"))
            assert (shown.status_code, moldau_topic in shown.text) == (200, True)
            assert client.get("/topics", auth=("ann", "secret")).status_code == 200
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(url.replace("https://", "http://"), trust_env=False, timeout=120)


def test_an_unusable_file_is_an_error_at_start(tmp_path: Path) -> None:
    config = tmp_path / "http.properties"
    config.write_text(f"http.users.file={tmp_path}/none\n")
    done = moldau("console", "-b", "127.0.0.1:1", "--http-config", str(config))
    assert done.code != 0
    assert "http.users.file" in done.err
