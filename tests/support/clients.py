# SPDX-License-Identifier: Apache-2.0
"""Clients of three kinds that send the same requests, for tests that compare answers: HTTP by hand,
the official openai package, and grpcio. A server is any object with `address` and
`grpc_address`; if it has a true `secure`, they use TLS."""
import importlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
PROMPTS = ["Once upon a time", "One morning the old ship", "Nobody knew why the heron laughed, and"]


def optional(name: str):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def requests() -> list[dict]:
    """The requests over HTTP: fields of /v1/completions."""
    kinds = [{"seed": 1, "temperature": 0}, {"seed": 3}, {"seed": 4, "n": 2, "top_p": 0.9},
             {"seed": 5, "logprobs": 2}, {"seed": 6, "stop": [" the", "."]},
             {"seed": 7, "frequency_penalty": 0.6, "echo": True}]
    return [{"model": "demo", "prompt": prompt, "max_tokens": 60 + 70 * (number % 3), **kind}
            for number, prompt in enumerate(PROMPTS) for kind in kinds]


def url(server) -> str:
    return f"http{'s' if getattr(server, 'secure', False) else ''}://{server.address}/v1"


class ByHand:
    """HTTP without a library."""
    name = "http"
    streams = False

    def __init__(self, server, _):
        self.url = f"{url(server)}/completions"

    def ask(self, request: dict) -> str:
        body = urllib.request.Request(self.url, json.dumps(request).encode(),
                                      {"Content-Type": "application/json"})
        with urllib.request.urlopen(body, timeout=PATIENCE_S) as answer:
            return json.dumps(json.load(answer)["choices"])


class ByOpenAI:
    """OpenAI's own client, without retries. A client with an even number streams its answers."""
    name = "openai"
    on_event = staticmethod(lambda: None)  # Called for each event of a stream.

    def __init__(self, server, number: int):
        self.client = optional("openai").OpenAI(base_url=url(server), api_key="none",
                                                max_retries=0, timeout=PATIENCE_S)
        self.streams = number % 2 == 0

    def ask(self, request: dict) -> str:
        request = {**request, "stream": self.streams}
        answer = self.client.completions.create(**request)
        if not self.streams:
            return json.dumps([choice.model_dump() for choice in answer.choices])
        choices: dict[int, list] = {}
        for event in answer:
            self.on_event()
            for choice in event.choices:
                choices.setdefault(choice.index, []).append(choice.model_dump())
        return json.dumps([choices[index] for index in sorted(choices)])


class ByGrpc:
    """grpcio and the published proto; log-probabilities are compared by their bits."""
    name = "grpc"
    streams = True
    api = None
    on_event = staticmethod(lambda: None)
    # True: a call waits for a connection. grpcio continues a TLS handshake only while a call runs.
    waits = False

    def __init__(self, server, _):
        grpc = optional("grpc")
        # grpcio 1.51 never ends a call that it repeats by itself when the second try fails, too.
        options = [("grpc.enable_retries", 0)]
        channel = (grpc.secure_channel(server.grpc_address, grpc.ssl_channel_credentials(), options)
                   if getattr(server, "secure", False) else
                   grpc.insecure_channel(server.grpc_address, options))
        self.generate = channel.unary_stream(
            "/lockstep.v1.Generation/Generate",
            request_serializer=self.api.GenerateRequest.SerializeToString,
            response_deserializer=self.api.GenerateResponse.FromString)

    @classmethod
    def load(cls, folder: str) -> bool:
        if optional("grpc") is None or optional("google.protobuf") is None:
            return False
        subprocess.run(["protoc", f"-I{SOURCE}/proto", f"--python_out={folder}", "generate.proto"],
                       check=True)
        sys.path.insert(0, folder)
        cls.api = importlib.import_module("generate_pb2")
        return True

    def ask(self, request: dict) -> str:
        fields = {key: value for key, value in request.items() if key not in ("model", "echo")}
        if isinstance(fields.get("stop"), str):
            fields["stop"] = [fields["stop"]]
        choices: dict[int, list] = {}
        for event in self.generate(self.api.GenerateRequest(**fields), timeout=PATIENCE_S,
                                   wait_for_ready=self.waits):
            self.on_event()
            # Cached tokens and the order of choices depend on other requests.
            for name in ("request_id", "usage", "offset"):
                event.ClearField(name)
            choices.setdefault(event.index, []).append(event.SerializeToString().hex())
        return json.dumps([choices[index] for index in sorted(choices)])
