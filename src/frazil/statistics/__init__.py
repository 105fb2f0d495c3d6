"""What is known of chunks without reading them: counts, extremes, sums and checksums."""
