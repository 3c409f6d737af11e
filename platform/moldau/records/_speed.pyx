# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, always_allow_keywords=True, auto_pickle=False, embedsignature=False
"""The compiled kernel: the same names, bytes, records and errors as `_pure`, which see.

Invariants that keep memory safe:
- Nothing is read through a pointer before its type was checked (`PyBytes_Check` and so on), and no
  Python code can run between a check and the use of what was checked.
- A decoder reads only between `Cursor.position` and `Cursor.end`, and every length is compared with
  what is left there before it moves the position.
- An appender knows the exact size of a record, and has room for it, before it writes one.

Decoders do not say what is wrong: they stop at the record, and `diagnosis.explain` says it.
"""

from cpython.buffer cimport (
    PyBUF_READ,
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_Check,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_Check, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_Check
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check, PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.string cimport memcpy, memset

cimport cython

from types import GenericAlias

from moldau.records.checksum import crc32c

from moldau.errors import CorruptRecord
from moldau.records.codecs import USUAL_BYTES_MAX, OversizedRecords, decompress
from moldau.records.diagnosis import (
    DENSE as _DENSE,
    KEYED as _KEYED,
    OBJECTS_MAX,
    KernelProgress,
    check_count,
    explain,
)
from moldau.records.record import (
    ColumnBuffers,
    Columns,
    Entry,
    HeaderBuffers,
    Opened,
    OpenedColumns,
    Spans,
    TimestampType,
)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_UCS4 PyUnicode_READ_CHAR(object text, Py_ssize_t index)

cdef enum:
    HEADER_BYTES = 61
    ROW_BYTES_MIN = 65  # a length, a header, and three tags
    OVERHEAD_BYTES = 12
    MAGIC = 2
    LEADER_EPOCH_AT = 12
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    RECORD_BYTES_MIN = 7
    CODEC_MASK = 0x07
    CODEC_MAX = 4
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    UNUSUAL = 0x37  # compressed, transactional or a control batch
    FIRST_RESERVE = 512

cdef int DENSE = _DENSE
cdef int KEYED = _KEYED
cdef int64_t RECORDS_MAX = OBJECTS_MAX
cdef tuple NO_HEADERS = ()


@cython.final
@cython.no_gc  # it holds bytes and a tuple of (str, bytes): never part of a cycle
@cython.freelist(1024)
cdef class Record:
    """One record; a value, never changed."""

    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly tuple headers

    def __init__(
        self, long long offset, long long timestamp, bytes key, bytes value, tuple headers=()
    ):
        for header in headers:
            if type(header) is not tuple or len(header) != 2:
                raise TypeError("a header must be a tuple of its key and its value")
            if type(header[0]) is not str or not (header[1] is None or type(header[1]) is bytes):
                raise TypeError("a header's key must be str, its value bytes or None")
        self.offset, self.timestamp = offset, timestamp
        self.key, self.value, self.headers = key, value, headers

    cdef tuple fields(self):
        return self.offset, self.timestamp, self.key, self.value, self.headers

    def __eq__(self, other):
        if type(other) is not Record:
            return NotImplemented
        return self.fields() == (<Record> other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return Record, self.fields()

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r},"
            f" value={self.value!r}, headers={self.headers!r})"
        )


# Writing ------------------------------------------------------------------------------------------

include "_writing.pxi"


# Reading ------------------------------------------------------------------------------------------

cdef struct Cursor:
    const uint8_t* position
    const uint8_t* end


cdef struct Fields:
    int64_t timestamp
    int64_t delta
    const uint8_t* tail
    const uint8_t* key
    int64_t key_size
    const uint8_t* value
    int64_t value_size
    const uint8_t* headers
    int64_t header_count


cdef inline int64_t unzigzag(uint64_t number) noexcept nogil:
    return <int64_t> (number >> 1) ^ -<int64_t> (number & 1)


cdef inline bint get_varint(Cursor* cursor, int64_t* number, int bits) noexcept nogil:
    """One and two bytes in line, since nearly all are so short."""
    cdef const uint8_t* at = cursor.position
    if at < cursor.end and at[0] < 0x80:
        number[0] = unzigzag(at[0])
        cursor.position = at + 1
        return True
    if cursor.end - at >= 2 and at[1] < 0x80:
        number[0] = unzigzag(at[0] & 0x7F | <uint64_t> at[1] << 7)
        cursor.position = at + 2
        return True
    return get_long_varint(cursor, number, bits)


