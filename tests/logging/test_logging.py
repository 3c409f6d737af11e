"""A log line is one line, has its facts, shows no secret, and takes its time from the clock."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import Secret
from moldau.errors import ConfigError, CorruptLog, MoldauError
from moldau.logging import ROOT, Level, Loggers, parse_level, parse_levels
from moldau.logging.events import EventLines
from moldau.logging.fields import is_secret, json_pairs, write_value
from moldau.logging.loggers import _second_text
from moldau.logging.stdlib import StandardLines
from moldau.runtime.real import RealClock

CANARY = "canary-7f3a"


class Clock:
    """Stands still unless told to go on."""

    def __init__(self, now_ms: int = 1_795_165_578_123) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class Page:
    """Collects what was written."""

    def __init__(self, *, json: bool = False, level: Level = Level.INFO) -> None:
        self.text = ""
        self.clock = Clock()
        self.loggers = Loggers(self.clock, self.write, json=json, level=level)

    def write(self, text: str) -> None:
        self.text += text

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def test_lines_can_be_changed_for_a_while() -> None:
    lines: list[str] = []
    loggers = Loggers(Clock(), lines.append)
    log = loggers.get("a")
    with (
        loggers.changed(lambda text: text.replace("secret", "[hidden]")),
        loggers.changed(lambda text: text.replace("other", "[hidden]")),
    ):
        log.info("has secret", why="other")
    log.info("no secret")
    assert "secret" not in lines[0]
    assert lines[0].count("[hidden]") == 2
    assert lines[1].endswith("no secret\n")


def test_a_part_that_begins_or_ends_takes_no_change_of_another_away() -> None:
    """Tasks in threads of one process begin and end at the same time."""
    lines: list[str] = []
    loggers = Loggers(Clock(), lines.append)

    def hide(text: str) -> str:
        return text.replace("secret", "[hidden]")

    with loggers.changed(hide):
        with loggers.changed(hide):
            pass
        loggers.get("a").info("has secret")
    assert "secret" not in lines.pop()

    def begin_and_end() -> None:
        for _ in range(300):
            with loggers.changed(hide):
                loggers.get("a").info("has secret")

    usual_s = sys.getswitchinterval()
    threads = [threading.Thread(target=begin_and_end) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(usual_s)
    assert len(lines) == 1200
    assert not any("secret" in line for line in lines)
    loggers.get("a").info("no secret is left to hide")
    assert lines[-1].endswith("no secret is left to hide\n")


def test_a_line_of_another_thread_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread has its turn while the text of a new second is made."""
    page = Page()
    log, where = page.loggers.get("a"), "moldau.logging.loggers._second_text"
    log.info("before")
    page.clock.now_ms += 1000

    def interrupted(second: int) -> str:
        monkeypatch.setattr(where, _second_text)
        log.info("of another thread")
        return _second_text(second)

    monkeypatch.setattr(where, interrupted)
    log.info("after")
    assert [each.partition("Z")[0][-6:] for each in page.lines] == ["18.123", "19.123", "19.123"]


def test_a_text_line_has_time_level_logger_event_and_facts() -> None:
    page = Page()
    log = page.loggers.get("moldau.broker.log").bind(node=1)
    log.info("rolled segment", base_offset=5, path="/a b", clean=True, last=None, share=0.5)
    assert page.text == (
        "2026-11-20T09:06:18.123Z INFO  moldau.broker.log rolled segment"
        ' node=1 base_offset=5 path="/a b" clean=true last=null share=0.5\n'
    )


def test_a_json_line_has_the_same() -> None:
    page = Page(json=True)
    page.loggers.get("moldau.x").bind(node=1).warn("slow", ms=1.5, level="x", nan=float("nan"))
    assert json.loads(page.text) == {
        "time": "2026-11-20T09:06:18.123Z",
        "level": "WARN",
        "logger": "moldau.x",
        "event": "slow",
        "node": 1,
        "ms": 1.5,
        "level_": "x",
        "nan": "nan",
    }


