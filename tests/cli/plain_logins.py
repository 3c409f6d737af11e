"""Settings of a broker with access rules for users that log in with passwords. Its other listener
is that of a super user."""

from __future__ import annotations

from collections.abc import Iterable

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def plain_logins(users: Iterable[str], port: int) -> dict[str, str]:
    """Return the settings. Each user has the password `p`, and logs in at this port."""
    named = " ".join(f'user_{each}="p"' for each in users)
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_MODULE} required {named};",
        "authorizer.class.name": "standard",
        "super.users": "User:ANONYMOUS",
    }
