# SPDX-License-Identifier: Apache-2.0
"""Runs langchain-openai against two servers: one with the demo model, one with the scripted model.
The arguments are their base URLs. It tests chats, streams, their usage and log-probabilities,
responses, completions, a bound tool, and the error for too long prompts."""
import sys

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

SERVER = {"model": "demo", "base_url": sys.argv[1], "api_key": "none", "max_tokens": 16,
          "temperature": 1, "top_p": 1}
SCRIPTED = {"model": "scripted", "base_url": sys.argv[2], "api_key": "none"}
PROMPT = "Once upon a time"


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def joined(pieces):
    pieces = list(pieces)
    return sum(pieces[1:], pieces[0])


def check_story() -> str:
    chat = ChatOpenAI(**SERVER, seed=1, logprobs=True, top_logprobs=2)
    whole = chat.invoke(PROMPT)
    streamed = joined(chat.stream(PROMPT, stream_usage=True))
    assert streamed.content == whole.content
    assert streamed.usage_metadata == whole.usage_metadata
    scores = whole.response_metadata["logprobs"]["content"]
    assert len(scores) == 16 and all(len(score["top_logprobs"]) == 2 for score in scores)
    assert streamed.response_metadata["logprobs"]["content"] == scores
    response = ChatOpenAI(**SERVER, use_responses_api=True)
    assert response.invoke(PROMPT).content[0]["text"]
    assert joined(response.stream(PROMPT)).usage_metadata["output_tokens"] == 16
    assert OpenAI(**SERVER, seed=1).invoke(PROMPT) == whole.content
    return f"{whole.usage_metadata['total_tokens']} tokens:{whole.content}"


def check_tools(uses_responses: bool) -> None:
    chat = ChatOpenAI(**SCRIPTED, use_responses_api=uses_responses).bind_tools([add])
    messages = [HumanMessage("What is 2 + 3?")]
    whole = chat.invoke(messages)
    streamed = joined(chat.stream(messages))
    for message in (whole, streamed):
        assert [(call["name"], call["args"]) for call in message.tool_calls] == [
            ("add", {"a": 2, "b": 3})]
    messages += [whole, add.invoke(whole.tool_calls[0])]
    assert isinstance(messages[-1], ToolMessage)
    assert chat.invoke(messages).text == "The sum is five."


def check_too_long(uses_responses: bool) -> None:
    chat = ChatOpenAI(**SERVER, use_responses_api=uses_responses)
    for ask in (chat.invoke, lambda prompt: joined(chat.stream(prompt))):
        try:
            ask(PROMPT * 2000)
        except ContextOverflowError:
            continue
        raise AssertionError("the server accepted a prompt that is too long")


story = check_story()
for uses_responses in (False, True):
    check_tools(uses_responses)
    check_too_long(uses_responses)
print(story)
