"""A plan for all topics is refused where topics are hidden from the user: the missing right is
named, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

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


class Secured(NamedTuple):
    admin: Shell
    address: str
    logins: Path

    def run(self, user: str, words: str) -> Done:
        login = ("--command-config", str(self.logins / f"{user}.properties"))
        return Shell(self.address)(*words.split(), *login)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("logins")
    (port,) = free_ports(1)
    settings = plain_logins(USERS, port)
    with SyncEmbeddedBroker(settings) as broker:
        admin = Shell(broker.bootstrap_servers)
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
        yield Secured(admin, f"127.0.0.1:{port}", folder)


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