cdef bint get_long_varint(Cursor* cursor, int64_t* number, int bits) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.position < cursor.end and shift < bits:
        byte = cursor.position[0]
        cursor.position += 1
        if shift + 7 > bits and byte >> (bits - shift):
            return False
        value |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = unzigzag(value)
            return True
        shift += 7
    return False


cdef inline bint get_bytes(Cursor* cursor, const uint8_t** content, int64_t* size) noexcept nogil:
    """A length of -1 or more, and its bytes, which are stepped over."""
    if not get_varint(cursor, size, 32) or size[0] < -1 or size[0] > cursor.end - cursor.position:
        return False
    content[0] = cursor.position
    if size[0] > 0:
        cursor.position += size[0]
    return True


cdef inline bint skip_headers(Cursor* cursor, int64_t count) noexcept nogil:
    cdef const uint8_t* content
    cdef int64_t size
    if count < 0 or count * 2 > cursor.end - cursor.position:
        return False
    while count:
        if not get_bytes(cursor, &content, &size) or size < 0:
            return False
        if not get_bytes(cursor, &content, &size):
            return False
        count -= 1
    return True


cdef inline bint get_record(Cursor* cursor, Fields* fields, int64_t room) noexcept nogil:
    """Read one record that ends where it says and has headers for which there is room."""
    cdef int64_t length
    cdef Cursor body
    if not get_varint(cursor, &length, 32) or length < 6 or length > cursor.end - cursor.position:
        return False
    body.position = cursor.position + 1  # its attributes have no meaning yet
    body.end = cursor.position = cursor.position + length
    if not get_varint(&body, &fields.timestamp, 64):
        return False
    fields.tail = body.position
    if not get_varint(&body, &fields.delta, 32):
        return False
    if not get_bytes(&body, &fields.key, &fields.key_size):
        return False
    if not get_bytes(&body, &fields.value, &fields.value_size):
        return False
    fields.headers = body.position
    if not get_varint(&body, &fields.header_count, 32):
        return False
    if fields.header_count and (
        fields.header_count > room or not skip_headers(&body, fields.header_count)
    ):
        return False
    return body.position == body.end


cdef inline bint is_sum_of_64_bits(int64_t one, int64_t other) noexcept nogil:
    return not (
        (one > 0 and other > INT64_MAX - one) or (one < 0 and other < INT64_MIN - one)
    )


@cython.final
cdef class Section:
    """A records section being read. Use: open, `next` until it is False, always close."""

    cdef Py_buffer view
    cdef bint is_open
    cdef object header
    cdef int rules
    cdef int64_t base_offset, base_timestamp, last_delta, previous, index, count
    cdef int64_t room  # for headers
    cdef int64_t append_time
    cdef bint has_append_time
    cdef Cursor cursor
    cdef const uint8_t* start  # of the current record
    cdef Fields fields

    def __cinit__(self, buffer, header, int rules, int64_t objects_max, reached=None):
        """`reached` is where the section was left; the buffer is then what follows, or a part."""
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.is_open = True
        if reached is None:
            self.room = check_count(self.view.len, header, objects_max)
        else:
            self.room = reached.room
        self.header, self.rules, self.count = header, rules, header.record_count
        self.base_offset, self.base_timestamp = header.base_offset, header.base_timestamp
        self.last_delta = header.last_offset_delta
        if self.base_offset > INT64_MAX - INT32_MAX:
            self.last_delta = min(self.last_delta, INT64_MAX - self.base_offset)
        self.has_append_time = header.attributes & LOG_APPEND_TIME != 0
        self.append_time = header.max_timestamp
        self.index, self.previous = 0, -1
        if reached is not None:
            self.index, self.previous = reached.record, reached.previous
        self.cursor.position = <const uint8_t*> self.view.buf
        self.cursor.end = self.cursor.position + self.view.len

    def __dealloc__(self):
        if self.is_open:
            PyBuffer_Release(&self.view)

    cdef inline bint next(self) except -1:
        """Step to the next record; False behind the last one."""
        self.start = self.cursor.position
        if self.index == self.count:
            if self.start != self.cursor.end:
                self.refuse()
            return False
        cdef Fields* fields = &self.fields
        if not get_record(&self.cursor, fields, self.room):
            self.refuse()
        cdef int64_t stamp = fields.timestamp, base = self.base_timestamp
        if not is_sum_of_64_bits(base, stamp):
            self.refuse()
        fields.timestamp = base + stamp
        if fields.delta <= self.previous or fields.delta > self.last_delta:
            self.refuse()
        if self.rules and (
            (self.rules & DENSE and fields.delta != self.index)
            or (self.rules & KEYED and fields.key_size < 0)
        ):
            self.refuse()
        self.previous = fields.delta
        self.room -= fields.header_count
        self.index += 1
        return True

    cdef inline bint next_whole(self) except -1:
        """Step to the next record; False behind the last one that is whole in the buffer."""
        cdef Cursor cursor = self.cursor
        cdef int64_t length
        if self.index < self.count:
            if not get_varint(&cursor, &length, 32):
                if self.cursor.end - self.cursor.position < 5:
                    self.start = self.cursor.position
                    return False
            elif length > cursor.end - cursor.position:
                self.start = self.cursor.position
                return False
        return self.next()

    cdef int refuse(self) except -1:
        cdef Py_ssize_t position = self.start - <const uint8_t*> self.view.buf
        data = PyBytes_FromStringAndSize(<const char*> self.view.buf, self.view.len)
        reached = KernelProgress(self.index, position, self.previous, self.room)
        explain(data, self.header, reached, self.rules)
        return -1

    cdef inline int64_t timestamp(self) noexcept:
        return self.append_time if self.has_append_time else self.fields.timestamp

    cdef inline bytes key(self):
        return content(self.fields.key, self.fields.key_size)

    cdef inline bytes value(self):
        return content(self.fields.value, self.fields.value_size)

    cdef inline tuple headers(self):
        if not self.fields.header_count:
            return NO_HEADERS
        return read_headers(&self.fields, self.cursor.position)


