# Records of batches as columns: part of `_speed`, which see.
#
# A batch is walked twice: once to know that it is sound and how much room its bytes take, and once
# to write. Between the two no Python code runs, so what was found out still holds.

cdef struct Sizes:
    int64_t count  # of records that are wanted
    int64_t key_bytes
    int64_t value_bytes
    int64_t header_count
    int64_t name_bytes
    int64_t content_bytes


cdef struct Places:  # where the next record goes
    int64_t* offsets
    int64_t* timestamps
    int32_t* header_ends


@cython.final
cdef class Binary:
    """A growing column of bytes: its data, where each value ends, and which are there."""

    cdef bytearray data
    cdef bytearray ends
    cdef bytearray validity
    cdef int64_t count
    cdef int64_t size
    cdef bint has_null
    cdef char* at
    cdef int32_t* end
    cdef uint8_t* bits

    def __cinit__(self):
        self.data, self.ends, self.validity = bytearray(), bytearray(4), bytearray()

    cdef int grow(self, int64_t count, int64_t size) except -1:
        """Room for so many values more, of so many bytes."""
        cdef Py_ssize_t bits = len(self.validity), wanted = (self.count + count + 7) >> 3
        PyByteArray_Resize(self.data, self.size + size)
        PyByteArray_Resize(self.ends, 4 * (self.count + count + 1))
        PyByteArray_Resize(self.validity, wanted)
        self.at = PyByteArray_AS_STRING(self.data)
        self.end = <int32_t*> PyByteArray_AS_STRING(self.ends) + 1
        self.bits = <uint8_t*> PyByteArray_AS_STRING(self.validity)
        memset(self.bits + bits, 0, wanted - bits)
        return 0

    cdef inline void put(self, const uint8_t* start, int64_t size) noexcept nogil:
        if size < 0:
            self.has_null = True
        else:
            memcpy(self.at + self.size, start, size)
            self.size += size
            self.bits[self.count >> 3] |= 1 << (self.count & 7)
        self.end[self.count] = <int32_t> self.size
        self.count += 1

    cdef object spans(self):
        validity = self.validity if self.has_null else None
        return Spans(self.data, self.ends, 4, validity, 0, self.count)


