"""A schema with rules that are not run here is refused, in writing and in reading."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import pytest

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    Place,
    Schema,
    SchemaOptions,
    SchemaRegistry,
)
from moldau.client.serdes.registry.contract_rules import RulesNotRun, check_rules
from moldau.testing import SyncEmbeddedBroker
from tests.registry.served import process

ORDER = (
    '{"type":"record","name":"Order","fields":'
    '[{"name":"id","type":"int"},{"name":"who","type":"string"}]}'
)
PLACE = Place("orders", False)
VALUE = {"id": 1, "who": "Ada"}
LATEST = SchemaOptions(auto_register=False, use_latest=True)


async def now(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


def rule(mode: str, **more: Any) -> dict[str, Any]:
    return {"name": "positive", "kind": "CONDITION", "type": "CEL", "mode": mode, **more}


@pytest.mark.parametrize(
    ("rules", "writes", "reads"),
    [
        (None, True, True),
        ({}, True, True),
        ({"domainRules": [rule("WRITE")]}, False, True),
        ({"domainRules": [rule("READ")]}, True, False),
        ({"domainRules": [rule("WRITEREAD")]}, False, False),
        ({"domainRules": [rule("WRITE", disabled=True)]}, True, True),
        ({"encodingRules": [rule("WRITEREAD", type="ENCRYPT")]}, False, False),
        ({"migrationRules": [rule("UPGRADE")], "domainRules": None}, True, True),
    ],
)
def test_only_rules_that_count_are_refused(rules: Any, writes: bool, reads: bool) -> None:
    schema = Schema(ORDER, rules=rules)
    for is_write, is_allowed in ((True, writes), (False, reads)):
        if is_allowed:
            check_rules(schema, is_write=is_write)
            continue
        with pytest.raises(RulesNotRun, match=r"positive \(\w+\).*data.contract.rules=ignore"):
            check_rules(schema, is_write=is_write)


@pytest.mark.real
def test_nothing_is_written_past_a_data_contract(moldau_broker: SyncEmbeddedBroker) -> None:
    async def main(url: str) -> None:
        rules = {"domainRules": [rule("WRITEREAD")]}
        async with SchemaRegistry(url) as registry:
            await registry.register("orders-value", Schema(ORDER, rules=rules))
            wider = ORDER.replace("]}", ',{"name":"paid","type":"boolean","default":false}]}')
            for own, options in (
                (None, LATEST),
                (ORDER, SchemaOptions()),
                (wider, SchemaOptions()),  # the new version inherits the rules
                (ORDER, SchemaOptions(auto_register=False)),
            ):
                with pytest.raises(RulesNotRun, match="positive"):
                    await now(AvroSerializer(registry, own, options=options)(VALUE, PLACE))
            allowed = replace(LATEST, checks_rules=False)
            data = await now(AvroSerializer(registry, options=allowed)(VALUE, PLACE))
            with pytest.raises(RulesNotRun, match="nothing is read"):
                await now(AvroDeserializer(registry)(data, PLACE))
            read = AvroDeserializer(registry, options=allowed)
            assert (await now(read(data, PLACE)))["who"] == "Ada"

    with process(moldau_broker.bootstrap_servers) as (_, url):
        asyncio.run(main(url))
