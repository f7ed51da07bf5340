# SPDX-License-Identifier: Apache-2.0
"""An artificial vocabulary of any size, which two programs read in the same way: every byte is a
token, and no two tokens merge, so a text has the same number of tokens in both."""

SPECIAL = ("<unk>", "<s>", "</s>")


def pieces(size: int) -> list[str]:
    """The tokens' texts in the order of their ids: special ones, bytes, and words that no merge of
    two shorter ones produces."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    words = [f"word-{number}\u2581" for number in range(size - len(SPECIAL) - len(bytes_))]
    return [*SPECIAL, *bytes_, *words]


def tokenizer(size: int) -> dict:
    """The same as a tokenizer.json."""
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": text, "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}
            for i, text in enumerate(SPECIAL)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
            "vocab": {text: i for i, text in enumerate(pieces(size))}, "merges": [],
        },
    }
