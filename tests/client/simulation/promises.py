"""What clients and coordinators have promised: as a failure names it, and a planted bug by which it
must be found."""

from __future__ import annotations

from enum import StrEnum


class Promise(StrEnum):
    """Those of records are demanded in `records`, those of groups in `truth`, `reading` and
    `watch`."""

    # Records.
    ONLY_SENT = "only what was sent is read"
    """Each record is of a producer that sent it."""
    ONE_RECORD = "an offset names one record"
    """Whoever says so: an acknowledgement, a consumer."""
    STANDS_ONCE = "a record stands once"
    """Of an idempotent producer, however often it was sent."""
    REFUSED_NOWHERE = "what was refused is nowhere"
    """A send that raised leaves nothing in the log, nor does a record that was refused for what it
    is."""
    ORDER = "order of a producer is kept"
    """In each partition, of an idempotent one."""
    ACKNOWLEDGED_KEPT = "what was acknowledged is kept"
    """To the end."""
    AS_SENT = "a record is read as it was sent"
    """Key, value, headers, topic."""
    ITS_PARTITION = "a record lies on its partition"
    """The one that was named, or that its key says."""
    GIVEN_TIME = "a record has the time that it was given"
    """Or that of its sending, where it was given none."""
    APPEND_TIME = "the log's time is that of the append"
    """LogAppendTime: the broker's clock has shown it between send and acknowledgement."""
    TOLD_TIME = "the log's time is what was acknowledged"
    """And what every reader sees."""
    MANY_AS_ONE = "many are acknowledged as one by one"
    """The ranges are of all these records, in their order."""
    REALLY_TOO_LARGE = "only what is too large is refused as such"
    """Alone, as it would be sent; and it is named."""

    # Groups.
    NOTHING_LEFT_OUT = "nothing is left out"
    """Who takes a partition over goes on where the group is done with everything, or before."""
    NOTHING_REPEATED = "nothing is repeated that was committed"
    """It does not begin before what was committed then."""
    NO_GAP = "records follow one another"
    """From one poll to the next."""
    ONLY_ASSIGNED = "a poll gives only what is assigned"
    HEARD_IN_ORDER = "listeners hear of each partition in order"
    ONLY_WORKED_ON = "a commit covers only what was worked on"
    """Invariant 11 as far as consumers go."""
    COMMITTED_GROWS = "a committed offset does not go back"
    """Unless somebody committed less (invariant 13)."""
    COMMITTED_WRITTEN = "what was committed is written"
    """When the client hears so."""
    COMMITTED_OF_TOPIC = "what is committed is of the topic as it is"
    """Not of one that had its name before: it leads to a record of it, or to its end."""
    COMMITTED_TOLD = "what is committed is told"
    """To an administrator: as it was at some moment since he asked."""
    TOLD_BY_POLL = "poll tells what the user has to know"
    """And nothing that trying again heals."""
    ONE_OWNER = "a partition has one owner"
    """Of the members that the coordinator would let commit it now (invariant 12)."""
    SYNC_OF_GENERATION = "a sync is of the present generation"
    """Who names another one is not let into it, and gets no share (invariant 12)."""
    SHARD_IS_ITS_LOG = "a shard is what its log says"
    """Live, after every append, and when it is loaded (invariant 13)."""
    COMMITTED_SURVIVES = "what was committed survives"
    """Each acknowledged commit, and all below it, is there in every later life."""
    FENCED = "who is fenced does not commit"
    """See `ghost`."""

    # The end.
    ALL_WORKED_ON = "all is worked on"
    """By each group, of what it reads."""
    ALL_COMMITTED = "all is committed in the end"
    """When all is healed, groups settle and producers end."""
    ALL_END = "what is begun comes to an end"
    """Then who is asked to leave does, and who reads everything has it in time."""
