#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference model in this folder, as tools/make_golden.py does.

The first Qwen is not in transformers. Its maths are those of Qwen2 except two formulas of Qwen-7B's
published modeling_qwen.py, which this script adds to Qwen2. The rotary base depends on the prompt's
length (get_ntk_alpha). A query is multiplied by the logarithm of position + 1 to the base
seq_length, if this is more than 1 (logn_list); positions count from 0.
"""
import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2 import modeling_qwen2

FOLDER = pathlib.Path(__file__).parent
sys.path.append(str(FOLDER.parents[3] / "tools"))
from make_golden import answered_prompts  # noqa: E402

OWN = json.loads((FOLDER / "config.json").read_text())
DIM, TRAINED = OWN["kv_channels"], OWN["seq_length"]
plain_attention = modeling_qwen2.eager_attention_forward


def scaled_attention(module, query, *args, **kwargs):
    scales = [max(1.0, math.log(i + 1, TRAINED)) for i in range(query.shape[2])]
    return plain_attention(module, query * torch.tensor(scales)[:, None], *args, **kwargs)


def turn_for(model, prompt):
    alpha = max(1, 2 ** math.ceil(math.log(prompt / TRAINED, 2) + 1) - 1)
    base = OWN["rotary_emb_base"] * alpha ** (DIM / (DIM - 2))
    model.model.rotary_emb.inv_freq = 1 / base ** (torch.arange(0, DIM, 2).float() / DIM)


def draw(seed):
    """The model, and its tensors in bfloat16 under the published names."""
    torch.manual_seed(seed)
    width = OWN["intermediate_size"] // 2
    config = Qwen2Config(
        vocab_size=OWN["vocab_size"], hidden_size=OWN["hidden_size"], intermediate_size=width,
        num_hidden_layers=OWN["num_hidden_layers"],
        num_attention_heads=OWN["num_attention_heads"],
        num_key_value_heads=OWN["num_attention_heads"],
        rms_norm_eps=OWN["layer_norm_epsilon"], tie_word_embeddings=False,
        attn_implementation="eager")
    model = Qwen2ForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        vector = parameter.dim() == 1
        norm = vector and name.endswith("norm.weight")
        scale = 0.1 if vector else 1.5 / parameter.shape[-1] ** 0.5
        torch.nn.init.normal_(parameter, 1 if norm else 0, scale)
        parameter.data = parameter.data.to(torch.bfloat16).float()
    own = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    tensors = {"transformer.wte.weight": own["model.embed_tokens.weight"],
               "transformer.ln_f.weight": own["model.norm.weight"],
               "lm_head.weight": own["lm_head.weight"]}
    for i in range(OWN["num_hidden_layers"]):
        theirs, ours = f"model.layers.{i}.", f"transformer.h.{i}."
        for kind in ("weight", "bias"):
            qkv = [own[f"{theirs}self_attn.{part}_proj.{kind}"] for part in "qkv"]
            tensors[f"{ours}attn.c_attn.{kind}"] = torch.cat(qkv)
        for name, other in (("attn.c_proj", "self_attn.o_proj"), ("mlp.w1", "mlp.up_proj"),
                            ("mlp.w2", "mlp.gate_proj"), ("mlp.c_proj", "mlp.down_proj"),
                            ("ln_1", "input_layernorm"), ("ln_2", "post_attention_layernorm")):
            tensors[f"{ours}{name}.weight"] = own[f"{theirs}{other}.weight"]
    return model, tensors


def main():
    modeling_qwen2.eager_attention_forward = scaled_attention
    for seed in range(1, 500):
        model, tensors = draw(seed)
        prompts = answered_prompts(model, seed, OWN["vocab_size"],
                                   lambda length, model=model: turn_for(model, length))
        if prompts:
            break
    save_file(tensors, FOLDER / "model.safetensors", {"format": "pt"})
    golden = {"reference": "Qwen2 of transformers 5.23.0 with Qwen-7B's two formulas: reference.py",
              "seed": seed, "architecture": OWN["architectures"][0], "compute_dtype": "float32",
              "prompts": prompts}
    (FOLDER / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"seed {seed}")


if __name__ == "__main__":
    main()
