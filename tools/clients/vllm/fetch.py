# SPDX-License-Identifier: Apache-2.0
"""Downloads a part of vLLM's source package into the folder that the first argument names: the
folders that test a server over HTTP. The package comes from PyPI. pip is not used: it would
build the package, which needs torch."""
import io
import re
import sys
import tarfile
import urllib.parse
import urllib.request
from pathlib import Path

VERSION = "0.33.0"
INDEX = "https://pypi.org/simple/vllm/"
# Prefixes in the package. tests/conftest.py and tests/utils.py are left out, because they load
# vLLM's engine: plugin.py replaces the parts that the tests need.
WANTED = ("tests/__init__.py", "tests/entrypoints/__init__.py", "tests/entrypoints/conftest.py",
          "tests/entrypoints/openai/", "tests/entrypoints/serve/__init__.py",
          "tests/entrypoints/serve/tokenize/", "tests/entrypoints/serve/instrumentator/",
          "tests/tool_use/", "examples/")
# These need a grader, schemathesis or torch.
UNWANTED = ("tests/entrypoints/openai/correctness/",
            "tests/entrypoints/openai/test_openai_schema.py",
            "tests/entrypoints/openai/completion/test_completion_with_prompt_embeds.py")


def source_package() -> bytes:
    with urllib.request.urlopen(
            urllib.request.Request(INDEX, headers={"Accept": "text/html"})) as page:
        link = re.search(rf'href="([^"#]*vllm-{re.escape(VERSION)}\.tar\.gz)', page.read().decode())
        if link is None:
            sys.exit(f"fetch: {INDEX} must list vllm-{VERSION}.tar.gz, found no such file")
        url = urllib.parse.urljoin(page.url, link[1])
    with urllib.request.urlopen(url) as package:
        return package.read()


folder = Path(sys.argv[1])
if not (folder / "tests").exists():
    try:
        data = source_package()
    except OSError as error:
        sys.exit(f"fetch: {INDEX} must answer, found {error}")
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        for member in package:
            name = member.name.partition("/")[2]
            if member.isfile() and name.startswith(WANTED) and not name.startswith(UNWANTED):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(package.extractfile(member).read())
