# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: vLLM's own HTTP tests against `lockstep serve`.

It replaces vLLM's package and its tests' fixture. Each RemoteOpenAIServer of a test is a server of
the model in $SUITE_MODEL, with the name that the test requests. Tests that start no server test
vLLM itself and are skipped.
"""
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import openai
import pytest
import transformers

MODEL = os.environ["SUITE_MODEL"]
BINARY = os.environ["SUITE_BINARY"]
SOURCE = Path(os.environ["SUITE_SOURCE"])

# Our flag for each of vLLM's flags; None: the flag changes no answer of these tests. A test whose
# server has a flag that is missing here is skipped.
FLAGS = {
    "--api-key": "--api-keys",
    "--chat-template": "--chat-template",
    "--enable-prompt-embeds": "--prompt-embeds",
    "--max-model-len": "--max-context",
    "--max-num-seqs": "--max-running",
    "--no-enable-prefix-caching": "--no-prefix-cache",
    "--reasoning-parser": "--reasoning-parser",
    "--served-model-name": "--served-model-name",
    "--tool-call-parser": "--tool-parser",
    **dict.fromkeys((
        "--config-format", "--dtype", "--enable-auto-tool-choice", "--enable-chunked-prefill",
        "--enable-lora", "--enable-per-request-metrics", "--enable-prefix-caching",
        "--enable-prompt-tokens-details", "--enable-server-load-tracking",
        "--enable-tokenizer-info-endpoint", "--enforce-eager", "--gpu-memory-utilization",
        "--ignore-patterns", "--load-format", "--lora-modules", "--max-cpu-loras",
        "--max-logprobs", "--max-lora-rank", "--max-num-batched-tokens", "--no-async-scheduling",
        "--seed", "--show-hidden-metrics-for-version", "--structured-outputs-config.backend",
        "--tensor-parallel-size", "--tokenizer-mode", "--trust-remote-code",
        "--trust-request-chat-template")),
}
# The demo's tokenizer has 3,072 tokens: prompts are about three times longer than elsewhere.
MIN_CONTEXT = 8192


def our_flags(arguments: list[str], folder: Path) -> list[str]:
    flags = {}
    position = 0
    while position < len(arguments):
        name, _, value = arguments[position].partition("=")
        name = name.replace("_", "-")
        values = [value] if value else []
        position += 1
        while position < len(arguments) and not arguments[position].startswith("-"):
            values.append(arguments[position])
            position += 1
        if name not in FLAGS:
            pytest.skip(f"no flag of ours is like {name}")
        if FLAGS[name] is not None:
            flags[FLAGS[name]] = values[:1]
    if "--api-keys" in flags:
        keys = folder / "keys"
        keys.write_text(f"suite {flags['--api-keys'][0]}\n")
        keys.chmod(0o600)
        flags["--api-keys"] = [str(keys)]
    if "--max-context" in flags:
        flags["--max-context"] = [str(max(int(flags["--max-context"][0]), MIN_CONTEXT))]
    return [word for name, values in flags.items() for word in (name, *values)]


class RemoteOpenAIServer:
    """The fixture's interface: a context whose clients call the server."""
    DUMMY_API_KEY = "token-abc123"  # vLLM's own; its tests compare with it.
    show_hidden_metrics = False
    count = 0

    def __init__(self, model, vllm_serve_args, *, env_dict=None, **_):
        folder = Path(os.environ["SUITE_LOGS"])
        RemoteOpenAIServer.count += 1
        self.log = folder / f"server-{RemoteOpenAIServer.count}.log"
        flags = our_flags(list(vllm_serve_args), folder)
        if "--served-model-name" not in flags:
            flags += ["--served-model-name", model]
        self.host = "127.0.0.1"
        with open(self.log, "w", encoding="utf-8") as log:
            self.proc = subprocess.Popen(
                [BINARY, "serve", MODEL, "--http", "127.0.0.1:0", "--grpc", "off",
                 "--metrics-prefix", "vllm", "--kv-memory", "64MiB", *flags], stderr=log)
        self.port = self._wait_until_ready()

    def _wait_until_ready(self) -> int:
        while True:
            text = self.log.read_text()
            if "ready;" in text:
                return int(text.partition("HTTP at 127.0.0.1:")[2].partition(",")[0])
            if self.proc.poll() is not None:
                raise RuntimeError(f"the server ended: {text.strip().splitlines()[-1]}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.kill()
        self.proc.wait()

    @property
    def url_root(self) -> str:
        return f"http://{self.host}:{self.port}"

    def url_for(self, *parts: str) -> str:
        return "/".join([self.url_root, *(part.strip("/") for part in parts if part)])

    def get_client(self, **options):
        return openai.OpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY,
                             max_retries=0, **options)

    def get_async_client(self, **options):
        return openai.AsyncOpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY,
                                  max_retries=0, **options)


