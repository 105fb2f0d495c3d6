"""Tuning of the Spark parts: where work is done, how it is cut into tasks, how much is held.

Times are medians on a busy machine with two cores (`scripts/tune`): of the processor, with Java,
unless it says that they are on the clock.
"""

from __future__ import annotations

from typing import Final

# --- this process, or tasks of Spark ---

FEW_ITEMS: Final = 64
"""Up to so many files, or portions of a copy, are done by this process: three small files take
1.1 s, and Spark alone takes some seconds to start. More was not measured."""
FEW_BYTES: Final = 1 << 30
"""Bytes of these files in all, at most. Not measured."""
MANY_REFS: Final = 200_000
"""Repositories with more chunk references are maintained by tasks. Not measured."""
LOCAL_BYTES: Final = 64 << 20
"""Decoded bytes up to which the driver reads for a query, unless a setting says otherwise.
Not measured."""
EMBEDDED_BYTES: Final = 1 << 30
"""The same where tasks would run on the same processors as the driver. A mean of 78 MB takes 123 ms
on the driver and 360 ms in tasks. More was not measured."""
LOCAL_ROWS: Final = 1 << 18
"""Rows that the driver makes at most: many rows are better made by many tasks. Not measured."""
LOCAL_AGGREGATES: Final = 4 * LOCAL_ROWS
"""The same for rows of aggregates, each of which stands for many cells. Not measured."""
FEW_CELLS: Final = 5_000_000
"""Up to so many cells of a group, a command starts Java without its second compiler
(`QUICK_START`). That saves a third of the 16 s of processor time for a start; a scan of 20 million
rows takes 15 s instead of 6 s."""

# --- jobs and tasks ---

TASKS_PER_SLOT: Final = 3
"""Tasks for each core, so that slow ones even out. Not measured."""
LEAST_TASKS: Final = 16
"""A job over blocks has so many tasks at least, if it has as many items. Not measured."""
MOST_TASKS: Final = 10_000
"""Tasks of such a job at most: each costs the driver some milliseconds."""
WAVES: Final = 8
"""A very long list of items is done in so many jobs, so that progress is seen. Not measured."""
WAVE_ITEMS: Final = 256
"""A shorter one is done in jobs of so many items at least, as each takes a while to start.
Not measured."""
SMALL_ITEMS: Final = 256 << 10
"""Items of up to so many bytes in all go to every task with the function of a job, which saves a
shuffle. Not measured."""
ANSWER_BYTES: Final = 32 << 20
"""Bytes of answers that a task returns together. Not measured."""

# --- partitions and batches of a read ---

SPLIT_BYTES: Final = 64 << 20
"""Decoded bytes of a partition unless `split-size` says otherwise. Not measured."""
SMALLEST_SPLIT: Final = 8 << 20
"""Partitions are not cut finer than this: a task costs as much as some hundred thousand rows."""
REGION_CELLS: Final = 1 << 20
"""Cells that are read at once, unless one chunk has more. Not measured."""
BATCH_ROWS: Final = 1 << 16
"""Rows of an Arrow batch of cells. Not measured."""
CHUNK_BATCH_BYTES: Final = 8 << 20
"""A batch of whole chunks ends after so many bytes. Not measured."""
CHUNK_BATCH_ROWS: Final = 1024
"""Chunks of such a batch at most. Not measured."""
METADATA_ROWS: Final = 1 << 13
"""Rows of a batch of a metadata table. Not measured."""
METADATA_PARTITIONS: Final = 200
"""Partitions of a table of chunk references at most. Not measured."""

# --- selections, coordinates and statistics ---

LABELS_AT_ONCE: Final = 1 << 22
"""Labels of an axis that are compared at a time: 32 MiB of numbers."""
SORTED_FROM: Final = 8
"""An `IN` list with more values is searched by `np.isin` instead of value by value: eight of them
among a million whole numbers in 1.9 ms instead of 3.7 ms, among 4,000 in 32 us instead of 25 us."""
DENSE_RUN: Final = 4
"""Scattered positions are read as one slice if it is at most so many times as long.
Not measured."""
COORDINATE_SIZE: Final = 1 << 20
"""Coordinates with more elements are read piece by piece, and not kept: 8 MiB of numbers."""
COORDINATES_KEPT: Final = 64
"""Decoded coordinates that a worker keeps: 512 MiB at most, some kilobytes as a rule."""
KNOWN_CHUNKS: Final = 1 << 20
"""Reads of more chunks of a variable are planned without statistics of chunks. Not measured."""
KNOWN_BLOCKS: Final = 1 << 22
"""The same for blocks of all variables. Not measured."""

# --- queries ---

HELD_BYTES: Final = 256 << 20
"""Decoded bytes that threads of the driver hold together, unless one block has more.
Not measured."""
HELD_ROWS: Final = 1 << 20
"""Rows of aggregates that a task keeps adding to before it returns them. Not measured."""
CONDITION_LABELS: Final = 4 << 20
"""Spark evaluates conditions on up to so many labels before the read; conditions on more are left
to the query. Not measured."""
MANY_ROWS: Final = 1 << 15
"""From so many rows of aggregates on, Spark is asked first which labels a query treats alike. With
900 rows instead of 54,000 a mean by month took 1.99 s instead of 2.11 s."""
CLASS_LABELS: Final = 1 << 16
"""Spark is asked about so many labels of a dimension at most. Not measured."""

# --- writes ---

HOLD_BYTES: Final = 128 << 20
"""Bytes of rows that a writing task looks at together. Not measured."""
FLUSH_BYTES: Final = 32 << 20
"""Bytes of encoded chunks that a writing task stores together. Not measured."""
FLUSH_CHUNKS: Final = 4096
"""Chunks that it stores together at most. Not measured."""
MESSAGE_BYTES: Final = 64 << 10
"""Rows that a task sets aside go to the driver with its message if they are not larger than this,
else they are stored like a chunk. Not measured."""

# --- rechunking, and functions of blocks ---

PARTIAL_BYTES: Final = 64 << 20
"""Bytes of partial results of `reduce_blocks` that a task gets at a time. Not measured."""
MAX_MEMORY: Final = 512 << 20
"""Memory of a rechunking task unless the caller says otherwise. Not measured."""
MEMORY_SHARE: Final = 4
"""A block takes one part in so many of that memory: it is there as it was read, as chunks and
encoded, and decoding needs some."""
RECHUNK_BYTES: Final = 32 << 20
"""Bytes of a block where memory and parallel work allow it. Not measured."""
DIRECT_COST: Final = 2.0
"""Source chunks may be decoded so often on average; beyond that a shuffle is taken to be cheaper.
Not measured."""
COST_SAMPLE: Final = 1 << 20
"""Blocks of an axis from which the cost of reading is estimated. Not measured."""
