"""Work on whole repositories: expiry, garbage collection, statistics, inspection, upgrade."""
