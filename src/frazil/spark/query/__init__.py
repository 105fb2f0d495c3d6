"""SQL on repositories."""
