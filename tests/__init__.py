"""The tests of Frazil."""
