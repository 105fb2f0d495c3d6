"""From the generations before spec 1 to those of today, and back as long as nothing was cleaned."""
