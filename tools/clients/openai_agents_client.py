# SPDX-License-Identifier: Apache-2.0
"""Runs openai-agents against a server with the scripted model; the argument is its base URL.
Agents call a tool, with both APIs, whole and streamed, and in two turns of a session."""
import asyncio
import sys

from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner,
                    SQLiteSession, function_tool, set_tracing_disabled)
from openai import AsyncOpenAI

ASK = "What is 2 + 3?"
SUM = "The sum is five."
calls = []


@function_tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    calls.append((a, b))
    return a + b


async def run(model) -> int:
    agent = Agent(name="adder", instructions="Use the tool.", model=model, tools=[add],
                  model_settings=ModelSettings(temperature=0, include_usage=True))
    session = SQLiteSession("two turns")
    for _ in range(2):
        whole = await Runner.run(agent, ASK, session=session)
        assert whole.final_output == SUM, whole.final_output
    streamed = Runner.run_streamed(agent, ASK)
    text = ""
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    assert text == streamed.final_output == SUM, text
    assert streamed.context_wrapper.usage.requests == 2
    assert calls == [(2, 3)] * 3, calls
    calls.clear()
    return streamed.context_wrapper.usage.total_tokens


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
    tokens = [await run(kind(model="scripted", openai_client=client))
              for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel)]
    print(f"{tokens[0]} and {tokens[1]} tokens: {SUM}")


asyncio.run(main())
