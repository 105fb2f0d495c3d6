"""Real files of every generation, changed at random by a seed, through their decoders.

    python -m tests.hostile.fuzzing SEED COUNT

tries so many inputs within a limit on memory and ends with a line of JSON: how many there were, how
much memory was taken, and what went wrong. An input may be refused by an error of ours; one whose
file has a checksum may also come out as it was. Everything else is a failure.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import zstandard

from frazil.errors import FrazilError, InternalError
from tests.support.damage import changed_bytes, changed_json

Use: TypeAlias = Callable[[bytes], Any]
ADDRESSES: Final = 3 << 30
"""Address space; libraries reserve much of it that they never use."""
SECONDS: Final = 5
ZSTD: Final = b"\x28\xb5\x2f\xfd"
PACKER: Final = zstandard.ZstdCompressor(1)
KEY: Final = "some/file"


@dataclass(frozen=True, slots=True)
class Sample:
    """A real file, and what reads all of it."""

    name: str
    data: bytes
    use: Use
    is_checked: bool = False
    """whether a checksum covers it"""


# --- files ---


def _objects(spec: int | str) -> dict[str, bytes]:
    """The objects of a repository with something of everything."""
    import zarr

    from frazil.repository import Repository
    from frazil.storage.memory import MemoryStorage

    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    group = zarr.group(session.store, attributes={"title": "x", "n": [1, 2, {"a": None}]})
    names = None if spec == "g1" else ("y", "x")
    array = group.create_array(
        "a", shape=(8, 6), chunks=(2, 3), dtype="f4", dimension_names=names, fill_value=1.5
    )
    array[:] = np.arange(48).reshape(8, 6)
    group.create_array("grp/b", shape=(900,), chunks=(400,), dtype="i4")[:] = np.arange(900)
    first = session.commit("one")
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="r+").attrs["title"] = "y"
    made = zarr.open_group(session.store, mode="r+").create_array(
        "v", shape=(30,), chunks=(3,), dtype="f8", compressors=None
    )
    for number in range(10):
        session.store.set_virtual_ref(
            f"{made.path}/c/{number}", f"s3://bucket/{number // 3}.nc", offset=3 * number,
            length=24, validate_container=False,
        )  # fmt: skip
    session.commit("two", {"author": "me", "n": 3})
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    return {item.key: storage.get(item.key) or b"" for item in storage.list("")}


def flat_samples() -> Iterator[Sample]:
    """Files of spec 1 and 2."""
    from frazil.formats.manifest import decode_manifest
    from frazil.formats.repo_info import decode_repo_info
    from frazil.formats.snapshot import decode_snapshot
    from frazil.formats.txlog import decode_log
    from tests.support import official_files, official_history

    def manifest(data: bytes) -> object:
        found = decode_manifest(data, key=KEY)
        refs = {}
        for node, table in found.tables():
            coords = [tuple(row) for row in table.coords.tolist()]
            refs[node] = [(at, table.ref(n), found.find(node, at)) for n, at in enumerate(coords)]
        return refs

    def snapshot(data: bytes) -> object:
        found = decode_snapshot(data, key=KEY)
        return found.id, tuple(found.nodes), found.metadata, found.manifest_files, found.message

    def repo(data: bytes) -> object:
        found = decode_repo_info(data, key=KEY)
        entries = tuple(found.snapshots.entries())
        return entries, found.branches, found.tags, tuple(found.latest_updates), found.config

    uses: dict[str, Use] = {
        "repo": repo,
        "snapshots": snapshot,
        "manifests": manifest,
        "transactions": lambda data: decode_log(data, key=KEY),
    }
    for spec in (1, 2):
        for key, data in _objects(spec).items():
            use = uses.get(key.partition("/")[0])
            if use is not None:
                yield Sample(f"v{spec}/{key.partition('/')[0]}", data, use, is_checked=True)
    for module in (official_files, official_history):
        for name, data in vars(module).items():
            kind = name.partition("_")[0] if isinstance(data, bytes) else ""
            folder = {"MANIFEST": "manifests", "LOG": "transactions", "SNAPSHOT": "snapshots"}
            if kind in folder or name == "REPO":
                yield Sample(f"official/{name}", data, uses[folder.get(kind, "repo")])


def text_samples() -> Iterator[Sample]:
    """Refs, configuration, documents and values."""
    from frazil.bulk.grid import layout_of
    from frazil.formats import flex
    from frazil.formats.config_codec import config_from_yaml, config_to_yaml
    from frazil.formats.metadata import codec_of
    from frazil.formats.ref_files import decode_ref
    from frazil.formats.zarr_meta import parse_node
    from frazil.model.config import RepositoryConfig
    from tests.support.nodes import array_document

    ref = b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}'
    yield Sample("ref", ref, lambda data: decode_ref(data, key=KEY))
    yaml = config_to_yaml(RepositoryConfig(inline_chunk_threshold_bytes=12))
    yield Sample("config", yaml, lambda data: config_from_yaml(data, key=KEY))
    document = array_document(8, 6, chunks=(2, 3), dimension_names=["y", "x"])
    yield Sample("zarr.json", document, lambda data: parse_node(data, spec=2))
    yield Sample("layout", document, layout_of.__wrapped__)
    value = {"a": [1, 2.5, None, "text", {"b": [True] * 9}], "n": -5}
    yield Sample("flex", flex.dumps(value), lambda data: flex.loads(data, key=KEY))
    packer = codec_of(1, KEY)
    yield Sample("msgpack", packer.pack(value), packer.unpack)


def old_samples() -> Iterator[Sample]:
    """Files of the generations before spec 1, in some of their dialects."""
    from frazil.formats.legacy.attributes import decode_attribute_file, decode_attributes
    from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
    from frazil.formats.legacy.g1_inventory import decode_inventory
    from frazil.formats.legacy.g1_state import decode_state
    from frazil.formats.legacy.g1_structure import decode_structure
    from frazil.formats.legacy.logs import decode_log
    from frazil.formats.legacy.manifests import decode_manifest
    from frazil.formats.legacy.refs import decode_ref
    from frazil.formats.legacy.snapshots import decode_snapshot

    for spec in ("g2", "g3", "3a", "3e", "3e-27"):
        generation = LegacyGeneration.G2 if spec == "g2" else LegacyGeneration.G3
        uses: dict[str, Use] = {
            "s": partial(decode_snapshot, key=KEY, generation=generation),
            "m": partial(decode_manifest, key=KEY, generation=generation),
            "t": partial(decode_log, key=KEY),
            "r": partial(decode_ref, key=KEY, generation=generation),
        }
        for key, data in _objects(spec).items():
            use = uses.get(key[:1]) if not key.startswith("chunks") else None
            if use is not None:
                yield Sample(f"{spec}/{key.partition('/')[0]}", data, use)
    attributes = b'[{"a": 1}, {"b": [1, 2]}]'
    dialect = Dialect.G2_JSON
    yield Sample("g2/attributes", attributes,
                 lambda data: decode_attributes(data, key=KEY, dialect=dialect))  # fmt: skip
    objects = _objects("g1")
    item = decode_state(objects["state.json"], key=KEY).snapshots[-1]
    g1: dict[str, Use] = {
        "state.json": lambda data: decode_state(data, key=KEY),
        "s/": lambda data: decode_structure(data, key=KEY, item=item),
        "i/": lambda data: decode_inventory(data, key=KEY),
        "a/": lambda data: decode_attribute_file(data, key=KEY),
    }
    for key, data in objects.items():
        for prefix, use in g1.items():
            if key.startswith(prefix):
                yield Sample(f"g1/{prefix.rstrip('/')}", data, use)


def _decoded(chain: Any, cells: int, data: bytes) -> object:  # noqa: ANN401 - of bulk
    return chain.decode(data, (cells,)).tolist()


def chunk_samples() -> Iterator[Sample]:
    """Chunks of many codecs."""
    import zarr
    from zarr.storage import MemoryStore

    from frazil.bulk.compiling import compile_chain

    numbers = np.arange(600, dtype="<f4")
    crc = {"name": "crc32c"}
    compressors: dict[str, Any] = {
        "raw": None,
        "zstd": {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
        "gzip": {"name": "gzip", "configuration": {"level": 1}},
        "blosc": {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5,
                  "shuffle": "shuffle", "typesize": 4, "blocksize": 0}},
        "lz4": {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}},
        "bz2": {"name": "numcodecs.bz2", "configuration": {"level": 1}},
        "lzma": {"name": "numcodecs.lzma", "configuration": {"format": 1, "check": -1,
                 "preset": 1, "filters": None}},
        "crc32c": crc,
    }  # fmt: skip
    for name, compressor in compressors.items():
        made = zarr.create_array(
            MemoryStore(), shape=(600,), chunks=(600,), dtype="<f4", compressors=compressor
        )
        chain = compile_chain(made.metadata)  # type: ignore[arg-type]
        assert chain is not None
        data = bytes(chain.encode(numbers) or b"")
        use = partial(_decoded, chain, 600)
        yield Sample(f"chunk/{name}", data, use, is_checked=name == "crc32c")
    texts = np.array(["a", "", "text"] * 20, object)
    inner: dict[str, dict[str, Any]] = {
        "texts": {"dtype": "string", "chunks": (60,)},
        "shards": {"dtype": "<u2", "chunks": (10,), "shards": (60,)},
    }
    for name, given in inner.items():
        made = zarr.create_array(MemoryStore(), shape=(60,), **given)
        chain = compile_chain(made.metadata)  # type: ignore[arg-type]
        assert chain is not None
        values = texts if name == "texts" else np.arange(60, dtype="<u2")
        data = bytes(chain.encode(values) or b"")
        yield Sample(f"chunk/{name}", data, partial(_decoded, chain, 60))


def samples() -> list[Sample]:
    """All of them."""
    return [*flat_samples(), *text_samples(), *old_samples(), *chunk_samples()]


# --- changes ---


@cache
def _opened(data: bytes) -> tuple[bytes, bytes] | None:
    """What precedes a compressed part, and its content; None for files without one."""
    at = data.find(ZSTD, 0, 64)
    if at < 0:
        return None
    return data[:at], zstandard.ZstdDecompressor().decompress(data[at:], max_output_size=1 << 24)


def change(sample: Sample, chance: random.Random) -> tuple[bytes, bool]:
    """A changed file, and whether it is the file as stored that was changed, not its content."""
    data = sample.data
    opened = None if sample.name.startswith("chunk") else _opened(data)
    if opened is not None and chance.random() < 0.7:
        head, body = opened
        return head + PACKER.compress(changed_bytes(body, chance)), False
    if data[:1] in (b"{", b"[") and chance.random() < 0.6:
        found = changed_json(data, chance)
        if found is not None:
            return found, False
    return changed_bytes(data, chance), True


# --- trying ---


class Hang(BaseException):
    """An input took too long."""


def _ring(*_: object) -> None:
    raise Hang


def attempt(sample: Sample, data: bytes, truth: object, *, as_stored: bool) -> str | None:
    """Read a changed file; tell what is wrong with how that ended."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found = sample.use(data)
    except InternalError as error:
        return f"InternalError: {error}"
    except FrazilError:
        return None
    except Hang:
        return f"took over {SECONDS} s"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if sample.is_checked and as_stored and repr(found) != truth:
        return "another content, though a checksum covers it"
    return None


