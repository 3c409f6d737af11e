"""The form of log lines is a choice of every command that runs until a signal."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from moldau.cli.log_format import add_log_format
from tests.broker.main.processes import broker_process
from tests.cli.shell import Shell

COMMANDS = {
    "broker": ("broker", "start"),
    "connect start": ("connect", "start"),
    "connect run": ("connect", "run", "x.json", "--state", "x"),
    "streams": ("streams", "run", "app:app"),
    "registry": ("registry", "start"),
    "dev": ("dev",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_the_forms_that_it_has(command: str) -> None:
    done = Shell("127.0.0.1:1")(*COMMANDS[command], "--log-format", "xml")
    assert done.code == 2
    assert "json" in done.err
    assert "xml" in done.err


@pytest.mark.parametrize(
    ("words", "is_json"),
    [
        ((), False),
        (("--log-json",), True),
        (("--log-format", "json"), True),
        (("--log-format", "text"), False),
    ],
)
def test_both_options_say_the_same(words: tuple[str, ...], is_json: bool) -> None:
    parser = ArgumentParser()
    add_log_format(parser)
    assert parser.parse_args(words).log_json is is_json


@pytest.mark.real
def test_each_log_line_of_a_broker_is_an_object(tmp_path: Path) -> None:
    with broker_process(tmp_path, "--log-format", "json") as broker:
        code, log = broker.stop()
    assert code == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all(isinstance(each, dict) for each in lines)
