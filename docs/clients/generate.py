#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams a text from a Lockstep server: a client to copy.

Needs grpcio and protobuf (pip install grpcio protobuf), and the message classes, made once by
    protoc -I proto --python_out=docs/clients proto/generate.proto
"""
import argparse
import sys

try:
    import grpc

    import generate_pb2 as api
except ImportError as error:
    sys.exit(f"generate.py: {error}; wanted: pip install grpcio protobuf, "
             "protoc -I proto --python_out=docs/clients proto/generate.proto")


def generate(channel, request):
    """Yields GenerateResponse messages as the server sends them."""
    call = channel.unary_stream(
        "/lockstep.v1.Generation/Generate",
        request_serializer=api.GenerateRequest.SerializeToString,
        response_deserializer=api.GenerateResponse.FromString,
    )
    yield from call(request)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    request = api.GenerateRequest(prompt=arguments.prompt, max_tokens=arguments.max_tokens)
    if arguments.seed is not None:
        request.seed = arguments.seed
    with grpc.insecure_channel(arguments.server) as channel:
        try:
            for response in generate(channel, request):
                print(response.text, end="", flush=True)
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
