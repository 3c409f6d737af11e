"""The HTTP API of a worker's stores: turns requests into questions, and answers into JSON.

    GET /                               the app, and the state of its tasks here
    GET /topology                       the plan: sub-topologies, their steps, topics and stores
    GET /tasks                          the tasks of all workers, with their progress and lag
    GET /stores                         the stores, and which worker has which partition
    GET /stores/NAME                    rows of all workers:
                                        ?first= last= since= until= limit= reverse= by_time=
    GET /stores/NAME/count              about how many rows all workers have
    GET /stores/NAME/keys/KEY           the row of a key: ?as_of= partitions=
                                        its windows or sessions: ?first= last= limit= partitions=
                                        of all three: ?stale=true at_least=PARTITION:OFFSET,...
    GET /metrics, /healthz, /readyz     for Prometheus and a supervisor
    POST /pause, /resume                all workers: ?only=true this one alone

Any worker accepts any request. Invariant: a request is forwarded at most once to each worker, and
never by a worker that it was forwarded to.

A key is looked for at the worker with the partition that the source's partitioner gives. If the
app does not declare how a source is written, the row may lie elsewhere, so a key that is not found
there is looked for in all other partitions.

With `stale` a standby answers where the worker with the task does not, or restores it. Such answers
have a `position`, as do those with `at_least`: the offset in the changelog that each partition has
come to.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from moldau.streams.plan.description import description
from moldau.streams.plan.placement import Placement
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import StreamsError
from moldau.streams.query.http import Answer, Request, json_answer, refusal
from moldau.streams.query.lifecycle import Lifecycle
from moldau.streams.query.questions import (
    FOREVER_MS,
    BadQuery,
    Count,
    Fetch,
    Get,
    NoSuchStore,
    NotHere,
    PositionedAnswer,
    PositionQuestion,
    Question,
    Range,
    Row,
    StoreUnavailable,
)
from moldau.streams.query.routing import Routes, candidates
from moldau.streams.query.supervised import NO_SUPERVISOR, WORKERS
from moldau.streams.query.watch import WatchPages
from moldau.streams.serdes.types import BYTES, INTERNAL_ANY, LENIENT_TEXT, TEXT
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.spec import StoreKind, StoreSpec

Forward = Callable[[str, Request], Awaitable[Answer]]
"""Forwards a request to another worker (host:port). StoreUnavailable if it does not answer."""

Figures = Callable[[], Awaitable[dict[str, list[dict[str, Any]]]]]
"""Returns the progress of the tasks and of the standbys of this worker, each as JSON values."""

Endpoint = Callable[..., Awaitable[Answer]]

VARIABLE: Final = "{}"
"""In a path: a segment that may be anything."""
PAUSE: Final = ("pause",)
CHANGES: Final = (PAUSE, ("resume",))
"""The paths that change something."""
LIMIT: Final = 1000
LIMIT_MAX: Final = 100_000
_FLAGS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}
_NO_ROWS: Final = json_answer({"rows": [], "more": False}).body
_TEXT: Final = (TEXT, LENIENT_TEXT, INTERNAL_ANY)


class Stores(Protocol):
    """What the API needs from a worker."""

    app: str
    plan: Plan

    @property
    def stores(self) -> Any: ...

    def store(self, name: str) -> Any: ...

    async def ask(self, store: str, question: Question | PositionQuestion) -> Any: ...

    def placement(self, name: str) -> Placement: ...

    def owner(self, program: Program, partition: int) -> str | None: ...

    def copy_owners(self, program: Program, partition: int) -> tuple[str, ...]: ...

    def copies(self, program: Program) -> Any: ...

    def partition(self, name: str, key: bytes) -> int: ...

    def partitions(self, program: Program) -> int: ...

    def here(self, program: Program) -> Any: ...


class Api:
    """The API of one worker. `server` is the worker's own address."""

    def __init__(
        self,
        stores: Stores,
        server: str,
        forward: Forward,
        watch: WatchPages,
        figures: Figures,
        life: Lifecycle | None = None,
    ) -> None:
        self._stores = stores
        self._figures = figures
        self._server = server
        self._forward = forward
        self._watch = watch
        self._life = life or Lifecycle()
        self._rows_by_length: dict[int, list[tuple[list[str], Endpoint]]] = {}
        for path, endpoint in self.table():
            segments = [each for each in path.split("/") if each]
            self._rows_by_length.setdefault(len(segments), []).append((segments, endpoint))

    async def answer(self, request: Request) -> Answer:
        """Answer a request. Bad requests and unavailable stores give an error answer."""
        if request.path == WORKERS:  # with a supervisor another API has answered
            return refusal(404, f"app={self._stores.app}: this worker {NO_SUPERVISOR}")
        if request.method != ("POST" if request.path in CHANGES else "GET"):
            wanted = " and ".join(f"/{each}" for (each,) in CHANGES)
            text = f"{request.method} is not for {request.target}: POST is for {wanted}, all else"
            return refusal(405, f"{text} takes GET")
        try:
            return await self._answer(request)
        except NoSuchStore as error:
            return refusal(404, str(error))
        except BadQuery as error:
            return refusal(400, str(error))
        except (StoreUnavailable, NotHere) as error:
            return refusal(503, str(error), is_retryable=True)
        except StreamsError as error:
            return refusal(500, str(error))

    async def _answer(self, request: Request) -> Answer:
        for path, endpoint in self._rows_by_length.get(len(request.path), ()):
            pairs = list(zip(path, request.path, strict=True))
            if all(wanted in (VARIABLE, given) for wanted, given in pairs):
                variables = [given for wanted, given in pairs if wanted == VARIABLE]
                return await endpoint(request, *variables)
        return refusal(404, f"there is no {request.target}: see / for what there is")

    def table(self) -> list[tuple[str, Endpoint]]:
        """Return path and endpoint of each route; an endpoint takes the request and the variable
        segments of the path."""
        return [
            ("/", self._overview),
            ("/metrics", self._watch.answer),
            ("/healthz", self._watch.answer),
            ("/readyz", self._watch.answer),
            ("/pause", self._pause),
            ("/resume", self._pause),
            ("/topology", self._topology),
            ("/tasks", self._tasks),
            ("/stores", self._all_stores),
            ("/stores/{}", self._rows),
            ("/stores/{}/count", self._count),
            ("/stores/{}/keys/{}", self._of_key),
        ]

    # The app and its stores

    def _names(self) -> list[str]:
        return sorted(self._stores.stores)

    async def _topology(self, request: Request) -> Answer:
        return json_answer(description(self._stores.plan, {}))

    async def _all_stores(self, request: Request) -> Answer:
        return json_answer({"stores": [self._described(each) for each in self._names()]})

    async def _overview(self, request: Request) -> Answer:
        states: dict[str, int] = {}
        programs = {id(each.program): each.program for each in self._stores.stores.values()}
        for program in programs.values():
            if program is not None:
                for state in self._stores.here(program).values():
                    states[state.value] = states.get(state.value, 0) + 1
        return json_answer(
            {
                "app": self._stores.app,
                "server": self._server,
                "state": self._life.state.value,
                "paused": self._life.is_paused,
                "tasks": states,
                "stores": [f"/stores/{name}" for name in self._names()],
            }
        )

    def _described(self, name: str) -> dict[str, object]:
        spec, program = self._stores.store(name)
        facts: dict[str, object] = {
            "name": name,
            "kind": spec.kind.value,
            "key": spec.key.name,
            "value": spec.value.name,
            "topic": self._topic(spec),
        }
        if program is None:
            return facts | {"global": True}
        here = self._stores.here(program)
        return facts | {
            "partitions": [
                {
                    "partition": partition,
                    "owner": self._stores.owner(program, partition),
                    "standbys": list(self._stores.copy_owners(program, partition)),
                    "here": here[partition].value if partition in here else None,
                }
                for partition in range(self._stores.partitions(program))
            ]
        }

    def _topic(self, spec: StoreSpec) -> str:
        """Return the topic with what is in a store. Names are those of a changelog where there is
        none, so that rules about topics fit all stores."""
        tables = self._stores.plan.global_tables
        known = {table.store.name: table.topic for table in tables}
        app = self._stores.app
        return known.get(spec.name) or spec.changelog(app) or f"{app}-{spec.name}-changelog"

    # Pauses

    async def _pause(self, request: Request) -> Answer:
        """Pause or resume this worker, and the others that it knows. One that does not answer is a
        problem in the answer."""
        others = () if request.is_forwarded or _flag(request, "only") else self._known()
        self._life.is_paused = request.path == PAUSE
        done, problems = [self._server], {}
        for server in others:
            try:
                answer = await self._forward(server, request)
            except StoreUnavailable as error:
                problems[server] = str(error)
                continue
            if answer.status == HTTPStatus.OK:
                done.append(server)
            else:
                problems[server] = _reason(answer)
        found = {"paused": self._life.is_paused, "workers": done, "problems": problems}
        return json_answer(found, HTTPStatus.BAD_GATEWAY if problems else HTTPStatus.OK)

    def _known(self) -> list[str]:
        """Return the other workers that have tasks or copies."""
        servers = {each["server"] for each in self._owned().values()} | self._copiers()
        return sorted(each for each in servers if each is not None and each != self._server)

    # Tasks

    async def _tasks(self, request: Request) -> Answer:
        """Answer with the tasks of all workers. A worker that does not answer is a problem in the
        answer, and a task that no worker tells of has no state."""
        here = await self._figures()
        if request.is_forwarded:
            return json_answer(here)
        rows, problems = self._owned(), {}
        found = [(self._server, each) for each in here["tasks"]]
        copies = [(self._server, each) for each in here["standbys"]]
        for server in self._known():
            try:
                answer = await self._forward(server, request)
            except StoreUnavailable as error:
                problems[server] = str(error)
                continue
            if answer.status != HTTPStatus.OK:
                problems[server] = _reason(answer)
                continue
            there = msgspec.json.decode(answer.body)
            found += [(server, each) for each in there["tasks"]]
            copies += [(server, each) for each in there.get("standbys", ())]
        for server, each in found:
            rows[each["program"], each["partition"]] = {**each, "server": server}
        for row in rows.values():
            row["standbys"] = []
        for server, each in copies:
            at = each.pop("program"), each.pop("partition")
            if at in rows:
                rows[at]["standbys"].append({**each, "server": server})
        return json_answer({"tasks": [rows[at] for at in sorted(rows)], "problems": problems})

    def _copiers(self) -> set[str]:
        """Return the workers that have copies."""
        stores = self._stores
        return {
            server
            for program in stores.plan.programs
            for partition in range(stores.partitions(program))
            for server in stores.copy_owners(program, partition)
        }

    def _owned(self) -> dict[tuple[int, int], dict[str, Any]]:
        """Return all tasks with their owners, by sub-topology and partition."""
        stores = self._stores
        return {
            (program.index, partition): {
                "program": program.index,
                "partition": partition,
                "server": stores.owner(program, partition),
                "state": None,
            }
            for program in stores.plan.programs
            for partition in range(stores.partitions(program))
        }

    # Keys

    async def _of_key(self, request: Request, name: str, text: str) -> Answer:
        spec, program = self._stores.store(name)
        question = _key_question(spec, text, request)
        if (asked := _positioned(question, request)) is not None:
            return await self._of_key_positioned((name, text), question, asked, request)
        try:
            found = await self._stores.ask(name, question)
        except NotHere as error:
            if request.is_forwarded or error.owner is None or error.owner == self._server:
                raise
            answer = await self._forward(error.owner, request)
            if program is None or not _is_absent(answer):
                return answer
        else:
            answer = _key_answer((name, text), question, found)
        is_final = request.is_forwarded or question.partitions or not _is_absent(answer)
        if program is None or is_final or self._stores.placement(name).is_known:
            return answer
        return await self._of_key_elsewhere(program, (name, text), question, request)

    async def _of_key_elsewhere(
        self, program: Program, what: tuple[str, str], question: Get | Fetch, request: Request
    ) -> Answer:
        """Look for a key in all partitions, those of other workers one worker after the other."""
        here = tuple(self._stores.here(program))
        if here:
            asked = replace(question, partitions=here)
            answer = _key_answer(what, question, await self._stores.ask(what[0], asked))
            if not _is_absent(answer):
                return answer
        for server, numbers in self._others(program).items():
            mark = "&" if request.options else "?"
            target = f"{request.target}{mark}partitions={','.join(map(str, numbers))}"
            answer = await self._forward(server, replace(request, target=target))
            if not _is_absent(answer):
                return answer
        return _key_answer(what, question, None)

    # Answers with a position

    async def _of_key_positioned(
        self,
        what: tuple[str, str],
        question: Get | Fetch,
        asked: PositionQuestion,
        request: Request,
    ) -> Answer:
        """Look for a key where its partitioner puts it, and in all other partitions if the app does
        not declare how its source is written."""
        name = what[0]
        spec, program = self._stores.store(name)
        if program is None or request.is_forwarded or question.partitions:
            chosen: list[tuple[int, ...]] = [question.partitions]
        else:
            first = self._stores.partition(name, spec.key.encode(question.key))
            rest = set(range(self._stores.partitions(program))) - {first}
            is_known = self._stores.placement(name).is_known
            chosen = [(first,)] if is_known or not rest else [(first,), tuple(sorted(rest))]
        found: list[dict[str, Any]] = []
        for partitions in chosen:
            found += await self._everywhere(name, replace(asked, partitions=partitions), request)
            held = next((each for each in found if each["found"]), None)
            if held is not None:
                return json_answer({**held["found"], **_facts(found)})
        if isinstance(question, Fetch):
            return json_answer({"rows": [], "more": False, **_facts(found)})
        text = f"store={name}: it has no key {what[1]}"
        return json_answer({"error": text, "again": False, **_facts(found)}, HTTPStatus.NOT_FOUND)

    async def _everywhere(
        self, name: str, asked: PositionQuestion, request: Request
    ) -> list[dict[str, Any]]:
        """Return the answers of all partitions that are asked, as JSON values."""
        _, program = self._stores.store(name)
        if program is None or request.is_forwarded:
            return [await self._here(name, asked)]
        wanted = asked.partitions or range(self._stores.partitions(program))
        found_at = partial(candidates, self._stores, self._server, program, asked.is_stale)
        routes = Routes(name, {each: found_at(each) for each in wanted})
        found = []
        while ready := routes.ready():
            for server, numbers in ready.items():
                part = replace(asked, partitions=numbers)
                try:
                    if server == self._server:
                        found.append(await self._here(name, part))
                    else:
                        found.append(await self._there(server, part, request))
                except (StoreUnavailable, NotHere) as error:
                    routes.on_failed(numbers, error)
                else:
                    routes.on_answered(numbers)
        return found

    async def _here(self, name: str, asked: PositionQuestion) -> dict[str, Any]:
        found: PositionedAnswer = await self._stores.ask(name, asked)
        position = {str(each): at for each, at in found.position.items()}
        return _values(asked.question, found.answer) | {
            "position": position,
            "stale": found.is_stale,
        }

    async def _there(
        self, server: str, asked: PositionQuestion, request: Request
    ) -> dict[str, Any]:
        partitions = ",".join(map(str, asked.partitions))
        options = urlencode({**request.options, "partitions": partitions})
        target = f"{request.target.partition('?')[0]}?{options}"
        answer = await self._forward(server, replace(request, target=target))
        is_absent = answer.status == HTTPStatus.NOT_FOUND and isinstance(asked.question, Get)
        if answer.status != HTTPStatus.OK and not is_absent:
            raise StoreUnavailable(f"{server}: {_reason(answer)}")
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        if isinstance(asked.question, Get | Fetch):
            facts = ("position", "stale")
            held = {each: value for each, value in found.items() if each not in facts}
            is_held = not is_absent and (isinstance(asked.question, Get) or bool(held["rows"]))
            found["found"] = held if is_held else None
        return {"position": {}, "stale": False, **found}

    # All workers

    async def _rows(self, request: Request, name: str) -> Answer:
        spec, program = self._stores.store(name)
        limit = _limit(request)
        question = Range(
            key_from_text(spec, request.options["first"]) if "first" in request.options else None,
            key_from_text(spec, request.options["last"]) if "last" in request.options else None,
            _number(request, "since", 0),
            _number(request, "until", FOREVER_MS),
            limit + 1,
            _flag(request, "reverse"),
            _flag(request, "by_time"),
        )
        if (asked := _positioned(question, request)) is not None:
            found = await self._everywhere(name, asked, request)
            rows = [row for each in found for row in each["rows"]]
            _sort(rows, spec, question)
            more = any(each["more"] for each in found) or len(rows) > limit
            return json_answer({"rows": rows[:limit], "more": more, **_facts(found)})
        rows = [row_json(each) for each in await self._stores.ask(name, question)]
        more = len(rows) > limit
        rows = rows[:limit]
        for answer in await self._elsewhere(program, request):
            rows += answer["rows"]
            more |= answer["more"]
        if program is not None and not request.is_forwarded:
            _sort(rows, spec, question)
            more |= len(rows) > limit
        return json_answer({"rows": rows[:limit], "more": more})

    async def _count(self, request: Request, name: str) -> Answer:
        _, program = self._stores.store(name)
        if (asked := _positioned(Count(), request)) is not None:
            found = await self._everywhere(name, asked, request)
            return json_answer({"count": sum(each["count"] for each in found), **_facts(found)})
        count = await self._stores.ask(name, Count())
        for answer in await self._elsewhere(program, request):
            count += answer["count"]
        return json_answer({"count": count})

    async def _elsewhere(self, program: Program | None, request: Request) -> list[Any]:
        """Forward the request to the other workers with partitions of the store, and return their
        answers. Raise StoreUnavailable if one cannot answer."""
        if program is None or request.is_forwarded:
            return []
        found = []
        for server in self._others(program):
            answer = await self._forward(server, request)
            if answer.status != HTTPStatus.OK:
                raise StoreUnavailable(f"{server}: {_reason(answer)}")
            found.append(msgspec.json.decode(answer.body))
        return found

    def _others(self, program: Program) -> dict[str, list[int]]:
        """Return the other workers with partitions of a program, and which these are. Raise
        StoreUnavailable if one of the partitions cannot be asked."""
        here = self._stores.here(program)
        others: dict[str, list[int]] = {}
        for partition in range(self._stores.partitions(program)):
            if partition in here:
                continue
            owner = self._stores.owner(program, partition)
            if owner is None or owner == self._server:
                raise StoreUnavailable(
                    f"partition={partition}: the worker that has it serves no queries, or it "
                    "moves: start all workers with --listen, or ask again"
                )
            others.setdefault(owner, []).append(partition)
        return others


