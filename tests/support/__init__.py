"""Real parts for tests: peers, servers and storage that fails on purpose."""
