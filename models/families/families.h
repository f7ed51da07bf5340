// SPDX-License-Identifier: Apache-2.0
// The model families. Each has one file with its own parts of the graph, and its rows in the table
// of architectures.
#pragma once

#include "models/architecture.h"

// clang-format off
namespace lockstep::families {

namespace baichuan { Architectures rows(); }
namespace bamba { Architectures rows(); }
namespace bloom { Architectures rows(); }
namespace chatglm { Architectures rows(); }
namespace chatglm1 { Architectures rows(); }
namespace cohere { Architectures rows(); }
namespace deepseek { Architectures rows(); }
namespace exaone4 { Architectures rows(); }
namespace falcon { Architectures rows(); }
namespace gemma { Architectures rows(); }
namespace gemma4 { Architectures rows(); }
namespace glm4 { Architectures rows(); }
namespace gpt2 { Architectures rows(); }
namespace gpt_neox { Architectures rows(); }
namespace gpt_oss { Architectures rows(); }
namespace gptj { Architectures rows(); }
namespace granite { Architectures rows(); }
namespace granite4 { Architectures rows(); }
namespace hunyuan { Architectures rows(); }
namespace internlm { Architectures rows(); }
namespace lfm2 { Architectures rows(); }
namespace llama { Architectures rows(); }
namespace llama4 { Architectures rows(); }
namespace minimax { Architectures rows(); }
namespace mistral4 { Architectures rows(); }
namespace mixtral { Architectures rows(); }
namespace mpt { Architectures rows(); }
namespace nemotron { Architectures rows(); }
namespace nemotron_h { Architectures rows(); }
namespace olmo { Architectures rows(); }
namespace opt { Architectures rows(); }
namespace phi { Architectures rows(); }
namespace phi3 { Architectures rows(); }
namespace qwen { Architectures rows(); }
namespace qwen1 { Architectures rows(); }
namespace qwen3_next { Architectures rows(); }
namespace qwen_moe { Architectures rows(); }
namespace rwkv4 { Architectures rows(); }
namespace rwkv5 { Architectures rows(); }
namespace rwkv6 { Architectures rows(); }
namespace rwkv7 { Architectures rows(); }
namespace smollm3 { Architectures rows(); }
namespace stablelm { Architectures rows(); }
namespace starcoder2 { Architectures rows(); }

}  // namespace lockstep::families
// clang-format on
