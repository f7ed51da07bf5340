#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch with a Llama's shape on the first GPU. Prints one JSON object per line.

    tools/bench/torch_peer.py CONFIG.json [--cases prefill:512,decode:64,decode:32x64]
                              [--repeat 2] [--device cpu]

Weights are random, in bfloat16. A prompt is computed in one step, with
scaled_dot_product_attention. Decode steps are greedy, follow a prompt of one token, and replay a
CUDA graph of one step. The rates of a GPU are measured first: a copy within its memory (bytes read
and written) and a matrix product. If there is no PyTorch or no GPU, a line says so, and the exit
code is 3.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys
import time

try:
    import torch
    from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu
except ImportError:
    print("PyTorch is not installed")
    sys.exit(3)


def seconds(device, call):
    """The time of one call, including everything that it queues."""
    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()
    wait()
    begin = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - begin


class Llama:
    """Keys and values of `batch` sequences of at most `length` positions."""

    def __init__(self, config, weights, batch, length, device):
        self.config, self.weights, self.device = config, weights, device
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.dim = config["hidden_size"] // self.heads
        shape = (config["num_hidden_layers"], 2, batch, self.kv_heads, length, self.dim)
        self.kept = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        frequencies = config["rope_theta"] ** (-torch.arange(0, self.dim, 2) / self.dim)
        angles = torch.outer(torch.arange(length).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.cos = angles.cos().bfloat16().to(device)
        self.sin = angles.sin().bfloat16().to(device)
        self.places = torch.arange(length, device=device)

    def turn(self, x, positions):
        low, high = x.chunk(2, dim=-1)
        return x * self.cos[positions] + torch.cat((-high, low), dim=-1) * self.sin[positions]

    def attend(self, x, layer, kept, positions, mask):
        batch, rows, _ = x.shape
        qkv = linear(x, layer["qkv"]).view(batch, rows, -1, self.dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        kept[0].index_copy_(2, positions, self.turn(k, positions))
        kept[1].index_copy_(2, positions, v)
        last = slice(0, rows) if mask is None else slice(None)
        found = scaled_dot_product_attention(self.turn(q, positions), kept[0][:, :, last],
                                             kept[1][:, :, last], attn_mask=mask,
                                             is_causal=mask is None, enable_gqa=True)
        return linear(found.transpose(1, 2).reshape(batch, rows, -1), layer["o"])

    def next(self, tokens, positions):
        """The best tokens after `tokens` [batch, rows]; a whole prompt, or one row at the end."""
        width, eps = (self.config["hidden_size"],), self.config["rms_norm_eps"]
        mask = None
        if tokens.shape[1] == 1:
            mask = (self.places <= positions)[None, None, None, :]
        x = self.weights["embed"][tokens]
        for layer, kept in zip(self.weights["layers"], self.kept, strict=True):
            x = x + self.attend(rms_norm(x, width, layer["norm"], eps), layer, kept, positions,
                                mask)
            gate, up = linear(rms_norm(x, width, layer["norm"], eps), layer["gate_up"]).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer["down"])
        x = rms_norm(x[:, -1], width, self.weights["norm"], eps)
        return linear(x, self.weights["head"]).argmax(-1, keepdim=True)


def draw_weights(config, device):
    width, inner, vocab = (config[key] for key in
                           ("hidden_size", "intermediate_size", "vocab_size"))
    kv_width = width // config["num_attention_heads"] * config["num_key_value_heads"]

    def draw(rows, cols):
        return torch.empty(rows, cols, dtype=torch.bfloat16, device=device).normal_(0, 0.02)

    norm = torch.ones(width, dtype=torch.bfloat16, device=device)
    layers = [{"qkv": draw(width + 2 * kv_width, width), "o": draw(width, width), "norm": norm,
               "gate_up": draw(2 * inner, width), "down": draw(width, inner)}
              for _ in range(config["num_hidden_layers"])]
    return {"embed": draw(vocab, width), "head": draw(vocab, width), "norm": norm, "layers": layers}


def prefill(config, weights, rows, batch, device):
    model = Llama(config, weights, batch, rows, device)
    tokens = torch.randint(config["vocab_size"], (batch, rows), device=device)
    return lambda: model.next(tokens, model.places)


def decode(config, weights, steps, batch, device):
    model = Llama(config, weights, batch, steps + 2, device)
    tokens = torch.zeros(batch, 1, dtype=torch.int64, device=device)
    position = torch.zeros(1, dtype=torch.int64, device=device)

    def step():
        tokens.copy_(model.next(tokens, position))
        position.add_(1)

    one = step
    if device.type == "cuda":
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        one = graph.replay

    def run():
        position.zero_()
        for _ in range(steps):
            one()
    return run


def print_limits(device):
    a, b = torch.randn(2, 1 << 28, device=device).bfloat16()
    best = min(seconds(device, lambda: b.copy_(a)) for _ in range(10))
    print(json.dumps({"limit": "copy within the GPU", "rate": 4 * a.numel() / best / 1e9,
                      "unit": "GB/s"}))
    a, b = torch.randn(2, 8192, 8192, device=device).bfloat16()
    times = [seconds(device, lambda: [a @ b for _ in range(10)]) / 10 for _ in range(4)]
    print(json.dumps({"limit": "8192 x 8192 x 8192 bf16 product", "unit": "TFLOP/s",
                      "rate": 2 * 8192**3 / statistics.median(times) / 1e12}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("--cases", default="prefill:512,decode:64,decode:32x64")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    flags = parser.parse_args()
    if flags.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU")
        return 3
    device = torch.device(flags.device)
    config = json.loads(flags.config.read_text())
    with torch.inference_mode():
        if device.type == "cuda":
            print_limits(device)
        weights = draw_weights(config, device)
        for case in flags.cases.split(","):
            kind, count, _, batch = re.fullmatch(r"(\w+):(\d+)(x(\d+))?", case).groups()
            count, batch = int(count), int(batch or 1)
            make = {"prefill": prefill, "decode": decode}[kind]
            run = make(config, weights, count, batch, device)
            run()
            times = [seconds(device, run) for _ in range(flags.repeat)]
            print(json.dumps({"case": case, "tokens_per_s": count * batch /
                              statistics.median(times), "seconds": times}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
