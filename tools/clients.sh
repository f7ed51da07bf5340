#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs other projects' clients of OpenAI's API against two servers: one has the demo model, the
# other a model that calls a tool. litellm, langchain-openai, openai-agents, guidellm, aiperf,
# lm-evaluation-harness and SGLang's serving benchmark get the base URL and, if they count tokens,
# the tokenizer. vLLM's own HTTP tests start their own servers.
#   tools/clients.sh [CLIENT...]     default: all
# Installs each client into build/clients on its first run. All clients take about 7 GB, with torch.
# sglang alone takes 0.9 GB and vllm alone 0.5 GB, both without torch. aiperf takes 1.2 GB in a
# folder of its own, because it needs other versions. The output of a client is in
# build/clients/NAME.log.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
binary=$root/build/cpu/bin/lockstep
venv=build/clients
names=(litellm langchain openai_agents guidellm aiperf lm_eval sglang vllm)
declare -A packages=(
  [litellm]="litellm"
  [langchain]="langchain-openai"
  [openai_agents]="openai-agents"
  [guidellm]="guidellm"
  [aiperf]="aiperf"
  [lm_eval]="lm_eval[api]"
  [sglang]="aiohttp datasets msgspec numpy orjson pillow psutil pybase64 pyzmq requests tqdm
            transformers"
  [vllm]="anthropic httpx jinja2 jsonschema numpy openai prometheus-client pybase64 pytest
          pytest-asyncio pytest-timeout regex requests transformers"
)

fail() { echo "clients: $*" >&2; exit 1; }

litellm() { "$venv/bin/python" tools/clients/litellm_client.py "$url/v1" "$scripted_url/v1"; }
langchain() { "$venv/bin/python" tools/clients/langchain_client.py "$url/v1" "$scripted_url/v1"; }
openai_agents() { "$venv/bin/python" tools/clients/openai_agents_client.py "$scripted_url/v1"; }

guidellm() {
  "$venv/bin/guidellm" run --backend "kind=openai_http,target=$url" \
    --profile kind=concurrent,streams=4 --constraint kind=max_requests,count=40 \
    --tokenizer "kind=hf_auto,model=$root/demo" \
    --data kind=synthetic_text,prompt_tokens=32,output_tokens=16 \
    --disable-console-interactive --output kind=console
}

# With HF_HUB_OFFLINE, aiperf treats the folder's path as the name of a model on the hub.
aiperf() {
  env -u HF_HUB_OFFLINE "$venv/aiperf/bin/python" tools/clients/aiperf_client.py "$url" "$root/demo"
}

lm_eval() {
  mkdir -p "$venv/tasks"
  sed "s|STORIES|$root/tools/clients/stories.jsonl|" tools/clients/stories.yaml \
    >"$venv/tasks/stories.yaml"
  "$venv/bin/lm_eval" run --model local-completions --include_path "$venv/tasks" --tasks stories \
    --model_args "model=demo,base_url=$url/v1/completions,tokenizer=$root/demo"
}

sglang() { "$venv/bin/python" tools/clients/sglang_client.py "$url" "$root/demo"; }
vllm() { "$venv/bin/python" tools/clients/vllm/run.py "$binary"; }

install() {
  [ -e "$venv/$1.installed" ] && return
  local folder=$venv
  [ "$1" != aiperf ] || folder=$venv/aiperf
  echo "clients: installing $1 into $folder"
  [ -x "$folder/bin/pip" ] || python3 -m venv "$folder"
  # shellcheck disable=SC2086 # A list.
  "$folder/bin/pip" install -q ${packages[$1]}
  # sglang is installed without the dependencies of its server.
  [ "$1" != sglang ] || "$venv/bin/pip" install -q --no-deps sglang==0.5.23
  touch "$venv/$1.installed"
}

# The lines of a client's output that have the result.
summary() {
  case "$1" in
    guidellm) grep -m 1 -E "^\| concurrent@4 \| [0-9]+:" "$2" ;;
    lm_eval) grep -E "stories" "$2" | tail -1 ;;
    *) tail -1 "$2" ;;
  esac
}

# NAME ARGUMENT...: starts a server with the log NAME.log; its URL is $started.
servers=()
stop_servers() {
  kill "${servers[@]}"
  wait "${servers[@]}" || true
}
start_server() {
  local log=$venv/$1.log server
  shift
  : >"$log"
  "$binary" serve --workers 2 --http 127.0.0.1:0 --grpc 127.0.0.1:0 "$@" 2>"$log" &
  server=$!
  servers+=("$server")
  trap stop_servers EXIT
  until grep -q "ready;" "$log"; do
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(tail -1 "$log")"
    sleep 0.2
  done
  started=http://$(grep -oE "HTTP at [^,]+" "$log" | cut -d' ' -f3)
}

[ -x "$binary" ] || fail "no $binary: run tools/quickstart.sh first"
[ $# -gt 0 ] || set -- "${names[@]}"
for name in "$@"; do
  case " ${names[*]} " in *" $name "*) ;; *) fail "$name: must be one of ${names[*]}" ;; esac
  install "$name"
done
start_server demo --chat-template "$root/tests/tools/stories_with_tools.jinja" --tool-parser none
url=$started
python3 tools/clients/scripted_model.py "$venv/scripted"
start_server scripted "$venv/scripted"
scripted_url=$started
export HF_HUB_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True NO_COLOR=1
failed=0
for name in "$@"; do
  log=$venv/$name.log
  if "$name" >"$log" 2>&1; then
    echo "$name: $(summary "$name" "$log")"
  else
    tail -5 "$log" >&2
    echo "$name: failed; its output is $log"
    failed=1
  fi
done
exit "$failed"
