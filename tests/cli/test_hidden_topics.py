"""A plan for all topics is refused where topics are hidden from the user: the missing right is
named, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from moldau.operations.hidden import Names
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.cli.plain_logins import plain_logins
from tests.cli.shell import Done, Shell

pytestmark = pytest.mark.real

ADMINISTRATOR: Final = ("ALL cluster", "ALL group:*")
USERS: Final = {
    # Topics of one team, by the rules that teams have.
    "team": ("ALL group:*", "ALL topic:seen-*"),
    "denied": (*ADMINISTRATOR, "ALL topic:*", "-DESCRIBE topic:secret"),
    "resetter": (*ADMINISTRATOR, "ALL topic:*", "-DESCRIBE topic:tables-a-changelog"),
    "whole": (*ADMINISTRATOR, "ALL topic:*"),
}
PLANS: Final = {
    "drain": "broker drain 1 --dry-run",
    "decommission": "broker decommission 1 --dry-run",
    "reassign": "reassign plan",
    "move": "group move readers --to others",
    "reset": "group reset readers --to-earliest",
    "reset of all": "group reset --all --to-earliest",
    "init": "share init workers --from-group readers",
    "share reset": "share reset queue --to-earliest",
    "hanging": "txn hanging",
}
NAMED: Final = {
    "move": "group move readers --to others --topic secret",
    "rename": "group move readers --rename seen-orders=secret --topic seen-orders",
    "init": "share init workers --from-group readers --topic secret",
    "reset": "group reset readers --to-earliest --topic secret",
    "delete": "group delete readers --topic secret",
}
APP: Final = """from re import compile

from moldau.streams import Streams

app = Streams("seen-tables")
app.stream({}).to("seen-out")
"""
PIPELINE: Final = """pipeline: lines
topics:
  secret: {external: true}
sinks:
  write:
    connector.class: FileStreamSink
    topics: secret
    file: lines.txt
