"""Side-by-side measurements: the same work through Frazil and everything it can be compared with.

`make bench` runs them all; `docs/benchmarks.md` shows the last results.
"""
