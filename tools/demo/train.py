# SPDX-License-Identifier: Apache-2.0
"""Makes the demo model: writes the stories, trains tokenizer and model, saves everything."""

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

# Waiting threads sleep: without this, another busy program on the same cores stops the training.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import (  # noqa: E402
    Tokenizer, decoders, models, pre_tokenizers, processors, trainers
)

from corpus import stories  # noqa: E402
from model import Llama  # noqa: E402

BEGIN, END = "<|story|>", "<|end|>"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 3072,
    "hidden_size": 192,
    "intermediate_size": 560,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}
GENERATION = {
    "bos_token_id": 0,
    "eos_token_id": 1,
    "do_sample": True,
    "temperature": 0.6,
    "top_p": 0.95,
    "max_new_tokens": 400,
}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": BEGIN,
    "eos_token": END,
    "add_bos_token": True,
    "add_eos_token": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": CONFIG["max_position_embeddings"],
}
CHAT_TEMPLATE = """\
{#- The demo model tells stories and follows no instructions: a conversation is one story. The
    system's text begins the story, and both sides continue it. -#}
{{- bos_token -}}
{%- for message in messages -%}
  {%- if not loop.first %}{{ ' ' }}{% endif -%}
  {{- message.content | trim -}}
{%- endfor -%}
"""
# A row of a batch is one whole story, so no story ever sees another.
TOKENS_PER_BATCH = 4096


def train_tokenizer(texts):
    """Returns a byte-level BPE tokenizer that puts the begin token before a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, 0)]
    )
    return tokenizer


def encode(tokenizer, texts):
    """Returns each text as begin token, ids and end token."""
    return [encoding.ids + [CONFIG["eos_token_id"]] for encoding in tokenizer.encode_batch(texts)]


def make_batches(documents, seed):
    """Returns batches (ids, targets) of documents of similar length, in a seeded random order."""
    rng = random.Random(seed)
    documents = list(documents)
    rng.shuffle(documents)
    batches = []
    for start in range(0, len(documents), 1024):
        rows = []
        for document in sorted(documents[start:start + 1024], key=len):
            if (len(rows) + 1) * len(document) > TOKENS_PER_BATCH and rows:
                batches.append(rows)
                rows = []
            rows.append(document)
        batches.append(rows)
    rng.shuffle(batches)
    return batches


def to_tensors(rows):
    """Returns input ids and targets; the targets of the padding are -100."""
    length = max(len(row) for row in rows) - 1
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    targets = torch.full((len(rows), length), -100)
    for at, row in enumerate(rows):
        ids[at, :len(row) - 1] = torch.tensor(row[:-1])
        targets[at, :len(row) - 1] = torch.tensor(row[1:])
    return ids, targets


def loss_of(model, rows):
    """Returns the mean loss per token of a batch, in nats."""
    ids, targets = to_tensors(rows)
    keep = targets.view(-1) != -100
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.hidden(ids).flatten(0, 1)[keep]
        logits = F.linear(hidden, model.model.embed_tokens.weight)
    return F.cross_entropy(logits.float(), targets.view(-1)[keep])


@torch.no_grad()
def evaluate(model, batches):
    """Returns the mean loss per token over `batches`."""
    total = count = 0
    for rows in batches:
        tokens = sum(len(row) - 1 for row in rows)
        total += loss_of(model, rows).item() * tokens
        count += tokens
    return total / count


def make_optimizers(model, rate):
    """Returns Muon for the matrices of the layers, and AdamW for embedding and norms."""
    matrices = [weight for weight in model.model.layers.parameters() if weight.dim() == 2]
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    return [
        torch.optim.Muon(
            matrices, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def rate_at(progress, warm, floor=0.02):
    """Returns the share of the learning rate at `progress` (0 to 1): rise, then cosine."""
    if progress < warm:
        return progress / warm + 1e-3
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))


class Average:
    """A moving average of a model's weights. With it the model writes better than with the weights
    themselves."""

    def __init__(self, model):
        self.weights = {name: weight.clone() for name, weight in model.state_dict().items()}
        self.steps = 0

    @torch.no_grad()
    def update(self, model, most=0.98):
        self.steps += 1
        keep = min(most, self.steps / (self.steps + 4))
        for name, weight in model.state_dict().items():
            self.weights[name].lerp_(weight, 1 - keep)


def train(model, batches, held_out, args, save):
    """Trains for one pass over `batches`, or until the time is up; saves, returns the loss."""
    optimizers = make_optimizers(model, args.rate)
    average = Average(model)
    warm = 0.01 if args.resume else 0.03
    last = said = saved = time.time()
    running, elapsed = None, 0.0
    for step, rows in enumerate(batches):
        progress = max(step / len(batches), elapsed / (60 * args.minutes))
        if progress >= 1:
            break
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = args.rate * rate_at(progress, warm)
        loss = loss_of(model, rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        average.update(model)
        running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
        now = time.time()
        elapsed += min(now - last, 10.0)  # a step that takes longer was paused
        last = now
        if now - said > 15:
            said = now
            left = elapsed * (1 / max(progress, 1e-3) - 1)
            print(f"step {step + 1}/{len(batches)}  loss {running:.3f}  "
                  f"{elapsed:.0f} s  ETA {left / 60:.1f} min", flush=True)
        if now - saved > 60 * args.save_minutes:
            saved = now
            save(average.weights)
    save(average.weights)
    model.load_state_dict(average.weights)
    result = evaluate(model, held_out)
    print(f"done after {step + 1} steps, {elapsed / 60:.1f} min; "
          f"held-out loss {result:.4f} nats per token", flush=True)
    return result


def write_json(path, value):
    """Writes `value` as indented JSON."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def save_model(weights, tokenizer, out):
    """Writes the Hugging Face layout to the folder `out`, the weights in bfloat16."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: weight.detach().to(torch.bfloat16).contiguous()
        for name, weight in weights.items()
    }
    part = out / "model.safetensors.part"
    save_file(tensors, part, metadata={"format": "pt"})
    os.chmod(part, 0o644)
    os.replace(part, out / "model.safetensors")
    tokenizer.save(str(out / "tokenizer.json"))
    write_json(out / "config.json", CONFIG)
    write_json(out / "generation_config.json", GENERATION)
    write_json(out / "tokenizer_config.json", TOKENIZER)
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def main():
    """Runs all steps in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--stories", type=int, default=21000)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--minutes", type=float, default=25, help="time limit of the training")
    parser.add_argument("--save-minutes", type=float, default=3)
    parser.add_argument("--resume", type=Path, help="start from the weights in this folder")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    texts = list(stories(args.seed, args.stories))
    print(f"{len(texts)} stories, {sum(map(len, texts)) / 1e6:.1f} MB", flush=True)
    tokenizer = train_tokenizer(texts[:8000])
    documents = encode(tokenizer, texts)
    tokens = sum(map(len, documents))
    print(f"{tokens / 1e6:.2f} M tokens, {tokens / len(texts):.0f} per story", flush=True)
    held_out = make_batches(encode(tokenizer, list(stories(args.seed + 1, 300))), args.seed)
    model = Llama(CONFIG)
    if args.resume:
        saved = load_file(args.resume / "model.safetensors")
        model.load_state_dict({name: weight.float() for name, weight in saved.items()})
    count = sum(weight.numel() for weight in model.parameters())
    print(f"{count / 1e6:.2f} M parameters", flush=True)
    batches = make_batches(documents, args.seed + bool(args.resume))
    train(model, batches, held_out, args, lambda w: save_model(w, tokenizer, args.out))


if __name__ == "__main__":
    main()
