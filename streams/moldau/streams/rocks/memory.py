"""The memory that all stores of a process share: one cache of blocks, one budget of write buffers.

RocksDB's own default, 64 MiB of write buffer for each store, is the usual reason why stream
applications run out of memory.
"""

from __future__ import annotations

from typing import Final

from rocksdict import BlockBasedOptions, Cache, Options, WriteBufferManager

CACHE_BYTES_DEFAULT: Final = 64 << 20
WRITE_BUFFER_BYTES_DEFAULT: Final = 8 << 20
_BLOOM_BITS: Final = 10
_BUFFERS_OF_ALL: Final = 8
"""All stores together hold at most this many full write buffers."""
_WRITE_BUFFER_BLOOM: Final = 0.02
"""The share of a write buffer for its bloom filter: about 16 bits a key."""
_LOG_FILES: Final = 2


class RocksMemory:
    """The memory shared by all stores of a worker. Made once for each worker."""

    def __init__(
        self,
        cache_bytes: int = CACHE_BYTES_DEFAULT,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES_DEFAULT,
    ) -> None:
        self._cache = Cache(cache_bytes)
        self._write_buffer_bytes = write_buffer_bytes
        self._buffers = WriteBufferManager(write_buffer_bytes * _BUFFERS_OF_ALL, False)

    def options(self) -> Options:
        """Return the options of a database or one of its column families.

        Flushes are atomic over the column families: without a write-ahead log, rows and the
        changelog offset beside them would otherwise reach the disk at different times.
        """
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_atomic_flush(True)
        options.set_write_buffer_size(self._write_buffer_bytes)
        options.set_max_write_buffer_number(3)
        # With this, a key that was never written costs a quarter of a search in the write buffer.
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(_WRITE_BUFFER_BLOOM)
        options.set_write_buffer_manager(self._buffers)
        options.set_keep_log_file_num(_LOG_FILES)
        table = BlockBasedOptions()
        table.set_bloom_filter(_BLOOM_BITS, False)
        table.set_block_cache(self._cache)
        options.set_block_based_table_factory(table)
        return options
