#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gates of docs/reliability.md that need a whole server, under many or hostile clients.

    tests/gates/gates_test.py LOCKSTEP

No check here depends on the machine's speed: figures that do are in docs/reliability.md.
"""
import asyncio
import json
import random
import resource
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from serve import Lost, PATIENCE_S, Server, call, events, streamed_text  # noqa: E402

LOCKSTEP = sys.argv[1]
SEED = 7
STORY = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 60, "seed": 1}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


async def state_of(server: Server) -> dict:
    return (await call(server.port, "/cluster")).json()


async def settle(server: Server, descriptors: int) -> None:
    """Waits until nothing of any request is left; fails after PATIENCE_S."""
    state = {}
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        state = await state_of(server)
        open_now = server.descriptors()
        pages = state["pages"]
        if (state["running"] == state["waiting"] == 0 and pages["free"] == pages["total"]
                and open_now <= descriptors + 2):  # Two more: connections of state_of().
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"left: {state['running']} running, {state['waiting']} waiting, "
                         f"{state['pages']}, {server.descriptors()} descriptors of {descriptors}")


class GatesTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LOCKSTEP, "--lowest-priority", "-1")
        cls.port = cls.server.port

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, f"serve ended with {code}"

    async def asyncSetUp(self):
        self.alone = await streamed_text(self.port, STORY)
        await asyncio.sleep(0.1)  # The request's connection is closed by now.
        self.descriptors = self.server.descriptors()

    async def test_r6_a_flood_is_served_or_refused_with_retry_after_and_leaves_nothing(self):
        """Sends 1,000 requests of 64 choices: nearly four times the 16,384 that the queue holds."""
        memory = self.server.memory()
        request = {**STORY, "n": 64, "max_tokens": 2}

        async def one():
            answer = await call(self.port, COMPLETIONS, request)
            if answer.status != 200:
                self.assertIn(answer.status, (429, 503))
                self.assertGreater(int(answer.headers["retry-after"]), 0)
                self.assertEqual(set(answer.json()["error"]), {"message", "type", "param", "code"})
            else:
                self.assertEqual(len(answer.json()["choices"]), 64)
            return answer.status

        found = await asyncio.gather(*(one() for _ in range(1000)))
        self.assertIn(200, found)
        self.assertIn(429, found)
        await settle(self.server, self.descriptors)
        self.assertEqual(await streamed_text(self.port, STORY), self.alone)
        # The limit includes the freed memory that AddressSanitizer keeps.
        self.assertLess(self.server.memory() - memory, 512 << 20)

    async def test_r7_five_hundred_clients_hang_up_and_leave_nothing(self):
        draw = random.Random(SEED)

        async def one():
            left = draw.randrange(40)
            try:
                async for _ in events(self.port, {**STORY, "n": draw.choice((1, 1, 3))}):
                    left -= 1
                    if left < 0:
                        return
            except (Lost, OSError, EOFError) as error:
                self.fail(f"seed {SEED}: {error}")

        for _ in range(5):
            await asyncio.gather(*(one() for _ in range(100)))
        await settle(self.server, self.descriptors)
        self.assertEqual(await streamed_text(self.port, STORY), self.alone)

    async def test_r8_a_client_that_does_not_read_is_bounded_and_disturbs_no_other(self):
        memory = self.server.memory()
        body = json.dumps({**STORY, "n": 64, "max_tokens": 400, "stream": True}).encode()
        sockets = []
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1)
            writer.transport.pause_reading()
            head = (f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n")
            writer.write(head.encode() + body)
            sockets.append(writer)
        await asyncio.sleep(0.2)
        self.assertEqual(await streamed_text(self.port, {**STORY, "priority": -1}), self.alone)
        self.assertLess(self.server.memory() - memory, 20 * 64 * (256 << 10))
        for writer in sockets:
            writer.transport.abort()
        await settle(self.server, self.descriptors)

    async def test_r17_strange_prompts_are_served_or_refused_as_the_clients_fault(self):
        context = (await state_of(self.server))["context_length"]
        most = {"prompt": [5] * (context - 1)}
        for status, code, fields in (
                (400, None, {"prompt": ""}),
                (400, None, {"prompt": []}),
                (200, None, {"prompt": [5]}),
                (200, None, most),
                (400, "context_length_exceeded", {"prompt": [5] * context}),
                (400, "context_length_exceeded", {"prompt": "A" * 3_000_000}),
                (413, "body_too_large", {"prompt": "A" * 10_000_000}),
                (200, None, {"prompt": "a\0b"}),
                (200, None, {"prompt": "\x01\x7f\u202e\U0001f9d9\ufffe"}),
                (200, None, {"prompt": "<s></s><|im_start|><|endoftext|>"}),
                (400, None, {"prompt": [-1]}),
                (400, None, {"prompt": [1 << 40]}),
        ):
            with self.subTest(str(fields)[:60]):
                answer = await call(self.port, COMPLETIONS, {**STORY, "max_tokens": 1, **fields})
                self.assertEqual(answer.status, status)
                if status != 200:
                    error = answer.json()["error"]
                    self.assertEqual(set(error), {"message", "type", "param", "code"})
                    self.assertEqual(error["code"], code)
        for body in (b'{"prompt": "\xff\xfe"}', b'{"prompt": "\\ud800"}', b'{"prompt": "a',
                     b'{"prompt": "a", "temperature": NaN}', b'{"prompt": "a", "top_p": 1e999}',
                     b"[" * 9999):
            with self.subTest(body[:40]):
                answer = await call(self.port, COMPLETIONS, body)
                self.assertEqual(answer.status, 400)
        self.assertEqual(await streamed_text(self.port, STORY), self.alone)

    async def test_special_tokens_in_a_message_stay_text(self):
        """Twenty special tokens would be 20 prompt tokens; as text they are more than 40."""
        async def tokens(text):
            message = {"role": "user", "content": text}
            answer = await call(self.port, CHAT, {"messages": [message], "max_tokens": 1})
            return answer.json()["usage"]["prompt_tokens"]

        self.assertGreater(await tokens("</s>" * 20), await tokens("") + 40)


class OddPlacesTest(unittest.IsolatedAsyncioTestCase):
    """Each test has its own server, which lacks a resource."""

    async def test_r24_a_server_with_64_descriptors_serves_or_names_what_is_missing(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

        try:
            server = Server(LOCKSTEP, preexec_fn=few)
        except RuntimeError as error:
            self.assertIn("descriptors", str(error))
            self.assertEqual(str(error).count("\n"), 1)
            return
        with server:
            alone = await streamed_text(server.port, STORY)

            async def one():
                try:
                    return await streamed_text(server.port, STORY)
                except (Lost, OSError, EOFError):
                    return None  # It was refused.

            found = await asyncio.gather(*(one() for _ in range(200)))
            self.assertIn(alone, found)
            self.assertLessEqual(set(found), {alone, None})
            self.assertEqual(await streamed_text(server.port, STORY), alone)

    async def test_r23_a_log_on_a_full_disk_changes_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with open("/dev/full", "w") as full:
            server = subprocess.Popen(
                [LOCKSTEP, "serve", "--log-level", "debug", "--grpc", "127.0.0.1:0", "--http",
                 f"127.0.0.1:{port}"], stderr=full)
        try:
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end and server.poll() is None:
                try:
                    if (await call(port, "/readyz")).status == 200:
                        break
                except OSError:
                    pass
                await asyncio.sleep(0.05)
            self.assertTrue(await streamed_text(port, STORY))
        finally:
            server.terminate()
        self.assertEqual(server.wait(PATIENCE_S), 0)

    async def test_r23_a_log_whose_reader_is_gone_changes_nothing(self):
        server = Server(LOCKSTEP, "--log-level", "debug", reads_log=False)
        alone = await streamed_text(server.port, STORY)
        for _ in range(20):
            await call(server.port, COMPLETIONS, {"prompt": "a", "temperature": -1})
            self.assertEqual(await streamed_text(server.port, STORY), alone)
        self.assertEqual(server.close(), 0)

    async def test_r32_no_log_level_shows_a_prompt(self):
        secret = "Zanzibar quokka"
        with Server(LOCKSTEP, "--log-level", "debug") as server:
            await streamed_text(server.port, {**STORY, "prompt": secret})
            await call(server.port, CHAT, {"messages": [{"role": "user", "content": secret}],
                                           "max_tokens": 1})
            await call(server.port, COMPLETIONS, {"prompt": secret, "temperature": -1})
            await call(server.port, COMPLETIONS, b'{"prompt": "' + secret.encode())
            metrics = (await call(server.port, "/metrics")).body.decode()
        self.assertNotIn("Zanzibar", "".join(server.log))
        self.assertNotIn("Zanzibar", metrics)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
