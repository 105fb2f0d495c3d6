"""Metadata tables: `URL#snapshots` and the like."""
