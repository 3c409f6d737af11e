"""Rules, users and quotas are changed on the page: each change is shown before it is made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from moldau.client import Admin
from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.client.admin.security import Acl, PartlyChanged, SecurityAdmin
from moldau.console.access.roles import Policy, Role
from moldau.console.access.visitor import Access
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.rights import QuotaChange, RuleChange, UserChange
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclResource
from moldau.protocol.scram import SCRAM_MECHANISMS, ScramMechanism
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker
from tests.console.forms import confirm
from tests.console.guarded import GUARDED, RULES, allow
from tests.console.shown import browser

RULE = {
    "user": "bob", "operation": "WRITE", "type": "TOPIC", "name": "orders",
    "pattern": "LITERAL", "permission": "ALLOW",
}  # fmt: skip
QUOTA = {"user": "bob", "quota": "producer_byte_rate", "value": "1000000"}
BAD = [
    (RuleChange, {**RULE, "user": " "}, "user: this field is empty"),
    (RuleChange, {**RULE, "name": ""}, "name: this field is empty"),
    (RuleChange, {**RULE, "operation": "FLY"}, "operation: ALL, READ"),
    (RuleChange, {**RULE, "pattern": "MATCH"}, "pattern: LITERAL, PREFIXED"),
    (RuleChange, {**RULE, "permission": "ANY"}, "permission: ALLOW, DENY"),
    (UserChange, {"user": ""}, "user: this field is empty"),
    (UserChange, {"user": "bob", "mechanism": "PLAIN"}, "mechanism: SCRAM-SHA-256"),
    (UserChange, {"user": "bob", "iterations": "100"}, "iterations: 4096 to 16384"),
    (UserChange, {"user": "bob", "iterations": "many"}, "iterations: 4096 to 16384"),
    (QuotaChange, {**QUOTA, "quota": "speed"}, "quota: producer_byte_rate"),
    (QuotaChange, {**QUOTA, "user": ""}, "give a user"),
    (QuotaChange, {**QUOTA, "value": "much"}, "value: give a number above 0"),
    (QuotaChange, {**QUOTA, "value": "inf"}, "value: give a number above 0"),
    (QuotaChange, {**QUOTA, "value": "-1"}, "value: give a number above 0"),
    (QuotaChange, {**QUOTA, "ip": "10.0.0.1"}, "is for an address alone"),
]


@pytest.mark.parametrize(("kind", "form", "told"), BAD)
def test_a_form_that_cannot_be_used_is_told_by_its_field(
    kind: type[RuleChange | UserChange | QuotaChange], form: dict[str, str], told: str
) -> None:
    with pytest.raises(BadForm, match=told):
        kind.of(form)


@pytest.mark.parametrize(
    "made",
    [
        RuleChange(RULES[0], is_removal=False),
        RuleChange(
            Acl("User:a b", AclOperation.ALTER, "kafka-cluster", AclResource.CLUSTER, host="::1"),
            is_removal=True,
        ),
        UserChange("bob", (ScramMechanism.SHA_512,), 4096, is_removal=False),
        UserChange("bob", (ScramMechanism.SHA_256, ScramMechanism.SHA_512), 8192, is_removal=True),
        QuotaChange(QuotaEntity("*", "shop"), "request_percentage", 12.5),
        QuotaChange(QuotaEntity(ip="10.0.0.1"), "connection_creation_rate", None),
    ],
)
def test_the_fields_of_a_preview_mean_the_same_change(
    made: RuleChange | UserChange | QuotaChange,
) -> None:
    assert type(made).of(made.fields()) == made


def test_a_change_of_one_mechanism_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    both = UserChange("bob", tuple(SCRAM_MECHANISMS.values()), 4096, is_removal=False)
    given = {"password": "rabbit", "password.again": "rabbit"}

    async def set_password(self: object, user: str, password: str, **options: Any) -> None:
        if options["mechanism"] in refused:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(SecurityAdmin, "set_password", set_password)
    admin: Any = SimpleNamespace(_requests=None)
    refused = {ScramMechanism.SHA_512}
    with pytest.raises(PartlyChanged, match="made='SCRAM-SHA-256', failed='SCRAM-SHA-512'"):
        asyncio.run(both.make(admin, given))
    refused.add(ScramMechanism.SHA_256)
    with pytest.raises(KafkaError):
        asyncio.run(both.make(admin, given))


async def adds_and_removes_a_rule(client: httpx2.AsyncClient, security: SecurityAdmin) -> None:
    preview = await client.post("/rights/rule/plan", data=RULE)
    assert "+ ALLOW User:bob WRITE topic:orders" in preview.text
    assert len(await security.describe_acls()) == len(RULES), "a preview changes nothing"
    page = await confirm(client, preview)
    assert (page.url.path, "User:bob" in page.text) == ("/rights", True)
    made = Acl("User:bob", AclOperation.WRITE, "orders")
    assert made in await security.describe_acls()
    again = await client.post("/rights/rule/plan", data=RULE)
    assert "There is this rule already" in again.text
    assert "Add a rule</button>" not in again.text

    first = {**RULE, "name": "new*", "permission": "DENY"}
    notes = (await client.post("/rights/rule/plan", data=first)).text
    for text in ("choose PREFIXED", "the first rule about this name", "denies counts before"):
        assert text in notes, text

    gone = await client.post("/rights/rule/plan", data={**RULE, "does": "remove"})
    assert "- ALLOW User:bob WRITE topic:orders" in gone.text
    await confirm(client, gone)
    assert set(await security.describe_acls()) == set(RULES)
    prefixed = Acl("User:bob", AclOperation.READ, "*", pattern=AclPattern.PREFIXED)
    await security.create_acls([prefixed, replace(prefixed, pattern=AclPattern.LITERAL)])
    form = RuleChange(prefixed, is_removal=True).fields()
    await confirm(client, await client.post("/rights/rule/plan", data=form))
    form["pattern"] = "LITERAL"
    assert set(await security.describe_acls()) == {*RULES, RuleChange.of(form).rule}
    await confirm(client, await client.post("/rights/rule/plan", data=form))
    assert set(await security.describe_acls()) == set(RULES)
    late = await confirm(client, gone)
    assert (late.status_code, "removed meanwhile" in late.text) == (400, True)


async def adds_and_removes_a_user(client: httpx2.AsyncClient, security: SecurityAdmin) -> None:
    preview = await client.post("/rights/user/plan", data={"user": "carol", "does": "set"})
    assert "Add the user carol" in preview.text
    given = {"password": "rabbit", "password.again": "rabbi"}
    wrong = await confirm(client, preview, **given)
    assert (wrong.status_code, "twice, the same one" in wrong.text) == (400, True)
    await confirm(client, preview, **{**given, "password.again": "rabbit"})
    users = {each.name: each.iterations for each in await security.describe_users()}
    assert users["carol"] == {ScramMechanism.SHA_256: 8192, ScramMechanism.SHA_512: 8192}
    again = await client.post("/rights/user/plan", data={"user": "carol", "does": "set"})
    assert "Set the password of carol" in again.text

    gone = await client.post("/rights/user/plan", data={"user": "carol", "does": "remove"})
    untyped = await confirm(client, gone, typed="caro")
    assert (untyped.status_code, "to remove it: carol" in untyped.text) == (400, True)
    await confirm(client, gone, typed="carol")
    assert [each.name for each in await security.describe_users()] == ["alice"]


async def sets_and_removes_a_quota(client: httpx2.AsyncClient, quotas: QuotaAdmin) -> None:
    bob = QuotaEntity(user="bob")
    await confirm(client, await client.post("/rights/quota/plan", data=QUOTA))
    assert (await quotas.describe())[bob] == {"producer_byte_rate": 1_000_000.0}
    other = await client.post("/rights/quota/plan", data={**QUOTA, "value": "2000000"})
    assert "- user bob: producer_byte_rate 1000000" in other.text
    assert "+ user bob: producer_byte_rate 2000000" in other.text
    await confirm(client, other)
    assert (await quotas.describe())[bob] == {"producer_byte_rate": 2_000_000.0}
    exact = {**QUOTA, "quota": "request_percentage", "value": "12.3456789"}
    preview = await client.post("/rights/quota/plan", data=exact)
    assert "+ user bob: request_percentage 12.3456789" in preview.text
    page = await confirm(client, preview)
    assert page.text.count("12.3456789") == 2, "in the table, and in the field to change it"
    await quotas.alter(bob, {}, unset=["request_percentage"])
    gone = await client.post("/rights/quota/plan", data={**QUOTA, "does": "remove"})
    await confirm(client, gone)
    assert bob not in await quotas.describe()


@pytest.mark.real
def test_rules_users_and_quotas_are_changed_after_a_preview() -> None:
    lines: list[str] = []
    audit = Loggers(RealClock(), lines.append).get("audit")

    async def run() -> None:
        async with EmbeddedBroker(settings=GUARDED) as broker:
            servers = broker.bootstrap_servers
            await allow(servers)
            async with (
                Admin(bootstrap_servers=servers) as admin,
                browser(servers, Access(True, audit=audit)) as client,
            ):
                await adds_and_removes_a_rule(client, SecurityAdmin(admin))
                await adds_and_removes_a_user(client, SecurityAdmin(admin))
                await sets_and_removes_a_quota(client, QuotaAdmin(admin))

    asyncio.run(run())
    text = "".join(lines)
    attempts = {"change a rule": 5, "change a user": 4, "change a quota": 4}
    for action, count in attempts.items():
        assert text.count(f'action="{action}"') == count, action
    assert "rabbi" not in text


@pytest.mark.real
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_an_admin_sees_and_sends_the_forms(role: Role) -> None:
    async def run() -> None:
        async with EmbeddedBroker(settings=GUARDED) as broker:
            await allow(broker.bootstrap_servers)
            access = Access(policy=Policy(fallback=role))
            async with browser(broker.bootstrap_servers, access) as client:
                page = (await client.get("/rights")).text
                assert "alice" in page
                assert 'method="post"' not in page
                for path, form in (("rule", RULE), ("user", {"user": "x"}), ("quota", QUOTA)):
                    for end in ("", "/plan"):
                        refused = await client.post(f"/rights/{path}{end}", data=form)
                        assert refused.status_code == 403, path

    asyncio.run(run())
