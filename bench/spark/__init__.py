"""Frazil on Spark beside Parquet on Spark, xarray-sql, and dask with the official package."""
