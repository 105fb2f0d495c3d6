"""Values of two snapshots compared, cell by cell, reading only what may differ."""
