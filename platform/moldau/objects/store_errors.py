"""What goes wrong with a store, as one error with a reason, and a line for the operator.

Invariants: a reason says whether another attempt may help. The text is one line: what was done,
where, what went wrong, what to do. `is_outcome_known` is False if the store may have done what it
was asked for: an answer that was lost is not a failure that is known.

The library reports failures as texts, so they are recognised by what S3 servers, Google and Azure
answer: a status and a code. What is not recognised is refused for good if a server said so, and
tried again if the connection failed.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from moldau.deferred import deferred_pattern
from moldau.errors import MoldauError

_DETAIL_MAX: Final = 300


class StoreReason(Enum):
    """Why a call failed: what to say, and whether to try again."""

    NO_BUCKET = ("there is no such bucket; make it, or name another", False)
    NO_RIGHTS = (
        "the credentials lack the right to do this; allow get, put, delete and list"
        " to them, or give others",
        False,
    )
    NO_CREDENTIALS = (
        "no credentials were accepted; check the key and the secret in the environment"
        " (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of your cloud)",
        False,
    )
    WRONG_REGION = (
        "the bucket is in another region; set AWS_REGION, or remote.storage.region of a broker",
        False,
    )
    CLOCK = ("this machine's clock is off; set it, and keep it by NTP", False)
    NOT_FOUND = ("there is no such object", False)
    ALREADY_EXISTS = ("there is an object of this name already", False)
    BAD_RANGE = ("the object ends before this range", False)
    REFUSED = ("the store refused the request", False)
    UNFINISHED = ("the store accepted it, and has not finished it in time", False)
    NO_SPACE = ("the store is full", True)
    THROTTLED = ("the store wants fewer requests", True)
    SERVER_ERROR = ("the store has a problem of its own", True)
    UNREACHABLE = ("the store cannot be reached; check the address and the network", True)
    TIMEOUT = ("the store did not answer in time", True)

    def __init__(self, advice: str, retriable: bool) -> None:
        self.advice = advice
        self.retriable = retriable


UNKNOWN_OUTCOMES: Final = frozenset(
    (
        StoreReason.SERVER_ERROR,
        StoreReason.THROTTLED,
        StoreReason.TIMEOUT,
        StoreReason.UNREACHABLE,
    )
)
"""After these a request may have been done."""


class StoreError(MoldauError):
    """A call of the object store that failed."""

    def __init__(
        self, reason: StoreReason, text: str, *, is_outcome_known: bool = True, **context: object
    ) -> None:
        super().__init__(text, **context)
        self.why = reason
        self.is_outcome_known = is_outcome_known

    @property
    def retriable(self) -> bool:
        return self.why.retriable


def store_error(reason: StoreReason, call: str, where: str, detail: str = "") -> StoreError:
    """Return the error of a call: `put` of `s3://bucket/name`."""
    context = {"detail": detail} if detail else {}
    known = reason not in UNKNOWN_OUTCOMES
    return StoreError(reason, f"{call} {where}: {reason.advice}", is_outcome_known=known, **context)


_CODES: Final = {
    StoreReason.NO_BUCKET: ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName"),
    StoreReason.NO_RIGHTS: (
        "AccessDenied",
        "AllAccessDisabled",
        "AuthorizationPermissionMismatch",
        "AuthorizationFailure",
        "InsufficientAccountPermissions",
    ),
    StoreReason.NO_CREDENTIALS: (
        "AuthenticationFailed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "XAdminUserNotFound",
    ),
    StoreReason.WRONG_REGION: (
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "PermanentRedirect",
        "TemporaryRedirect",
    ),
    StoreReason.CLOCK: ("RequestTimeTooSkewed", "RequestExpired"),
    StoreReason.NOT_FOUND: ("NoSuchKey", "BlobNotFound"),
    StoreReason.ALREADY_EXISTS: ("PreconditionFailed", "BlobAlreadyExists", "ConditionNotMet"),
    StoreReason.BAD_RANGE: ("InvalidRange",),
    StoreReason.THROTTLED: (
        "ConditionalRequestConflict",
        "OperationAborted",
        "RequestLimitExceeded",
        "SlowDown",
        "ServerBusy",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    ),
    StoreReason.TIMEOUT: ("RequestTimeout", "OperationTimedOut"),
    StoreReason.SERVER_ERROR: ("InternalError", "ServiceUnavailable"),
}
_BY_CODE: Final = {code: reason for reason, codes in _CODES.items() for code in codes}
_BY_STATUS: Final = {
    301: StoreReason.WRONG_REGION,
    307: StoreReason.WRONG_REGION,
    401: StoreReason.NO_CREDENTIALS,
    403: StoreReason.NO_RIGHTS,
    404: StoreReason.NOT_FOUND,
    408: StoreReason.TIMEOUT,
    409: StoreReason.THROTTLED,
    412: StoreReason.ALREADY_EXISTS,
    416: StoreReason.BAD_RANGE,
    429: StoreReason.THROTTLED,
    503: StoreReason.THROTTLED,
    507: StoreReason.NO_SPACE,
}
_BY_TEXT: Final = (
    (deferred_pattern(r"redirect without LOCATION", re.I), StoreReason.WRONG_REGION),
    (
        deferred_pattern(r"metadata/|/latest/api/token|169\.254\.169\.254"),
        StoreReason.NO_CREDENTIALS,
    ),
    (deferred_pattern(r"Unable to canonicalize filesystem root"), StoreReason.NO_BUCKET),
    (
        deferred_pattern(r"StartTooLarge|kind: InvalidRange|Wanted range starting at"),
        StoreReason.BAD_RANGE,
    ),
    (deferred_pattern(r"kind: PermissionDenied|kind: ReadOnlyFilesystem"), StoreReason.NO_RIGHTS),
    (deferred_pattern(r"kind: StorageFull|kind: QuotaExceeded"), StoreReason.NO_SPACE),
    (deferred_pattern(r"kind: TimedOut|kind: Timeout|TimedOut"), StoreReason.TIMEOUT),
)
_CODE: Final = deferred_pattern(
    r"<Code>\s*([A-Za-z]+)\s*</Code>|\"(?:code|reason)\": *\"([A-Za-z]+)\"|\(code: ([A-Za-z]+)\)"
)
"""The last form is the library's own, of a deletion among several."""
_STATUS: Final = deferred_pattern(r"non-2xx status code: (\d{3})|\(code: (\d{3})\)")


def reason_of(text: str) -> StoreReason:
    """Return the reason of a failure that a library or a server describes with this text."""
    code = _CODE.search(text)
    if code is not None:
        known = _BY_CODE.get(code[code.lastindex or 0])
        if known is not None:
            return known
    for pattern, reason in _BY_TEXT[:2]:
        if pattern.search(text):
            return reason
    status = _STATUS.search(text)
    if status is None:
        found = (reason for pattern, reason in _BY_TEXT if pattern.search(text))
        return next(found, StoreReason.UNREACHABLE)
    number = int(status[1] or status[2])
    by_class = StoreReason.SERVER_ERROR if number >= 500 else StoreReason.REFUSED
    return _BY_STATUS.get(number, by_class)


def detail_of(text: str) -> str:
    """Return the part of a library's text that an operator can use, on one line."""
    first = text.partition("\n\nDebug source:")[0]
    message = re.search(r"<Message>(.*?)</Message>", first, re.S)
    return " ".join((message[1] if message else first).split())[:_DETAIL_MAX]
