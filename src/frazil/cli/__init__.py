"""The `frazil` command: arguments in, text or JSON out.

Command modules are imported for every call, so they import nothing heavy at their top; what a
command needs beyond typer it imports when it runs.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line."""
    # Most commands are over in half a second, of which looking for garbage would take a tenth.
    gc.set_threshold(50_000)
    try:
        from frazil.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"frazil: the command line needs {error.name}: pip install 'frazil[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="frazil")
