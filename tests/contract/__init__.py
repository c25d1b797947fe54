"""One suite for the in-memory API server and the real one."""
