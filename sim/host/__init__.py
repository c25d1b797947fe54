"""A Harvester host's controllers, written as ordinary API clients."""
