"""A command without its rights names the user, the right and the question that explains it.

Every command of `moldau` that connects to a cluster is run by a user of its own, without rules.
Each right that an error names is granted, and the command is run again, until it works or fails for
another reason. So a right that is not the missing one is found: the next error names it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from moldau.client.sync import Producer
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.cli.cluster_commands import cluster_commands
from tests.cli.plain_logins import plain_logins
from tests.cli.shell import Done, Shell

pytestmark = pytest.mark.real

COMMANDS: Final = {
    "acl list": "acl list",
    "acl add": "acl add bob READ topic:x",
    "acl remove": "acl remove bob READ topic:x",
    "acl explain": "acl explain bob READ topic:x",
    "apply": "apply --yes -f {document}",
    "backup": "backup file://{logins}",
    "broker drain": "broker drain 1 --dry-run",
    "broker decommission": "broker decommission 1 --dry-run",
    "cluster balance": "cluster balance",
    "cluster check": "cluster check",
    "cluster features": "cluster features --upgrade kraft.version=1 --dry-run",
    "cluster quorum": "cluster quorum",
    "cluster log-dirs": "cluster log-dirs",
    "cluster roll": "cluster roll --restart true --dry-run",
    "config describe": "config describe topic orders",
    "config set": "config set broker 1 log.cleaner.threads=1",
    "config unset": "config unset topic orders retention.ms",
    "consume": "consume orders --group new-group --count 1",
    "export": "export",
    "group describe": "group describe billing",
    "group reset": "group reset billing --topic orders --to-earliest --execute",
    "group delete": "group delete finished",
    "group move": "group move billing --to billing-2 --execute",
    "leader elect": "leader elect orders",
    "offsets": "offsets orders",
    "produce": "produce orders",
    "quorum status": "quorum status",
    "quorum add": "quorum add 9 --at CONTROLLER://localhost:1",
    "quorum remove": "quorum remove 9",
    "quorum unregister": "quorum unregister 9",
    "quota list": "quota list",
    "quota set": "quota set --user bob producer_byte_rate=1000000",
    "quota remove": "quota remove --user bob producer_byte_rate",
    "reassign plan": "reassign plan orders",
    "reassign execute": "reassign execute {plan}",
    "reassign verify": "reassign verify {plan}",
    "reassign cancel": "reassign cancel {plan}",
    "reassign list": "reassign list",
    "security check": "security check --bootstrap {address}",
    "share describe": "share describe workers",
    "share offsets": "share offsets workers",
    "share reset": "share reset workers --topic orders --to-earliest --execute",
    "share init": "share init workers-2 --from-group billing --execute",
    "share peek": "share peek workers --topic orders",
    "share dlq": "share dlq list workers",
    "share delete": "share delete done-workers",
    "tier status": "tier status",
    "tier copy-now": "tier copy-now orders",
    "tier verify": "tier verify orders",
    "token create": "token create --owner bob",
    "topic describe": "topic describe orders",
    "topic create": "topic create orders-2",
    "topic delete": "topic delete orders-3",
    "topic alter": "topic alter orders --partitions 2",
    "topic trim": "topic trim orders --before end",
    "txn describe": "txn describe payments",
    "txn hanging": "txn hanging orders",
    "txn abort": "txn abort payments",
    "user list": "user list",
    "user add": "user add bob",
    "user password": "user password bob",
    "user remove": "user remove bob",
}
FILTERED: Final = "lists what the user may see, and a user without rules sees nothing"
SERVES: Final = "serves until it is stopped"
OF_APP: Final = "runs code of the user, whose clients fail with errors of the client"
OF_FILE: Final = "logs in as the worker's file says, whose errors it shows"
OF_WORKER: Final = "acts by a Connect worker and by apps, which have clients of their own"
OF_TOKENS: Final = "no right is enough: only the owner and the renewers may"
EXCEPTIONS: Final = {
    "cluster describe": "names nodes, which every user may see",
    "cluster top": "names nodes, which every user may see",
    "cluster versions": "asks for versions, before any login",
    "connect dlq": OF_FILE,
    "connect run": OF_FILE,
    "connect start": OF_FILE,
    "connect tap": OF_FILE,
    "console": SERVES,
    "doctor": "says what every user may see, and that the rest is not known",
    "group list": FILTERED,
    "pipeline down": OF_WORKER,
    "pipeline lint": "reads files; a cluster is only for the tables of --target",
    "pipeline plan": OF_WORKER,
    "pipeline reset": OF_WORKER,
    "pipeline run": OF_WORKER,
    "pipeline status": OF_WORKER,
    "profile create": "writes a file",
    "restore": "needs a backup and a cluster without topics: tests/backups/test_refusals.py",
    "registry start": SERVES,
    "share list": FILTERED,
    "streams adopt": OF_APP,
    "streams explain": OF_APP,
    "streams move": OF_APP,
    "streams pause": OF_APP,
    "streams plan": OF_APP,
    "streams reset": OF_APP,
    "streams restore": OF_APP,
    "streams resume": OF_APP,
    "streams run": OF_APP,
    "streams savepoint": OF_APP,
    "streams status": OF_APP,
    "streams workers": OF_APP,
    "token expire": OF_TOKENS,
    "token list": FILTERED,
    "token renew": OF_TOKENS,
    "top": "shows what the user may see, until it is stopped",
    "topic list": FILTERED,
    "txn list": FILTERED,
}
MISSING: Final = re.compile(
    r"(?P<user>\S+) has no right (?P<right>[A-Z_]+) on (?P<place>\S+); "
    r"moldau acl explain (?P=user) (?P=right) (?P=place) says why"
)
REFUSED: Final = re.compile("AUTHORIZATION_FAILED|[Aa]uthorization failed|has no right")
RIGHTS_MAX: Final = 12
ALONE: Final = "backup"
"""It needs a right for each group that there is: a node of its own has none of other commands."""
USERS: Final = {name: f"user-{index}" for index, name in enumerate(COMMANDS)}


class Secured(NamedTuple):
    """A node that knows the users, its administrator, and the words that stand for files."""

    admin: Shell
    address: str
    files: dict[str, str]

    def run(self, name: str) -> Done:
        words = COMMANDS[name].format_map(self.files).split()
        login = ("--command-config", f"{self.files['logins']}/{USERS[name]}.properties")
        return Shell(self.address)(*words, *login, source="value\n")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with _secured(tmp_path_factory.mktemp("files")) as found:
        yield found


@contextmanager
def _secured(folder: Path) -> Iterator[Secured]:
    (port,) = free_ports(1)
    logins = plain_logins(USERS.values(), port)
    settings = {**logins, "delegation.token.secret.key": "key"}
    with SyncEmbeddedBroker(settings) as broker:
        admin = Shell(broker.bootstrap_servers)
        for topic in ("orders", "orders-3"):
            admin.good("topic", "create", topic)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments"}
        with Producer(settings) as producer, producer.transaction():
            producer.send("orders", b"a")
        reset = ("--topic", "orders", "--to-earliest", "--execute")
        for group in ("billing", "finished"):
            admin.good("group", "reset", group, *reset)
        for group in ("workers", "done-workers"):
            admin.good("share", "reset", group, *reset)
        address = f"127.0.0.1:{port}"
        yield Secured(admin, address, {"address": address, **_files(folder)})


def _files(folder: Path) -> dict[str, str]:
    moves = [{"topic": "orders", "partition": 0, "replicas": [1]}]
    contents = {
        "document.yaml": "topics:\n  made:\n    partitions: 1\n",
        "plan.json": json.dumps({"version": 1, "partitions": moves}),
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    for user in USERS.values():
        (folder / f"{user}.properties").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={user}\nsasl.password=p\n"
        )
    return {"logins": str(folder), **{Path(name).stem: str(folder / name) for name in contents}}


def test_every_command_with_a_cluster_is_here() -> None:
    assert not COMMANDS.keys() & EXCEPTIONS.keys()
    assert sorted(cluster_commands()) == sorted((*COMMANDS, *EXCEPTIONS))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != ALONE])
def test_each_right_that_is_named_is_a_missing_one(secured: Secured, name: str) -> None:
    _grant_what_is_missing(secured, name)


def test_each_right_that_is_named_for_all_groups_is_a_missing_one(tmp_path: Path) -> None:
    with _secured(tmp_path) as own:
        _grant_what_is_missing(own, ALONE)


def _grant_what_is_missing(secured: Secured, name: str) -> None:
    """Run a command, and grant each right that it names, until it names none."""
    granted: set[tuple[str, str]] = set()
    for _ in range(RIGHTS_MAX):
        done = secured.run(name)
        told = f"{done.code}\n{done.out}\n{done.err}"
        lines = [each for each in told.splitlines() if REFUSED.search(each)]
        if not lines:
            break
        found = [each for line in lines if (each := MISSING.search(line))]
        assert len(found) == len(lines), told
        assert done.code != 0, told
        assert {each["user"] for each in found} == {USERS[name]}
        rights = {(each["right"], each["place"]) for each in found}
        assert not rights & granted, told
        granted |= rights
        for right in rights:
            secured.admin.good("acl", "add", USERS[name], *right)
    assert 0 < len(granted) < RIGHTS_MAX, told
