"""The node half against this machine's kernel: loop devices, real mkfs and mounts. Needs root."""
