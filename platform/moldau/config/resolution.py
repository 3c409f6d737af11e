"""Turns given values into settings: finds the row, parses, checks and collects problems.

It does not stop at the first problem. Rules over several settings are only checked when every
single value is valid, so that one mistake is not reported twice. Only the first few unknown names
get a suggestion: to find one costs far more than everything else, and a file with hundreds of
unknown names is the wrong file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.config.given import GivenValue, Layer, RawValue, SourceKind
from moldau.config.kinds import LIST, trim, without_repetition
from moldau.config.problems import NOT_ALLOWED, UNKNOWN, BadSettings, Problem, shown
from moldau.config.secret import HIDDEN
from moldau.config.setting import REQUIRED, UpdateMode
from moldau.config.settings import Chosen, Settings

if TYPE_CHECKING:
    from moldau.config.table import Row, Rule, SettingTable

_SUGGESTIONS_MAX = 20


def resolve(table: SettingTable, layers: tuple[Layer, ...], rules: tuple[Rule, ...]) -> Settings:
    """Return settings in which later layers win, and which keep the rules. Raise BadSettings with
    all problems."""
    resolution = _Resolution(table)
    for layer in layers:
        resolution.take(layer)
    settings = resolution.finish(layers)
    _ask_rules(settings, rules)
    return settings


class _Resolution:
    def __init__(self, table: SettingTable) -> None:
        self.table = table
        self.problems: list[Problem] = []
        self.notices: list[str] = []
        self.given: dict[str, list[GivenValue]] = {}
        self.others: dict[str, list[GivenValue]] = {}
        self.suggestions = 0

    def take(self, layer: Layer) -> None:
        """Sort the values of one layer by row. Within a layer, current names win over aliases."""
        here: dict[str, GivenValue] = {}
        others: dict[str, GivenValue] = {}
        for given in layer:
            row = self.table.find(given.name)
            if row is None:
                if self.table.is_open(given.name):
                    others[given.name] = given
                else:
                    self._refuse_unknown(given)
                continue
            if not _may_come_from(row, given.source.kind):
                reason = f"cannot change so: its update mode is {row.dynamic.value}"
                self.problems.append(Problem(given.name, reason, source=given.source))
                continue
            self._notice_age(row, given)
            before = here.get(row.name)
            if before is None:
                here[row.name] = given
            else:
                here[row.name] = self._settle(row, before, given)
        for name, given in here.items():
            self.given.setdefault(name, []).append(given)
        for name, given in others.items():
            self.others.setdefault(name, []).append(given)

    def _refuse_unknown(self, given: GivenValue) -> None:
        advice = self.table.instead_of(given.name)
        secret = self.table.secret_before(given.name)
        nearest = None
        if advice is not None:
            name, reason = given.name, f"is gone: {advice}"
        elif secret is not None:
            sign = given.name[len(secret)]
            name, reason = f"{secret}{sign}{HIDDEN}", UNKNOWN
            if sign == ".":
                reason += f"; {secret} is no map"
        else:
            name, reason = given.name, UNKNOWN
            if self.suggestions < _SUGGESTIONS_MAX:
                self.suggestions += 1
                nearest = self.table.nearest(name)
        self.problems.append(Problem(name, reason, nearest=nearest, source=given.source))

    def _notice_age(self, row: Row, given: GivenValue) -> None:
        if given.name != row.name:
            self.notices.append(f"{given.name} is now called {row.name} ({given.source})")
        elif row.deprecated is not None:
            self.notices.append(f"{row.name} is deprecated: {row.deprecated} ({given.source})")

    def _settle(self, row: Row, before: GivenValue, given: GivenValue) -> GivenValue:
        """Choose between two values in one layer: the later wins, as in `.properties` files."""
        if before.name != given.name and before.value != given.value:
            reason = f"is also given as {before.name}, with another value"
            self.problems.append(Problem(given.name, reason, source=given.source))
        elif before.name == given.name:
            text = f"{row.name} is given twice: {before.source} does not count, {given.source} does"
            self.notices.append(text)
        return given

    def finish(self, layers: tuple[Layer, ...]) -> Settings:
        chosen: dict[str, Chosen] = {}
        for row in self.table:
            given = self.given.get(row.name)
            if given is not None:
                value = self._read(row, given[-1])
                chosen[row.name] = Chosen(value, tuple(given))
            elif row.default is REQUIRED:
                self.problems.append(Problem(row.name, "must be given", allowed=row.wanted))
        if self.problems:
            raise BadSettings(self.problems)
        return Settings(self.table, layers, chosen, self.others, tuple(self.notices))

    def _read(self, row: Row, given: GivenValue) -> Any:
        """Return the value, or None after adding a problem."""
        if given.value is None:
            if row.default is not None:
                self._refuse(row, given, "is no value for this setting")
            return None
        if not isinstance(given.value, str) and row.kind is not LIST:
            self._refuse(row, given, f"is a list, but this setting is a {row.kind.name}")
            return None
        try:
            value = _parse(row, given.value)
        except ValueError as error:
            hint = f" ({error})" if str(error) else ""
            self._refuse(row, given, f"{NOT_ALLOWED}{hint}")
            return None
        if row.check is not None and not row.check.holds(value):
            self._refuse(row, given, NOT_ALLOWED, row.check.allowed)
            return None
        if row.kind is LIST and len(value) < _item_count(given.value):
            self.notices.append(f"{row.name}: a repeated item counts once ({given.source})")
        return value

    def _refuse(self, row: Row, given: GivenValue, reason: str, allowed: str | None = None) -> None:
        value = "the value (hidden)" if row.secret else shown(given.showable)
        allowed = allowed or row.wanted
        self.problems.append(
            Problem(given.name, reason, shown=value, allowed=allowed, source=given.source)
        )


def _ask_rules(settings: Settings, rules: tuple[Rule, ...]) -> None:
    answers = (rule(settings) for rule in rules)
    broken = [answer for answer in answers if answer is not None]
    if broken:
        raise BadSettings(Problem("", answer) for answer in broken)


def _may_come_from(row: Row, source: SourceKind) -> bool:
    """Whether the row may be set dynamically: for one broker, or for all brokers together."""
    if source is SourceKind.DYNAMIC_BROKER:
        return row.dynamic is not UpdateMode.READ_ONLY
    return source is not SourceKind.DYNAMIC_DEFAULT or row.dynamic is UpdateMode.CLUSTER_WIDE


def _parse(row: Row, value: RawValue) -> Any:
    if isinstance(value, str):
        return row.kind.read(trim(value))
    assert value is not None
    items = tuple(trim(item) for item in value)
    if any("," in item for item in items):
        raise ValueError("an item of a list cannot hold a comma")
    return without_repetition(items)


def _item_count(value: RawValue) -> int:
    """Return the number of items in the text or list, repeated ones included."""
    if isinstance(value, str):
        text = trim(value)
        return text.count(",") + 1 if text else 0
    return len(value or ())