def test_time_is_the_clocks_own() -> None:
    page = Page()
    log = page.loggers.get("x")
    for now_ms in (0, 999, 1000, 951_782_399_999, 951_782_400_000, 253_402_300_799_999):
        page.clock.now_ms = now_ms
        log.info("tick")
    assert [line.split()[0] for line in page.lines] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.999Z",
        "1970-01-01T00:00:01.000Z",
        "2000-02-28T23:59:59.999Z",
        "2000-02-29T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
    ]


def test_the_runtimes_clock_fits() -> None:
    lines: list[str] = []
    Loggers(RealClock(), lines.append).get("x").info("now")
    year, month, _ = lines[0].split("T")[0].split("-")
    assert int(year) >= 2026
    assert 1 <= int(month) <= 12


def test_what_is_bound_is_on_every_line_and_the_latest_value_wins() -> None:
    page = Page()
    parent = page.loggers.get("x").bind(node=1)
    child = parent.bind(partition="a-0", node=2)
    parent.info("one")
    child.info("two")
    child.info("three", partition="b-1")
    child.info("four")
    assert [line.split(" x ")[1] for line in page.lines] == [
        "one node=1",
        "two node=2 partition=a-0",
        "three node=2 partition=b-1",
        "four node=2 partition=a-0",
    ]


def test_a_level_holds_for_all_loggers_below_a_name() -> None:
    page = Page(level=Level.WARN)
    log = page.loggers.get("moldau.broker.log")
    other = page.loggers.get("moldau.brokerage")
    bound = log.bind(node=1)
    log.info("hidden")
    page.loggers.set_levels(parse_levels("moldau.broker=debug"))
    bound.debug("shown")
    other.info("hidden")
    assert log.is_enabled(Level.DEBUG)
    assert not log.is_enabled(Level.TRACE)
    page.loggers.set_levels({"moldau.broker": None, ROOT: Level.OFF})
    bound.fatal("hidden")
    assert [line.split()[3] for line in page.lines] == ["shown"]
    assert page.loggers.levels() == {
        "moldau.broker.log": Level.OFF,
        "moldau.brokerage": Level.OFF,
        "root": Level.OFF,
    }


@pytest.mark.parametrize("level", [each for each in Level if each is not Level.OFF])
def test_each_level_writes_itself_and_what_is_above(level: Level) -> None:
    page = Page(level=level)
    log = page.loggers.get("x")
    for write in (log.trace, log.debug, log.info, log.warn, log.error, log.fatal):
        write("event")
    written = [line.split()[1] for line in page.lines]
    names = [each.name for each in Level if each is not Level.OFF]
    assert written == names[names.index(level.name) :]


def test_levels_are_read_from_a_setting() -> None:
    assert parse_levels("INFO, moldau.a = debug,moldau.b=OFF") == {
        ROOT: Level.INFO,
        "moldau.a": Level.DEBUG,
        "moldau.b": Level.OFF,
    }
    assert parse_levels("") == {}
    assert parse_level(" warning ") is Level.WARN
    for wrong in ("LOUD", "a=b=c", "=INFO", "INFO,DEBUG", "a=INFO,a=WARN"):
        with pytest.raises(ConfigError):
            parse_levels(wrong)


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_not_printed(as_json: bool) -> None:
    page = Page(json=as_json, level=Level.TRACE)
    log = page.loggers.get("x").bind(sasl_password=CANARY, key=Secret(CANARY))
    log.info("one", password=CANARY, hmac=CANARY, client_secret=CANARY, kept=[Secret(CANARY)])
    log.info("two", sasl_client_bytes=CANARY, token=CANARY, sasl_jaas_config=CANARY)
    log.failure("three", ConfigError("bad", password=CANARY, value=Secret(CANARY)))
    assert len(page.lines) == 3
    assert CANARY not in page.text
    assert page.text.count("***") == 15


