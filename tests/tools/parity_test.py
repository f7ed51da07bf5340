#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests with every field of docs/http.md's tables, sent with curl and, if gRPC has the field,
with grpcio: the answers are the same.

    tests/tools/parity_test.py LOCKSTEP SOURCE

Exits with 77, which ctest counts as skipped, if curl, protoc or Python's grpcio are missing.
"""
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import grpc
except ImportError:
    grpc = None
if grpc is None or not shutil.which("curl") or not shutil.which("protoc"):
    print("parity_test: skipped: needs curl, protoc and Python's grpcio")
    sys.exit(77)

LOCKSTEP, SOURCE = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tests/support"))
from serve import Server  # noqa: E402

messages = tempfile.TemporaryDirectory()
subprocess.run(["protoc", "-I", SOURCE / "proto", f"--python_out={messages.name}",
                SOURCE / "proto/generate.proto"], check=True)
sys.path.insert(0, messages.name)
import generate_pb2 as api  # noqa: E402

ENDPOINTS = ("completions", "chat/completions", "responses")
PROMPT = "Once upon a time"
TALK = [{"role": "user", "content": PROMPT}]
SAMPLING = {"seed": 3, "max_tokens": 12, "temperature": 1.0, "top_p": 1.0}
FUNCTION = {"name": "add", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
DOCUMENT = {"title": "a", "text": "b"}

# A valid value of each HTTP field, and the fields of gRPC's request that it sets, or {}. The key
# "field@endpoint" overrides the key "field" for that endpoint.
TAKEN = {
    "model": ("demo", {}),
    "prompt": (PROMPT, {"prompt": PROMPT}),
    "messages": (TALK, {}),
    "input": (PROMPT, {}),
    "instructions": ("Be brief.", {"system": "Be brief."}),
    "tools": ([TOOL], {"tools": [TOOL]}),
    "tools@responses": ([{"type": "function", **FUNCTION}], {"tools": [TOOL]}),
    "tool_choice": ("none", {}),
    "parallel_tool_calls": (False, {}),
    "documents": ([DOCUMENT], {"documents": [DOCUMENT]}),
    "add_generation_prompt": (False, {"add_generation_prompt": False}),
    "continue_final_message": (True, {"continue_final_message": True}),
    "chat_template_kwargs": ({"enable_thinking": True}, {}),
    "reasoning_effort": ("low", {}),
    "reasoning": ({"effort": "low"}, {}),
    "max_tokens": (5, {"max_tokens": 5}),
    "max_completion_tokens": (5, {"max_tokens": 5}),
    "max_output_tokens": (5, {"max_tokens": 5}),
    "min_tokens": (3, {"min_tokens": 3}),
    "temperature": (0.5, {"temperature": 0.5}),
    "top_p": (0.5, {"top_p": 0.5}),
    "top_k": (2, {"top_k": 2}),
    "min_p": (0.25, {"min_p": 0.25}),
    "repetition_penalty": (1.5, {"repetition_penalty": 1.5}),
    "presence_penalty": (1.5, {"presence_penalty": 1.5}),
    "frequency_penalty": (1.5, {"frequency_penalty": 1.5}),
    "logit_bias": ({"300": 50}, {"logit_bias": {300: 50}}),
    "seed": (9, {"seed": 9}),
    "stop": ([" a"], {"stop": [" a"]}),
    "stop_token_ids": ([300, 301], {"stop_ids": [300, 301]}),
    "ignore_eos": (True, {"ignore_eos": True}),
    "stream": (True, {}),
    "resumable": (True, {"resumable": True}),
    "stream_options": ({"include_usage": True}, {}),
    "logprobs": (2, {"logprobs": 2}),
    "logprobs@chat/completions": (True, {"logprobs": 0}),
    "top_logprobs": (2, {"logprobs": 2}),
    "top_logprobs@responses": (2, {}),
    "logprob_token_ids": ([300, 5], {"logprobs": 0, "logprob_ids": [300, 5]}),
    "return_token_ids": (True, {"return_prompt_ids": True}),
    "return_tokens_as_token_ids": (True, {}),
    "allowed_token_ids": ([300, 301, 302], {"allowed_ids": [300, 301, 302]}),
    "bad_words": (["was"], {"bad_words": ["was"]}),
    "add_special_tokens": (False, {"add_special": False}),
    "truncate_prompt_tokens": (3, {"truncate_prompt_tokens": 3}),
    "truncation_side": ("right", {"truncate_prompt_tokens": 3, "truncation_side": "right"}),
    "n": (3, {"n": 3}),
    "best_of": (3, {"n": 3}),
    "echo": (True, {"logprobs": 2, "prompt_logprobs": 2}),
    "echo@chat/completions": (True, {}),  # The last message is the user's.
    "prompt_logprobs": (2, {"prompt_logprobs": 2}),
    "text": ({"format": {"type": "text"}}, {}),
    "priority": (-2, {"priority": -2}),
    "cache_salt": ("sea", {"cache_salt": "sea"}),
    "n_predict": (5, {"max_tokens": 5}),
    "max_new_tokens": (5, {"max_tokens": 5}),
    "repeat_penalty": (1.5, {"repetition_penalty": 1.5}),
    "include_reasoning": (False, {}),
    "include": (["message.output_text.logprobs"], {}),
    "skip_special_tokens": (True, {}),
}
# For each field, the other fields that a request with it needs.
BESIDE = {"resumable": {"stream": True}, "stream_options": {"stream": True},
          "top_logprobs": {"logprobs": True}, "top_logprobs@responses": {},
          "echo@completions": {"logprobs": 2},
          "truncation_side": {"truncate_prompt_tokens": 3},
          "logprob_token_ids@completions": {"logprobs": 0},
          "logprob_token_ids@chat/completions": {"logprobs": True}}
# Values that must get status 400: WRONG for fields that are served with other values, REFUSED for
# every field in the page's tables of refused ones.
WRONG = {"text": {"format": {"type": "json_object"}}, "tool_choice": "required"}
REFUSED = {"thing": ["odd", 0.25]}


def table(kind: str) -> list[tuple[str, list[str], str]]:
    """The rows of a table of docs/http.md: field, endpoints that have it, and the next cell."""
    rows = []
    page = (SOURCE / "docs/http.md").read_text()
    for line in page.partition(f"### {kind}\n")[2].partition("\n#")[0].splitlines():
        row = re.match(r"\| `(\w+)` \|((?: (?:yes)? ?\|){4})([^|]*)\|", line)
        if row:
            marks = [mark.strip() for mark in row[2].split("|")]
            has = [name for name, mark in zip(ENDPOINTS, marks) if mark]
            rows.append((row[1], has, row[3].strip(" `")))
    assert rows, kind
    return rows


def single(value: float) -> float:
    """Rounds to float32."""
    return struct.unpack("f", struct.pack("f", value))[0]


class ParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        template = SOURCE / "tests/tools/stories_with_tools.jinja"
        cls.server = Server(LOCKSTEP, "--chat-template", str(template), "--tool-parser", "hermes",
                            "--lowest-priority", "-2")
        cls.channel = grpc.insecure_channel(cls.server.grpc_address)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        assert cls.server.close() == 0

    def curl(self, endpoint: str, body: dict) -> tuple[int, str]:
        done = subprocess.run(
            ["curl", "-s", "-w", "\n%{http_code}", "-H", "Content-Type: application/json", "-d",
             "@-", f"http://{self.server.address}/v1/{endpoint}"],
            input=json.dumps(body), capture_output=True, text=True, check=True)
        answer, _, status = done.stdout.rpartition("\n")
        return int(status), answer

    def body(self, endpoint: str, field: str, value) -> dict:
        body = dict(SAMPLING)
        if endpoint == "responses":
            body["max_output_tokens"] = body.pop("max_tokens")
        body["messages" if "chat" in endpoint else "input" if endpoint == "responses"
             else "prompt"] = TALK if "chat" in endpoint else PROMPT
        if "max_tokens" in TAKEN.get(field, (None, {}))[1]:  # Not two names of one field.
            body.pop("max_tokens", None)
            body.pop("max_output_tokens", None)
        beside = BESIDE.get(f"{field}@{endpoint}", BESIDE.get(field, {}))
        return {**body, **beside, field: value}

    def choices(self, answer: dict) -> list[dict]:
        """The text and the log-probabilities of chosen tokens of every choice."""
        if "output" in answer:
            return [{"text": answer["output"][0]["content"][0]["text"], "logprobs": None}]
        found = []
        for choice in answer["choices"]:
            logprobs = choice["logprobs"]
            if logprobs:
                logprobs = (logprobs["token_logprobs"] if "token_logprobs" in logprobs
                            else [token["logprob"] for token in logprobs["content"]])
            text = choice["text"] if "text" in choice else choice["message"]["content"]
            found.append({"text": text, "logprobs": logprobs})
        return found

    def streamed(self, endpoint: str, events: str) -> list[dict]:
        text = ""
        for line in events.splitlines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[len("data: "):])
            if endpoint == "responses":
                text += event["delta"] if event["type"] == "response.output_text.delta" else ""
            for choice in event.get("choices", []):
                text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        return [{"text": text, "logprobs": None}]

    def by_grpc(self, endpoint: str, fields: dict) -> list[dict]:
        request = api.GenerateRequest()
        fields = {**SAMPLING, **fields}
        if endpoint != "completions":
            system = fields.pop("system", None)
            if system:
                request.chat.messages.add(role="system", content=system)
            request.chat.messages.add(role="user", content=PROMPT)
            for name in ("tools", "documents"):
                getattr(request.chat, name).extend(map(json.dumps, fields.pop(name, [])))
            for name in ("add_generation_prompt", "continue_final_message"):
                if name in fields:
                    setattr(request.chat, name, fields.pop(name))
        else:
            request.prompt = PROMPT
        request.MergeFrom(api.GenerateRequest(**fields))
        generate = self.channel.unary_stream(
            "/lockstep.v1.Generation/Generate",
            request_serializer=api.GenerateRequest.SerializeToString,
            response_deserializer=api.GenerateResponse.FromString)
        found = [{"text": "", "logprobs": [] if "logprobs" in fields else None}
                 for _ in range(fields.get("n", 1))]
        for event in generate(request):
            found[event.index]["text"] += event.text
            if "logprobs" in fields:
                found[event.index]["logprobs"] += [
                    each.chosen.logprob for each in [*event.prompt_logprobs, *event.logprobs]]
        return found

    def test_every_served_field_has_the_same_effect_in_both_apis(self):
        for field, endpoints, _ in table("Served"):
            for endpoint in endpoints:
                value, fields = TAKEN.get(f"{field}@{endpoint}") or TAKEN[field]
                with self.subTest(f"{field} of {endpoint}"):
                    status, answer = self.curl(endpoint, self.body(endpoint, field, value))
                    self.assertEqual(status, 200, answer)
                    is_stream = self.body(endpoint, field, value).get("stream")
                    found = (self.streamed(endpoint, answer) if is_stream
                             else self.choices(json.loads(answer)))
                    self.compare(field, found, self.by_grpc(endpoint, fields))

    def compare(self, field: str, found: list[dict], wanted: list[dict]) -> None:
        if field == "best_of":
            self.assertIn(found[0]["text"], [choice["text"] for choice in wanted])
            return
        if field == "echo" and wanted[0]["logprobs"] is not None:
            wanted[0]["text"] = PROMPT + wanted[0]["text"]
        self.assertEqual([choice["text"] for choice in found],
                         [choice["text"] for choice in wanted])
        for one, other in zip(found, wanted):
            if other["logprobs"] is not None:
                # For a prompt's first token HTTP has null, gRPC has 0.
                self.assertEqual([single(value or 0) for value in one["logprobs"]],
                                 other["logprobs"])

    def expect_400(self, endpoint: str, field: str, value) -> None:
        with self.subTest(f"{field} of {endpoint}"):
            status, answer = self.curl(endpoint, self.body(endpoint, field, value))
            self.assertEqual(status, 400, answer)
            error = json.loads(answer)["error"]
            self.assertEqual(error["param"].split(".")[0], field)
            self.assertEqual(set(error), {"message", "type", "param", "code"})

    def test_refused_fields_are_400_and_named(self):
        for field, endpoints, neutral in table("Refused"):
            for endpoint in endpoints:
                self.expect_400(endpoint, field, REFUSED)
                for value in json.loads(f"[{neutral}]"):
                    status, answer = self.curl(endpoint, self.body(endpoint, field, value))
                    self.assertEqual(status, 200, answer)
        for field, endpoints, _ in table("Served"):
            for endpoint in endpoints if field in WRONG else ():
                self.expect_400(endpoint, field, WRONG[field])

    def test_harmless_fields_change_nothing(self):
        for endpoint in ENDPOINTS:
            plain = self.curl(endpoint, self.body(endpoint, "seed", 3))[1]
            for field, endpoints, _ in table("Harmless"):
                with self.subTest(f"{field} of {endpoint}"):
                    if endpoint in endpoints:
                        status, answer = self.curl(endpoint, self.body(endpoint, field, REFUSED))
                        self.assertEqual(status, 200, answer)
                        self.assertEqual(self.choices(json.loads(answer)),
                                         self.choices(json.loads(plain)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
