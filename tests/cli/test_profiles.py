"""`moldau profile`, and commands that find their cluster by it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from moldau.cli.command import Context
from moldau.cli.commands.registry_place import registry_place
from moldau.cli.parser import Parser
from moldau.cli.profiles import Profile, Profiles, path_of, save
from moldau.plugins import Plugins
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

CLOSED = "127.0.0.1:1"


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with SyncEmbeddedBroker() as running:
        Shell(running.bootstrap_servers).good("topic", "create", "orders", "-p", "2")
        yield running.bootstrap_servers


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A user without a profile; no variable names a cluster."""
    made = Shell("")
    made.environment = {"HOME": str(tmp_path)}
    return made


def test_a_profile_is_made_used_shown_and_deleted(shell: Shell, tmp_path: Path) -> None:
    words = ("-b", CLOSED, "--set", "security.protocol=SASL_PLAINTEXT", "--set",
             "sasl.mechanism=PLAIN", "--set", "sasl.username=ann", "--set",
             "sasl.password=tea", "--registry", "http://u:pass@reg:8081")  # fmt: skip
    assert "in use now" in shell.good("profile", "create", "prod", *words).out
    shell.good("profile", "create", "local", "-b", "localhost:9092")
    assert shell.good("profile", "list").rows == [
        ["local", "localhost:9092", "PLAINTEXT"],
        ["*", "prod", CLOSED, "SASL_PLAINTEXT"],
    ]
    file = tmp_path / ".config" / "moldau" / "profiles.json"
    assert file.stat().st_mode & 0o777 == 0o600

    for said in (shell.good("profile", "show").out, shell.good("profile", "show", "--json").out):
        assert "tea" not in said
        assert "pass" not in said.replace("sasl.password", "")
    assert "sasl.password=tea" in shell.good("profile", "show", "prod", "--secrets").out

    shell.good("profile", "use", "local")
    assert shell.good("profile", "show", "--json").json["name"] == "local"
    shell.good("profile", "delete", "local")
    assert shell("profile", "show").code == 2
    assert [each["name"] for each in shell.good("profile", "list", "--json").json] == ["prod"]


def test_a_command_finds_its_cluster_by_the_profile(shell: Shell, broker: str) -> None:
    shell.good("profile", "create", "dead", "-b", CLOSED)
    shell.good("profile", "create", "live", "-b", broker, "--use")
    assert [row[0] for row in shell.good("topic", "list").rows] == ["orders"]

    assert shell("--profile", "dead", "topic", "list").code == 1
    assert shell("topic", "list", "--profile", "dead").code == 1
    assert shell("topic", "--profile", "dead", "list").code == 1
    shell.good("topic", "list", "--profile", "dead", "-b", broker)
    shell.good("--profile", "dead", "-b", broker, "topic", "list")

    shell.environment["MOLDAU_PROFILE"] = "dead"
    assert shell("topic", "list").code == 1
    shell.good("topic", "list", "--profile", "live")
    shell.environment["MOLDAU_BOOTSTRAP"] = broker
    shell.good("topic", "list")
    shell.environment |= {"MOLDAU_PROFILE": "live", "MOLDAU_BOOTSTRAP": CLOSED}
    shell.good("topic", "list", "--profile", "live")


def test_passwords_of_the_profile_in_use_go_to_its_cluster_alone(shell: Shell, broker: str) -> None:
    secured = ("--set", "security.protocol=SASL_PLAINTEXT", "--set", "sasl.mechanism=PLAIN",
               "--set", "sasl.username=ann", "--set", "sasl.password=tea")  # fmt: skip
    shell.good("profile", "create", "prod", "-b", CLOSED, *secured, "--use")
    shell.good("topic", "list", "-b", broker)
    shell.environment["MOLDAU_BOOTSTRAP"] = broker
    shell.good("topic", "list")
    assert shell("--profile", "prod", "-b", broker, "topic", "list").code == 1


def test_the_registry_of_the_profile_in_use_is_for_its_cluster_alone(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    path = path_of(environment)
    assert path is not None
    kept = Profile({"bootstrap.servers": CLOSED}, registry="http://reg:1")
    save(path, Profiles("prod", {"prod": kept}))
    in_use = Context(StringIO(), StringIO(), environment, lambda: Plugins([]))
    asked_for = replace(in_use, profile_name="prod")

    def url(context: Context, *clusters: str, given: str | None = None) -> str | None:
        place = registry_place(given, context, *clusters)
        return None if place is None else place.url

    assert url(in_use) == url(asked_for) == url(asked_for, "other:9092") == "http://reg:1"
    assert url(in_use, "other:9092") is None
    assert url(in_use, given="http://mine:1") == "http://mine:1"
    environment["MOLDAU_REGISTRY"] = "http://env:1"
    assert (url(in_use), url(asked_for)) == ("http://env:1", "http://reg:1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topic", "list", "--profile", "prot"), "did you mean prod?"),
        (("--profile",), "takes the name of a profile"),
        (("profile", "use", "x"), "no profile x"),
        (("profile", "create", "prod", "-b", CLOSED), "give --replace"),
        (("profile", "create", "new"), "give -b"),
        (("profile", "create", "../x", "-b", CLOSED), "is no name"),
        (("profile", "create", "new", "-b", "nowhere"), "nowhere"),
        (("profile", "create", "new", "-b", CLOSED, "--set", "security.protocol=TLS"), "TLS"),
        (("profile", "create", "new", "-b", CLOSED, "--registry", "reg"), "takes a URL"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(
    words: tuple[str, ...], told: str, shell: Shell
) -> None:
    shell.good("profile", "create", "prod", "-b", CLOSED)
    before = shell.good("profile", "list").out
    done = shell(*words)
    assert (done.code, done.out) == (2, ""), done
    assert told in done.err
    assert shell.good("profile", "list").out == before


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1, "profiles": {"a": {"settings": 7}}}'])
def test_a_broken_file_is_named(text: str, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "moldau" / "profiles.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    done = shell("topic", "list")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert str(file) in done.err


@pytest.mark.real
def test_a_fresh_process_reads_the_profile(tmp_path: Path, broker: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOLDAU_")}
    environment["XDG_CONFIG_HOME"] = str(tmp_path)
    for words in (["profile", "create", "live", "-b", broker], ["produce", "orders"]):
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau", *words], input="one\n", env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    assert Shell(broker).good("consume", "orders").out == "one\n"


def test_an_action_that_passes_all_its_words_on_has_no_option_of_ours() -> None:
    """As `moldau spark submit` does."""
    parser = Parser(out=StringIO())
    parser.add_profile()
    submit = parser.add_subparsers().add_parser("submit", prefix_chars="\0")
    submit.add_argument("words", nargs="*")

    for words in ([], ["job.py"], ["--profile", "prod", "--conf=a=b", "job.py", "-x"]):
        assert parser.parse_args(["submit", *words]).words == words
