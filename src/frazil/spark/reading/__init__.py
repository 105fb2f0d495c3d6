"""Cells and chunks as rows: what a `load()` means, its partitions, what tasks read."""
