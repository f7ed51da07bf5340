# SPDX-License-Identifier: Apache-2.0
"""langchain-openai against the server whose base URL is the argument: chats, streams, a bound tool,
responses and completions."""
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

SERVER = {"model": "demo", "base_url": sys.argv[1], "api_key": "none", "max_tokens": 16,
          "temperature": 1, "top_p": 1}
PROMPT = "Once upon a time"


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


chat = ChatOpenAI(**SERVER, seed=1)
whole = chat.invoke(PROMPT)
assert "".join(piece.content for piece in chat.stream(PROMPT)) == whole.content
assert chat.bind_tools([add]).invoke(PROMPT).content
assert ChatOpenAI(**SERVER, use_responses_api=True).invoke(PROMPT).content[0]["text"]
assert OpenAI(**SERVER, seed=1).invoke(PROMPT) == whole.content
print(f"{whole.usage_metadata['total_tokens']} tokens:{whole.content}")
