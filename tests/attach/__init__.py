"""The attach engine: plans as tables, and the service over a simulated host."""
