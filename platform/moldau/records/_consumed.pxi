# Records as a consumer gives them: what was decoded, and where it is. A part of `_speed`.

# A record of bytes is in no cycle, so the garbage collector need not know it. Cython would have it
# tracked when it is made and untracked again, which takes as long as a quarter of the decoding.
cdef extern from *:
    """
    #define SPARE_MAX 1024
    static PyObject *spare_records[SPARE_MAX];
    static int spare_count = 0;

    static PyObject *new_untracked(PyTypeObject *type, Py_ssize_t Py_UNUSED(items)) {
        PyObject *record;
        if (spare_count > 0) {
            record = PyObject_Init(spare_records[--spare_count], type);
        } else {
            record = PyObject_GC_New(PyObject, type);
            if (record == NULL) return NULL;
        }
        memset((char *) record + sizeof(PyObject), 0, type->tp_basicsize - sizeof(PyObject));
        return record;
    }

    static void keep_spare(void *record) {
        if (spare_count < SPARE_MAX) spare_records[spare_count++] = (PyObject *) record;
        else PyObject_GC_Del(record);
    }

    static void allocate_untracked(PyTypeObject *type) {
        type->tp_alloc = new_untracked;
        type->tp_free = keep_spare;
    }
    """
    void allocate_untracked(void* type)
    void PyObject_GC_Track(void* object)
    bint PyObject_GC_IsTracked(object object)

cdef tuple KINDS = (
    TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
)


@cython.final
@cython.no_gc
cdef class Place:
    """What the records of one batch share."""

    cdef str topic
    cdef int partition, leader_epoch, kind


cdef Place place_of(str topic, int partition, int leader_epoch, int kind):
    cdef Place place = Place.__new__(Place)
    place.topic, place.partition = topic, partition
    place.leader_epoch, place.kind = leader_epoch, kind
    return place


@cython.final
cdef class ConsumerRecord:
    """One record, and where it is; a value, never changed."""

    cdef Place place
    cdef readonly object key
    cdef readonly object value
    cdef readonly tuple headers
    cdef readonly long long offset
    cdef readonly long long timestamp

    def __init__(
        self, str topic not None, int partition, long long offset, long long timestamp, key, value,
        tuple headers not None=(), int leader_epoch=-1, int timestamp_type=-1,
    ):
        self.place = place_of(topic, partition, leader_epoch, TimestampType(timestamp_type))
        self.offset, self.timestamp = offset, timestamp
        self.key, self.value, self.headers = key, value, headers
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(<void*> self)

    cdef Place where(self):
        """Of a record that nobody has filled there is none."""
        if self.place is None:
            raise AttributeError("the record was not made by its constructor")
        return self.place

    @classmethod
    def __class_getitem__(cls, kinds):
        return GenericAlias(cls, kinds)

    @property
    def topic(self):
        return self.where().topic

    @property
    def partition(self):
        return self.where().partition

    @property
    def leader_epoch(self):
        return self.where().leader_epoch

    @property
    def timestamp_type(self):
        return KINDS[self.where().kind + 1]

    cdef tuple fields(self):
        cdef Place place = self.where()
        return (
            place.topic, place.partition, self.offset, self.timestamp, self.key, self.value,
            self.headers, place.leader_epoch, place.kind,
        )

    def __eq__(self, other):
        if type(other) is not ConsumerRecord:
            return NotImplemented
        return self.fields() == (<ConsumerRecord> other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return ConsumerRecord, self.fields()

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition},"
            f" offset={self.offset}, timestamp={self.timestamp}, key={self.key!r},"
            f" value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch},"
            f" timestamp_type={self.timestamp_type!r})"
        )


allocate_untracked(<void*> ConsumerRecord)


cdef inline ConsumerRecord consumed(
    Fields* fields, int64_t base_offset, int64_t timestamp, const uint8_t* end, Place place
):
    """Not tracked by the garbage collector, as bytes are in no cycle."""
    cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
    record.place = place
    record.offset = base_offset + fields.delta
    record.timestamp = timestamp
    record.key = content(fields.key, fields.key_size)
    record.value = content(fields.value, fields.value_size)
    record.headers = read_headers(fields, end) if fields.header_count else NO_HEADERS
    return record


def decode_consumed(
    buffer, header, str topic, int partition, int64_t objects_max=OBJECTS_MAX
):
    """As `decode`, with where the records are."""
    cdef Section section = Section(buffer, header, 0, objects_max)
    cdef int kind = header.attributes & LOG_APPEND_TIME != 0
    cdef Place place = place_of(topic, partition, header.partition_leader_epoch, kind)
    cdef list records = []
    while section.next():
        records.append(consumed(
            &section.fields, section.base_offset, section.timestamp(), section.cursor.position,
            place,
        ))
    return records


def with_contents(list records, list keys, list values):
    """The same records with other keys and values."""
    cdef ConsumerRecord before, after
    cdef list found = []
    cdef Py_ssize_t index
    if not len(records) == len(keys) == len(values):
        raise ValueError("as many keys and values as records")
    for index in range(len(records)):
        before = records[index]
        after = ConsumerRecord.__new__(ConsumerRecord)
        after.place = before.place
        after.offset, after.timestamp = before.offset, before.timestamp
        after.key, after.value, after.headers = keys[index], values[index], before.headers
        PyObject_GC_Track(<void*> after)
        found.append(after)
    return found
