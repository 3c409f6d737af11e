"""Logins of nodes at each other: what is missing is named by the setting of a node."""

from __future__ import annotations

import pytest

from moldau.broker.server.security import outgoing
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.config import overrides
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from tests.runtime.arena import play

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("mechanism", "jaas", "why"),
    [
        ("SCRAM-SHA-512", None, "username="),
        ("SCRAM-SHA-512", f"{SCRAM} required;", "username="),
        ("SCRAM-SHA-512", f'{SCRAM} required username="secret";', "username="),
        ("SCRAM-SHA-512", f'{PLAIN} required username="a" password="secret";', "one of PLAIN"),
        ("PLAIN", None, "username="),
        ("PLAIN", f'{PLAIN} required user_a="secret";', "username="),
        ("PLAIN", "secret", "semicolon"),
        ("DIGEST-MD5", None, "cannot log in"),
        ("AWS_MSK_IAM", None, "cannot log in"),
    ],
)
def test_a_node_that_cannot_log_in_says_which_of_its_settings_is_wrong(
    mechanism: str, jaas: str | None, why: str
) -> None:
    name = f"listener.name.in.{mechanism.lower()}.sasl.jaas.config"
    given: dict[str, str | tuple[str, ...] | None] = {} if jaas is None else {name: jaas}

    async def main(runtime: Runtime) -> None:
        settings = broker_settings(standalone_layer("/data"), overrides(given))
        with pytest.raises(ConfigError, match=why) as refused:
            outgoing(settings, "IN", "SASL_PLAINTEXT", mechanism, runtime)
        text = str(refused.value)
        assert (name in text) != ("cannot log in" in text)
        assert "sasl.username" not in text
        assert "sasl.mechanism" not in text
        assert "secret" not in text

    play("simulated", main)
