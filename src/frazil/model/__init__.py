"""What a repository is: records without I/O."""
