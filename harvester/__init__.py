"""What both daemons know of a Harvester host: kinds, hot-plug patches, machine identity, refusals."""
