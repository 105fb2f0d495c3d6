"""Tuning of the Spark parts: where work is done, how it is cut into tasks, how much is held.

Most times are medians on a busy machine with two cores (`scripts/tune`): of the processor, with
Java, unless it says that they are on the clock.
"""

from __future__ import annotations

from typing import Final

# --- this process, or tasks of Spark ---

FEW_ITEMS: Final = 64
"""Up to so many files, or portions of a copy, are done by this process: 64 small files take 0.5 s
to 0.9 s (1.3 s to 4.9 s on the clock of a busy machine), and Spark alone takes some seconds to
start."""
FEW_BYTES: Final = 1 << 30
"""Bytes of these files in all, at most. From 32 MiB, which are read in 48 ms and written in 42 ms,
a gigabyte would take 3 s; Spark takes 16 s of the processor to start."""
MANY_REFS: Final = 200_000
"""Repositories with more chunk references are maintained by tasks: to check so many takes 63 ms
here, as much as one task without any work."""
LOCAL_BYTES: Final = 64 << 20
"""Decoded bytes up to which the driver reads for a query, unless a setting says otherwise: some 0.1
s of work, less than a job takes to start."""
EMBEDDED_BYTES: Final = 1 << 30
"""The same where tasks would run on the same processors as the driver. A mean of 78 MB takes 123 ms
on the driver and 360 ms in tasks; of 52 MB on a busy machine 0.80 s and 0.83 s. A gigabyte was
never tried."""
LOCAL_ROWS: Final = 1 << 18
"""Rows that the driver makes at most: many rows are better made by many tasks. 260,000 rows take
0.65 s on the clock, in tasks 0.56 s; four million 5.4 s and 2.9 s."""
LOCAL_AGGREGATES: Final = 4 * LOCAL_ROWS
"""The same for rows of aggregates, each of which stands for many cells: 65,000 of four million
cells take 1.9 s on the clock, in tasks 2.6 s."""
FEW_CELLS: Final = 5_000_000
"""Up to so many cells of a group, a command starts Java without its second compiler
(`QUICK_START`). That saves a third of the 16 s of processor time for a start; a scan of 20 million
rows takes 15 s instead of 6 s."""

# --- jobs and tasks ---

TASKS_PER_SLOT: Final = 3
"""Tasks for each core, so that slow ones even out. 64 items without any work take 0.45 s, with one
task for each core 0.23 s, with twelve 1.5 s."""
LEAST_TASKS: Final = 16
"""A job over blocks, and a read, is cut into so many tasks at least, to keep as many cores busy:
one costs 60 ms, 16 of them a second."""
MOST_TASKS: Final = 10_000
"""Tasks of such a job at most: each costs the driver some milliseconds."""
WAVES: Final = 8
"""A very long list of items is done in so many jobs, so that progress is seen: 2,048 items without
any work take 2.7 s, in one job 0.5 s."""
WAVE_ITEMS: Final = 256
"""A shorter one is done in jobs of so many items at least, as each takes 0.3 s to start."""
SMALL_ITEMS: Final = 256 << 10
"""Items of up to so many bytes in all go to every task with the function of a job, which saves a
shuffle: 64 items of 1 KiB take 0.39 s instead of 0.55 s, of 32 KiB 0.57 s instead of 0.64 s."""
ANSWER_BYTES: Final = 32 << 20
"""Bytes of answers that a task returns together: 32 MiB, and once more as a batch of Arrow."""

# --- partitions and batches of a read ---

SPLIT_BYTES: Final = 64 << 20
"""Decoded bytes of a partition unless `split-size` says otherwise. Tried with four million rows (16
MB) only: 4.5 s on the clock as a whole, in parts of 8 MiB 3.7 s, of 1 MiB 6.9 s."""
SMALLEST_SPLIT: Final = 8 << 20
"""Partitions are not cut finer than this: a task costs as much as some hundred thousand rows."""
REGION_CELLS: Final = 1 << 20
"""Cells that are read at once, unless one chunk has more: 8 MiB of numbers. Four million cells take
92 ms, with an eighth of it 83 ms, with eight times as much 94 ms."""
BATCH_ROWS: Final = 1 << 16
"""Rows of an Arrow batch of cells or of chunk references: four million cells take 88 ms, with an
eighth of it 107 ms, with eight times as much 84 ms, but 64 MiB more memory; 200,000 references take
21 ms with each."""
CHUNK_BATCH_BYTES: Final = 8 << 20
"""A batch of whole chunks ends after so many bytes: 16 MB in 60 chunks take 65 ms, with an eighth
of it 63 ms, with eight times as much 67 ms."""
CHUNK_BATCH_ROWS: Final = 1024
"""Chunks of such a batch at most: 6,000 small chunks take 2.8 s, with an eighth of it 2.7 s, all at
once 2.9 s."""
METADATA_ROWS: Final = 1 << 13
"""Rows of a batch of a metadata table: 20,000 nodes take 159 ms, with an eighth of it 158 ms, with
eight times as much 185 ms."""
METADATA_PARTITIONS: Final = 200
"""Partitions of a table of chunk references at most: a task costs as much as reading half a million
of them."""

