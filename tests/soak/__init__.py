"""The long suites under one clock: `make soak SOAK=30m`."""
