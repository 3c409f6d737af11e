"""No setting chooses code: login modules are known by name, and none of them is loaded."""

from __future__ import annotations

import pytest

from moldau.broker.security.plain import users_of
from moldau.client import Admin
from moldau.config import BadSettings
from moldau.connect.task.clients import wrong_overrides
from moldau.errors import ConfigError
from moldau.link.login.jaas import LoginModule, parse_jaas, write_jaas

CODE = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
    "os.system",
    "moldau.link.login.jaas.parse_jaas",
)


@pytest.mark.parametrize("module", CODE)
def test_a_login_module_that_would_load_code_is_refused(module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: by a client's settings, by a connector's
    overrides, and by the settings of a broker's listener."""
    jaas = f'{module} required user.provider.url="ldap://127.0.0.1:1/canary";'
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    with pytest.raises(BadSettings, match="login module is not known") as caught:
        Admin({"bootstrap.servers": "a:1", **given})
    assert "canary" not in str(caught.value)
    wrong = wrong_overrides({f"producer.override.{name}": text for name, text in given.items()})
    assert any("login module is not known" in reason for reason in wrong.values())
    with pytest.raises(ConfigError, match="login module is not known"):
        users_of(parse_jaas(jaas, "listener.name.x.plain.sasl.jaas.config").options)


@pytest.mark.parametrize("value", ["", "a b", 'a"b', "a'b", "a\\b;=\\n", "a\nb"])
def test_a_written_login_module_is_read_as_the_same_one(value: str) -> None:
    module = LoginModule("SCRAM", {"username": "a", "an odd name": value})
    assert parse_jaas(write_jaas(module)) == module


def test_the_names_of_options_are_written_as_kafka_writes_them() -> None:
    module = LoginModule("SCRAM", {"username": "a", "ssl.truststore.location": "/ca.pem"})
    text = 'username="a" ssl.truststore.location="/ca.pem";'
    assert write_jaas(module).endswith(f".ScramLoginModule required {text}")
