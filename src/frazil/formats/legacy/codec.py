"""Everything that reads and writes the files of G2 and G3, in one place to import from."""

from __future__ import annotations

from frazil.formats.legacy.attributes import decode_attributes
from frazil.formats.legacy.logs import decode_log, encode_log, from_log, to_log
from frazil.formats.legacy.manifests import check_reference, decode_manifest, encode_manifest
from frazil.formats.legacy.refs import decode_ref, encode_ref
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot

__all__ = [
    "check_reference",
    "decode_attributes",
    "decode_log",
    "decode_manifest",
    "decode_ref",
    "decode_snapshot",
    "encode_log",
    "encode_manifest",
    "encode_ref",
    "encode_snapshot",
    "from_log",
    "to_log",
]
