"""The Schema Registry inside a broker's process."""

from __future__ import annotations

from moldau.config import STRING, Setting

# fmt: off
moldau_registry_listener = Setting("moldau.registry.listener", STRING, None,
    doc="HOST:PORT where the broker's process serves a Schema Registry of its cluster; also "
    "`--registry`. Kafka has no such setting.")
moldau_registry_advertised = Setting("moldau.registry.advertised", STRING, None,
    doc="HOST:PORT by which the registries of other brokers reach this one; without it as in "
    "`moldau.registry.listener`. Kafka has no such setting.")
moldau_registry_http_config = Setting("moldau.registry.http.config", STRING, None,
    doc="A file of settings that protect `moldau.registry.listener`, as that of "
    "`moldau.metrics.http.config`. Kafka has no such setting.")
moldau_registry_client_config = Setting("moldau.registry.client.config", STRING, None,
    doc="A file of client settings with which the registry logs in at its broker; without it, it "
    "logs in as brokers log in at each other. Kafka has no such setting.")