def test_a_users_mistake_has_no_traceback_and_a_bug_has_one() -> None:
    page = Page()
    log = page.loggers.get("x")
    log.failure("cannot open log", CorruptLog("bad checksum", file="0.log", position=17), node=1)
    assert page.lines[0].endswith(
        'cannot open log node=1 error=CorruptLog reason="bad checksum" file=0.log position=17'
    )
    assert len(page.lines) == 1
    try:
        raise KeyError("who\n2026-01-01 INFO forged")
    except KeyError as error:
        log.failure("task died", error)
    assert page.lines[1].split(" x ")[1].startswith("task died error=KeyError reason=")
    assert page.lines[2] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in page.lines[2:])


def test_a_traceback_is_a_field_in_json() -> None:
    page = Page(json=True)
    try:
        _ = 1 // int("0")
    except ZeroDivisionError as error:
        page.loggers.get("x").failure("task died", error)
    (line,) = page.lines
    assert "ZeroDivisionError" in json.loads(line)["trace"]


ANY = st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.none(), st.booleans())


@given(st.text(max_size=20), ANY, ANY)
def test_no_value_breaks_a_line_in_two(event: str, bound: object, own: object) -> None:
    for as_json in (False, True):
        page = Page(json=as_json)
        page.loggers.get("x").bind(bound=bound).info(event, own=own)
        assert page.text.endswith("\n")
        body = page.text[:-1]
        assert body.isprintable()
        if as_json:
            read = json.loads(body)
            assert read["event"] == event
            if isinstance(own, str | bool | int):
                assert read["own"] == own


def test_a_value_cannot_pretend_to_be_another_field() -> None:
    page = Page()
    page.loggers.get("x").info("login", user='a admin=true"', equals="a=b", empty="")
    assert page.lines[0].endswith(r'login user="a admin=true\"" equals="a=b" empty=""')


@pytest.fixture
def standard() -> Iterator[tuple[logging.Logger, Page]]:
    page = Page(level=Level.INFO)
    logger = logging.Logger("library.part")
    bridge = StandardLines(page.loggers)
    logger.addHandler(bridge)
    yield logger, page
    logger.removeHandler(bridge)


def test_lines_of_other_libraries_come_in(standard: tuple[logging.Logger, Page]) -> None:
    logger, page = standard
    logger.info("hello %s", "world")
    logger.debug("not at this level")
    logger.warning("careful", exc_info=ValueError("odd"))
    try:
        raise OSError(5, "Input/output error")
    except OSError:
        logger.exception("broken")
    lines = page.lines
    assert lines[0].endswith("INFO  library.part hello world")
    assert lines[1].endswith("WARN  library.part careful error=ValueError reason=odd")
    assert "ERROR library.part broken error=OSError" in lines[2]
    assert lines[3] == "    Traceback (most recent call last):"
    page.loggers.set_levels({"library": Level.DEBUG})
    logger.debug("now it is")
    assert page.lines[-1].endswith("DEBUG library.part now it is")


@pytest.mark.parametrize(
    "name",
    ["api_key", "ssl.keystore.key", "oauth.token", "token", "sasl_auth_bytes", "sasl.salt", "hmac"],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["key", "tokens_left", "sasl", "bytes", "salted", "broker_id"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_a_long_name_is_judged_at_once() -> None:
    begun = time.process_time()
    assert not is_secret("sasl" * 100_000)
    assert time.process_time() - begun < 2


class Wordless:
    """Fails when it is asked for its text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_what_has_no_text_is_told_and_fails_nobody() -> None:
    assert write_value(Wordless()) == '"<Wordless without text: RuntimeError>"'
    assert write_value(10**5000) == '"<int without text: ValueError>"'
    assert json_pairs({"a": Wordless(), "b": 10**5000, "c": 5}).endswith(',"c":5')


def test_what_has_facts_is_an_event_too() -> None:
    lines: list[bytes] = []
    logger = logging.getLogger("tests.events")
    logger.propagate = False
    logger.addHandler(EventLines(lines.append))
    logger.warning("consumer: %s", MoldauError("records are gone", missed=7))
    logger.warning("no facts: %s", 7)
    (event,) = map(json.loads, lines)
    assert event == {"text": "records are gone (missed=7)", "missed": 7}