# --- selections, coordinates and statistics ---

LABELS_AT_ONCE: Final = 1 << 22
"""Labels of an axis that are compared at a time: 32 MiB of numbers."""
SORTED_FROM: Final = 8
"""An `IN` list with more values is searched by `np.isin` instead of value by value: eight of them
among a million whole numbers in 1.9 ms instead of 3.7 ms, among 4,000 in 32 us instead of 25 us."""
DENSE_RUN: Final = 4
"""Scattered positions are read as one slice if it is at most so many times as long: every fourth of
a million in 8 ms instead of 16 ms, every 32nd in 2.3 ms instead of 3.2 ms. It takes as many times
the memory."""
COORDINATE_SIZE: Final = 1 << 20
"""Coordinates with more elements are read piece by piece, and not kept: 8 MiB of numbers."""
COORDINATES_KEPT: Final = 64
"""Decoded coordinates that a worker keeps: 512 MiB at most, some kilobytes as a rule."""
KNOWN_CHUNKS: Final = 1 << 20
"""Reads of more chunks of a variable are planned without statistics of chunks: 96 bytes and three
coordinates of each take 120 MiB."""
KNOWN_BLOCKS: Final = 1 << 22
"""The same for blocks of all variables, whose numbers take 32 MiB."""

# --- queries ---

HELD_BYTES: Final = 256 << 20
"""Decoded bytes that threads of the driver hold together, unless one block has more: 256 MiB."""
HELD_ROWS: Final = 1 << 20
"""Rows of aggregates that a task keeps adding to before it returns them: 48 bytes each at most for
a variable, 48 MiB."""
CONDITION_LABELS: Final = 4 << 20
"""Spark evaluates conditions on up to so many labels before the read, 32 MiB of each coordinate;
conditions on more are left to the query. A mean of four million cells with one on 65,000 labels
takes 1.00 s, left to the query 1.09 s."""
MANY_ROWS: Final = 1 << 15
"""From so many rows of aggregates on, Spark is asked first which labels a query treats alike. With
900 rows instead of 54,000 a mean by month took 1.99 s instead of 2.11 s."""
CLASS_LABELS: Final = 1 << 16
"""Spark is asked about so many labels of a dimension at most: half a MiB of each coordinate."""

# --- writes ---

HOLD_BYTES: Final = 128 << 20
"""Bytes of rows that a writing task looks at together, 128 MiB: 780,000 rows take 158 ms, with an
eighth of it 158 ms."""
FLUSH_BYTES: Final = 32 << 20
"""Bytes of encoded chunks that a writing task stores together: 780,000 rows take 0.20 s, with an
eighth of it 0.20 s, all at once 0.18 s."""
FLUSH_CHUNKS: Final = 4096
"""Chunks that it stores together at most: 1,200 small ones take 0.37 s, 512 at a time 0.37 s."""
MESSAGE_BYTES: Final = 64 << 10
"""Rows that a task sets aside go to the driver with its message if they are not larger than this,
else they are stored like a chunk: the messages of ten thousand tasks have 625 MiB at most."""

# --- rechunking, and functions of blocks ---

PARTIAL_BYTES: Final = 64 << 20
"""Bytes of partial results of `reduce_blocks` that a task gets at a time: 64 MiB."""
MAX_MEMORY: Final = 512 << 20
"""Memory of a rechunking task unless the caller says otherwise: blocks of 128 MiB
(`MEMORY_SHARE`)."""
MEMORY_SHARE: Final = 4
"""A block takes one part in so many of that memory: it is there as it was read, as chunks and
encoded, and decoding needs some."""
RECHUNK_BYTES: Final = 32 << 20
"""Bytes of a block where memory and parallel work allow it: with `MEMORY_SHARE` 128 MiB of memory.
No difference where the chunks decide about blocks: 31 MB from days to squares take 0.38 s, with an
eighth of it and with eight times as much 0.39 s."""
DIRECT_COST: Final = 2.0
"""Source chunks may be decoded so often on average; beyond that a shuffle is taken to be cheaper.
31 MB that are decoded once take 0.5 s, with a shuffle 1.9 s."""
COST_SAMPLE: Final = 1 << 20
"""Blocks of an axis from which the cost of reading is estimated, in 16 ms; eight times as many take
222 ms and 384 MiB of memory."""