@cython.final
cdef class ColumnBuilder:
    """Lays records of batches into columns, up to 2 GiB of keys, values or headers."""

    cdef readonly Py_ssize_t count
    cdef bytearray offsets
    cdef bytearray timestamps
    cdef bytearray header_ends
    cdef Binary keys
    cdef Binary values
    cdef Binary names
    cdef Binary contents
    cdef bint has_wide  # whether a header's name is not ASCII

    def __cinit__(self):
        self.offsets, self.timestamps, self.header_ends = bytearray(), bytearray(), bytearray(4)
        self.keys, self.values = Binary(), Binary()
        self.names, self.contents = Binary(), Binary()

    def add(self, buffer, header, int64_t first_offset=0, int64_t objects_max=OBJECTS_MAX):
        """The records of an uncompressed section from `first_offset` on. False, and nothing is
        added, where they do not fit beside what is there. Refuses what `decode` would refuse."""
        cdef Section section = Section(buffer, header, 0, objects_max)
        cdef Sizes sizes
        cdef Cursor begin = section.cursor
        memset(&sizes, 0, sizeof(Sizes))
        while section.next():
            if section.base_offset + section.fields.delta >= first_offset:
                measure(&section.fields, section.cursor.position, &sizes)
        if not self.fits(&sizes):
            return False
        self.grow(&sizes)
        section.cursor = begin
        section.index, section.previous = 0, -1
        section.room = INT64_MAX
        while section.next():
            if section.base_offset + section.fields.delta >= first_offset:
                self.put(
                    &section.fields, section.cursor.position,
                    section.base_offset + section.fields.delta, section.timestamp(),
                )
        return True

    def add_usual(
        self,
        buffer,
        Py_ssize_t position,
        Py_ssize_t wanted,
        int64_t first_offset,
        bint check_crc,
        int unusual,
    ):
        """The records from `first_offset` on of the batches that follow one another from `position`
        on: at least so many, unless a batch comes before that is of another leader's epoch, or has
        other attributes, or does not fit, or takes a closer look: it has an attribute of `unusual`,
        or is empty, cut short or damaged. None where that is the first."""
        cdef Py_buffer view
        cdef const uint8_t* at
        cdef const uint8_t* last = NULL
        cdef Py_ssize_t size, left, before = self.count
        cdef int64_t next_offset = 0
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            assert 0 <= position <= view.len
            while self.count - before < wanted:
                at, left = <const uint8_t*> view.buf + position, view.len - position
                if left < HEADER_BYTES or at[16] != MAGIC:
                    break
                size = <Py_ssize_t> int32_at(at + 8) + OVERHEAD_BYTES
                if not HEADER_BYTES <= size <= left or at[ATTRIBUTES_AT + 1] & unusual:
                    break
                if last != NULL and not follows(at, last, next_offset):
                    break
                if check_crc and not has_right_crc(at, size):
                    break
                if not self.add_batch(buffer, position, at, size, first_offset):
                    break
                last, position = at, position + size
                next_offset = int64_at(at) + int32_at(at + 23) + 1
            if last == NULL:
                return None
            epoch, attributes = int32_at(last + LEADER_EPOCH_AT), int16_at(last + ATTRIBUTES_AT)
            return OpenedColumns(self.count - before, position, next_offset, epoch, attributes)
        finally:
            PyBuffer_Release(&view)

    cdef bint add_batch(
        self, buffer, Py_ssize_t position, const uint8_t* at, Py_ssize_t size, int64_t first_offset
    ) except -1:
        cdef Py_buffer opened
        cdef int codec = at[ATTRIBUTES_AT + 1] & CODEC_MASK
        if codec == 0:
            return self.add_section(at, at + HEADER_BYTES, at + size, first_offset)
        if codec > CODEC_MAX:
            return False
        try:
            section = decompress(
                codec, memoryview(buffer)[position + HEADER_BYTES : position + size]
            )
        except CorruptRecord:
            return False
        PyObject_GetBuffer(section, &opened, PyBUF_SIMPLE)
        try:
            start = <const uint8_t*> opened.buf
            return self.add_section(at, start, start + opened.len, first_offset)
        finally:
            PyBuffer_Release(&opened)

    cdef bint add_section(
        self, const uint8_t* at, const uint8_t* start, const uint8_t* end, int64_t first_offset
    ) except -1:
        """All that the header at `at` tells of, or none and False where they are not as it says, or
        do not fit."""
        cdef int64_t count = int32_at(at + 57), base_offset = int64_at(at), base = int64_at(at + 27)
        cdef int64_t last_delta = int32_at(at + 23), append_time = int64_at(at + 35)
        cdef bint has_append_time = at[ATTRIBUTES_AT + 1] & LOG_APPEND_TIME != 0
        cdef int64_t previous = -1, room = RECORDS_MAX - count, index, stamp
        cdef Fields fields
        cdef Sizes sizes
        cdef Cursor cursor
        cursor.position, cursor.end = start, end
        if not 1 <= count <= RECORDS_MAX or not 0 <= base_offset < INT64_MAX - INT32_MAX:
            return False
        if count * RECORD_BYTES_MIN > end - start:
            return False
        memset(&sizes, 0, sizeof(Sizes))
        for index in range(count):
            if not get_record(&cursor, &fields, room):
                return False
            if not is_sum_of_64_bits(base, fields.timestamp):
                return False
            if fields.delta <= previous or fields.delta > last_delta:
                return False
            previous = fields.delta
            room -= fields.header_count
            if base_offset + fields.delta >= first_offset:
                measure(&fields, cursor.position, &sizes)
        if cursor.position != end or not self.fits(&sizes):
            return False
        self.grow(&sizes)
        cursor.position = start
        for index in range(count):
            get_record(&cursor, &fields, RECORDS_MAX)
            if base_offset + fields.delta >= first_offset:
                stamp = append_time if has_append_time else base + fields.timestamp
                self.put(&fields, cursor.position, base_offset + fields.delta, stamp)
        return True

    cdef bint fits(self, Sizes* sizes) noexcept:
        return (
            self.count + sizes.count < INT32_MAX
            and self.keys.size + sizes.key_bytes <= INT32_MAX
            and self.values.size + sizes.value_bytes <= INT32_MAX
            and self.names.count + sizes.header_count < INT32_MAX
            and self.names.size + sizes.name_bytes <= INT32_MAX
            and self.contents.size + sizes.content_bytes <= INT32_MAX
        )

    cdef int grow(self, Sizes* sizes) except -1:
        cdef int64_t count = self.count + sizes.count
        PyByteArray_Resize(self.offsets, 8 * count)
        PyByteArray_Resize(self.timestamps, 8 * count)
        PyByteArray_Resize(self.header_ends, 4 * (count + 1))
        self.keys.grow(sizes.count, sizes.key_bytes)
        self.values.grow(sizes.count, sizes.value_bytes)
        if sizes.header_count:
            self.names.grow(sizes.header_count, sizes.name_bytes)
            self.contents.grow(sizes.header_count, sizes.content_bytes)
        return 0

    cdef inline void put(
        self, Fields* fields, const uint8_t* end, int64_t offset, int64_t timestamp
    ) noexcept:
        cdef Py_ssize_t index = self.count
        (<int64_t*> PyByteArray_AS_STRING(self.offsets))[index] = offset
        (<int64_t*> PyByteArray_AS_STRING(self.timestamps))[index] = timestamp
        self.keys.put(fields.key, fields.key_size)
        self.values.put(fields.value, fields.value_size)
        if fields.header_count:
            self.put_headers(fields, end)
        (<int32_t*> PyByteArray_AS_STRING(self.header_ends))[index + 1] = <int32_t> self.names.count
        self.count = index + 1

    cdef void put_headers(self, Fields* fields, const uint8_t* end) noexcept:
        cdef Cursor cursor
        cdef const uint8_t* start = NULL
        cdef int64_t size = 0, count = 0
        cursor.position, cursor.end = fields.headers, end
        get_varint(&cursor, &count, 32)
        for _ in range(fields.header_count):
            get_bytes(&cursor, &start, &size)
            self.names.put(start, size)
            while size > 0:
                size -= 1
                self.has_wide |= start[size] > 0x7F
            get_bytes(&cursor, &start, &size)
            self.contents.put(start, size)

    def take(self):
        """What was laid out; the builder is empty then."""
        headers = None
        if self.names.count:
            names = whole_names(self.names.spans()) if self.has_wide else self.names.spans()
            headers = HeaderBuffers(self.header_ends, names, self.contents.spans())
        taken = ColumnBuffers(
            self.count, self.offsets, self.timestamps, self.keys.spans(), self.values.spans(),
            headers,
        )
        self.offsets, self.timestamps, self.header_ends = bytearray(), bytearray(), bytearray(4)
        self.keys, self.values = Binary(), Binary()
        self.names, self.contents = Binary(), Binary()
        self.count, self.has_wide = 0, False
        return taken


