"""A transaction: what it has changed, what its commit would write, what it conflicts with."""
