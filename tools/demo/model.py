# SPDX-License-Identifier: Apache-2.0
"""A plain PyTorch Llama whose parameters carry the names of the published checkpoints."""

import torch
import torch.nn.functional as F
from torch import nn


def rope_tables(length, dim, theta):
    """Returns the cosines and sines of rotary positions, each of shape [length, dim]."""
    inverse = theta ** (-torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(length).float(), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Returns `x` [batch, heads, length, dim] rotated by its position, pairs (i, i + dim/2)."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention in which several query heads share one key and value head."""

    def __init__(self, config):
        super().__init__()
        hidden, self.dim = config["hidden_size"], config["head_dim"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = nn.Linear(hidden, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def split(y, heads):
            return y.view(batch, length, heads, self.dim).transpose(1, 2)

        query = rotate(split(self.q_proj(x), self.heads), cos, sin)
        key = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        value = split(self.v_proj(x), self.kv_heads)
        group = self.heads // self.kv_heads
        key = key.repeat_interleave(group, dim=1)
        value = value.repeat_interleave(group, dim=1)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Module):
    """The SiLU gated feed-forward part of a layer."""

    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One transformer layer: attention and MLP, each after its norm and added to its input."""

    def __init__(self, config):
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = Attention(config)
        self.mlp = GatedMlp(config)
        self.input_layernorm = nn.RMSNorm(hidden, eps)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The embedding, the layers and the last norm."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(config["hidden_size"], config["rms_norm_eps"])


class Llama(nn.Module):
    """The language model; its output layer is the embedding."""

    def __init__(self, config):
        super().__init__()
        self.model = Decoder(config)
        tables = rope_tables(
            config["max_position_embeddings"], config["head_dim"], config["rope_theta"]
        )
        self.register_buffer("cos", tables[0], persistent=False)
        self.register_buffer("sin", tables[1], persistent=False)
        self._initialise(config)

    def _initialise(self, config):
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            std = 0.02 if "embed" in name else config["hidden_size"] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                std *= 0.5 * config["num_hidden_layers"] ** -0.5
            nn.init.normal_(weight, std=std)

    def hidden(self, ids):
        """Returns the hidden states [batch, length, hidden] after the last norm."""
        length = ids.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def forward(self, ids):
        """Returns the logits [batch, length, vocabulary]."""
        return F.linear(self.hidden(ids), self.model.embed_tokens.weight)