from_pretrained = transformers.AutoTokenizer.from_pretrained


@functools.cache
def get_tokenizer(*_, **__):
    return from_pretrained(MODEL)


transformers.AutoTokenizer.from_pretrained = get_tokenizer


class ModelConfig:
    """Answers the tests' question for the size of the vocabulary."""
    def __init__(self, *_, **__):
        self.config = json.loads((Path(MODEL) / "config.json").read_text())

    def get_vocab_size(self) -> int:
        return self.config["vocab_size"]


class Absent:
    """Replaces a name of vLLM's engine. bool() of it is False. Its members and results are
    Absent, too."""
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent()

    def __call__(self, *arguments, **_):
        # A decorator without effect.
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Absent()

    def __bool__(self):
        return False

    def __mro_entries__(self, _):
        return ()

    def __or__(self, _):
        return object

    __ror__ = __or__

    def __getitem__(self, _):
        return Absent()


def absent_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []
    module.__getattr__ = lambda member: Absent()
    return module


class AbsentPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds vllm, torch and packages that only vLLM's engine or its tests import; all their
    members are Absent."""
    ROOTS = {"vllm", "torch", "schemathesis", "starlette", "fastapi", "uvicorn", "openai_harmony"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.ROOTS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return absent_module(spec.name)

    def exec_module(self, module):
        if module.__name__ == "vllm.tokenizers":
            module.get_tokenizer = get_tokenizer
        if module.__name__ == "vllm.version":
            module.__version__ = subprocess.run([BINARY, "--version"], check=True, text=True,
                                                capture_output=True).stdout.split()[-1]
        if module.__name__ == "vllm.config":
            module.ModelConfig = ModelConfig


sys.meta_path.append(AbsentPackages())
sys.path.insert(0, str(SOURCE))
utils = absent_module("tests.utils")
utils.__dict__.update(RemoteOpenAIServer=RemoteOpenAIServer, VLLM_PATH=SOURCE, ROCM_EXTRA_ARGS=[],
                      ROCM_ENV_OVERRIDES={})
sys.modules["tests.utils"] = utils
sys.modules["tests.conftest"] = absent_module("tests.conftest")


def starts_server(item, module_fixtures: dict) -> bool:
    """Whether a fixture that the test uses, or the test itself, names RemoteOpenAIServer."""
    functions = [item.function]
    for name in item.fixturenames:
        functions += [definition.func for definition in module_fixtures.get(name, ())]
    return any("RemoteOpenAIServer(" in inspect.getsource(function) for function in functions)


class AbsentAssets:
    def __getattr__(self, name):
        pytest.skip("images and sound")


@pytest.fixture(scope="session")
def local_asset_server():
    return AbsentAssets()


def pytest_collection_modifyitems(config, items):
    kept = []
    for item in items:
        (kept if starts_server(item, item._fixtureinfo.name2fixturedefs) else
         config.suite_private).append(item)
    items[:] = kept


def pytest_configure(config):
    config.suite_private = []
