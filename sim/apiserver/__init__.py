"""An in-memory Kubernetes API server over HTTPS, as far as our clients and kubectl need it."""
