"""The `frazil` command: arguments in, text or JSON out.

A call imports the module of its command, and help imports all of them: so they import nothing
heavy at their top, and what a command needs beyond typer it imports when it runs.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line."""
    # Most commands take half a second, and Python's garbage collector would use a tenth of it.
    # Imported modules live until the end anyway.
    gc.disable()
    # No command multiplies matrices, and numpy starts threads for that when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from frazil.cli.app import app_for

        app = app_for(sys.argv[1:])
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"frazil: the command line needs {error.name}: pip install 'frazil[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()
    app(prog_name="frazil")
