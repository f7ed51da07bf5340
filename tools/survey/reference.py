#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what transformers computes for the small models of architectures.py.

    reference.py FOLDER [--only NAME]...

Writes FOLDER/NAME/FORM for each: config.json as saved by the class, random weights, golden.json as
in tools/make_golden.py. The form "published" is what save_pretrained writes by default; "in_memory"
has the names that version 5 has in memory (save_original_format=False). FOLDER/NAME/facts.json has
the class's properties: parameters, tensors, rotary frequencies, windows. Prints a line for each
model: its name, and if it failed a tab and the error. Needs torch and transformers (PyPI).
"""
import argparse
import json
import os
import pathlib
import sys
import traceback
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.append(str(pathlib.Path(__file__).parents[1]))

import torch
import transformers
from architectures import ROWS
from make_golden import MARGIN, answered_prompts, draw, read_back
from safetensors import safe_open

IN_MEMORY = {"published": {}, "in_memory": {"save_original_format": False}}
SEEDS = 1000
MAJOR = int(transformers.__version__.split(".")[0])


def shapes_of(file, unread):
    """Tensors that belong to the model that runs, by name."""
    with safe_open(file, "pt") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in sorted(tensors.keys())
                if not any(part in name for part in unread)}


def parameters_of(architecture, config, unread):
    """Elements of all weights, tied ones counted once. None is allocated."""
    with torch.device("meta"):
        model = architecture(config)
    stored = model.state_dict().keys()
    weights = {**dict(model.named_parameters()),
               **{name: one for name, one in model.named_buffers() if name in stored}}
    return sum(one.numel() for name, one in weights.items()
               if not any(part in name for part in unread))


def rotary_of(model, unread):
    """For every rotary table: the inverse frequencies and the factor of cos and sin. The model has
    seen no prompt yet: long prompts change tables."""
    text = model.config.get_text_config()
    if getattr(text, "alibi", False) or getattr(text, "position_embedding_type", "") == "nope":
        return []  # A table may exist, but rotates nothing.
    tables = set()
    for name, buffer in model.named_buffers():
        if not name.endswith("inv_freq") or "original" in name or \
                any(part in name for part in unread):
            continue
        owner, _, own = name.rpartition(".")
        scaling = own.removesuffix("inv_freq") + "attention_scaling"
        factor = getattr(model.get_submodule(owner), scaling, 1.0)
        turning = buffer[buffer != 0].tolist()  # Columns with zeros do not rotate.
        tables.add((len(turning), turning[0], turning[-1], float(factor)))
    return [dict(zip(("count", "first", "last", "factor"), table)) for table in sorted(tables)]


def windows_of(text):
    """By layer: how many positions a query sees, if not all."""
    windows = {}
    for layer in range(text.num_hidden_layers):
        types = getattr(text, "layer_types", None)
        kind = types[layer] if types else "sliding_attention"
        if kind == "chunked_attention":
            windows[layer] = text.attention_chunk_size
        elif kind == "sliding_attention" and getattr(text, "use_sliding_window", True) and \
                getattr(text, "sliding_window", None):
            windows[layer] = text.sliding_window
    return windows


def forms():
    """Arguments of save_pretrained for each form that this release knows."""
    return IN_MEMORY if MAJOR >= 5 else {"published": {}}


def text_model(model):
    """The part that answers: Llama 4's class with a tower fails with text alone."""
    inner = getattr(model, "language_model", model)
    return inner if hasattr(inner, "lm_head") else model


def examine(row, folder):
    architecture = getattr(transformers, row.architecture)
    config = architecture.config_class(**row.settings)
    text = config.get_text_config()
    for seed in range(1, SEEDS):
        model = draw(architecture, config, seed, torch.bfloat16, row.attention)
        for form, options in forms().items():
            model.save_pretrained(folder / form, **options)
        read = read_back(architecture, folder / "published", row.attention)
        rotary = rotary_of(read, row.unread)
        prompts = answered_prompts(text_model(read), seed, text.vocab_size)
        if prompts:
            break
    else:
        raise ValueError(f"no seed gave a margin of {MARGIN} on all prompts")
    for form in forms():
        (folder / form / "golden.json").write_text(json.dumps({"prompts": prompts}) + "\n")
    facts = {"architecture": row.architecture, "layers": text.num_hidden_layers,
             "parameters": parameters_of(architecture, config, row.unread),
             "tensors": {form: shapes_of(folder / form / "model.safetensors", row.unread)
                         for form in forms()},
             "rotary": rotary, "windows": windows_of(text)}
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", metavar="NAME", choices=ROWS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name, row in ROWS.items():
        if arguments.only and name not in arguments.only:
            continue
        if MAJOR < row.since or not hasattr(transformers, row.architecture):
            print(f"{name}\tnot in this release", flush=True)
            continue
        try:
            examine(row, arguments.folder / name)
            print(name, flush=True)
        except Exception as error:  # noqa: BLE001: after any error, the others are examined.
            traceback.print_exc()
            said = " ".join(str(error).split())
            print(f"{name}\t{type(error).__name__}: {said[:300]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
