# Records written into a batch: part of `_speed.pyx`, which see for what keeps memory safe.

cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)


cdef inline int varint_bytes(uint64_t number) noexcept nogil:
    cdef int size = 1
    if number < 1 << 14:  # nearly always
        return 1 if number < 1 << 7 else 2
    while number > 0x7F:
        number >>= 7
        size += 1
    return size


cdef inline char* put_varint(char* to, uint64_t number) noexcept nogil:
    while number > 0x7F:
        to[0] = <char> (number & 0x7F | 0x80)
        number >>= 7
        to += 1
    to[0] = <char> number
    return to + 1


cdef inline char* put_bytes(char* to, const char* content, Py_ssize_t size) noexcept nogil:
    """A length and its bytes; -1 for None."""
    to = put_varint(to, zigzag(size))
    if size > 0:
        memcpy(to, content, size)
        to += size
    return to


cdef inline const char* content_start(PyObject* content, Py_ssize_t size) noexcept:
    """Where the bytes are that `content_size` has looked at."""
    return NULL if size <= 0 else PyBytes_AS_STRING(<object> content)


cdef inline Py_ssize_t content_size(PyObject* content, str what) except -2:
    """How long the content is, -1 for None."""
    if content == <PyObject*> None:
        return -1
    if not PyBytes_Check(<object> content):
        raise TypeError(f"{what} must be bytes or None, not {type(<object> content).__name__}")
    return PyBytes_GET_SIZE(<object> content)


cdef inline int64_t checked_timestamp(object timestamp) except? -2:
    if not PyLong_Check(timestamp):
        raise TypeError(f"timestamp must be int, not {type(timestamp).__name__}")
    cdef int overflow = 0
    cdef int64_t stamp = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
    if overflow:
        raise OverflowError("timestamp does not fit 64 bits")
    return stamp


cdef bytes encode_headers(object headers):
    """The headers with their count, or None where there are none. They are rare and short, so they
    are written the plain way; what runs here may be slower but not looser."""
    if not PyTuple_Check(headers) and not PyList_Check(headers):
        raise TypeError(f"headers must be a tuple or a list, not {type(headers).__name__}")
    cdef Py_ssize_t size
    cdef const char* name
    cdef list parts = [varint(len(headers))]
    for header in tuple(headers):
        if not PyTuple_Check(header) or PyTuple_GET_SIZE(header) != 2:
            raise TypeError("a header must be a tuple of its key and its value")
        key, value = <object> PyTuple_GET_ITEM(header, 0), <object> PyTuple_GET_ITEM(header, 1)
        if not PyUnicode_Check(key):
            raise TypeError(f"header key must be str, not {type(key).__name__}")
        name = PyUnicode_AsUTF8AndSize(key, &size)
        parts.append(varint(size))
        parts.append(PyBytes_FromStringAndSize(name, size))
        parts.append(varint(content_size(<PyObject*> value, "header value")))
        if value is not None:
            parts.append(value)
    return b"".join(parts)


def varint(long long number):
    """The zig-zag varint of a signed number of up to 64 bits."""
    cdef char encoded[10]
    return PyBytes_FromStringAndSize(encoded, put_varint(encoded, zigzag(number)) - encoded)


@cython.final
@cython.freelist(1024)
cdef class Slot:
    """One record of a batch that is being written: whose it is, which, and of what time. Awaiting
    it asks the batch, which alone knows what becomes of its records."""

    cdef readonly object batch
    cdef readonly Py_ssize_t index
    cdef readonly int64_t timestamp

    def __init__(self, batch, Py_ssize_t index, int64_t timestamp=-1):
        self.batch, self.index, self.timestamp = batch, index, timestamp

    @property
    def is_done(self):
        """Whether it is decided."""
        return self.batch.is_done

    def __await__(self):
        return self.batch.outcome(self.index, self.timestamp).__await__()

    def __repr__(self):
        return f"<Slot {self.index} of {self.batch!r}>"


