"""docs/console.md: its commands about logins start a console, and its file of roles is one."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path

import httpx2
import pytest

from moldau.cli.command import Exit
from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import Login
from moldau.runtime.real import RealRuntime
from moldau.testing import SyncEmbeddedBroker
from tests.cli.serving import serving
from tests.cli.shell import Shell
from tests.console.guide import block
from tests.console.login import log_in
from tests.console.provider import SECRET, provider


def words(part: str) -> list[str]:
    """The words of the command with this text, without `moldau`."""
    command, *others = shlex.split(block("console", part).removeprefix("$ ").replace("\\\n", ""))
    assert command == "moldau"
    return others


def started_in(folder: Path, given: list[str], bootstrap: str, issuer: str = "") -> list[str]:
    """The words with the files of a folder, a broker and a provider."""
    others = {"localhost:9092": bootstrap, "https://id.example.org/realms/shop": issuer}
    files = ("http.properties", "roles.yaml", "secret.txt", "audit.jsonl")
    return [others.get(each, str(folder / each) if each in files else each) for each in given]


def test_the_file_of_roles_does_what_the_guide_says() -> None:
    policy = read_policy(block("yaml", "roles:"), "roles.yaml").policy
    shop = policy.visitor(Login("bob", frozenset(("shop-eu",))))
    assert shop.is_changing
    assert (shop.sees("orders"), shop.sees("payments")) == (True, False)
    mask = shop.mask("orders")
    assert mask is not None
    value = '{"a": {"email": "x@y"}, "card": {"number": "4111111111111111"}}'
    assert mask.value(value) == '{"a": {"email": "***"}, "card": {"number": "***1111"}}'


@pytest.mark.real
def test_passwords_and_roles_of_the_guide_protect_the_console_and_write_its_audit(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text("ann=rabbit\nzoe=hare\n")
    (tmp_path / "http.properties").write_text(f"http.users.file={tmp_path}/users\n")
    (tmp_path / "roles.yaml").write_text(block("yaml", "roles:"))
    given = started_in(tmp_path, words("--roles"), moldau_broker.bootstrap_servers)
    audit = tmp_path / "audit.jsonl"
    more = ("--listen", "127.0.0.1:0", "--audit", str(audit))
    with (
        serving(*given, *more, told="moldau console is up at") as (_, address),
        httpx2.Client(base_url=address, trust_env=False, timeout=120) as client,
    ):
        assert client.get("/topics").status_code == 401
        made = client.post("/topics", data={"name": "audited"}, auth=("ann", "rabbit"))
        assert made.status_code == 303
        deleted = "/topics/audited/delete"
        assert (
            client.post(deleted, data={"name": "audited"}, auth=("ann", "rabbit")).status_code
            == 403
        )
        assert client.get("/topics/audited/messages", auth=("zoe", "hare")).status_code == 403
        lines = [json.loads(each) for each in audit.read_text().splitlines()]
    shown = json.loads(block("json", "audit"))
    assert [list(each) for each in lines] == [list(shown)] * 3
    assert [(each["user"], each["action"], each["result"]) for each in lines] == [
        ("ann", "create a topic", "done"),
        ("ann", "delete a topic", "refused"),
        ("zoe", "read messages", "refused"),
    ]


@pytest.mark.real
def test_the_guides_provider_logs_a_person_in(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n")

    async def run() -> None:
        async with RealRuntime("provider") as runtime, provider(runtime) as at:
            servers = moldau_broker.bootstrap_servers
            given = started_in(tmp_path, words("--oidc-issuer"), servers, at.issuer)
            with serving(*given, "--listen", "127.0.0.1:0", told="is up at") as (_, address):
                async with httpx2.AsyncClient(
                    base_url=address, trust_env=False, timeout=120
                ) as client:
                    assert (await log_in(client, "bob")).headers["location"] == "/topics"
                    assert "operator" in (await client.get("/topics")).text
        assert not [each for each in at.tokens if each in (tmp_path / "audit.jsonl").read_text()]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (["--oidc-client-id", "x"], "needs --oidc-issuer"),
        (["--oidc-issuer", "https://idp"], "needs --oidc-client-id"),
        (["--oidc-issuer", "https://idp", "--oidc-client-id", "x", "--admin"], "has no effect"),
        (["--oidc-issuer", "http://idp", "--oidc-client-id", "x"], "give https"),
        (
            ["--oidc-issuer", "https://idp", "--oidc-client-id", "x", "--listen", "0.0.0.0:0"],
            "need TLS",
        ),
        (
            [
                "--oidc-issuer",
                "https://i",
                "--oidc-client-id",
                "x",
                "--oidc-client-secret-file",
                "no",
            ],
            "no",
        ),
        (["--roles", "none.yaml"], "none.yaml"),
        (["--roles", "roles.yaml"], "no login"),
        (["--roles", "masks.yaml", "--admin"], "no effect"),
        (["--roles", "wrong.yaml"], "wrong.yaml:1: error: there is no role; did you mean roles?"),
        (["--audit", "none/audit"], "--audit"),
    ],
)
def test_options_that_cannot_be_used_are_told_at_start(
    more: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roles.yaml").write_text("roles: {admin: {users: ann}}")
    Path("masks.yaml").write_text("masks: [{topics: a, value: $}]")
    Path("wrong.yaml").write_text("role: {}")
    done = Shell("127.0.0.1:1")("console", *more)
    assert done.code == Exit.MISUSED
    assert part in done.err
    assert "Traceback" not in done.err
