# SPDX-License-Identifier: Apache-2.0
"""Writes a model with a fixed script into the folder that the argument names: each token is always
followed by the same token. The model thinks, calls the tool add with 2 and 3, and names the sum
when it has a result. Without tools it names the sum at once. Its embeddings are the unit vectors,
its layer adds nothing, and its head has one large weight per row."""
import json
import struct
import sys
from pathlib import Path

CALL = ["<|call|>", "<think>", "Two", " numbers", " to add", "</think>", "<tool_call>",
        '{"name": "add", ', '"arguments": ', '{"a": 2, ', '"b": 3}}', "</tool_call>", "<|end|>"]
ANSWER = ["<|answer|>", "The", " sum", " is", " five.", "<|end|>"]
TEMPLATE = """\
{%- if tools %}<|tools|><tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>
Call one as <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.{% endif -%}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content or '' }}
  {%- for call in message.tool_calls or [] -%}
    <tool_call>{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
    {{- '</tool_call>' }}
  {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt -%}
  {{- '<|call|>' if tools and messages[-1].role == 'user' else '<|answer|>' }}
{%- endif %}
{#- Thoughts are written <think>...</think>. -#}"""
SIZE = 320  # The size of the vocabulary and of a token's vector.


def byte_letters() -> list[str]:
    """The letter of each byte in a vocabulary of GPT-2's kind."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]


def matrix(weights: dict[tuple[int, int], float]) -> bytes:
    values = [0.0] * (SIZE * SIZE)
    for (row, column), weight in weights.items():
        values[row * SIZE + column] = weight
    return struct.pack(f"<{len(values)}f", *values)


def weights(ids: dict[str, int]) -> dict[str, tuple[list[int], bytes]]:
    after = {row: ids["<|end|>"] for row in range(SIZE)}
    for script in (CALL, ANSWER):
        after |= {ids[one]: ids[next_one] for one, next_one in zip(script, script[1:])}
    square = [SIZE, SIZE]
    tensors = {"model.embed_tokens.weight": (square, matrix({(i, i): 1. for i in range(SIZE)})),
               "lm_head.weight": (square, matrix({(b, a): 10. for a, b in after.items()})),
               "model.norm.weight": ([SIZE], struct.pack(f"<{SIZE}f", *[1.] * SIZE))}
    layer = "model.layers.0."
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{layer}{norm}.weight"] = tensors["model.norm.weight"]
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        tensors[f"{layer}{name}.weight"] = (square, matrix({}))
    return tensors


def write(folder: Path) -> None:
    letters = byte_letters()
    words = list(dict.fromkeys(["<|end|>", *CALL, *ANSWER]))
    roles = [f"<|{role}|>" for role in ("tools", "system", "user", "assistant", "tool")]
    added = {word: 256 + i for i, word in enumerate(words + roles)}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": SIZE,
              "hidden_size": SIZE, "intermediate_size": SIZE, "num_hidden_layers": 1,
              "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 64,
              "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32",
              "eos_token_id": added["<|end|>"]}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": id, "content": word, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": word.startswith("<|")}
                         for word, id in added.items()],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "vocab": {letter: i for i, letter in enumerate(letters)},
                  "merges": []}}
    files = {"config.json": config, "tokenizer.json": tokenizer,
             "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast",
                                       "eos_token": "<|end|>", "model_max_length": 8192}}
    folder.mkdir(parents=True, exist_ok=True)
    for name, json_value in files.items():
        (folder / name).write_text(json.dumps(json_value))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    header, data = {}, b""
    for name, (shape, bytes_of) in weights(added).items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(bytes_of)]}
        data += bytes_of
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


write(Path(sys.argv[1]))