def run(seed: int, count: int) -> dict[str, Any]:
    """Try so many inputs that follow from a seed."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, _ring)
    chance, known = random.Random(seed), samples()
    truths = [repr(sample.use(sample.data)) for sample in known]
    done, failures = 0, list[list[str]]()
    now = [""]
    watch = threading.Thread(target=_watch, args=(now,), daemon=True)
    watch.start()
    begin = time.monotonic()
    for number in range(count):
        which = chance.randrange(len(known))
        data, as_stored = change(known[which], random.Random(seed << 32 | number))
        now[0] = f"{known[which].name} {number}"
        problem = attempt(known[which], data, truths[which], as_stored=as_stored)
        done += 1
        if problem is not None:
            failures.append([f"{known[which].name} {number}", problem])
            if len(failures) > 20:
                break
    now[0] = ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    took = time.monotonic() - begin
    return {"inputs": done, "failures": failures, "peak": peak, "per_second": done / took}


def _watch(now: list[str]) -> None:
    """End the process if one input keeps it, where no signal gets through, too long."""
    last, since = "", time.monotonic()
    while True:
        time.sleep(1)
        if now[0] != last or not last:
            last, since = now[0], time.monotonic()
        elif time.monotonic() - since > 3 * SECONDS:
            told = {"inputs": 0, "failures": [[last, "hangs"]], "peak": 0, "per_second": 0}
            os.write(1, json.dumps(told).encode() + b"\n")
            os._exit(3)


def main() -> None:
    """Try inputs within a limit on memory."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
