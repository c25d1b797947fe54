"""The demo: composition root of a simulated host, driver processes, and a played guest cluster."""