cdef inline bytes content(const uint8_t* start, int64_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*> start, size)


cdef tuple read_headers(Fields* fields, const uint8_t* end):
    """Headers that were stepped over before; checked again, since what runs here may be Python code
    (a finalizer in a garbage collection) that writes into the buffer."""
    cdef Cursor cursor
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int64_t key_size = 0, value_size = 0, count = 0
    cdef list headers = []
    cursor.position, cursor.end = fields.headers, end
    get_varint(&cursor, &count, 32)
    for _ in range(count):
        if not get_bytes(&cursor, &key, &key_size) or key_size < 0:
            break
        if not get_bytes(&cursor, &value, &value_size):
            break
        name = PyUnicode_DecodeUTF8(<char*> key, key_size, "replace")
        headers.append((name, content(value, value_size)))
    return tuple(headers)


def decode(buffer, header, int64_t objects_max=OBJECTS_MAX):
    """The records of an uncompressed section; they and their headers are at most `objects_max`."""
    cdef Section section = Section(buffer, header, 0, objects_max)
    cdef list records = []
    while section.next():
        records.append(
            made(&section.fields, section.base_offset, section.timestamp(), section.cursor.position)
        )
    return records


include "_consumed.pxi"


cdef inline Record made(
    Fields* fields, int64_t base_offset, int64_t timestamp, const uint8_t* end
):
    cdef Record record = Record.__new__(Record)
    record.offset = base_offset + fields.delta
    record.timestamp = timestamp
    record.key = content(fields.key, fields.key_size)
    record.value = content(fields.value, fields.value_size)
    record.headers = read_headers(fields, end) if fields.header_count else NO_HEADERS
    return record


def decode_usual(
    buffer, Py_ssize_t position, Py_ssize_t wanted, bint check_crc, str topic, int partition
):
    """The records of the batches that follow one another from `position` on: at least so many,
    unless a batch comes before that is of another leader's epoch, or has other attributes, or
    offsets that were there already, or takes a closer look: it is compressed, transactional, for
    brokers and clients, empty, cut short or damaged. None where that is the first."""
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef const uint8_t* last = NULL
    cdef Py_ssize_t size, left
    cdef int64_t next_offset = 0
    cdef list records = []
    cdef Place place = None
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        assert 0 <= position <= view.len
        while PyList_GET_SIZE(records) < wanted:
            at, left = <const uint8_t*> view.buf + position, view.len - position
            if left < HEADER_BYTES or at[16] != MAGIC:
                break
            size = <Py_ssize_t> int32_at(at + 8) + OVERHEAD_BYTES
            if not HEADER_BYTES <= size <= left or at[ATTRIBUTES_AT + 1] & UNUSUAL:
                break
            if last != NULL and not follows(at, last, next_offset):
                break
            if check_crc and not has_right_crc(at, size):
                break
            if place is None:
                place = place_of(
                    topic, partition, int32_at(at + LEADER_EPOCH_AT),
                    at[ATTRIBUTES_AT + 1] & LOG_APPEND_TIME != 0,
                )
            if not add_records(records, at, size, place):
                break
            last, position = at, position + size
            next_offset = int64_at(at) + int32_at(at + 23) + 1
        if last == NULL:
            return None
        epoch, attributes = int32_at(last + LEADER_EPOCH_AT), int16_at(last + ATTRIBUTES_AT)
        return Opened(records, position, next_offset, epoch, attributes)
    finally:
        PyBuffer_Release(&view)


