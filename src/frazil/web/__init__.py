"""The explorer: repositories in a browser, and any version of them as plain Zarr over HTTP."""
