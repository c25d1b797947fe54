"""The gRPC side of the CSI driver."""
