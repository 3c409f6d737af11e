"""The settings of a node say where its remote segments go."""

from __future__ import annotations

from moldau.broker.settings import broker_settings
from moldau.broker.tiered.tier_settings import store_config
from moldau.objects.store_address import StoreAddress, StoreConfig, StoreKind
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer


def test_the_settings_say_how_a_store_is_reached() -> None:
    given = {
        "remote.storage": "s3://bucket/a",
        "remote.storage.endpoint": "http://127.0.0.1:7070",
        "remote.storage.region": "eu-central-1",
        "remote.storage.path.style": "false",
    }
    found = store_config(broker_settings(file_layer({**BASE, **given})))

    address = StoreAddress(StoreKind.S3, "bucket", "a")
    assert found == StoreConfig(address, "http://127.0.0.1:7070", "eu-central-1", False)
    assert store_config(broker_settings(file_layer(BASE))) is None
