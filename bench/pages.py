"""How long pages of the explorer take, with a long history and many nodes, after the first time.

Run by `make benchpages`; the promise is 200 ms on a local disk. What is measured is the whole
answer over HTTP, from a server in a thread of its own, one request at a time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.history import write_history
from bench.model import SIZES, Place

PROMISE_MS: Final = 200.0
TURNS: Final = 7
PAGES: Final = (
    "",
    "r/place/",
    "r/place/history",
    "r/place/api/graph",
    "r/place/api/graph?start=1000",
    "r/place/commit",
    "r/place/tree",
    "r/place/tree?path=/g5",
    "r/place/array?path=/a",
    "r/place/api/chunks?path=/a",
    "r/place/data?path=/a",
    "r/place/api/values?path=/a",
    "r/place/diff",
    "r/place/operations",
    "r/place/storage",
    "r/place/panel/sizes",
)


def add_nodes(folder: Path, count: int) -> None:
    """Give the newest snapshot of a repository many groups."""
    import frazil
    from frazil.transaction.keyspace import KeySpace

    session = frazil.Repository.open(str(folder)).writable_session("main")
    keys = KeySpace(session.state)
    document = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
    for number in range(10):
        keys.set(f"g{number}/zarr.json", document)
    for number in range(count):
        keys.set(f"g{number % 10}/n{number:07}/zarr.json", document)
    session.commit("many nodes")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server over a repository; its address."""
    import uvicorn

    from frazil.web.app import make_app
    from frazil.web.library import Library
    from frazil.web.server import bind
    from frazil.web.settings import ServerSettings

    listening, settings = bind(ServerSettings(port=0))
    app = make_app(Library([str(folder)]), settings)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield settings.url
    finally:
        server.should_exit = True
        thread.join(20)


def asked(url: str) -> float:
    """Milliseconds until a page is there; a part that is still being made is asked for again."""
    begin = time.perf_counter()
    while True:
        with urllib.request.urlopen(url, timeout=600) as answer:
            answer.read()
            if answer.status != 202:
                return (time.perf_counter() - begin) * 1000
        time.sleep(0.05)


def main() -> int:
    """Measure all pages, and tell whether each keeps the promise."""
    parser = argparse.ArgumentParser(prog="make benchpages", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    size = SIZES[parser.parse_args().size]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="frazil-") as place:
        folder = Path(place) / "place"
        write_history(size.snapshots, Place(str(folder)))
        add_nodes(folder, max(size.node_growth))
        print(f"{size.snapshots:,} commits, {max(size.node_growth):,} nodes")
        print(f"{'page':<34}{'first':>10}{'median':>10}  ms")
        with serving(folder) as site:
            for page in PAGES:
                first, *rest = (asked(site + page) for _ in range(TURNS))
                middle = statistics.median(rest)
                mark = "" if middle <= PROMISE_MS else f"  more than {PROMISE_MS:g}"
                missed += bool(mark)
                print(f"{page or '/':<34}{first:>10.0f}{middle:>10.0f}{mark}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
