"""Why we are where we are: one text under each table of the report."""

from __future__ import annotations

HOW = """\
Every case runs in rounds. In each round all contestants do the same work once, in alternating
order, so that a busy machine hurts all alike; a first round warms imports and the page cache and
is thrown away where a round is cheap. Work of less than 0.3 s is done three times in a round, and
the median counts (on Spark only where one core is compared with two). Figures are medians of
rounds; in brackets the smallest and the largest.
A ratio is the peer's median over ours, above 1 where Frazil is faster; its brackets are the ratios
of single rounds. Results are compared with the values that were written before they count.

- *icechunk 2.3.0* runs in the same process as Frazil, *1.1.21* in a worker of its own that takes
  its turns; both through zarr-python with zarr's own codec pipeline and default settings.
- *zarr LocalStore*, *zarr ObjectStore* and *tensorstore* read and write plain Zarr: no versions,
  no commit.
- *limit* is what the machine allows: the same bytes by `os.pread` from the same files, or by a
  copy in memory.
- Contestants read what they wrote themselves, with these exceptions, where all read what Frazil
  wrote because the others take minutes to write it or cannot: 1 KiB chunks, the S3 rows, native
  references (re-encoded by the peer's own commit first), one-chunk commits on millions of
  references, histories, garbage and all curves.
- Reading always includes opening the repository, with nothing cached by the program. The page
  cache is warm.
- *durable* is Frazil's default: everything that a commit names is on the disk before the branch
  moves. *no fsync* is `durability="none"`, which is what all others do; *then fsync* adds to a
  peer's commit what brings its files to the disk, without Frazil's order. Between runs the kernel
  writes out what it holds, and gives back the blocks of emptied files where the file system is
  mounted with `discard`; files are removed when all is measured. So nobody pays for another's
  data. Nor for memory that a host has taken back from its virtual machine: a file of 256 MiB is
  written and emptied before each run on local disk, but for the curves and Spark.
- Memory is the peak of a fresh process during the work, with what it held before in brackets.
- Requests are counted by the proxy that all S3 traffic passes; on disk nobody counts them.
"""

THEMES = {
    "Reading from local disk": """\
A read through zarr-python costs the official package a task, a key and a trip through the event
loop for each chunk, whatever its size. Frazil looks all references up in one step, reads files
straight into the result where the codec allows, and decodes in threads that do not hold the
interpreter. What is left for small chunks is opening files: packed chunks need one file for
thousands of them. Large chunks are bound by memory and by the codec, where tensorstore is the
mark.
""",
    "Writing to local disk, with commit": """\
With one file per chunk the file system decides: creating a file costs more than writing 16 KiB
into it, for everybody (see *limit: one file per chunk*). Packing avoids that and is where the
difference is. Compression of large chunks is bound by zstd itself, which is the same code on all
sides. The price of durability is the difference between the two rows of Frazil.
""",
    "References": """\
References are columns from the file to the answer, encoded and decoded by a few numpy operations,
in a layout that repeats from block to block and so compresses well. The official package trains
and applies a dictionary over all locations in each commit that touches a manifest, which is why a
single chunk in an unsplit manifest of millions costs it so much; splitting bounds that for both.
Point lookups search the raw file without decoding it.
""",
    "History and upkeep": """\
A small commit writes four files on both sides, one of them the repo object with the whole history.
Frazil's part of it is interpreted and as fast as the peer's as long as nobody waits for the disk; a
durable commit waits twice, for its files and then for the repo object. The fair comparison of the
durable row is the peer *then fsync*. Garbage collection is bound by listing and unlinking.
""",
    "S3 protocol on loopback": """\
The server is written in Python and busy with each request, so that all who send one per chunk meet
at its limit rather than at their own. The column of requests tells what packing saves.
""",
    "S3 protocol, 30 ms away": """\
At a distance the number of requests in flight decides. zarr-python keeps ten chunks in flight by
default, which holds for all that go through it without a pipeline of their own. Packed chunks are
fetched as a few large ranges.
""",
    "Spark": """\
Rows that a Python source gives to Spark pass a socket and are copied row by row in the JVM, which
Parquet's own reader does not need: that copy, and not reading, is what a full scan costs. So it
pays to name the columns that a query needs (Parquet is not told, and leaves the others out by
itself), and to take whole lines as arrays (`layout=lines`) where a query can add them up itself. A
condition given as `where` is answered from coordinates, and only chunks that it touches are read.
Sessions and clusters are running before the clock starts, and all contestants run untimed until
the JVM has compiled what it runs; every round loads the table anew. dask works on two processes.
""",
}

GROWTH = {
    "growth-refs": """\
Manifests hold up to 100,000 references here, so a reader or a small commit touches one of them
however many there are; the list of manifests in the snapshot grows.
""",
    "growth-snapshots": """\
The repo object holds the whole history; it is read at opening and replaced by each commit.
""",
    "growth-nodes": """\
A snapshot lists all nodes, and every commit writes the whole list.
""",
    "growth-writers": """\
All writers compete for one branch, so more of them only help to hide waiting. On a local disk the
official package compares and replaces without a lock, so that commits which it acknowledged can be
missing; Frazil takes a lock and loses none. On S3 both use conditional writes.
""",
}