cdef inline bint follows(
    const uint8_t* at, const uint8_t* last, int64_t next_offset
) noexcept nogil:
    return (
        int64_at(at) >= next_offset
        and int32_at(at + LEADER_EPOCH_AT) == int32_at(last + LEADER_EPOCH_AT)
        and int16_at(at + ATTRIBUTES_AT) == int16_at(last + ATTRIBUTES_AT)
    )


cdef bint add_records(
    list records, const uint8_t* at, Py_ssize_t size, Place place
) except -1:
    """All that the header at `at` tells of, or none and False where they are not as it says."""
    cdef Py_ssize_t before = PyList_GET_SIZE(records)
    cdef int64_t count = int32_at(at + 57), base_offset = int64_at(at), base = int64_at(at + 27)
    cdef int64_t last_delta = int32_at(at + 23), append_time = int64_at(at + 35)
    cdef bint has_append_time = at[ATTRIBUTES_AT + 1] & LOG_APPEND_TIME != 0
    cdef int64_t previous = -1, room = RECORDS_MAX - count, stamp, index
    cdef Fields fields
    cdef Cursor cursor
    cursor.position, cursor.end = at + HEADER_BYTES, at + size
    if not 1 <= count <= RECORDS_MAX or not 0 <= base_offset < INT64_MAX - INT32_MAX:
        return False
    if count * RECORD_BYTES_MIN > cursor.end - cursor.position:
        return False
    for index in range(count):
        if not get_record(&cursor, &fields, room):
            break
        stamp = fields.timestamp
        if not is_sum_of_64_bits(base, stamp):
            break
        if fields.delta <= previous or fields.delta > last_delta:
            break
        previous = fields.delta
        room -= fields.header_count
        stamp = append_time if has_append_time else base + stamp
        records.append(consumed(&fields, base_offset, stamp, cursor.position, place))
    else:
        if cursor.position == cursor.end:
            return True
    del records[before:]
    return False


def columns(buffer, header, int64_t objects_max=OBJECTS_MAX):
    """The same as parallel lists."""
    cdef Section section = Section(buffer, header, 0, objects_max)
    cdef list offsets = [], timestamps = [], keys = [], values = [], headers = []
    while section.next():
        offsets.append(section.base_offset + section.fields.delta)
        timestamps.append(section.timestamp())
        keys.append(section.key())
        values.append(section.value())
        headers.append(section.headers())
    return Columns(offsets, timestamps, keys, values, headers)


def entries(buffer, header, int64_t objects_max=OBJECTS_MAX):
    """Where each record stands; for compaction. Headers count here too, though none is made."""
    cdef Section section = Section(buffer, header, 0, objects_max)
    cdef const uint8_t* first = <const uint8_t*> section.view.buf
    cdef list found = []
    while section.next():
        found.append(Entry(
            section.base_offset + section.fields.delta, section.timestamp(), section.key(),
            section.fields.value_size, section.start - first, section.fields.tail - first,
            section.cursor.position - first,
        ))
    return found


def scan(buffer, header, int rules, int64_t objects_max=OBJECTS_MAX):
    """(oldest timestamp, newest timestamp, offset delta of the newest), as the records have them;
    (-1, -1, -1) where there are none. Refuses what `decode` would refuse."""
    cdef Section section = Section(buffer, header, rules, objects_max)
    cdef int64_t oldest = INT64_MAX, newest = INT64_MIN, newest_delta = -1, stamp
    while section.next():
        stamp = section.fields.timestamp
        if stamp > newest or newest_delta < 0:
            newest, newest_delta = stamp, section.fields.delta
        if stamp < oldest:
            oldest = stamp
    if newest_delta < 0:
        return -1, -1, -1
    return oldest, newest, newest_delta


