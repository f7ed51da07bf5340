#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers' values for a prompt: the reference of `lockstep verify`.

    tools/verify_reference.py MODEL FILE --tokens 1,2,3 [--trust-remote-code]

Loads MODEL in float32 on the CPU, runs the tokens once without a cache, and writes FILE, a
safetensors file of float32 matrices with a row per token: "logits"; the output of each module,
under the module's name NAME; its input, under "NAME (input)". Modules are linears, norms, the
embedding and whole layers. "tokens" (int64) is the prompt. The last printed line names the version.
Needs torch and transformers (PyPI).
"""
import argparse
import os
import re
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # Nothing is fetched.
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from transformers.pytorch_utils import Conv1D
except ImportError as missing:
    print(f"verify needs the Python package {missing.name}: run `{sys.executable} -m pip install "
          "torch transformers`, or name another interpreter with --python", file=sys.stderr)
    sys.exit(3)


def load(folder, trust_remote_code):
    """The model with its head; a multimodal model completely."""
    options = {"dtype": torch.float32, "trust_remote_code": trust_remote_code}
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    for architecture in config.architectures or []:
        if hasattr(transformers, architecture):
            del options["trust_remote_code"]
            if int(transformers.__version__.split(".")[0]) >= 5:
                # Other implementations need sizes that are multiples of 16 bytes.
                options["experts_implementation"] = "eager"
            return getattr(transformers, architecture).from_pretrained(folder, **options).eval()
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options).eval()


def rows_of(tensor, tokens):
    """[tokens, columns] of a tensor with heads in any order; None if it has other rows."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return None
    if tensor.dim() == 2 and tensor.shape[0] == tokens:
        return tensor
    if tensor.dim() < 3 or tensor.shape[0] != 1:
        return None
    if tensor.dim() == 4 and tensor.shape[1] == tensor.shape[2]:
        return None  # Heads and tokens have the same number: ambiguous.
    if tensor.shape[1] != tokens and tensor.dim() == 4 and tensor.shape[2] == tokens:
        tensor = tensor.transpose(1, 2)  # [1, heads, tokens, columns]
    return tensor.reshape(tokens, -1) if tensor.shape[1] == tokens else None


def is_norm(module):
    return re.search("norm", type(module).__name__, re.IGNORECASE) is not None


class Recorder:
    """Keeps inputs and outputs of modules that are called once."""

    def __init__(self, model, tokens):
        self.tokens = tokens
        self.values = {}
        self.calls = {}
        for name, module in model.named_modules():
            layer = re.search(r"\.\d+$", name) and any(True for _ in module.children())
            plain = isinstance(module, (torch.nn.Linear, Conv1D)) or is_norm(module)
            if plain or layer or type(module) is torch.nn.Embedding:
                module.register_forward_hook(self.hook(name, plain), with_kwargs=True)

    def keep(self, name, tensor):
        rows = rows_of(tensor, self.tokens)
        if rows is not None:
            self.values[name] = rows.detach().to(torch.float32).clone().contiguous()

    def hook(self, name, has_input):
        def record(_, positional, named, output):
            self.calls[name] = self.calls.get(name, 0) + 1
            given = [one for one in (*positional, *named.values())
                     if isinstance(one, torch.Tensor)]
            if has_input and len(given) != 1:
                return  # The module has more inputs, such as a gate: its name may mislead.
            self.keep(name, output[0] if isinstance(output, tuple) else output)
            if has_input:
                self.keep(name + " (input)", given[0])
        return record

    def result(self):
        """Without modules that are called several times: experts, shared layers."""
        return {name: value for name, value in self.values.items()
                if self.calls[name.removesuffix(" (input)")] == 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--tokens", required=True, help="comma-separated ids")
    parser.add_argument("--trust-remote-code", action="store_true",
                        help="run the modeling code in the folder")
    arguments = parser.parse_args()
    tokens = [int(token) for token in arguments.tokens.split(",")]
    try:
        model = load(arguments.model, arguments.trust_remote_code)
        recorder = Recorder(model, len(tokens))
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits
    except Exception as error:  # noqa: BLE001: any error is reported in one line.
        said = " ".join(str(error).split())
        print(f"transformers {transformers.__version__} cannot run {arguments.model}: "
              f"{type(error).__name__}: {said[:400]}", file=sys.stderr)
        return 4
    values = recorder.result()
    values["logits"] = logits[0].to(torch.float32).contiguous()
    values["tokens"] = torch.tensor(tokens, dtype=torch.int64)
    save_file(values, arguments.file)
    print(f"transformers {transformers.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
