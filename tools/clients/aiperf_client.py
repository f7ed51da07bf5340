# SPDX-License-Identifier: Apache-2.0
"""Runs aiperf against a server; the arguments are its URL and the folder of a tokenizer. aiperf
sends 20 requests to each API, whole and streamed, and uses the server's count of tokens."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

REQUESTS = 20
PROGRAM = Path(sys.executable).with_name("aiperf")


def profile(url: str, tokenizer: str, api: str, *flags: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PROGRAM, "profile", "--model", "demo", "--url", url, "--endpoint-type", api,
                        "--tokenizer", tokenizer, "--concurrency", "4", "--request-count",
                        str(REQUESTS), "--prompt-input-tokens-mean", "32",
                        "--prompt-output-tokens-mean", "16", "--extra-inputs", "ignore_eos:true",
                        "--extra-inputs", "min_tokens:16", "--ui", "none", "--no-gpu-telemetry",
                        "--output-artifact-dir", folder, *flags], check=True)
        return json.loads((Path(folder) / "profile_export_aiperf.json").read_text())


def check(api: str, *flags: str) -> str:
    report = profile(*sys.argv[1:], api, *flags)
    assert report["request_count"]["avg"] == REQUESTS and not report.get("error_summary"), report
    # aiperf tokenizes the text again and may find other tokens.
    assert abs(report["output_sequence_length"]["avg"] - 16) < 1, report["output_sequence_length"]
    return f"{api} {report['request_throughput']['avg']:.0f}/s"


print(", ".join([check("chat", "--streaming"), check("chat"),
                 check("chat", "--streaming", "--use-server-token-count", "--per-chunk-usage"),
                 check("completions", "--streaming"), check("completions"),
                 check("responses", "--streaming")]))