def scan_part(buffer, header, int rules, reached):
    """Scan the whole records at the start of a part of a section: (oldest timestamp, newest
    timestamp, offset delta of the newest, the progress behind them). The part begins where the
    section was `reached`, and so does the position of the progress. Without a record the times and
    the delta mean nothing."""
    cdef Section section = Section(buffer, header, rules, 0, reached)
    cdef int64_t oldest = INT64_MAX, newest = INT64_MIN, newest_delta = -1, stamp
    while section.index < section.count and section.next_whole():
        stamp = section.fields.timestamp
        if stamp > newest or newest_delta < 0:
            newest, newest_delta = stamp, section.fields.delta
        if stamp < oldest:
            oldest = stamp
    cdef Py_ssize_t position = section.cursor.position - <const uint8_t*> section.view.buf
    return oldest, newest, newest_delta, KernelProgress(
        section.index, position, section.previous, section.room
    )


include "_columns.pxi"


# Judging ------------------------------------------------------------------------------------------

cdef inline uint64_t big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number


cdef inline int64_t int64_at(const uint8_t* at) noexcept nogil:
    return <int64_t> big_endian(at, 8)


cdef inline int16_t int16_at(const uint8_t* at) noexcept nogil:
    return <int16_t> big_endian(at, 2)


cdef inline int32_t int32_at(const uint8_t* at) noexcept nogil:
    return <int32_t> big_endian(at, 4)


cdef inline bint has_right_crc(const uint8_t* at, Py_ssize_t size) except -1:
    covered = PyMemoryView_FromMemory(<char*> at + ATTRIBUTES_AT, size - ATTRIBUTES_AT, PyBUF_READ)
    return <uint32_t> crc32c(covered) == big_endian(at + CRC_AT, 4)


