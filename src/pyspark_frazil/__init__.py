"""Found by Spark by its name: makes `spark.read.format("frazil")` work without registration."""

from frazil.spark.source import FrazilSource as DefaultSource

__all__ = ["DefaultSource"]
