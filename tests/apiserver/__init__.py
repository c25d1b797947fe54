"""The in-memory API server beyond what a real one can be asked: faults, hooks, garbage, its own end."""
