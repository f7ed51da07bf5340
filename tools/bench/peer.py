# SPDX-License-Identifier: Apache-2.0
"""llama.cpp with the interface of `lockstep bench --cases - --json`: peer.py GGUF THREADS. Prints a
line about itself first; then, for each case read from standard input, a line with its seconds. Only
llama_decode is timed, as in llama-bench: no sampling, no tokenizer; batches are made beforehand.
"""

import ctypes
import json
import sys
import time

import llama_cpp as api

from memory import pss_bytes
from shapes import Case, parse_case

CHUNK = 512  # Prompt tokens per call, llama.cpp's own n_ubatch.


class Batch:
    """A llama_batch of rows (token, position, sequence); logits of all rows or of the last one."""

    def __init__(self, rows: list[tuple[int, int, int]], all_logits: bool):
        self.native = api.llama_batch_init(len(rows), 0, 1)
        self.native.n_tokens = len(rows)
        for i, (token, position, sequence) in enumerate(rows):
            self.native.token[i] = token
            self.native.pos[i] = position
            self.native.n_seq_id[i] = 1
            self.native.seq_id[i][0] = sequence
            self.native.logits[i] = all_logits or i == len(rows) - 1

    def run(self, context) -> None:
        if api.llama_decode(context, self.native) != 0:
            raise RuntimeError("llama_decode failed")

    def free(self) -> None:
        api.llama_batch_free(self.native)


class Peer:
    """A loaded model, and a context for each kind of case."""

    def __init__(self, path: str, threads: int):
        self.threads = threads
        params = api.llama_model_default_params()
        params.load_mode = api.LLAMA_LOAD_MODE_NONE  # Pages of a mapped file may be evicted.
        self.model = api.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self.vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.contexts: dict[str, ctypes.c_void_p] = {}

    def token(self, i: int) -> int:
        return 7919 * (i + 1) % self.vocab

    def open_context(self, case: Case):
        """Computes the case's prompts, if decode steps follow."""
        params = api.llama_context_default_params()
        params.n_ctx = case.batch * (case.prompt + case.steps + 256)
        params.n_batch = max(CHUNK, case.prompt)
        params.n_ubatch = CHUNK
        params.n_seq_max = case.batch
        params.n_threads = params.n_threads_batch = self.threads
        params.no_perf = True
        context = api.llama_init_from_model(self.model, params)
        if not context:
            raise RuntimeError(f"llama.cpp has no context for {case.name}")
        if case.steps:
            self.prefill(context, case)
        return context

    def prefill(self, context, case: Case) -> float:
        """The seconds for all prompts."""
        rows = [
            [(self.token(i), i, sequence) for i in range(case.prompt)]
            for sequence in range(case.batch)
        ]
        batches = [Batch(one, all_logits=False) for one in rows]
        return self.timed(context, batches)

    def timed(self, context, batches: list[Batch]) -> float:
        start = time.perf_counter()
        for batch in batches:
            batch.run(context)
        api.llama_synchronize(context)
        seconds = time.perf_counter() - start
        for batch in batches:
            batch.free()
        return seconds

    def run(self, case: Case) -> float:
        if case.name not in self.contexts:
            self.contexts[case.name] = self.open_context(case)
        context = self.contexts[case.name]
        memory = api.llama_get_memory(context)
        if not case.steps:
            api.llama_memory_clear(memory, False)
            return self.prefill(context, case)
        api.llama_memory_seq_rm(memory, -1, case.prompt, -1)
        steps = [
            [(self.token(step + sequence), case.prompt + step, sequence)
             for sequence in range(case.batch)]
            for step in range(case.steps)
        ]
        return self.timed(context, [Batch(rows, all_logits=True) for rows in steps])


@api.llama_log_callback
def only_errors(level: int, text: bytes, _) -> None:
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        sys.stderr.write(text.decode(errors="replace"))


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    api.llama_log_set(only_errors, ctypes.c_void_p())
    api.llama_backend_init()
    before = pss_bytes(["self"])
    peer = Peer(path, threads)
    about = {
        "version": f"llama-cpp-python {api.__version__}",
        "system": api.llama_print_system_info().decode(),
        "weight_bytes": api.llama_model_size(peer.model),
        "own_bytes": before,
    }
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        case = parse_case(line.strip())
        seconds = peer.run(case)
        print(json.dumps({"case": case.name, "tokens": case.tokens, "seconds": [seconds]}),
              flush=True)


if __name__ == "__main__":
    main()
