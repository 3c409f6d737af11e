"""`moldau token`, against a broker whose clients log in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.command import Exit
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="a" user_bob="b";',
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "delegation.token.secret.key": "key",
}


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Shell, str]]]:
    """The command of each user, and the file of its login."""
    folder = tmp_path_factory.mktemp("users")
    with SyncEmbeddedBroker(settings=SETTINGS) as broker:
        found = {}
        for user in ("alice", "bob"):
            path = folder / f"{user}.properties"
            path.write_text(
                f"bootstrap.servers={broker.bootstrap_servers}\n"
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"sasl.username={user}\nsasl.password={user[0]}\n"
            )
            found[user] = Shell(broker.bootstrap_servers), str(path)
        yield found


def listed(shell: Shell, *words: str) -> dict[str, dict[str, Any]]:
    """The tokens by id: those of other tests too."""
    return {each["token"]: each for each in shell.good("token", "list", "--json", *words).json}


def test_tokens_are_created_listed_renewed_and_ended(
    shells: dict[str, tuple[Shell, str]], tmp_path: Path
) -> None:
    shell, alice = shells["alice"]
    login = ("--command-config", alice)
    path = tmp_path / "worker.properties"
    words = ("--renewer", "bob", "--lifetime", "12h", "--out", str(path))
    told = shell.good("token", "create", *words, *login).out
    assert "of User:alice" in told
    assert "password" not in told
    token_id = told.split()[1]
    token = listed(shell, *login)[token_id]
    assert (token["owner"], token["renewers"]) == ("User:alice", ["User:bob"])
    assert token["ends_ms"] - token["issued_ms"] == 12 * 3_600_000
    assert "hmac" not in token
    assert token_id in shell.good("token", "list", *login, "--owner", "bob").out
    assert shell.good("token", "list", *login, "--owner", "carol", "--json").json == []

    by_token = ("--command-config", str(path))
    shell.good("topic", "create", "made-by-token", *by_token)
    refused = shell("token", "create", *by_token)
    assert refused.code == Exit.FAILED
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err

    bob, bobs = shells["bob"]
    renewed = bob.good("token", "renew", token_id, "--period", "1h", "--command-config", bobs)
    assert f"renewed {token_id}" in renewed.out
    later = shell.good("token", "expire", token_id, "--after", "5m", "--json", *login).json
    assert later["expires_ms"] < token["ends_ms"]
    shell.good("token", "expire", token_id, *login)
    assert token_id not in listed(shell, *login)


def test_the_secret_is_shown_once_if_there_is_no_file(
    shells: dict[str, tuple[Shell, str]],
) -> None:
    shell, alice = shells["alice"]
    login = ("--command-config", alice)
    made = shell.good("token", "create", "--json", *login).json
    assert made["hmac"]
    told = shell.good("token", "create", *login).out
    assert 'tokenauth="true"' in told
    assert made["hmac"] not in shell.good("token", "list", *login).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("renew", "nope"), "there is no token nope"),
        (("expire", "nope"), "there is no token nope"),
        (("create", "--lifetime", "12"), "'12' is no period: write 90s, 15m, 12h or 7d"),
        (("create", "--renewer", "Group:x"), "INVALID_PRINCIPAL_TYPE"),
        (("create", "--owner", ":x"), "':x': a principal is written as User:NAME"),
    ],
)
def test_what_makes_no_sense_is_refused(
    shells: dict[str, tuple[Shell, str]], words: tuple[str, ...], said: str
) -> None:
    shell, alice = shells["alice"]
    done = shell("token", *words, "--command-config", alice)
    assert done.code != Exit.DONE
    assert said in done.err
    assert "Traceback" not in done.err
