"""Erasing an array, or a region of one, from all of history."""
