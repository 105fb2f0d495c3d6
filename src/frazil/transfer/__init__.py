"""Chunks copied as they are stored: repository to repository, to a Zarr store, and from one."""
