# The batches of a Produce request, found without the codec. A part of `_speed`.


def produced_batches(body, Py_ssize_t position, Py_ssize_t count):
    """The `count` rows of a topic of a Produce request, which begin at `position` in a memoryview:
    (partition, batch) of each; and the position behind the tags of the topic.

    None where it takes the codec or a closer look: a length of four bytes, tags, a batch that is
    shorter than its header or of a transaction."""
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef Py_ssize_t size, start
    cdef list rows = []
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        end = <const uint8_t*> view.buf + view.len
        for _ in range(count):
            start = position + 4
            if view.len - start < ROW_BYTES_MIN:
                return None
            at = <const uint8_t*> view.buf + start
            size = at[0] & 0x7F
            if at[0] & 0x80:
                at += 1
                size |= (at[0] & 0x7F) << 7
                if at[0] & 0x80:
                    at += 1
                    size |= (at[0] & 0x7F) << 14
                    if at[0] & 0x80:
                        return None
            at, size = at + 1, size - 1
            if not HEADER_BYTES <= size < end - at or at[size]:
                return None
            if at[ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                return None
            start, position = position, at - <const uint8_t*> view.buf
            rows.append((
                int32_at(<const uint8_t*> view.buf + start), body[position:position + size]
            ))
            position += size + 1
        if view.len - position < 2 or (<const uint8_t*> view.buf)[position]:
            return None
        return rows, position + 1
    finally:
        PyBuffer_Release(&view)
