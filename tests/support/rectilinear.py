"""An array whose chunks differ in length, which zarr-python itself does not write."""

from __future__ import annotations

import json
from typing import Final

RECTILINEAR: Final = json.dumps(
    {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [12, 10],
        "data_type": "int32",
        "chunk_grid": {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [[[3, 2], 1, 8], 4]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": -1,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
).encode()
"""its metadata: chunks of 3, 3, 1 and 8 rows, of which the last has 3 beyond the end"""
