// SPDX-License-Identifier: Apache-2.0
#include "models/config/refused.h"

namespace lockstep {
namespace {

constexpr std::string_view kStateSpace = "state space layers (Mamba) are not implemented";
constexpr std::string_view kEncoderDecoder = "it is an encoder with a decoder";
constexpr std::string_view kEncoder = "it is an encoder, which generates no text";
constexpr std::string_view kDiffusion = "it generates by diffusion, not token by token";
constexpr std::string_view kSparse = "sparse attention is not implemented";
constexpr std::string_view kStreams = "several residual streams (AltUp) are not implemented";

constexpr RefusedArchitecture kRefused[] = {
    {"DeepseekV4ForCausalLM", kSparse},
    {"Gemma3nForCausalLM", kStreams},
    {"Gemma3nForConditionalGeneration", kStreams},
    {"MambaForCausalLM", kStateSpace},
    {"Mamba2ForCausalLM", kStateSpace},
    {"FalconMambaForCausalLM", kStateSpace},
    {"FalconH1ForCausalLM", kStateSpace},
    {"JambaForCausalLM", kStateSpace},
    {"T5ForConditionalGeneration", kEncoderDecoder},
    {"MT5ForConditionalGeneration", kEncoderDecoder},
    {"T5GemmaForConditionalGeneration", kEncoderDecoder},
    {"BartForConditionalGeneration", kEncoderDecoder},
    {"MBartForConditionalGeneration", kEncoderDecoder},
    {"PegasusForConditionalGeneration", kEncoderDecoder},
    {"WhisperForConditionalGeneration", kEncoderDecoder},
    {"BertForMaskedLM", kEncoder},
    {"RobertaForMaskedLM", kEncoder},
    {"ModernBertForMaskedLM", kEncoder},
    {"LLaDAModelLM", kDiffusion},
    {"LLaDAMoEModelLM", kDiffusion},
    {"DreamModel", kDiffusion},
};

}  // namespace

std::span<const RefusedArchitecture> refused_architectures() { return kRefused; }

}  // namespace lockstep
