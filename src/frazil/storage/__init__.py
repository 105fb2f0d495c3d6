"""Keys to bytes: one contract, several backends."""
