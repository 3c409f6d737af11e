"""ConfigInfos in the exact shape of Kafka's REST API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import SecretStr

from moldau.connect.config.infos import ConfigInfos, SettingsPlacement, definitions, infos_of
from moldau.connect.config.model import ConfigModel, Problem, key


class Writes(ConfigModel):
    password: SecretStr | None = key("password", None, doc="The secret.", importance="high")
    mode: Literal["insert", "upsert"] = key(
        "mode", "insert", group="Writes", width="short", display="Mode", dependents=("keys",)
    )
    keys: list[str] = key("pk", ["id", "no"], group="Writes")
    batch: int = key("batch", 10, ge=1)

    def check(self) -> Iterable[Problem]:
        yield Problem("batch", "is too much for this mode")
        yield Problem("table", "has no column for it")

    def recommended(self, name: str) -> Sequence[str]:
        return ["id"] if name == "pk" else super().recommended(name)

    def is_visible(self, name: str) -> bool:
        return name != "pk"


def test_the_shape_of_an_answer() -> None:
    infos = ConfigInfos("Sink", infos_of(Writes.read({"password": "geheim", "batch": "0"})))

    answer = infos.to_json()

    assert list(answer) == ["name", "error_count", "groups", "configs"]
    assert (answer["name"], answer["error_count"], answer["groups"]) == ("Sink", 3, ["Writes"])
    password, mode, keys, batch, table = answer["configs"]
    assert password["value"] == {
        "name": "password",
        "value": "[hidden]",
        "recommended_values": [],
        "errors": [],
        "visible": True,
    }
    assert password["definition"] == {
        "name": "password",
        "type": "PASSWORD",
        "required": False,
        "default_value": None,
        "importance": "HIGH",
        "documentation": "The secret.",
        "group": None,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": "password",
        "dependents": [],
    }
    assert mode["definition"]["order_in_group"] == 1
    assert mode["definition"]["dependents"] == ["keys"]
    assert mode["value"]["recommended_values"] == ["insert", "upsert"]
    assert keys["definition"]["default_value"] == "id,no"
    assert (keys["value"]["value"], keys["value"]["visible"]) == ("id,no", False)
    assert keys["value"]["recommended_values"] == ["id"]
    assert batch["value"]["value"] == "0"
    assert batch["value"]["errors"] == [
        "Invalid value 0 for configuration batch: Value must be at least 1",
        "is too much for this mode",
    ]
    assert table == {
        "definition": None,
        "value": {
            "name": "table",
            "value": None,
            "recommended_values": [],
            "errors": ["has no column for it"],
            "visible": True,
        },
    }


def test_a_value_of_the_wrong_type_is_not_shown() -> None:
    info = infos_of(Writes.read({"batch": "many"}))[3]

    assert info.value is None


def test_a_part_has_its_prefix_and_its_group() -> None:
    place = SettingsPlacement("transforms.a.", "Transforms: a", 4)

    _, mode, _, batch, table = infos_of(Writes.read({}), place)

    assert mode.definition is not None
    assert mode.definition["name"] == "transforms.a.mode"
    assert mode.definition["group"] == "Transforms: a: Writes"
    assert mode.definition["order_in_group"] == 5
    assert mode.definition["dependents"] == ["transforms.a.keys"]
    assert batch.name == "transforms.a.batch"
    assert table.name == "transforms.a.table"


def test_an_error_finds_its_setting_or_stands_alone() -> None:
    infos = ConfigInfos("Sink", infos_of(Writes.read({})))

    infos.add_error("mode", "no")
    infos.add_error("mode", "no")
    infos.add_error("other", "unknown")

    assert str(infos.errors[0]) == "mode: no"
    assert infos.error_count == 4
    assert infos.configs[-1].name == "other"


def test_definitions_without_values() -> None:
    assert [each["name"] for each in definitions(Writes)] == ["password", "mode", "pk", "batch"]
