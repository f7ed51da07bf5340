#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official openai client against a server with the demo model.

Exits with 77 if the client is not installed.
"""
import json
import os
import signal
import sys
import threading
import time
import unittest
import urllib.request
from pathlib import Path

try:
    import openai
    import pydantic
except ImportError:
    print("openai is not installed: skipped")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from serve import Server  # noqa: E402

LOCKSTEP = sys.argv[1]
STORY = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 20, "seed": 1}
TALK = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Once upon a time"}],
    "max_tokens": 20,
    "seed": 1,
}


def signal_children(pid: int, number: signal.Signals) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for of_thread in lists for child in of_thread.read_text().split()]
    for child in children:
        os.kill(child, number)
    return children


class OpenAiClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LOCKSTEP)
        cls.client = openai.OpenAI(base_url=f"http://{cls.server.address}/v1", api_key="none",
                                   max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-4o")

    def test_a_completion_whole_and_streamed(self):
        whole = self.client.completions.create(**STORY, logprobs=2)
        self.assertEqual(whole.usage.completion_tokens, 20)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.assertEqual(len(whole.choices[0].logprobs.tokens), 20)
        text = ""
        usage = None
        for chunk in self.client.completions.create(
                **STORY, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            text += "".join(choice.text for choice in chunk.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(usage.total_tokens, whole.usage.total_tokens)

    def test_a_stream_that_is_cut_can_be_resumed(self):
        whole = self.client.completions.create(**STORY).choices[0].text
        stream = self.client.completions.create(
            **STORY, stream=True, extra_body={"resumable": True},
            extra_headers={"X-Request-Id": "cut"})
        text = ""
        for _ in range(5):
            text += next(stream).choices[0].text
        stream.close()
        with urllib.request.urlopen(
                f"http://{self.server.address}/v1/streams/cut?from=5") as rest:
            for line in rest:
                if line.startswith(b"data: {"):
                    text += json.loads(line[6:])["choices"][0]["text"]
        self.assertEqual(text, whole)

    def test_idle_streams_continue(self):
        with Server(LOCKSTEP, "--silent-ms", "600000", "--stuck-ms", "600000") as server:
            client = openai.OpenAI(base_url=f"http://{server.address}/v1", api_key="none",
                                   max_retries=0)
            story = STORY | {"max_tokens": 200}
            whole = client.completions.create(**story).choices[0].text
            streams = [client.completions.create(**story, stream=True,
                                                 extra_body={"resumable": resumable})
                       for resumable in (False, True)]
            texts = [next(stream).choices[0].text for stream in streams]
            beside = urllib.request.urlopen(urllib.request.Request(
                f"http://{server.address}/v1/completions", json.dumps(story | {"stream": True})
                .encode(), {"Content-Type": "application/json"}))
            beside.readline()
            stopped = signal_children(server.process.pid, signal.SIGSTOP)

            def go_on():
                while beside.readline() != b"\n" or beside.readline() != b"\n":
                    pass  # Reads until the server sends an empty line to keep the stream alive.
                time.sleep(2)  # Meanwhile the other streams get such a line, too.
                signal_children(server.process.pid, signal.SIGCONT)

            waker = threading.Thread(target=go_on)
            waker.start()
            for i, stream in enumerate(streams):
                texts[i] += "".join(choice.text for chunk in stream for choice in chunk.choices)
            waker.join()
            beside.close()
            self.assertEqual(len(stopped), 2)
            self.assertEqual(texts, [whole, whole])

    def test_a_chat_whole_and_streamed(self):
        whole = self.client.chat.completions.create(**TALK, n=2, logprobs=True, top_logprobs=1)
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual(len(whole.choices[1].logprobs.content), 20)
        texts = ["", ""]
        for chunk in self.client.chat.completions.create(**TALK, n=2, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])

    def test_the_clients_stream_helper(self):
        with self.client.chat.completions.stream(**TALK, stop=["e"]) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].finish_reason, "stop")

    def test_a_response_whole_and_streamed(self):
        ask = {"model": "demo", "input": "Once upon a time", "max_output_tokens": 20,
               "extra_body": {"seed": 1}}
        whole = self.client.responses.create(**ask)
        self.assertEqual(whole.status, "incomplete")
        text = ""
        for event in self.client.responses.create(**ask, stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
        self.assertEqual(text, whole.output_text)
        self.assertEqual(event.type, "response.incomplete")
        self.assertEqual(event.response.usage.output_tokens, 20)

    def test_a_stream_has_openais_shape(self):
        for create, ask in ((self.client.chat.completions.create, TALK),
                            (self.client.completions.create, STORY)):
            chunks = list(create(**ask, n=2, stream=True))
            self.assertTrue(all(len(chunk.choices) == 1 for chunk in chunks))
            for index in (0, 1):
                mine = [chunk.choices[0] for chunk in chunks if chunk.choices[0].index == index]
                if ask is TALK:
                    self.assertEqual(mine[0].delta.role, "assistant")
                    self.assertEqual(mine[0].delta.content, "")
                    self.assertEqual(mine[-1].delta.to_dict(), {})
                else:
                    self.assertEqual(mine[-1].text, "")
                self.assertEqual([choice.finish_reason for choice in mine[:-1]],
                                 [None] * (len(mine) - 1))
                self.assertEqual(mine[-1].finish_reason, "length")

    def test_bodies_and_events_match_the_clients_types(self):
        types = {"/v1/completions": (openai.types.Completion, STORY),
                 "/v1/chat/completions": (openai.types.chat.ChatCompletion, TALK | {
                     "logprobs": True, "top_logprobs": 2}),
                 "/v1/responses": (openai.types.responses.Response,
                                   {"input": "Once", "max_output_tokens": 20})}
        for path, (kind, ask) in types.items():
            with urllib.request.urlopen(urllib.request.Request(
                    f"http://{self.server.address}{path}", json.dumps(ask).encode())) as answer:
                kind.model_validate_json(answer.read(), strict=True)
        event = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
        with urllib.request.urlopen(urllib.request.Request(
                f"http://{self.server.address}/v1/responses",
                json.dumps(types["/v1/responses"][1] | {"stream": True}).encode())) as answer:
            events = [line[6:] for line in answer if line.startswith(b"data: ")]
        self.assertGreater(len(events), 20)
        for each in events:
            event.validate_json(each, strict=True)

    def test_reasoning_is_read_as_from_other_servers(self):
        with Server(LOCKSTEP, "--reasoning-parser", "think") as server:
            client = openai.OpenAI(base_url=f"http://{server.address}/v1", api_key="none")
            content = ""
            for chunk in client.chat.completions.create(**TALK, stream=True):
                if chunk.choices[0].delta.reasoning_content:
                    self.fail("the demo does not think")
                else:
                    content += chunk.choices[0].delta.content
            whole = client.chat.completions.create(**TALK)
            self.assertEqual(content, whole.choices[0].message.content)
            self.assertIsNone(whole.choices[0].message.reasoning)
            self.assertEqual(whole.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_tools_that_the_template_does_not_show_are_refused(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                **TALK, tools=[{"type": "function", "function": {"name": "f", "parameters": {
                    "type": "object", "properties": {}}}}], tool_choice="auto")
        self.assertEqual(caught.exception.param, "tools")

    def test_extra_fields_of_vllm(self):
        answer = self.client.completions.create(
            **STORY, extra_body={"top_k": 1, "min_tokens": 5, "ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 20)

    def test_errors_are_the_clients_classes(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(**{**TALK, "temperature": 200})
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(**{**STORY, "prompt": [7] * 2000})
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertRegex(caught.exception.message, "This model's maximum context length is \\d+ "
                         "tokens, but the request has 2000 ")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(**{**STORY, "model": "gpt-4o"})
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_a_client_that_disconnects_cancels(self):
        stream = self.client.completions.create(
            **{**STORY, "max_tokens": 900}, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertEqual(self.client.completions.create(**STORY).usage.completion_tokens, 20)

    def test_unknown_fields_are_accepted(self):
        response = self.client.with_raw_response.completions.create(
            **STORY, extra_body={"no_such_field": 1})
        self.assertTrue(response.headers["x-request-id"].startswith("cmpl-"))
        self.assertEqual(json.loads(response.content)["object"], "text_completion")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
