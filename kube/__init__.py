"""Kubernetes without Harvester: client, errors, objects, informer, work queue."""
