"""Scripts of one leader's fetches: what happens to the replicas, and what the core then wants.

    # A block: comment lines, a command, a rule, and all that is done until the next wait.
    follow a b:5
    ----
    request all a@0 b@5

The player carries out each step on replicas that are numbers, as the shell does on logs. A change
of the replicas while a request is under way gives it up.

Commands: WHAT [ARGUMENT]...; a replica is named by a letter.

    follow a[:END]...  unfollow a...  epoch a EPOCH
    respond [a+COUNT | a=ERROR | a^EPOCH:END]...   records, an error, or a divergence
    ends a START END | no-ends a          the leader's answer to `ask`
    moved a                               the leader has what comes next in remote storage only
    behind a OFFSET | starts-at a OFFSET | goes-on a | stuck a    the result of `find-start`
    forget a                              it loses the history of its remote records
    skip a                                it skips what is remote while it is new
    fail | lose-session | refuse ERROR    instead of a response
    quota on|off  throttle a  in-sync a  short a  room a  break a  start a OFFSET
    damage a                              its next append fails
    wait MS
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.truncation import LogHistory
from moldau.broker.replication.follower import Action, Marks
from moldau.broker.replication.leader_fetch import (
    LeaderFetch,
    LogStep,
    Ready,
    RemoteStart,
    RequestedPartition,
)
from moldau.broker.replication.session import FollowerSessionRequest
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

RULE: Final = "----"
SCRIPTS: Final = Path(__file__).parent / "scripts"
SESSION: Final = 7
BACKOFF_MS: Final = 1000
START_MS: Final = 10_000

Key = tuple[bytes, int]


@dataclass(eq=False)
class Numbers:
    """A replica without a log."""

    name: str
    end: int = 0
    start: int = 0
    leader_epoch: int = 0
    is_in_service: bool = True
    is_throttled: bool = False
    is_short_of_room: bool = False
    is_damaged: bool = False
    is_remote_skipped: bool = False
    is_history_known: bool = True

    @property
    def marks(self) -> Marks:
        epochs = LeaderEpochs()
        if self.end:
            epochs.assign(self.leader_epoch, 0)
        return Marks(self.start, self.end, epochs, self.is_history_known)


@dataclass
class Player:
    """The shell of the core: it prints what it does."""

    core: LeaderFetch[Numbers] = field(default_factory=LeaderFetch)
    now_ms: int = START_MS
    replicas: dict[str, Numbers] = field(default_factory=dict)
    asked: dict[str, RequestedPartition[Numbers]] = field(default_factory=dict)
    rebuilding: dict[str, RequestedPartition[Numbers]] = field(default_factory=dict)
    is_asking: bool = False
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.core.on_settings(1000, BACKOFF_MS)

    def play(self, command: str) -> list[str]:
        """Return the lines of one command."""
        self.lines = []
        what, *words = command.split()
        getattr(self, "do_" + what.replace("-", "_"))(*words)
        self._run()
        return self.lines

    def _run(self) -> None:
        while not (self.is_asking or self.asked):
            ready = self.core.ready(self.now_ms)
            self._carry_out(ready)
            if ready.is_idle:
                until = ready.deadline_ms
                self.lines.append("wait" if until is None else f"wait {until - self.now_ms}")
                return

    def _carry_out(self, ready: Ready[Numbers]) -> None:
        for refusal in ready.refusals:
            self.lines.append(f"refused {refusal.replica.name} {ErrorCode(refusal.code).name}")
        for step in ready.steps:
            self._step(step)
        for asked in ready.questions:
            self.lines.append(f"ask {asked.replica.name}")
            self.asked[asked.replica.name] = asked
        for asked in ready.rebuilds:
            self.lines.append(f"find-start {asked.replica.name}")
            self.rebuilding[asked.replica.name] = asked
        if ready.request is not None:
            self.lines.append(self._request(ready.request))
            self.is_asking = True

    def _step(self, step: LogStep[Numbers]) -> None:
        replica = step.replica
        line = f"{step.action.name.lower().replace('_', '-')} {replica.name}"
        if step.action is Action.APPEND:
            assert step.data is not None
            count = len(step.data.records or b"")
            line += f" {count}"
            if replica.is_damaged:
                replica.is_damaged = False
                self.core.on_step_failed(step.key, self.now_ms)
                self.lines.append(line + ": fails")
                return
            replica.end += count
        else:
            replica.end = step.offset
            replica.is_history_known = True
            line += f" {step.offset}"
        self.lines.append(line)

    def _request(self, tell: FollowerSessionRequest) -> str:
        names = {key_of(name): name for name in "abcdefgh"}
        words = ["request", *(["all"] if tell.epoch == 0 else [])]
        words += [f"{names[key]}@{wish.offset}" for key, wish in tell.wishes.items()]
        words += [f"-{names[key]}" for key in tell.forgotten]
        return " ".join(words)

    # Commands.

    def do_follow(self, *words: str) -> None:
        for word in words:
            name, _, end = word.partition(":")
            replica = self.replicas.setdefault(name, Numbers(name))
            replica.end = int(end or replica.end)
            self.core.on_added(key_of(name), replica)
        self._give_up()

    def do_unfollow(self, *names: str) -> None:
        for name in names:
            self.core.on_removed(key_of(name))
        self._give_up()

    def do_epoch(self, name: str, epoch: str) -> None:
        self.replicas[name].leader_epoch = int(epoch)

    def _give_up(self) -> None:
        if self.is_asking:
            self.lines.append("give up")
            self.core.on_given_up()
            self.is_asking = False

    def do_respond(self, *words: str) -> None:
        topics = [
            FetchableTopicResponse(topic_id=key_of(word[0])[0], partitions=[row_of(word)])
            for word in words
        ]
        self._answer(FetchResponse(session_id=SESSION, responses=topics))

    def do_lose_session(self) -> None:
        code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._answer(FetchResponse(error_code=code, responses=[]))

    def do_refuse(self, error: str) -> None:
        self._answer(FetchResponse(error_code=ErrorCode[error], responses=[]))

    def _answer(self, response: FetchResponse) -> None:
        assert self.is_asking, "no request is under way"
        self.is_asking = False
        self.core.on_response(response, self.now_ms)

    def do_fail(self) -> None:
        assert self.is_asking, "no request is under way"
        self.is_asking = False
        self.core.on_failed(self.now_ms)

    def do_ends(self, name: str, start: str, end: str) -> None:
        self.core.on_ends(self.asked.pop(name), int(start), int(end), self.now_ms)

    def do_no_ends(self, name: str) -> None:
        self.core.on_no_ends(self.asked.pop(name), self.now_ms)

    def do_moved(self, name: str) -> None:
        self.do_respond(f"{name}=OFFSET_MOVED_TO_TIERED_STORAGE")

    def do_behind(self, name: str, offset: str) -> None:
        history = LogHistory(int(offset), (), ())
        self.core.on_start(self.rebuilding.pop(name), RemoteStart(history, 0))
        self._give_up()

    def do_starts_at(self, name: str, offset: str) -> None:
        self.core.on_start(self.rebuilding.pop(name), int(offset))
        self._give_up()

    def do_goes_on(self, name: str) -> None:
        self.core.on_no_rebuild(self.rebuilding.pop(name))
        self._give_up()

    def do_stuck(self, name: str) -> None:
        self.core.on_rebuild_failed(self.rebuilding.pop(name), self.now_ms)
        self._give_up()

    def do_forget(self, name: str) -> None:
        self.replicas[name].is_history_known = False
        self.core.on_changed(key_of(name))

    def do_skip(self, name: str) -> None:
        self.replicas.setdefault(name, Numbers(name)).is_remote_skipped = True

    def do_quota(self, word: str) -> None:
        self.core.on_quota(word == "on")

    def do_throttle(self, name: str) -> None:
        self.replicas[name].is_throttled = True

    def do_in_sync(self, name: str) -> None:
        self.replicas[name].is_throttled = False

    def do_short(self, name: str) -> None:
        self.replicas[name].is_short_of_room = True

    def do_room(self, name: str) -> None:
        self.replicas[name].is_short_of_room = False

    def do_break(self, name: str) -> None:
        self.replicas[name].is_in_service = False
        self.core.on_changed(key_of(name))

    def do_start(self, name: str, offset: str) -> None:
        self.replicas[name].start = int(offset)
        self.core.on_changed(key_of(name))

    def do_damage(self, name: str) -> None:
        self.replicas[name].is_damaged = True

    def do_wait(self, ms: str) -> None:
        self.now_ms += int(ms)


def key_of(name: str) -> Key:
    return name.encode() * 16, 0


def row_of(word: str) -> PartitionData:
    """A row of a response: `a+3`, `a=NOT_LEADER_OR_FOLLOWER` or `a^2:5`."""
    kind, rest = word[1], word[2:]
    row = PartitionData(
        partition_index=0, error_code=0, high_watermark=0, aborted_transactions=None, records=b""
    )
    if kind == "+":
        row.records = bytes(int(rest))
    elif kind == "=":
        row.error_code = ErrorCode[rest]
    else:
        epoch, end = rest.split(":")
        row.diverging_epoch = EpochEndOffset(epoch=int(epoch), end_offset=int(end))
    return row


def played(text: str) -> str:
    """Return the script with the lines that the core gives now."""
    player = Player()
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        head = block.split(f"\n{RULE}", 1)[0]
        command = [line for line in head.splitlines() if not line.startswith("#")]
        assert len(command) == 1, block
        blocks.append("\n".join([head, RULE, *player.play(command[0])]))
    return "\n\n".join(blocks) + "\n"
