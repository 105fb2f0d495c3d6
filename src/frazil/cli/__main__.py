"""`python -m frazil.cli` is the `frazil` command."""

from frazil.cli import main

main()