def _key_question(spec: StoreSpec, text: str, request: Request) -> Get | Fetch:
    """Return what a request asks of a key."""
    key, partitions = key_from_text(spec, text), _partitions(request)
    has_spans = spec.kind in (StoreKind.WINDOW, StoreKind.SESSION)
    if has_spans or "first" in request.options or "last" in request.options:
        last = _number(request, "last", FOREVER_MS)
        return Fetch(key, _number(request, "first", 0), last, _limit(request) + 1, partitions)
    as_of = _number(request, "as_of", -1)
    return Get(key, None if as_of < 0 else as_of, partitions)


def _positioned(question: Question, request: Request) -> PositionQuestion | None:
    """Return the question with what a request allows and demands; None for a plain request."""
    is_stale, text = _flag(request, "stale"), request.options.get("at_least", "")
    if not is_stale and not text:
        return None
    at_least = {}
    for each in filter(None, text.split(",")):
        partition, _, offset = each.partition(":")
        if not partition.isdecimal() or not offset.isdecimal():
            raise BadQuery(
                f"at_least={text}: it must be PARTITION:OFFSET, with commas between them"
            )
        at_least[int(partition)] = int(offset)
    return PositionQuestion(question, is_stale, at_least, _partitions(request))


def _values(question: Question, found: Any) -> dict[str, Any]:
    """Return an answer as JSON values. That of a key is in `found`, None if nothing was found."""
    if isinstance(question, Count):
        return {"count": found}
    if isinstance(question, Get):
        return {"found": None if found is None else row_json(found)}
    assert question.limit is not None
    limit = question.limit - 1
    rows = [row_json(each) for each in (found or [])[:limit]]
    values = {"rows": rows, "more": len(found or []) > limit}
    return {"found": values if rows else None} if isinstance(question, Fetch) else values


