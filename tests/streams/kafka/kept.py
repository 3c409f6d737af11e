"""Kafka's answers as files.

Scripts that were written by hand are text, with what comes out under each input. One that shows a
difference names it, and has our outputs where they are others:

    === tumbling windows: no window is lost when time jumps
    !!! lost windows
    stream in | group | tumbling 10 close | count | to out
    ---
    in a 1 @3
    in a 1 @12
        out a[0,10] 1 @3
    in a 1 @500
        ! out a[10,20] 1 @12

Of scripts that are made from seeds a line of JSON is kept: the name, a checksum of the script, and
what comes out at which input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.streams.kafka.answering import FAILED
from tests.streams.kafka.language import Answer, Script

FOLDER = Path(__file__).parent
GENERATED = FOLDER / "answers" / "generated.jsonl"
_TITLE, _DIFFERENCE, _INPUTS, _THEIRS, _OURS = "=== ", "!!! ", "---", "    ", "    ! "
_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Written:
    """A script by hand, Kafka's answer, and ours. `difference` is why they differ."""

    script: Script
    theirs: Answer
    ours: Answer
    difference: str | None = None


def suites() -> list[str]:
    """The names of the files of scripts by hand."""
    return sorted(path.stem for path in (FOLDER / "scripts").glob("*.txt"))


def written(suite: str) -> list[Written]:
    """The scripts of a file."""
    text = (FOLDER / "scripts" / f"{suite}.txt").read_text(encoding="utf-8")
    return [_parsed(part) for part in f"\n{text}".split(f"\n{_TITLE}")[1:]]


def _parsed(part: str) -> Written:
    name, *lines = part.rstrip().splitlines()
    difference = None
    if lines[0].startswith(_DIFFERENCE):
        difference = lines.pop(0).removeprefix(_DIFFERENCE)
    cut = lines.index(_INPUTS)
    inputs: list[str] = []
    theirs: Answer = []
    others: dict[int, list[str]] = {}
    for line in lines[cut + 1 :]:
        if line.startswith(_OURS):
            output = line.removeprefix(_OURS)
            others.setdefault(len(inputs) - 1, [])
            others[len(inputs) - 1] += [] if output == _NOTHING else [output]
        elif line.startswith(_THEIRS):
            theirs[-1].append(line.strip())
        elif line:
            inputs.append(line)
            theirs.append([])
    ours = [others.get(index, each) for index, each in enumerate(theirs)]
    if theirs and theirs[-1] == FAILED[0]:
        ours = [others.get(index, []) for index in range(len(theirs))] if others else FAILED
        theirs = FAILED
    return Written(Script(name, tuple(lines[:cut]), tuple(inputs)), theirs, ours, difference)


def write(suite: str, answered: Iterable[Written]) -> None:
    """Keep scripts with new answers. A failure stands under the last input."""
    text = "\n".join(_text(each) for each in answered)
    (FOLDER / "scripts" / f"{suite}.txt").write_text(text, encoding="utf-8")


def _text(each: Written) -> str:
    script = each.script
    lines = [f"{_TITLE}{script.name}"]
    if each.difference is not None:
        lines.append(f"{_DIFFERENCE}{each.difference}")
    lines += [*script.topology, _INPUTS]
    theirs = each.theirs
    if theirs == FAILED:
        theirs = [[]] * (len(script.inputs) - 1) + FAILED
    for index, (line, outputs) in enumerate(zip(script.inputs, theirs, strict=True)):
        lines += [line, *(f"{_THEIRS}{output}" for output in outputs)]
        if each.difference is not None and each.ours[index] != outputs:
            lines += [f"{_OURS}{output}" for output in each.ours[index] or [_NOTHING]]
    return "".join(f"{line}\n" for line in lines)


def checksum(script: Script) -> str:
    """Changes with the script, so that an answer to another one is noticed."""
    text = "\n".join([*script.topology, _INPUTS, *script.inputs])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def generated(scripts: Iterable[Script]) -> dict[str, Answer]:
    """Kafka's answers to scripts, by their names; those to other scripts are left out."""
    found = {}
    known = {script.name: script for script in scripts}
    for line in GENERATED.read_text(encoding="utf-8").splitlines():
        name, sum_of, outputs = json.loads(line)
        if name in known and checksum(known[name]) == sum_of:
            count = len(known[name].inputs)
            found[name] = [outputs.get(str(index), []) for index in range(count)]
    return found


def write_generated(answers: Mapping[Script, Answer]) -> None:
    """Keep the answers; a script from a seed must not fail."""
    failed = [script.name for script, answer in answers.items() if answer == FAILED]
    assert not failed, f"Kafka fails at {', '.join(failed)}"
    lines = []
    for script, answer in answers.items():
        outputs = {index: each for index, each in enumerate(answer) if each}
        row = [script.name, checksum(script), outputs]
        lines.append(json.dumps(row, separators=(",", ":")))
    GENERATED.parent.mkdir(exist_ok=True)
    GENERATED.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
