# SPDX-License-Identifier: Apache-2.0
"""litellm against the server whose base URL is the argument: whole and streamed answers agree."""
import sys

import litellm

SERVER = {"api_base": sys.argv[1], "api_key": "none", "max_tokens": 16, "seed": 1}
TALK = {"model": "openai/demo", "messages": [{"role": "user", "content": "Once upon a time"}]}

whole = litellm.completion(**SERVER, **TALK)
text = whole.choices[0].message.content
pieces = litellm.completion(**SERVER, **TALK, stream=True)
assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text
story = litellm.text_completion(model="text-completion-openai/demo", prompt="Once upon a time",
                                **SERVER)
assert story.choices[0].text == text
print(f"{whole.usage.total_tokens} tokens:{text}")
