"""`readStream`: what commits changed, in micro-batches."""