cdef object whole_names(spans):
    """With U+FFFD in place of what is no UTF-8."""
    cdef Binary names = Binary()
    cdef bytes name
    found = [each.decode("utf-8", "replace").encode() for each in span_list(spans)]
    names.grow(len(found), sum(map(len, found)))
    for name in found:
        names.put(<const uint8_t*> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
    return names.spans()


cdef void measure(Fields* fields, const uint8_t* end, Sizes* sizes) noexcept nogil:
    """Adds a record's bytes."""
    cdef Cursor cursor
    cdef const uint8_t* start
    cdef int64_t size = 0, count = 0
    sizes.count += 1
    sizes.key_bytes += max(fields.key_size, 0)
    sizes.value_bytes += max(fields.value_size, 0)
    if not fields.header_count:
        return
    sizes.header_count += fields.header_count
    cursor.position, cursor.end = fields.headers, end
    get_varint(&cursor, &count, 32)
    for _ in range(count):
        get_bytes(&cursor, &start, &size)
        sizes.name_bytes += size
        get_bytes(&cursor, &start, &size)
        sizes.content_bytes += max(size, 0)


def span_list(spans):
    """The values of `Spans` as bytes, None for nulls; every offset is checked when it is used."""
    cdef Content contents = Content(spans)
    cdef Py_ssize_t index, size
    cdef const char* start
    cdef list found = []
    for index in range(contents.count):
        contents.get(index, &start, &size)
        found.append(None if size < 0 else PyBytes_FromStringAndSize(start, size))
    return found
