# SPDX-License-Identifier: Apache-2.0
"""Runs litellm against two servers: one with the demo model, one with the scripted model. The
arguments are their base URLs. Whole and streamed answers agree, tool calls are returned, and
prompts that are too long for the context are sent to another model, or trimmed."""
import sys

import litellm

SERVER = {"api_base": sys.argv[1], "api_key": "none", "max_tokens": 16, "seed": 1}
TALK = {"model": "openai/demo", "messages": [{"role": "user", "content": "Once upon a time"}]}
ADD = {"type": "function", "function": {
    "name": "add", "description": "Adds two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"},
                                                    "b": {"type": "integer"}}}}}


def check_story() -> str:
    whole = litellm.completion(**SERVER, **TALK)
    text = whole.choices[0].message.content
    pieces = list(litellm.completion(**SERVER, **TALK, stream=True,
                                     stream_options={"include_usage": True}))
    assert "".join(choice.delta.content or ""
                   for piece in pieces for choice in piece.choices) == text
    assert litellm.stream_chunk_builder(pieces).usage.total_tokens == whole.usage.total_tokens
    story = litellm.text_completion(model="text-completion-openai/demo", prompt="Once upon a time",
                                    **SERVER)
    assert story.choices[0].text == text
    return f"{whole.usage.total_tokens} tokens:{text}"


def check_tools() -> None:
    ask = {"model": "openai/scripted", "api_base": sys.argv[2], "api_key": "none", "tools": [ADD]}
    messages = [{"role": "user", "content": "What is 2 + 3?"}]
    whole = litellm.completion(**ask, messages=messages).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.reasoning_content == "Two numbers to add"
    call = whole.message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 2, "b": 3}')
    pieces = list(litellm.completion(**ask, messages=messages, stream=True))
    streamed = litellm.stream_chunk_builder(pieces).choices[0]
    assert streamed.finish_reason == "tool_calls"
    assert streamed.message.tool_calls[0].function == call.function
    assert streamed.message.reasoning_content == whole.message.reasoning_content
    messages += [whole.message, {"role": "tool", "tool_call_id": call.id, "content": "5"}]
    answer = litellm.completion(**ask, messages=messages).choices[0].message
    assert answer.content == "The sum is five."


def check_too_long() -> None:
    long = [{"role": "user", "content": "a story " * 4000}]
    for stream in (False, True):
        try:
            litellm.completion(**SERVER, **TALK | {"messages": long}, stream=stream, num_retries=0)
        except litellm.ContextWindowExceededError:
            continue
        raise AssertionError("the server accepted a prompt that is too long")
    router = litellm.Router(
        model_list=[{"model_name": "small", "litellm_params": SERVER | {"model": "openai/demo"}},
                    {"model_name": "large", "litellm_params": {"model": "openai/large",
                                                               "mock_response": "another's"}}],
        context_window_fallbacks=[{"small": ["large"]}], num_retries=0)
    answer = router.completion(model="small", messages=long)
    assert answer.choices[0].message.content == "another's"
    short = litellm.utils.trim_messages(long, max_tokens=100)
    assert router.completion(model="small", messages=short).model.endswith("demo")


story = check_story()
check_tools()
check_too_long()
print(story)
