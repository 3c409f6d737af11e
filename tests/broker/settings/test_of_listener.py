"""Settings of one listener: each has an effect, or is refused or told of at the start."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from moldau.broker.server.security import own_settings
from moldau.broker.settings import (
    BROKER_SETTINGS,
    broker_settings,
    dynamic_notices,
    network,
    notices,
    sasl,
    unbuilt,
)
from moldau.broker.settings.of_listener import OAUTH_ROWS, ROWS, own_name
from moldau.broker.settings.tables import NOUNS
from moldau.config import BadSettings, Settings
from moldau.link.login.token_settings import TOKEN_ROWS
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer

ROOT: Final = Path(__file__).parents[3]
TLS: Final = (ROOT / "platform/moldau/link/tls.py").read_text(encoding="utf-8")
SERVER: Final = ROOT / "broker/moldau/broker/server"
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
LISTENERS: Final = {
    "listeners": "PLAINTEXT://:1,IN.SIDE://:2,CONTROLLER://:3",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,IN.SIDE:SASL_SSL,CONTROLLER:SSL,ELSEWHERE:SSL"
    ),
    "advertised.listeners": "PLAINTEXT://a:1,IN.SIDE://a:2",
}


def with_own(name: str, value: str = "x") -> Settings:
    """Return the settings of a node with one name below `listener.name.`."""
    return broker_settings(file_layer({**BASE, **LISTENERS, f"listener.name.{name}": value}))


@pytest.mark.parametrize(
    "name",
    [
        "plaintext.sasl.server.callback.handler.class",
        "plaintext.plain.sasl.server.callback.handler.class",
        "in.side.plain.sasl.server.callback.handler.class",
        "in.side.scram-sha-512.sasl.login.callback.handler.class",
        "in.side.oauthbearer.sasl.server.callback.handler.class",
        "in.side.sasl.client.callback.handler.class",
        "in.side.principal.builder.class",
        "controller.principal.builder.class",
        "in.side.sasl.oauthbearer.jwt.validator.class",
        "in.side.oauthbearer.sasl.oauthbearer.jwt.validator.class",
    ],
)
def test_a_java_class_of_one_listener_is_refused(name: str) -> None:
    settings = with_own(name, "com.acme.Ours")

    (refusal,) = unbuilt(settings)
    assert refusal.startswith(f"listener.name.{name} ")
    assert "server.properties" in refusal
    assert notices(settings) == ()


def test_a_java_class_that_verifies_tokens_is_refused_for_all_listeners() -> None:
    name = "sasl.oauthbearer.jwt.validator.class"
    given = broker_settings(file_layer({**BASE, name: "com.acme.Ours"}))

    (refusal,) = unbuilt(given)
    assert refusal.startswith(f"{name} names com.acme.Ours")
    assert unbuilt(broker_settings(file_layer({**BASE, name: f"{OAUTH}.BrokerJwtValidator"}))) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "oauthbearer.sasl.server.callback.handler.class",
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
        ),
        (
            "oauthbearer.sasl.login.callback.handler.class",
            f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        ),
        (
            "principal.builder.class",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        ),
        ("plain.sasl.server.callback.handler.class", ""),
    ],
)
def test_a_class_that_does_what_is_done_here_is_taken(name: str, value: str) -> None:
    assert unbuilt(with_own(f"in.side.{name}", value)) == ()


def test_a_class_for_tokens_is_refused_at_another_mechanism() -> None:
    value = f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
    assert len(unbuilt(with_own("in.side.plain.sasl.server.callback.handler.class", value))) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("in.side.ssl.engine.factory.class", "Java's implementations"),
        ("in.side.plain.sasl.login.class", "Java class"),
        ("in.side.num.network.threads", "one event loop"),
        ("in.side.ssl.keystore.lokation", "did you mean ssl.keystore.location?"),
        ("in.side.acme.policy", "is no setting of a listener"),
        ("plaintext", "it names no setting"),
        ("in.side.log.segment.bytes", "cannot be set for a listener alone"),
        ("in.side.plain.ssl.keystore.location", "cannot be set for a mechanism alone"),
        ("in.side.plain.sasl.oauthbearer.scope", "cannot be set for a mechanism alone"),
        ("in.side.digest-md5.sasl.jaas.config", "no mechanism is called digest-md5"),
        ("in.side.PLAIN.sasl.jaas.config", "write plain in lower case"),
        ("IN.SIDE.ssl.keystore.location", "write in.side in lower case"),
        ("elsewhere.ssl.keystore.location", "no listener is called elsewhere"),
        ("sasl_sll.plain.sasl.jaas.config", "there are PLAINTEXT, IN.SIDE, CONTROLLER"),
    ],
)
def test_a_setting_of_one_listener_without_effect_is_told(name: str, why: str) -> None:
    settings = with_own(name, "7")

    (notice,) = notices(settings)
    assert notice.startswith(f"listener.name.{name} has no effect")
    assert why in notice
    assert "server.properties" in notice
    assert unbuilt(settings) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("in.side.ssl.keystore.location", "/keys.p12"),
        ("in.side.plain.sasl.jaas.config", "x required;"),
        ("in.side.scram-sha-256.connections.max.reauth.ms", "5"),
        ("in.side.oauthbearer.sasl.oauthbearer.expected.issuer", "https://idp"),
        ("controller.ssl.client.auth", "required"),
        ("plaintext.max.connections", "5"),
    ],
)
def test_a_setting_of_one_listener_with_an_effect_is_not_told(name: str, value: str) -> None:
    settings = with_own(name, value)

    assert notices(settings) == ()
    assert unbuilt(settings) == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("in.log.segment.bytes", "cannot be set for a listener alone"),
        ("in.num.network.threads", "one event loop"),
        ("in.acme.policy", "no setting is called so"),
    ],
)
def test_a_dynamic_setting_of_one_listener_without_effect_is_told(name: str, why: str) -> None:
    (notice,) = dynamic_notices({}, {f"listener.name.{name}": "100000000"})
    assert why in notice
    assert f"listener.name.{name}" in notice


def test_the_rows_of_listeners_are_those_that_are_read_for_one() -> None:
    """No more: a row that is only in the set would be taken without effect. And no fewer."""
    trees = [
        ast.parse((SERVER / path).read_text(encoding="utf-8"))
        for path in ("security.py", "options.py", "kerberos.py")
    ]
    nodes = [each for tree in trees for each in ast.walk(tree)]
    named = set(map(variable, nodes))
    own = {
        variable(each.slice)
        for each in nodes
        if isinstance(each, ast.Subscript) and variable(each.value) == "own"
    }
    rows = {
        name: row for noun in NOUNS for name, row in vars(noun).items() if row in BROKER_SETTINGS
    }
    by_link = {row for row in rows.values() if f'value("{row.name}")' in TLS}
    told_of = {row for name, row in rows.items() if name in named or row.name in TLS}
    told_of |= set(TOKEN_ROWS)

    assert told_of >= ROWS | OAUTH_ROWS
    assert {rows[name] for name in own & set(rows)} | by_link <= ROWS | OAUTH_ROWS
    assert len(own & set(rows)) > 10


def variable(node: ast.AST) -> str:
    """Return the name at the end of an expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_a_listener_may_have_points_in_its_name() -> None:
    name = "listener.name.a.b.max.connections"
    found = own_name(name, BROKER_SETTINGS, ("A", "A.B"))
    assert found is not None
    assert (found.listener, found.row) == ("a.b", network.max_connections)
    other = own_name("listener.name.x.plain.sasl.jaas.config", BROKER_SETTINGS)
    assert other is not None
    assert (other.listener, other.mechanism, other.setting) == ("x", "plain", "sasl.jaas.config")
    assert own_name("max.connections", BROKER_SETTINGS) is None


@pytest.mark.parametrize("is_global", [True, False])
def test_the_mechanism_between_brokers_is_demanded_of_their_listener_only(is_global: bool) -> None:
    """The other listener has mechanisms of its own, and no broker logs in there."""
    own = "sasl.enabled.mechanisms"
    given = {
        **BASE,
        "listeners": "INSIDE://:1,OUTSIDE://:2,CONTROLLER://:3",
        "listener.security.protocol.map": (
            "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        own if is_global else f"listener.name.inside.{own}": "SCRAM-SHA-512",
        f"listener.name.outside.{own}": "PLAIN",
    }
    settings = broker_settings(file_layer(given))
    assert own_settings(settings, "OUTSIDE")[sasl.sasl_enabled_mechanisms] == ("PLAIN",)
    assert own_settings(settings, "INSIDE")[sasl.sasl_enabled_mechanisms] == ("SCRAM-SHA-512",)
    with pytest.raises(BadSettings, match="with which brokers log in at each other"):
        broker_settings(file_layer({**given, f"listener.name.inside.{own}": "PLAIN"}))
