"""What happens to a device in the kernel of a guest node. Knows no host and imports no Kubernetes client."""
