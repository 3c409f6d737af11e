"""Transactions: those that are open, what blocks readers of a partition, and how to end one."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client import TransactionAdmin
from moldau.client.admin.survey import Survey as TopicSlices
from moldau.client.admin.transactions import TransactionDescription
from moldau.console.connection import Connection
from moldau.console.pages.paging import RowPage, paged
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see, typed_name
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.operations import transactions
from moldau.operations.transactions import LONGEST_S, OpenTransaction, Survey, open_transactions
from moldau.runtime import Clock

OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
PARTITIONS_MAX: Final = 1_000
"""A larger cluster is not asked for the producers of all its partitions, but of one topic's."""


@dataclass(frozen=True, slots=True)
class Row:
    """An open transaction of the list. `found` is None if its coordinator does not answer."""

    transactional_id: str
    state: str
    found: TransactionDescription | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class BlockedPartition:
    """A partition whose readers of committed records wait, and what they wait for."""

    transaction: OpenTransaction
    age_s: float
    hangs: bool

    @property
    def reason(self) -> str:
        """What ends it."""
        if not self.transaction.is_judged:
            return "a partition of __transaction_state has no leader: its coordinator may end it"
        if self.transaction.is_known:
            return "its producer or its coordinator ends it"
        if self.hangs:
            return "nothing ends it: its coordinator does not know it"
        return "its coordinator does not count it as open here: it may have just ended"


class Transactions:
    """The endpoints about transactions."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock

    async def list(self, request: Request) -> Response:
        """Open transactions, and the partitions of a topic that they block."""
        query = request.query_params
        topic = query.get("topic", "").strip()
        part = await self._open(query.get("page"))
        survey = await self._survey(topic)
        now_ms = self._clock.wall_ms()
        blocked = [
            BlockedPartition(each, each.age_ms(now_ms) / 1000, each.hangs(now_ms, LONGEST_S * 1000))
            for each in (() if survey is None else survey.found)
        ]
        return self._renderer.page(
            request,
            "transactions.html",
            part=part,
            topic=topic,
            blocked=None if survey is None else blocked,
            failed={} if survey is None else survey.failed,
        )

    async def _open(self, number: str | None) -> RowPage[Row]:
        known = TransactionAdmin(await self._connection.admin())
        part = paged(await known.list_all(states=OPEN), number)
        described = await known.describe(each.transactional_id for each in part.rows)
        now_ms = self._clock.wall_ms()
        rows = []
        for each in part.rows:
            found = described[each.transactional_id]
            if isinstance(found, KafkaError):
                rows.append(Row(each.transactional_id, each.state, None, None))
                continue
            age_s = max(0, now_ms - found.started_ms) / 1000 if found.started_ms > 0 else None
            rows.append(Row(each.transactional_id, found.state, found, age_s))
        return RowPage(rows, part.number, part.count, part.total)

    async def _survey(self, topic: str) -> Survey | None:
        """Return the open transactions of a topic, or of all in a small cluster; else None."""
        admin = await self._connection.admin()
        if topic:
            return await open_transactions(admin, [topic])
        names: list[str] = []
        count = 0
        async with aclosing(TopicSlices(admin).topics()) as slices:
            async for part in slices:
                names += [each.name for each in part.topics]
                count += sum(len(each.partitions) for each in part.topics)
                if count > PARTITIONS_MAX:
                    return None
        return await open_transactions(admin, names)

    # Changes.

    async def abort(self, request: Request) -> Response:
        """Let its coordinator abort a transaction, and fence its producer. The form repeats the
        transactional id."""
        name = await typed_name(request, "transactional id", "to abort its transaction")
        await transactions.abort(await self._connection.admin(), name)
        return see("/transactions")

    async def abort_hanging(self, request: Request) -> Response:
        """Write the marker that ends a transaction in one partition, if nothing else will. The form
        repeats the topic's name."""
        name = await typed_name(request, "topic", "to end the transaction in it")
        form = await form_of(request)
        admin = await self._connection.admin()
        survey, chosen = await open_transactions(admin, [name]), None
        place = form.get("partition", ""), form.get("from", "")
        if all(map(str.isdecimal, place)):
            chosen = survey.at(*map(int, place))
        if chosen is None:
            raise BadForm("no transaction is open in this partition from this offset any more")
        if not chosen.hangs(self._clock.wall_ms(), LONGEST_S * 1000):
            raise BadForm("this transaction does not hang: its coordinator may still end it")
        await transactions.end(admin, chosen)
        return see(f"/transactions?topic={quote(name, safe='')}")
