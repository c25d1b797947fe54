"""The cloud controller manager. Empty for now."""
