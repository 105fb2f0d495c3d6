"""Rows into arrays: the plan of a write, chunks made by tasks, and the one commit."""