cdef inline bint is_usual_header(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """Of one batch as long as its bytes, that claims nothing but what a producer may."""
    if size < HEADER_BYTES or int32_at(at + 8) != size - OVERHEAD_BYTES or at[16] != MAGIC:
        return False
    cdef uint64_t attributes = big_endian(at + ATTRIBUTES_AT, 2)
    cdef int64_t producer_id = int64_at(at + 43), count = int32_at(at + 57)
    if int64_at(at) != 0 or attributes & ~<uint64_t> (CODEC_MASK | TRANSACTIONAL):
        return False
    if attributes & CODEC_MASK > CODEC_MAX or (attributes & TRANSACTIONAL and producer_id < 0):
        return False
    if producer_id != -1:  # then it has an epoch and a sequence
        if producer_id < 0 or at[51] > 0x7F or at[53] > 0x7F:
            return False
    return 1 <= count <= RECORDS_MAX and int32_at(at + 23) == count - 1


cdef bint are_usual_records(
    Cursor* cursor, const uint8_t* at, int rules, int64_t since, int64_t until
) noexcept nogil:
    """All that the header at `at` tells of, and nothing behind them. Whatever it has come to say
    while Python code ran, only what is between the cursor's ends is read."""
    cdef Fields fields
    cdef int64_t count = int32_at(at + 57), base = int64_at(at + 27)
    cdef int64_t index, stamp, oldest = INT64_MAX, newest = INT64_MIN, room = RECORDS_MAX - count
    if count * RECORD_BYTES_MIN > cursor.end - cursor.position:
        return False
    for index in range(count):
        if not get_record(cursor, &fields, room) or fields.delta != index:
            return False
        if rules & KEYED and fields.key_size < 0:
            return False
        stamp = fields.timestamp
        if not is_sum_of_64_bits(base, stamp):
            return False
        stamp += base
        room -= fields.header_count
        oldest, newest = min(oldest, stamp), max(newest, stamp)
    if cursor.position != cursor.end or newest != int64_at(at + 35) or newest > until:
        return False
    return oldest == -1 or oldest >= max(since, 0)


cdef inline void put_big_endian(uint8_t* at, uint64_t number, int size) noexcept nogil:
    cdef int index
    for index in range(size):
        at[index] = <uint8_t> (number >> 8 * (size - 1 - index))


def admit_usual(
    buffer,
    int rules,
    int64_t timestamp_min,
    int64_t timestamp_max,
    int64_t base_offset,
    int32_t leader_epoch,
):
    """Stamp the one batch that `buffer` is with its place in a log, if it is right in all that a
    leader asks of a producer: (last offset, greatest timestamp, producer id).

    None, and nothing has changed, where it takes a closer look. Raises OversizedRecords, and nothing
    has changed, where the records are more than a usual batch has."""
    cdef Py_buffer view
    cdef uint8_t* at
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    except BufferError:
        return None
    try:
        at = <uint8_t*> view.buf
        if not is_usual_header(at, view.len) or base_offset > INT64_MAX - INT32_MAX:
            return None
        if not has_right_crc(at, view.len):
            return None
        if not is_usual_section(buffer, at, view.len, rules, timestamp_min, timestamp_max):
            return None
        put_big_endian(at, base_offset, 8)
        put_big_endian(at + LEADER_EPOCH_AT, leader_epoch, 4)
        return base_offset + int32_at(at + 23), int64_at(at + 35), int64_at(at + 43)
    finally:
        PyBuffer_Release(&view)


cdef bint is_usual_section(
    buffer, const uint8_t* at, Py_ssize_t size, int rules, int64_t since, int64_t until
) except -1:
    """The records behind a usual header, opened where they are compressed, and their times."""
    cdef Py_buffer opened
    cdef Cursor cursor
    cdef int codec = at[ATTRIBUTES_AT + 1] & CODEC_MASK
    if codec == 0:
        cursor.position, cursor.end = at + HEADER_BYTES, at + size
        return are_usual_records(&cursor, at, rules, since, until)
    try:
        section = decompress(codec, memoryview(buffer)[HEADER_BYTES:], USUAL_BYTES_MAX)
    except OversizedRecords:
        raise
    except CorruptRecord:
        return False
    PyObject_GetBuffer(section, &opened, PyBUF_SIMPLE)
    cursor.position = <const uint8_t*> opened.buf
    cursor.end = cursor.position + opened.len
    cdef bint are_usual = are_usual_records(&cursor, at, rules, since, until)
    PyBuffer_Release(&opened)
    return are_usual


include "_produced.pxi"


# Hashing ------------------------------------------------------------------------------------------

cdef enum:
    MURMUR_R = 24
cdef uint32_t MURMUR_SEED = 0x9747B28C
cdef uint32_t MURMUR_M = 0x5BD1E995


cdef uint32_t murmur2_of(object key) except? 1:
    if not PyBytes_Check(key):
        raise TypeError(f"key must be bytes, not {type(key).__name__}")
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(key)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(key)
    cdef uint32_t hashed = MURMUR_SEED ^ <uint32_t> left
    cdef uint32_t word
    while left >= 4:
        word = at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24
        word *= MURMUR_M
        word = (word ^ word >> MURMUR_R) * MURMUR_M
        hashed = hashed * MURMUR_M ^ word
        at += 4
        left -= 4
    if left:
        word = at[0]
        if left > 1:
            word |= <uint32_t> at[1] << 8
        if left > 2:
            word |= <uint32_t> at[2] << 16
        hashed = (hashed ^ word) * MURMUR_M
    hashed = (hashed ^ hashed >> 13) * MURMUR_M
    hashed ^= hashed >> 15
    return hashed


def murmur2(key):
    """Java clients' hash of a key, as the signed 32-bit number that Java has."""
    return <int32_t> murmur2_of(key)


def partition_for_key(key, Py_ssize_t partition_count):
    """The partition that Java's default partitioner chooses for this key."""
    cdef uint32_t hashed = murmur2_of(key)
    if partition_count <= 0:
        raise ValueError("a topic has partitions")
    return <Py_ssize_t> (hashed & 0x7FFFFFFF) % partition_count


def java_string_hash(text):
    """`String.hashCode` of Java: over UTF-16 units, a signed 32-bit number."""
    if not PyUnicode_Check(text):
        raise TypeError(f"text must be str, not {type(text).__name__}")
    cdef uint32_t hashed = 0
    cdef uint32_t point
    cdef Py_ssize_t index
    for index in range(PyUnicode_GET_LENGTH(text)):
        point = <uint32_t> PyUnicode_READ_CHAR(text, index)
        if point > 0xFFFF:
            hashed = hashed * 31 + 0xD7C0 + (point >> 10)
            hashed = hashed * 31 + (0xDC00 | point & 0x3FF)
        else:
            hashed = hashed * 31 + point
    return <int32_t> hashed
