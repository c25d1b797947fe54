"""The command line for people: demo, simulate."""
