"""Volumes as host claims: plans as tables, and the service over a simulated host."""
