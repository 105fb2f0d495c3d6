"""The CF conventions, once for ingestion, Spark and xarray: pure rules, in numpy only."""
