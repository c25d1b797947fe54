"""What happens to volumes on the host."""
