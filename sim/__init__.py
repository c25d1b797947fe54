"""A simulated Harvester host: an API server, the host's controllers and disks."""
