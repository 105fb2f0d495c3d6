"""Jobs over whole arrays and repositories, a file a job."""
