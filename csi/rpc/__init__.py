"""gRPC only: protobuf to values and back, interceptors, the error table."""
