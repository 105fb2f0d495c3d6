"""Names and signatures of the official package 2.3.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
NAMES: dict[str, list[str]] = json.loads((_HERE / "official_names.json").read_text())
SIGNATURES: dict[str, Any] = json.loads((_HERE / "official_signatures.json").read_text())
