"""gRPC only: protobuf to values and back, one edge around every RPC, the table of codes."""

import os

# grpc reads it once, at its first import, which is below this package. With it on, each program that the node
# half starts runs grpc's fork handlers, which can deadlock while calls are open (grpc #22624).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
