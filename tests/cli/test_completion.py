"""`moldau completion`: what a shell offers at the Tab key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.sync import Consumer
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

_BASH = r"""
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_moldau
printf '%s\n' "${COMPREPLY[@]}"
"""
_ZSH = r"""
autoload -U compinit && compinit -D
source "$1"
shift
words=("$@") CURRENT=$#
compadd() { [[ "$1" == -a ]] && print -l "${(@P)2}" }
_files() { true }
_moldau
"""
_FISH = 'source $argv[1]; complete -C "$argv[2]"'


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with SyncEmbeddedBroker() as running:
        shell = Shell(running.bootstrap_servers)
        shell.good("topic", "create", "orders", "orders-2", "lines", "-p", "2")
        settings = {"bootstrap.servers": running.bootstrap_servers, "group.id": "readers"}
        with Consumer(settings) as consumer:
            consumer.assign([("orders", 0)])
            consumer.seek(("orders", 0), 0)
            consumer.commit()
        yield running.bootstrap_servers


def offered(shell: Shell, *words: str) -> list[str]:
    done = shell.good("completion", "candidates", source="".join(f"{each}\n" for each in words))
    return done.out.splitlines()


def test_words_of_moldau_itself() -> None:
    shell = Shell("127.0.0.1:1")
    assert offered(shell, "cons") == ["console", "consume"]
    assert offered(shell, "--pro") == ["--profile"]
    assert {"topic", "group", "help"} <= set(offered(shell, ""))
    assert offered(shell, "help", "prof") == ["profile"]
    assert offered(shell, "topic", "de") == ["delete", "describe"]
    assert offered(shell, "-b", "x:1", "topic", "de") == ["delete", "describe"]
    assert offered(shell, "topic", "list", "--int") == ["--internal"]
    assert offered(shell, "topic", "delete", "--y") == ["--yes"]
    assert offered(shell, "consume", "--value-schema", "") == ["avro", "json-schema", "protobuf"]
    assert offered(shell, "completion", "b") == ["bash"]
    assert "--debug" not in offered(shell, "topic", "list", "-")  # it is hidden there


def test_names_of_the_cluster(broker: str) -> None:
    shell = Shell(broker)
    assert offered(shell, "topic", "describe", "or") == ["orders", "orders-2"]
    assert offered(shell, "topic", "list", "or") == ["orders", "orders-2"]
    assert offered(shell, "topic", "delete", "orders-*", "li") == ["lines"]
    assert offered(shell, "group", "list", "") == ["readers"]
    assert offered(shell, "consume", "--count", "3", "orders", "l") == ["lines"]
    assert offered(shell, "consume", "--group", "") == ["readers"]
    shell.environment["MOLDAU_BOOTSTRAP"] = "127.0.0.1:1"
    assert offered(shell, "-b", broker, "topic", "delete", "li") == ["lines"]
    assert offered(shell, "topic", "delete", "-b", broker, "li") == ["lines"]
    shell.environment |= {"XDG_CONFIG_HOME": "/nowhere"}
    assert offered(shell, "topic", "list", "--profile", "") == []


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "describe", ""),
        ("nothing", "x"),
        ("consume", "--group", ""),
        ("topic", "x", "y"),
        ("--profile", "x", "topic", "describe", ""),
        ("-b", ""),
        ("consume", "a", "b", "--nothing", ""),
    ],
)
def test_where_nothing_can_be_said_nothing_is(words: tuple[str, ...]) -> None:
    assert offered(Shell("127.0.0.1:1"), *words) == []


def in_shell(name: str, program: str, tmp_path: Path, broker: str, *words: str) -> list[str]:
    """What the shell offers with our script."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    command = folder / "moldau"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m moldau "$@"\n')
    command.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(Shell("").good("completion", name).out)
    environment = {**os.environ, "MOLDAU_BOOTSTRAP": broker, "HOME": str(tmp_path)}
    environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    line = [" ".join(words)] if name == "fish" else [*words]
    before = [] if name == "fish" else [name]
    done = subprocess.run(  # noqa: S603 - the script under test
        [found, "-c", program, *before, script, *line], env=environment, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.real
@pytest.mark.parametrize(("name", "program"), [("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH)])
def test_a_real_shell_completes(name: str, program: str, tmp_path: Path, broker: str) -> None:
    for words, said in (
        (("moldau", "consume", "or"), ["orders", "orders-2"]),
        (("moldau", "topic", "cr"), ["create"]),
    ):
        assert in_shell(name, program, tmp_path, broker, *words) == said
    assert "lines" in in_shell(name, program, tmp_path, broker, "moldau", "consume", "")
