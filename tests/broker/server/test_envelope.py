"""The envelope around a client's request to the controller, as Apache Kafka's controller needs it
(tests/conformance/test_java_mixed_cluster.py has the real one)."""

from __future__ import annotations

from moldau.broker.decision.context import RequestContext
from moldau.broker.server.envelope import Wrapped
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.schemas.principal import DefaultPrincipalData
from moldau.protocol.schemas.versioned import decode_versioned


def test_an_envelope_has_a_principal_and_an_address() -> None:
    """Without them Kafka answers PRINCIPAL_DESERIALIZATION_FAILURE, and "addr is of illegal
    length"."""
    envelope = Wrapped(
        CreateTopicsRequest(topics=[]), RequestContext("app", "/10.0.0.7", 7, "OUT")
    ).envelope
    assert envelope.request_principal is not None
    principal = decode_versioned(DefaultPrincipalData, envelope.request_principal)
    assert (principal.type, principal.name) == ("User", "ANONYMOUS")
    assert not principal.token_authenticated
    assert len(envelope.client_host_address) in (4, 16)
