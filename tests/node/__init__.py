"""The node half without a kernel: its plans as tables, and the programs it starts."""
