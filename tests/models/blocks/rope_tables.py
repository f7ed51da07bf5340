# SPDX-License-Identifier: Apache-2.0
# Prints the tables of rope_test.cc as transformers 5 computes them:
# python rope_tables.py > rope_tables.inc
import copy
import json

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

BASE = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 4096}
CASES = {
    "default": {"rope_theta": 500000.0},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "llama3": {"rope_theta": 500000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024}},
    "llama3_narrow": {"head_dim": 32, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 32.0, "low_freq_factor": 2.0,
        "high_freq_factor": 3.0, "original_max_position_embeddings": 8192}},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                              "original_max_position_embeddings": 1024}},
    "yarn_mscale": {"head_dim": 32, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 40.0, "mscale": 1.0,
        "mscale_all_dim": 0.7, "beta_fast": 16, "beta_slow": 2,
        "original_max_position_embeddings": 2048}},
    "yarn_untruncated": {"head_dim": 32, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "attention_factor": 0.75,
        "truncate": False, "original_max_position_embeddings": 512}},
    "yarn_implied_factor": {"original_max_position_embeddings": 1024, "rope_scaling": {
        "rope_type": "yarn", "factor": None}},
    "longrope": {"head_dim": 8, "original_max_position_embeddings": 1024, "rope_scaling": {
        "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.25, 1.6],
        "long_factor": [1.35, 2.1, 4.3, 9.5]}},
    "longrope_factors": {"head_dim": 4, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 50000.0, "short_factor": [1, 1.5],
        "long_factor": [2, 3.5], "factor": 32.0, "original_max_position_embeddings": 2048}},
}


def table(keys):
    config = LlamaConfig(**BASE, **keys)
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        dim = config.head_dim
        theta = config.rope_parameters["rope_theta"]
        return 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)), 1.0
    frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config)
    if kind == "longrope":
        longer, _ = ROPE_INIT_FUNCTIONS[kind](config, seq_len=4096)
        frequencies = torch.cat((frequencies, longer))
    return frequencies, factor


if __name__ == "__main__":
    print("// Made by tests/models/blocks/rope_tables.py.")
    for name, keys in CASES.items():
        frequencies, factor = table(copy.deepcopy(keys))
        numbers = ", ".join(f"{value:.9g}" for value in frequencies.tolist())
        print(f'{{"{name}", R"({json.dumps({**BASE, **keys})})",\n {{{numbers}}}, {factor:.9g}}},')
    config = LlamaConfig(**BASE, **copy.deepcopy(CASES["dynamic"]))
    frequencies, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, seq_len=8192)
    print("// dynamic at length 8192: " + ", ".join(f"{v:.9g}" for v in frequencies.tolist()))