"""
RESET: Final = "streams reset --application-id tables"
PARTS: Final = [
    ("resetter", RESET, "topic:tables-a-changelog"),
    ("team", RESET, "topic:tables-*"),
    ("denied", f"{RESET} --input-topics secret", "topic:secret"),
    ("team", f"{RESET} --internal-topics tables-a-changelog", "topic:tables-a-changelog"),
    ("team", "streams reset named_app:app", "topic:secret"),
    ("denied", "streams reset pattern_app:app", "topic:secret"),
    ("team", "streams reset pattern_app:app", "topic:s*"),
    ("denied", "pipeline plan pipeline.yaml", "topic='secret'"),
    ("team", "pipeline plan pipeline.yaml", "topic='secret'"),
]
"""Users, plans for topics of a part of all names, and what is hidden of them."""
WARNINGS: Final = [
    ("denied", "topic describe s*", "topic:secret"),
    ("team", "topic describe s*", "topic:s*"),
    ("denied", "mirror --topics s.*", "topic='secret'"),
    ("team", "mirror --topics s.*", "topic='s*'"),
    ("team", "mirror --topics seen-orders,secret", "topic='secret'"),
]
SEEN: Final = [
    ("team", "topic describe seen-*"),
    ("team", "streams reset --application-id seen-app --input-topics seen-orders"),
    ("denied", "topic describe see*"),
    ("denied", RESET),
    ("whole", "topic describe *"),
    ("whole", RESET),
    ("whole", "streams reset pattern_app:app"),
    ("whole", "pipeline plan pipeline.yaml"),
    ("whole", "mirror --topics s.*"),
    ("team", "mirror --topics seen-.*"),
]


class Secured(NamedTuple):
    admin: Shell
    address: str
    logins: Path
    other: str
    """The address of another cluster."""

    def run(self, user: str, words: str) -> Done:
        login = str(self.logins / f"{user}.properties")
        more = ["--command-config", login]
        if words.startswith("mirror "):
            more = ["--from", self.address, "--to", self.other, "--dry-run", "--from-config", login]
        return Shell(self.address)(*words.split(), *more)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("logins")
    (port,) = free_ports(1)
    settings = plain_logins(USERS, port)
    with SyncEmbeddedBroker(settings) as broker, SyncEmbeddedBroker() as other:
        admin = Shell(broker.bootstrap_servers)
        for topic in ("tables-a-changelog", "seen-app-a-changelog"):
            admin.good("topic", "create", topic)
        for topic in ("seen-orders", "secret"):
            admin.good("topic", "create", topic)
            for kind, group in (("group", "readers"), ("share", "queue")):
                start = (kind, "reset", group, "--topic", topic, "--to-earliest")
                admin.good(*start, "--execute")
        for user, rules in USERS.items():
            (folder / f"{user}.properties").write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f"sasl.username={user}\nsasl.password=p\n"
            )
            for rule in rules:
                deny = ("--deny",) if rule.startswith("-") else ()
                admin.good("acl", "add", user, *rule.lstrip("-").split(), *deny)
        yield Secured(admin, f"127.0.0.1:{port}", folder, other.bootstrap_servers)


def stands(secured: Secured, group: str) -> set[str]:
    """The topics in which a group has committed."""
    found = json.loads(secured.admin.good("group", "describe", group, "--offsets", "--json").out)
    return {each["topic"] for group in found for each in group["offsets"]}


@pytest.mark.parametrize("plan", PLANS)
def test_a_denied_topic_is_named_before_a_plan_for_all(secured: Secured, plan: str) -> None:
    done = secured.run("denied", PLANS[plan])

    assert done.code != 0
    assert "denied has no right DESCRIBE on topic:secret; moldau acl explain" in done.err
    assert not done.out


@pytest.mark.parametrize("plan", ["move", "reset", "init", "share reset", "hanging"])
def test_topics_that_may_be_hidden_are_named_before_a_plan_for_all(
    secured: Secured, plan: str
) -> None:
    done = secured.run("team", PLANS[plan])

    assert done.code != 0
    assert "may be hidden" in done.err
    assert "team has no right DESCRIBE on topic:*; moldau acl explain" in done.err
    assert not done.out


@pytest.mark.parametrize("plan", NAMED)
@pytest.mark.parametrize("user", ["team", "denied"])
def test_a_hidden_topic_that_is_named_is_one_without_a_right(
    secured: Secured, user: str, plan: str
) -> None:
    done = secured.run(user, NAMED[plan])

    assert done.code != 0
    assert f"{user} has no right DESCRIBE on topic:secret; moldau acl explain" in done.err


@pytest.mark.parametrize("plan", [each for each in PLANS if each not in ("drain", "decommission")])
def test_one_that_sees_all_topics_gets_its_plan(secured: Secured, plan: str) -> None:
    done = secured.run("whole", PLANS[plan])

    assert done.code == 0, done.err


def test_a_move_of_seen_topics_leaves_hidden_offsets_where_they_are(secured: Secured) -> None:
    for topic in ("seen-orders", "secret"):
        reset = ("--topic", topic, "--to-earliest", "--execute")
        secured.admin.good("group", "reset", "movers", *reset)

    move = "group move movers --to moved --topic seen-orders --execute"
    done = secured.run("team", move)

    assert done.code == 0, done.err
    assert stands(secured, "moved") == {"seen-orders"}
    assert stands(secured, "movers") == {"secret"}


def test_an_export_says_that_topics_may_be_missing(secured: Secured) -> None:
    done = secured.run("denied", "export topics")

    assert done.code == 0, done.err
    assert "seen-orders" in done.out
    assert "denied has no right DESCRIBE on topic:secret" in done.err
    assert not secured.run("whole", "export topics").err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_app.py").write_text(APP.format('"secret"'))
    (tmp_path / "pattern_app.py").write_text(APP.format('compile("s.*")'))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("user", "plan", "hidden"), PARTS)
def test_a_hidden_topic_is_named_before_a_plan_for_a_part_of_all(
    secured: Secured, user: str, plan: str, hidden: str
) -> None:
    done = secured.run(user, plan)

    assert done.code != 0
    assert "hidden" in done.err
    assert hidden in done.err
    assert not done.out


@pytest.mark.parametrize("user", ["team", "resetter"])
def test_a_reset_without_all_rights_says_how_topics_are_named(secured: Secured, user: str) -> None:
    assert "--internal-topics names those to delete" in secured.run(user, RESET).err


@pytest.mark.parametrize(
    ("user", "pattern", "hidden"),
    [("team", "*-tmp", "topic:*"), ("denied", "s*[tp]", "topic:secret")],
)
def test_a_delete_of_what_a_pattern_matches_leaves_what_is_hidden(
    secured: Secured, user: str, pattern: str, hidden: str
) -> None:
    secured.admin.good("topic", "create", "seen-tmp")

    done = secured.run(user, f"topic delete {pattern} --yes")

    assert done.code == 0, done.err
    assert done.out == "deleted seen-tmp\n"
    assert "topics may be missing: " in done.err
    assert hidden in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("user", "words", "hidden"), WARNINGS)
def test_what_is_shown_without_a_hidden_topic_says_so(
    secured: Secured, user: str, words: str, hidden: str
) -> None:
    done = secured.run(user, words)

    assert done.code == 0, done.err
    assert "topics may be missing: " in done.err
    assert hidden in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("user", "words"), SEEN)
def test_what_is_seen_as_a_whole_has_no_warning(secured: Secured, user: str, words: str) -> None:
    done = secured.run(user, words)

    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", Names("orders", is_whole=True)),
        (r"orders\.eu", Names("orders.eu", is_whole=True)),
        ("orders.*", Names("orders")),
        ("orders-(a|b)", Names("orders-")),
        ("orders|bills", Names()),
        ("orders(a)|bills", Names()),
        ("ab?c", Names("a")),
        ("ab+", Names("ab")),
        ("", Names("", is_whole=True)),
        ("[ab]c", Names()),
        (r"a\d", Names("a")),
    ],
)
def test_names_with_all_that_an_expression_matches(pattern: str, names: Names) -> None:
    assert Names.of_regex(pattern) == names
