# SPDX-License-Identifier: Apache-2.0
"""Checks a saved demo model with transformers, writes its golden file and prints samples."""

import argparse
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoTokenizer, LlamaForCausalLM

from model import Llama

# From each list the check uses the first two texts for which rounding cannot change greedy tokens.
LEAST_MARGIN = 0.01
SHORT = (",", ":")
OPENINGS = [
    "Once upon a time", "One rainy day the dragon", "The robot was", "In a village by the sea",
    "Far away, in", "Every evening, a", "A long time ago there lived", "Nobody in the valley",
    "The fox", "One winter night", "This is the story of a young dragon called Iris.",
]
TEXTS = [
    "Caf\u00e9, na\u00efve -- 42 kites!\n\n\u4f60\u597d \U0001f422  ok",
    "In a village by the sea there lived a very tall hedgehog called Nora.",
    "Once there lived a robot called Gus.", "Long ago there was a shy whale.",
]


def greedy(model, ids, count):
    """Returns `count` greedy tokens after `ids`, the last logits of `ids`, the min margin."""
    first, margin, tokens, cache = None, float("inf"), [], None
    for _ in range(count):
        out = model(torch.tensor([ids]), past_key_values=cache, use_cache=True)
        logits, cache = out.logits[0, -1], out.past_key_values
        first = logits if first is None else first
        best = torch.topk(logits, 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
        ids = tokens[-1:]
    return tokens, first, margin


def make_golden(model, tokenizer):
    """Returns the contents of the golden file."""
    prompts, texts = [], []
    for opening in OPENINGS:
        if len(prompts) == 2:
            break
        ids = tokenizer(opening)["input_ids"]
        tokens, logits, margin = greedy(model, ids, 32)
        if margin < LEAST_MARGIN:
            continue
        prompts.append({
            "ids": ids,
            "greedy": tokens,
            "min_margin": round(margin, 5),
            "logit_std": round(logits.std().item(), 3),
            "last_logits": [float(f"{value:.6g}") for value in logits.tolist()],
        })
    for text in TEXTS:
        if len(texts) == 2:
            break
        ids = tokenizer(text)["input_ids"]
        tokens, _, margin = greedy(model, ids, 16)
        if margin < LEAST_MARGIN:
            continue
        decoded = tokenizer.decode(tokens)
        texts.append({"text": text, "ids": ids, "greedy": tokens, "decoded": decoded,
                      "min_margin": round(margin, 5)})
    return {
        "case": "demo",
        "architecture": "LlamaForCausalLM",
        "reference": f"transformers {transformers.__version__}",
        "stored_dtype": "bfloat16",
        "compute_dtype": "float32",
        "prompts": prompts,
        "texts": texts,
    }


def write_golden(path, golden):
    """Writes the golden file; each list is on one line."""
    heads = {key: value for key, value in golden.items() if key not in ("prompts", "texts")}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in heads.items()]
    for name in ("prompts", "texts"):
        items = []
        for item in golden[name]:
            fields = [
                f"   {json.dumps(key)}: {json.dumps(value, separators=SHORT)}"
                for key, value in item.items()
            ]
            items.append("  {\n" + ",\n".join(fields) + "\n  }")
        lines.append(f' "{name}": [\n' + ",\n".join(items) + "\n ]"
                     + ("," if name == "prompts" else ""))
    path.write_text("{\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")


def compare_plain(folder, model, ids):
    """Returns the largest difference of logits between train.py's model and transformers."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    plain = Llama(config).eval()
    weights = {name: w.float() for name, w in load_file(folder / "model.safetensors").items()}
    plain.load_state_dict(weights)
    ids = torch.tensor([ids])
    return (plain(ids) - model(ids).logits).abs().max().item()


def main():
    """Runs the requested checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--golden", type=Path, help="write this golden file")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--opening", default="Once upon a time")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = LlamaForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    torch.set_grad_enabled(False)
    ids = tokenizer(args.opening)["input_ids"]
    assert ids[0] == model.config.bos_token_id, "the tokenizer adds no begin token"
    print(f"largest difference to the plain model: {compare_plain(args.model, model, ids):.2g}")
    if args.golden:
        golden = make_golden(model, tokenizer)
        write_golden(args.golden, golden)
        print("margins:", [item["min_margin"] for item in golden["prompts"] + golden["texts"]])
    torch.manual_seed(args.seed)
    for _ in range(args.samples):
        out = model.generate(torch.tensor([ids]))[0]
        print("----\n" + tokenizer.decode(out, skip_special_tokens=True))


if __name__ == "__main__":
    main()
