"""`moldau streams topology|explain|draw` shows an app that is not run."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.pipeline.app_plans import explain_apps
from moldau.pipeline.pipeline import App, AppPlan
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.streams.real.running import ROOT

APP = "examples.shop.topology:app"


def show(action: str) -> str:
    return Shell("127.0.0.1:1").good("streams", action, APP).out


def test_the_topology_names_stores_and_topics() -> None:
    text = show("topology")

    assert text.startswith("app shop\n  sub-topology 0\n")
    assert "shop-revenue-changelog" in text


def test_the_explanation_names_each_step() -> None:
    text = show("explain")

    assert text.startswith("app shop: ")
    assert "windows (tumbling 1m" in text


def test_the_explanation_names_what_the_app_makes_on_its_inputs() -> None:
    shell = Shell("127.0.0.1:1")
    app = "tests.streams.real.apps:together"

    fits = shell.good("streams", "explain", app, "--partitions", "app-lines=4").out
    differs = shell.good(
        "streams", "explain", app, "--partitions", "app-lines=4", "--partitions", "app-narrow=3"
    ).out

    assert "on inputs with partitions app-lines 4, app-narrow 4:" in fits
    assert "sub-topology 0: tasks 4" in fits
    assert "it cannot run: app=app: records of these topics meet by key" in differs


def test_the_picture_is_svg() -> None:
    assert ElementTree.fromstring(show("draw")).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314


def test_a_name_that_leads_nowhere_is_told() -> None:
    done = Shell("127.0.0.1:1")("streams", "draw", "examples.shop.topology:nothing")

    assert (done.code, done.out) == (2, "")
    assert "has no nothing" in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def app(:\n", "SyntaxError: invalid syntax"),
        ("import not_to_be_found_here\n", "not_to_be_found_here, which is not installed"),
    ],
)
def test_a_module_that_fails_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    name = f"fails_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    done = Shell("127.0.0.1:1")("streams", "topology", f"{name}:app")

    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "line 1)" in done.err or "not installed" in done.err
    assert done.err.count("\n") == 1


def test_the_explanation_names_inputs_whose_keys_lie_elsewhere(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As lint asks it: in a process of its own, with the cluster."""
    monkeypatch.setenv("APP", moldau_topic)
    servers = moldau_broker.bootstrap_servers
    narrow = f"{moldau_topic}-narrow"
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(f"{moldau_topic}-lines", 2, 1), NewTopic(narrow, 2, 1)])
        for at in range(40):
            key = f"key-{at}".encode()
            producer.send(narrow, b"row", key=key, partition=zlib.crc32(key) % 2)
            producer.send(f"{moldau_topic}-lines", b"line", key=key)
        producer.flush()
    app = App("app", 1, "tests.streams.real.apps:together")
    where = ("--bootstrap", servers)

    for engine in ("embedded", "spark"):
        [found] = explain_apps([replace(app, engine=engine)], {}, str(ROOT), where)
        assert isinstance(found, AppPlan), found
        [text] = found.misplaced
        assert text.startswith(f"misplaced={narrow}: ")
        assert 'partitioner="crc32" (which fits)' in text
    [alone] = explain_apps([app], {}, str(ROOT))
    assert isinstance(alone, AppPlan)
    assert alone.misplaced == ()