def _facts(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how far answers are, and whether a copy gave one of them."""
    position = {number: at for each in found for number, at in each["position"].items()}
    return {"position": position, "stale": any(each["stale"] for each in found)}


def _sort(rows: list[dict[str, Any]], spec: StoreSpec, question: Range) -> None:
    has_times = question.by_time and spec.kind in (StoreKind.WINDOW, StoreKind.SESSION)
    order = _time_order if has_times else lambda row: _order(spec, row)
    rows.sort(key=order, reverse=question.is_reverse)


def _key_answer(what: tuple[str, str], question: Get | Fetch, found: Any) -> Answer:
    """Return what was found of a key: `what` is the store and the key's text."""
    if isinstance(question, Fetch):
        assert question.limit is not None
        limit = question.limit - 1
        rows = [row_json(each) for each in (found or [])[:limit]]
        return json_answer({"rows": rows, "more": len(found or []) > limit})
    if found is None:
        return refusal(404, f"store={what[0]}: it has no key {what[1]}")
    return json_answer(row_json(found))


def _is_absent(answer: Answer) -> bool:
    """Whether an answer says that nothing was found of a key."""
    return answer.status == HTTPStatus.NOT_FOUND or answer.body == _NO_ROWS


def _partitions(request: Request) -> tuple[int, ...]:
    text = request.options.get("partitions", "")
    numbers = text.split(",") if text else []
    if not all(each.isdecimal() for each in numbers):
        raise BadQuery(f"partitions={text}: it must be numbers, with commas between them")
    return tuple(map(int, numbers))


def _reason(answer: Answer) -> str:
    try:
        return str(msgspec.json.decode(answer.body)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"status {answer.status}"


def _limit(request: Request) -> int:
    limit = _number(request, "limit", LIMIT)
    if not 0 < limit <= LIMIT_MAX:
        raise BadQuery(f"limit={limit}: it must be from 1 to {LIMIT_MAX}")
    return limit


def _flag(request: Request, name: str) -> bool:
    text = request.options.get(name, "false")
    if text not in _FLAGS:
        raise BadQuery(f"{name}={text}: it must be true or false")
    return _FLAGS[text]


def _number(request: Request, name: str, default: int) -> int:
    text = request.options.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise BadQuery(f"{name}={text}: it must be milliseconds or a number") from None


# Keys and rows as JSON: bytes are base64.


def key_from_text(spec: StoreSpec, text: str) -> Any:
    """Return the key in a URL: text for str, base64 for bytes, JSON for everything else."""
    try:
        if spec.key in _TEXT:
            return text
        if spec.key is BYTES:
            return base64.b64decode(text, validate=True)
        return spec.key.decode(text.encode())
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise BadQuery(
            f"store={spec.name}: {text!r} is no key of it, which are {spec.key.name}: {error}"
        ) from None


def row_json(row: Row) -> dict[str, object]:
    """Return a row as JSON values. The start and end of a window stand beside its key."""
    facts: dict[str, object] = {"key": row.key}
    if isinstance(row.key, Windowed):
        facts = {"key": row.key.key, "start": row.key.start, "end": row.key.end}
    facts |= {"value": row.value, "timestamp": row.timestamp}
    decoded: dict[str, object] = msgspec.json.decode(
        msgspec.json.encode(facts, enc_hook=_encoded), strict=False
    )
    return decoded


def _encoded(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else str(value)


def _time_order(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["end"], row["start"]


def _order(spec: StoreSpec, row: dict[str, Any]) -> tuple[bytes, int, int]:
    key = row["key"]
    try:
        if spec.key is BYTES:
            data = base64.b64decode(key)
        elif spec.key in _TEXT and isinstance(key, str):
            data = spec.key.encode(key)
        else:
            data = spec.key.encode(spec.key.decode(msgspec.json.encode(key)))
    except (ValueError, TypeError, msgspec.MsgspecError):
        data = msgspec.json.encode(key)
    return data, row.get("start", 0), row.get("end", 0)
