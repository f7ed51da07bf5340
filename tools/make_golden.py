#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a reference model: the results of Hugging Face transformers for small random weights.

    tools/make_golden.py FOLDER... [--seed N] [--attention sdpa]

Each FOLDER has a config.json of an architecture that transformers knows; torch_dtype is the type of
stored weights. Writes model.safetensors and golden.json next to it: prompts as ids, the logits of
each prompt's last position, and the greedy tokens after the prompt, computed in float32 from the
stored weights. Choose uneven sizes, every kind of layer, and windows shorter than the prompts. The
seed increases until the two best logits always differ by 0.01 or more and the tokens vary. Needs
torch and transformers (PyPI). Kept cases should be below 150 kB."""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers

LENGTHS = (1, 5, 23, 40)  # The prompts' lengths.
GREEDY = 24
MARGIN = 0.01


def plain_options(attention):
    """Arguments for a model that runs without fused kernels."""
    options = {"attn_implementation": attention}
    if int(transformers.__version__.split(".")[0]) >= 5:
        options["experts_implementation"] = "eager"  # Other implementations need aligned rows.
    return options


def draw(architecture, config, seed, stored, attention="eager"):
    """A model with random weights that are rounded to the type `stored`."""
    torch.manual_seed(seed)
    model = architecture._from_config(config, dtype=torch.float32, **plain_options(attention))
    for name, parameter in model.named_parameters():
        vector = parameter.dim() == 1
        norm = vector and name.endswith(("weight", "scale"))
        scale = 0.1 if vector else 1.5 / parameter.shape[-1] ** 0.5
        torch.nn.init.normal_(parameter, 1 if norm else 0, scale)
    for name, buffer in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "layer_scalar")):
            torch.nn.init.normal_(buffer, float(name.endswith("layer_scalar")), 0.1)
    for parameter in model.parameters():  # Not buffers: rotary frequencies stay in float32.
        parameter.data = parameter.data.to(stored)
    return model


def read_back(architecture, folder, attention="eager"):
    """The model that is saved in the folder, in float32."""
    return architecture.from_pretrained(
        folder, dtype=torch.float32, **plain_options(attention)).eval()


def answer(model, prompt):
    """Logits after the prompt, the greedy tokens, the smallest margin among them."""
    ids, margin, first, greedy = list(prompt), float("inf"), None, []
    for _ in range(GREEDY):
        with torch.no_grad():  # The whole sequence at each step, without a cache.
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        first = logits if first is None else first
        best = torch.topk(logits, 2).values
        margin = min(margin, float(best[0] - best[1]))
        greedy.append(int(torch.argmax(logits)))
        ids.append(greedy[-1])
    return first, greedy, margin


def answered_prompts(model, seed, vocab_size, prepare=lambda length: None):
    """A prompt of each of LENGTHS with its answer, or none if a margin is too small or an answer
    repeats itself. `prepare` is called before each."""
    random = torch.Generator().manual_seed(seed)
    prompts = []
    for length in LENGTHS:
        ids = torch.randint(3, vocab_size, (length,), generator=random).tolist()
        prepare(length)
        logits, greedy, margin = answer(model, ids)
        if margin < MARGIN or len(set(greedy)) < GREEDY // 6:
            return []
        prompts.append({"ids": ids, "greedy": greedy, "min_margin": round(margin, 5),
                        "last_logits": [float(f"{x:.6g}") for x in logits.tolist()]})
    return prompts


def make(folder, seed, attention):
    config = transformers.AutoConfig.from_pretrained(folder)
    architecture = getattr(transformers, config.architectures[0])
    stored = getattr(torch, json.loads((folder / "config.json").read_text())["torch_dtype"])
    vocab_size = config.get_text_config().vocab_size
    for seed in range(seed, seed + 500):
        with tempfile.TemporaryDirectory() as saved:  # Tensors have their published names there.
            draw(architecture, config, seed, stored, attention).save_pretrained(saved)
            shutil.copyfile(pathlib.Path(saved, "model.safetensors"), folder / "model.safetensors")
            model = read_back(architecture, saved, attention)
        prompts = answered_prompts(model, seed, vocab_size)
        if prompts:
            golden = {"reference": f"transformers {transformers.__version__}", "seed": seed,
                      "architecture": config.architectures[0], "compute_dtype": "float32",
                      "prompts": prompts}
            (folder / "golden.json").write_text(json.dumps(golden) + "\n")
            return seed
    raise SystemExit(f"make_golden: {folder}: no seed gave a margin of {MARGIN} on all prompts")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1, help="the first seed to try")
    parser.add_argument("--attention", default="eager", choices=("eager", "sdpa"),
                        help="the attention of transformers; use sdpa for Falcon, because eager "
                             "adds Falcon's alibi twice")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        if not (folder / "config.json").is_file():
            print(f"make_golden: {folder}/config.json is missing", file=sys.stderr)
            return 2
        print(f"{folder}: seed {make(folder, arguments.seed, arguments.attention)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
