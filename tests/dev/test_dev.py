"""`moldau dev`: a broker and a worker that are up together."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from argparse import ArgumentParser
from io import StringIO
from pathlib import Path

import pytest

from moldau.cli.command import Context
from moldau.dev.command import command
from moldau.errors import MoldauError
from moldau.plugins import Plugins


@pytest.mark.real
def test_broker_and_worker_come_up_together_and_end_in_order(tmp_path: Path) -> None:
    words = ["dev", "--port", "0", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    words += ["--registry", "127.0.0.1:0"]
    main = "from moldau.cli import main; exit(main())"
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", main, *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(7)]
            with urllib.request.urlopen(f"{lines[4][1]}/subjects", timeout=30) as answer:  # noqa: S310
                assert answer.read() == b"[]"
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()

    assert lines[0] == ["moldau", "dev", "is", "up"]
    assert [line[0] for line in lines[1:5]] == ["bootstrap", "rest", "console", "registry"]


def no_plugins() -> Plugins:
    raise AssertionError("nothing is started")


def test_parts_that_are_open_to_the_network_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("moldau.runtime.real.run", lambda main, node: None)
    parser = ArgumentParser()
    command.configure(parser)

    def told(*words: str) -> list[str]:
        context = Context(StringIO(), StringIO(), {}, no_plugins)
        command.run(parser.parse_args(words), context)
        assert isinstance(context.err, StringIO)
        return context.err.getvalue().splitlines()

    assert told("--registry") == []
    assert told("--console", ":8080", "--registry", ":8081") == []
    console, registry = told("--console", "0.0.0.0:8080", "--registry", "10.0.0.1:8081")
    assert "0.0.0.0 lets every visitor change the cluster; --http-config or" in console
    assert "10.0.0.1:8081 lets every visitor change schemas; --http-config of" in registry


def test_a_port_of_the_broker_that_is_in_use_is_told_with_another_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = ArgumentParser()
    command.configure(parser)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        context = Context(StringIO(), StringIO(), {}, no_plugins)
        with pytest.raises(MoldauError, match=rf"stop it, or give another, as --port {port + 1}"):
            command.run(parser.parse_args(["--port", str(port)]), context)
