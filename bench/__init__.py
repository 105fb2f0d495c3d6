"""Side-by-side measurements: the same work through Frazil and the official package."""
