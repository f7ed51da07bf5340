# SPDX-License-Identifier: Apache-2.0
"""Runs SGLang's serving benchmark (formerly bench_serving) against a server; the arguments are its
URL and the folder of a tokenizer. The benchmark reads 40 streams of completions, then 40 of chats.
SGLang's packages would import torch, so empty packages with the same folders replace them. A module
with the one constant that the benchmark reads replaces a module of SGLang's server."""
import importlib.util
import json
import runpy
import sys
import tempfile
import types
from pathlib import Path


def module(name: str, **members) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


folder = Path(importlib.util.find_spec("sglang").origin).parent
for package in ("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.disaggregation"):
    module(package, __path__=[str(folder.joinpath(*package.split(".")[1:]))])
module("sglang.srt.disaggregation.utils", FAKE_BOOTSTRAP_HOST="2.2.2.2")

url, model = sys.argv[1:]
succeeded = []
for backend in ("vllm", "vllm-chat"):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as results:
        sys.argv = ["serving", "--backend", backend, "--base-url", url, "--model", "demo",
                    "--tokenizer", model, "--dataset-name", "random-ids", "--num-prompts", "40",
                    "--random-input-len", "32", "--random-output-len", "16", "--request-rate", "20",
                    "--output-file", results.name]
        runpy.run_module("sglang.benchmark.serving", run_name="__main__")
        succeeded.append(json.loads(Path(results.name).read_text())["completed"])
print(f"{succeeded[0]} of 40 completions and {succeeded[1]} of 40 chats succeeded")
sys.exit(succeeded != [40, 40])
