"""A registry on a cluster with logins and access rules: the rules that docs/registry.md names are
enough, and without them the error says what is missing."""

from __future__ import annotations

from typing import Final

import pytest

from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from moldau.testing import EmbeddedBroker
from tests.cli.shell import Shell
from tests.registry.served import USER, instance, run_real

pytestmark = pytest.mark.real

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
RULES: Final = (
    ("READ", "topic:_schemas"),
    ("WRITE", "topic:_schemas"),
    ("CREATE", "topic:_schemas"),
    ("DESCRIBE_CONFIGS", "topic:_schemas"),
    ("READ", "group:schema-registry"),
    ("WRITE", "transactional-id:schema-registry-_schemas"),
)


def broker_settings(port: int) -> dict[str, str]:
    """Logins on one listener, and administrators without one on the other."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} required user_reg="p";',
        "authorizer.class.name": "standard",
        "super.users": "User:ANONYMOUS",
    }


def test_a_registry_with_a_login_needs_the_rules_of_the_guide() -> None:
    (port,) = free_ports(1)
    login = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="reg" password="p";',
    }

    async def main(runtime: Runtime) -> None:
        async with EmbeddedBroker(settings=broker_settings(port)) as broker:
            with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
                async with instance(runtime, broker, **login):
                    pass
            shell = Shell(broker.bootstrap_servers)
            for operation, resource in RULES:
                await runtime.run_blocking(shell.good, "acl", "add", "reg", operation, resource)
            async with instance(runtime, broker, **login) as (rest, _):
                assert (await rest.register("a", USER))["id"] == 1
                assert (await rest.get("/v1/metadata/id"))["scope"]["clusters"]["kafka-cluster"]

    run_real(main)
