"""Repositories from before spec 1: their objects as sessions and maintenance know objects."""