@cython.final
cdef class Content:
    """A column of binary values in buffers as Arrow has them; every offset is checked when it is
    used, since the buffers come from outside."""

    cdef Py_buffer data, offsets, validity
    cdef bint has_data, has_offsets, has_validity
    cdef int width
    cdef Py_ssize_t first, count

    def __cinit__(self, spans):
        data, offsets, width, validity, first, count = spans
        self.width, self.first, self.count = width, first, count
        if width != 4 and width != 8:
            raise ValueError("offsets have 4 or 8 bytes")
        PyObject_GetBuffer(offsets, &self.offsets, PyBUF_SIMPLE)
        self.has_offsets = True
        if data is not None:
            PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
            self.has_data = True
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
            self.has_validity = True
        if first < 0 or count < 0 or self.first > self.offsets.len // width:
            raise ValueError("the values lie outside of their offsets")
        if self.count > self.offsets.len // width - 1 - self.first:
            raise ValueError("the values lie outside of their offsets")
        if self.has_validity and self.first + self.count > self.validity.len * 8:
            raise ValueError("the values lie outside of their validity")

    def __dealloc__(self):
        if self.has_offsets:
            PyBuffer_Release(&self.offsets)
        if self.has_data:
            PyBuffer_Release(&self.data)
        if self.has_validity:
            PyBuffer_Release(&self.validity)

    cdef inline int64_t offset(self, Py_ssize_t index) noexcept:
        cdef int32_t narrow
        cdef int64_t wide
        if self.width == 4:
            memcpy(&narrow, <const char*> self.offsets.buf + index * 4, 4)
            return narrow
        memcpy(&wide, <const char*> self.offsets.buf + index * 8, 8)
        return wide

    cdef inline int get(
        self, Py_ssize_t index, const char** content, Py_ssize_t* size
    ) except -1:
        """Where the value is and how long; -1 for null."""
        index += self.first
        if self.has_validity and not (
            (<const uint8_t*> self.validity.buf)[index >> 3] >> (index & 7) & 1
        ):
            content[0], size[0] = NULL, -1
            return 0
        cdef int64_t low = self.offset(index), high = self.offset(index + 1)
        if low < 0 or high < low or high > (self.data.len if self.has_data else 0):
            raise ValueError("an offset leads out of the data")
        content[0] = (<const char*> self.data.buf + low) if high > low else NULL
        size[0] = high - low
        return 0


@cython.final
cdef class Tails:
    """Headers of many records in buffers, encoded one record at a time; every end is checked when
    it is used, since the buffers come from outside."""

    cdef Py_buffer ends
    cdef bint has_ends
    cdef Content names, contents

    def __cinit__(self, headers):
        self.names, self.contents = Content(headers.names), Content(headers.contents)
        if self.names.count != self.contents.count:
            raise ValueError("the columns are not of one length")
        PyObject_GetBuffer(headers.ends, &self.ends, PyBUF_SIMPLE)
        self.has_ends = True

    def __dealloc__(self):
        if self.has_ends:
            PyBuffer_Release(&self.ends)

    cdef bytes get(self, Py_ssize_t index):
        """The headers of a record; None for no headers."""
        cdef int32_t low, high
        cdef Py_ssize_t at, size, total
        cdef const char* start
        cdef char* to
        memcpy(&low, <const char*> self.ends.buf + index * 4, 4)
        memcpy(&high, <const char*> self.ends.buf + index * 4 + 4, 4)
        if low < 0 or high < low or high > self.names.count:
            raise ValueError("an end leads out of the headers")
        if low == high:
            return None
        total = varint_bytes(zigzag(high - low))
        for at in range(low, high):
            self.names.get(at, &start, &size)
            if size < 0:
                raise ValueError("a header has no name")
            total += varint_bytes(zigzag(size)) + size
            self.contents.get(at, &start, &size)
            total += varint_bytes(zigzag(size)) + max(size, 0)
        tail = PyBytes_FromStringAndSize(NULL, total)
        to = put_varint(PyBytes_AS_STRING(tail), zigzag(high - low))
        for at in range(low, high):
            self.names.get(at, &start, &size)
            to = put_bytes(to, start, size)
            self.contents.get(at, &start, &size)
            to = put_bytes(to, start, size)
        return tail


