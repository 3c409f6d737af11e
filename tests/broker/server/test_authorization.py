"""The authorizer that the settings of a node name, and a cluster that decides by rules."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.broker.controller.image import Image
from moldau.broker.decision.authorizer import ALLOW_ALL
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.server.authorization import authorizer_of, check_authorizer
from moldau.errors import ConfigError
from tests.broker.api.administered import settings

KAFKAS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_without_a_name_everyone_is_allowed() -> None:
    assert authorizer_of(settings(), Image) is ALLOW_ALL


@pytest.mark.parametrize("name", [KAFKAS, "standard"])
def test_kafkas_class_name_and_its_settings_are_understood(name: str) -> None:
    given = {
        "authorizer.class.name": name,
        "super.users": " User:admin ;User:CN=broker-1,O=x;",
        "allow.everyone.if.no.acl.found": "TRUE",
    }
    made = authorizer_of(settings(**given), Image)
    assert isinstance(made, StandardAuthorizer)
    assert made.super_users == {"User:admin", "User:CN=broker-1,O=x"}
    assert made.allows_by_default
    assert not made.is_ready


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"authorizer.class.name": "org.x.Y"}, "names org.x.Y: give org.apache.kafka.metadata"),
        (
            {"authorizer.class.name": "standard", "super.users": "admin"},
            "'admin' is no principal; give User:NAME",
        ),
        (
            {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": "yes"},
            "allow.everyone.if.no.acl.found=yes: give true or false",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        authorizer_of(settings(**given), Image)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"moldau.audit.log": "x"}, "needs authorizer.class.name=standard"),
        ({"moldau.authorizer.dry.run": "true"}, "needs authorizer.class.name=standard"),
        (
            {"moldau.authorizer.dry.run": "true", "authorizer.class.name": "standard"},
            "a dry run denies nothing",
        ),
    ],
)
def test_a_dry_run_and_an_audit_without_effect_are_refused(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        authorizer_of(settings(**given), Image)


def test_a_plugin_that_lacks_a_member_is_no_authorizer() -> None:
    check_authorizer(ALLOW_ALL)
    with pytest.raises(ConfigError, match="lacks uses_rules, allowed, allowed_on_some"):
        check_authorizer(SimpleNamespace(allows_all=False))
