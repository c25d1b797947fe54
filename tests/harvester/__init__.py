"""What a Harvester host's objects and answers mean."""