cdef class Appender:
    """Records written one behind another, behind room for a header, up to `size_bytes_max`."""

    cdef readonly Py_ssize_t size_bytes_max
    cdef readonly Py_ssize_t size_bytes
    cdef readonly Py_ssize_t count
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef bytearray buffer  # nobody else has it before take()
    cdef Py_ssize_t reserved
    cdef object owner
    cdef object clock_ns
    cdef int64_t wall_from_ns

    def __init__(self, Py_ssize_t size_bytes_max=INT32_MAX):
        self.size_bytes_max = min(size_bytes_max, <Py_ssize_t> INT32_MAX)
        self.size_bytes = HEADER_BYTES
        self.count = 0
        self.base_timestamp = self.max_timestamp = -1
        self.buffer = bytearray(FIRST_RESERVE)
        self.reserved = FIRST_RESERVE
        memset(PyByteArray_AS_STRING(self.buffer), 0, HEADER_BYTES)

    @cython.binding(False)
    def append(self, timestamp, key, value, headers=()):
        """The record's offset delta, or None when it does not fit; the first one always does."""
        cdef Py_ssize_t delta = self.count
        if self.buffer is None:
            raise ValueError("the records have been taken")
        if self.write(
            checked_timestamp(timestamp),
            <PyObject*> key, <PyObject*> value, <PyObject*> headers, 1,
        ):
            return delta
        return None

    def widen(self, Py_ssize_t more):
        """From now on so many bytes more fit."""
        if more < 0:
            raise ValueError("more must not be negative")
        self.size_bytes_max += min(more, <Py_ssize_t> INT32_MAX - self.size_bytes_max)

    def open_for(self, owner, clock_ns, int64_t wall_from_ns):
        """From now on `place` gives slots of `owner`, and takes the time from this clock, which
        gives nanoseconds that make the wall clock's with `wall_from_ns` added."""
        self.owner, self.clock_ns, self.wall_from_ns = owner, clock_ns, wall_from_ns

    @cython.binding(False)
    def place(self, key, value, headers=()):
        """As `append` with the time that it is; the record's slot, or None when it does not
        fit."""
        if self.owner is None:
            raise ValueError("the records have been taken, or this was not opened")
        cdef object owner = self.owner
        cdef int64_t now = (<int64_t> self.clock_ns() + self.wall_from_ns) // 1000000
        cdef Py_ssize_t index = self.count
        if self.buffer is None:  # Python code ran
            raise ValueError("the records have been taken")
        if not self.write(
            now,
            <PyObject*> key, <PyObject*> value, <PyObject*> headers, 1,
        ):
            return None
        cdef Slot slot = Slot.__new__(Slot)
        slot.batch, slot.index, slot.timestamp = owner, index, now
        return slot

    def extend_values(self, timestamp, values, Py_ssize_t start=0):
        """Append values without keys and headers, from `start` on; how many fitted."""
        if self.buffer is None:
            raise ValueError("the records have been taken")
        if not PyList_Check(values) and not PyTuple_Check(values):
            raise TypeError(f"values must be a list or a tuple, not {type(values).__name__}")
        if start < 0:
            raise ValueError("start must not be negative")
        cdef int64_t stamp = checked_timestamp(timestamp)
        cdef bint is_list = PyList_Check(values)
        cdef Py_ssize_t index, count = self.count, size
        cdef Py_ssize_t stop = PyList_GET_SIZE(values) if is_list else PyTuple_GET_SIZE(values)
        cdef PyObject* value
        for index in range(start, stop):
            value = PyList_GET_ITEM(values, index) if is_list else PyTuple_GET_ITEM(values, index)
            size = content_size(value, "value")
            if not self.put(
                stamp, NULL, -1, content_start(value, size), size, None, stop - index
            ):
                break
        return self.count - count

    def extend_spans(self, timestamp, values, keys=None, Py_ssize_t start=0):
        """Append values (and keys) of `Spans`, from `start` on; how many fitted."""
        if self.buffer is None:
            raise ValueError("the records have been taken")
        if start < 0:
            raise ValueError("start must not be negative")
        cdef int64_t stamp = checked_timestamp(timestamp)
        cdef Content of_values = Content(values)
        cdef Content of_keys = None if keys is None else Content(keys)
        if of_keys is not None and of_keys.count != of_values.count:
            raise ValueError("there are not as many keys as values")
        cdef Py_ssize_t index, count = self.count, key_size = -1, size
        cdef const char* key = NULL
        cdef const char* value
        for index in range(start, of_values.count):
            of_values.get(index, &value, &size)
            if of_keys is not None:
                of_keys.get(index, &key, &key_size)
            if not self.put(
                stamp, key, key_size, value, size, None, of_values.count - index
            ):
                break
        return self.count - count

    def extend_buffers(self, columns, Py_ssize_t start=0):
        """Append the records of `ColumnBuffers`, but for their offsets, from `start` on; how many
        fitted."""
        if self.buffer is None:
            raise ValueError("the records have been taken")
        if start < 0:
            raise ValueError("start must not be negative")
        cdef Content of_values = Content(columns.values), of_keys = Content(columns.keys)
        cdef Tails tails = None if columns.headers is None else Tails(columns.headers)
        cdef Py_ssize_t index, count = self.count, stop = columns.length, key_size, size
        cdef const char* key
        cdef const char* value
        cdef Py_buffer stamps
        cdef int64_t stamp
        if stop != of_values.count or stop != of_keys.count:
            raise ValueError("the columns are not of one length")
        PyObject_GetBuffer(columns.timestamps, &stamps, PyBUF_SIMPLE)
        try:
            if stamps.len < stop * 8 or (tails is not None and tails.ends.len < stop * 4 + 4):
                raise ValueError("the columns are not of one length")
            for index in range(start, stop):
                memcpy(&stamp, <const char*> stamps.buf + index * 8, 8)
                of_values.get(index, &value, &size)
                of_keys.get(index, &key, &key_size)
                tail = None if tails is None else tails.get(index)
                if not self.put(stamp, key, key_size, value, size, tail, stop - index):
                    break
        finally:
            PyBuffer_Release(&stamps)
        return self.count - count

    def extend(self, rows, Py_ssize_t start=0):
        """Append the rows (timestamp, key, value, headers) from `start` on; how many fitted."""
        if self.buffer is None:
            raise ValueError("the records have been taken")
        if not PyList_Check(rows) and not PyTuple_Check(rows):
            raise TypeError(f"rows must be a list or a tuple, not {type(rows).__name__}")
        if start < 0:
            raise ValueError("start must not be negative")
        cdef bint is_list = PyList_Check(rows)
        cdef Py_ssize_t index = start, count = self.count, left
        cdef object row
        while True:
            # The list's size is asked for each time: headers may run Python code while encoded.
            left = (PyList_GET_SIZE(rows) if is_list else PyTuple_GET_SIZE(rows)) - index
            if left <= 0:
                break
            row = <object> (
                PyList_GET_ITEM(rows, index) if is_list else PyTuple_GET_ITEM(rows, index)
            )
            if not PyTuple_Check(row) or PyTuple_GET_SIZE(row) != 4:
                raise TypeError("a row must be a tuple of timestamp, key, value and headers")
            if not self.write(
                checked_timestamp(<object> PyTuple_GET_ITEM(row, 0)), PyTuple_GET_ITEM(row, 1),
                PyTuple_GET_ITEM(row, 2), PyTuple_GET_ITEM(row, 3), left,
            ):
                break
            index += 1
        return self.count - count

    cdef inline bint write(
        self,
        int64_t stamp,
        PyObject* key,
        PyObject* value,
        PyObject* headers,
        Py_ssize_t left,
    ) except -1:
        """Write a record if it fits; `left` records like it are expected, this one included."""
        cdef bytes tail = None
        if headers != <PyObject*> NO_HEADERS:
            tail = encode_headers(<object> headers)
            if self.buffer is None:  # Python code ran
                raise ValueError("the records have been taken")
        cdef Py_ssize_t key_size = content_size(key, "key")
        cdef Py_ssize_t value_size = content_size(value, "value")
        return self.put(
            stamp,
            content_start(key, key_size), key_size,
            content_start(value, value_size), value_size,
            tail, left,
        )

    cdef inline bint put(
        self,
        int64_t stamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
        bytes tail,
        Py_ssize_t left,
    ) except -1:
        """The same from memory that stays where it is meanwhile; sizes are -1 for null."""
        cdef Py_ssize_t tail_size = 1 if tail is None else PyBytes_GET_SIZE(tail)
        cdef int64_t base = self.base_timestamp if self.count else stamp
        if (base < 0 and stamp > INT64_MAX + base) or (base > 0 and stamp < INT64_MIN + base):
            raise OverflowError("timestamp is too far from the first one of its batch")
        cdef uint64_t stamp_delta = zigzag(stamp - base)
        cdef uint64_t delta = zigzag(self.count)
        cdef Py_ssize_t length = (
            1 + varint_bytes(stamp_delta) + varint_bytes(delta)
            + varint_bytes(zigzag(key_size)) + max(key_size, 0)
            + varint_bytes(zigzag(value_size)) + max(value_size, 0) + tail_size
        )
        cdef Py_ssize_t total = self.size_bytes + length + varint_bytes(zigzag(length))
        if total > self.size_bytes_max and (self.count or total > INT32_MAX):
            if not self.count:
                raise ValueError("a record does not fit a batch of 2 GiB")
            return False
        if total > self.reserved:
            self.reserve(total, left)
        cdef char* start = PyByteArray_AS_STRING(self.buffer)
        cdef char* to = put_varint(start + self.size_bytes, zigzag(length))
        to[0] = 0
        to = put_varint(to + 1, stamp_delta)
        to = put_varint(to, delta)
        to = put_bytes(to, key, key_size)
        to = put_bytes(to, value, value_size)
        if tail is None:
            to[0] = 0
            to += 1
        else:
            memcpy(to, PyBytes_AS_STRING(tail), tail_size)
            to += tail_size
        self.size_bytes = to - start
        if not self.count:
            self.base_timestamp = self.max_timestamp = stamp
        elif stamp > self.max_timestamp:
            self.max_timestamp = stamp
        self.count += 1
        return True

    cdef int reserve(self, Py_ssize_t total, Py_ssize_t left) except -1:
        """Make room for `total` bytes and for as many records more as are known to come. The room
        grows fourfold, because each step may copy what is written."""
        cdef Py_ssize_t ahead = (total - self.size_bytes) * (left - 1)
        cdef Py_ssize_t wanted = total + max(ahead + (ahead >> 4), 3 * total)
        wanted = max(total, min(wanted, self.size_bytes_max))
        PyByteArray_Resize(self.buffer, wanted)
        self.reserved = wanted
        return 0

    def take(self):
        """What was written, 61 blank bytes first; the appender is spent."""
        if self.buffer is None:
            raise ValueError("the records have been taken")
        taken, self.buffer = self.buffer, None
        self.owner = self.clock_ns = None
        PyByteArray_Resize(taken, self.size_bytes)
        return taken
