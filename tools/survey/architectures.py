# SPDX-License-Identifier: Apache-2.0
"""Small models of every architecture that transformers knows, with every part that it can have.

Sizes are uneven, windows are shorter than the prompts, and a row has the settings that differ from
the defaults of its class. Keys are spelled as in transformers 4; version 5 reads both spellings.
"""

from dataclasses import dataclass

SMALL = dict(vocab_size=101, max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
HEADS = dict(num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2)
DECODER = dict(**SMALL, **HEADS, hidden_size=36, intermediate_size=52)  # Heads of 6 columns.
ONE_HEAD_EACH = {key: value for key, value in DECODER.items() if key != "num_key_value_heads"}
WIDE = dict(**DECODER, head_dim=8)  # Heads that are not hidden_size / num_attention_heads.
EXPERTS = dict(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=9)
ROUTED = dict(n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
              moe_intermediate_size=9, first_k_dense_replace=1, n_group=4, topk_group=2,
              norm_topk_prob=True, routed_scaling_factor=1.8)
LATENT = dict(**SMALL, **ROUTED, num_hidden_layers=3, num_attention_heads=5,
              num_key_value_heads=5, hidden_size=35, intermediate_size=40, kv_lora_rank=12,
              q_lora_rank=14, qk_nope_head_dim=9, qk_rope_head_dim=6, v_head_dim=11)
INDEXER = dict(index_topk=128, index_n_heads=2, index_head_dim=16)
WINDOW = dict(sliding_window=9)
LATER_WINDOW = dict(**WINDOW, use_sliding_window=True, max_window_layers=1)
MAMBA = dict(mamba_n_heads=6, mamba_n_groups=1, mamba_d_state=10, mamba_d_head=12, mamba_d_conv=4,
             mamba_expand=2, mamba_chunk_size=16)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=12,
             linear_num_key_heads=2, linear_num_value_heads=4)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
            beta_slow=1.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
MISTRAL_YARN = dict(rope_theta=10000.0, **YARN, mscale=1.0, mscale_all_dim=1.0,
                    llama_4_scaling_beta=0.3)
GEMMA4 = dict(**SMALL, num_attention_heads=6, hidden_size=36, intermediate_size=22, head_dim=8,
              global_head_dim=12, sliding_window=9, tie_word_embeddings=True)
QWEN35 = dict(**SMALL, **DELTA, num_hidden_layers=4, num_attention_heads=3, num_key_value_heads=1,
              hidden_size=32, head_dim=32, full_attention_interval=4)
MROPE = dict(rope_type="default", mrope_section=[2, 1, 1])
ROTARY_OF_3 = dict(rope_type="default", mrope_section=[1, 1, 1])  # Heads of 6 columns.
VISION = dict(hidden_size=16, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
              image_size=28, patch_size=14)
CLIP = dict(VISION, model_type="clip_vision_model")
QWEN_VISION = dict(depth=1, hidden_size=8, intermediate_size=6, num_heads=2, patch_size=2,
                   spatial_merge_size=2, temporal_patch_size=2)
GLM_VISION = dict(depth=1, hidden_size=8, intermediate_size=6, num_heads=2, image_size=28,
                  patch_size=14, out_hidden_size=36)
TOWERS = ("vision", "multi_modal")


@dataclass(frozen=True)
class Row:
    """`settings` are arguments of the config's class. `unread`: parts of names of tensors that do
    not belong to the model that runs here. `since`: the first major release of transformers that
    can build and run the model, and gives the same results as later releases."""

    architecture: str
    settings: dict
    unread: tuple = ()
    attention: str = "eager"
    since: int = 4


ROWS = {
    "llama": Row("LlamaForCausalLM", dict(WIDE, rope_scaling=LLAMA3, rope_theta=5e5)),
    "llama_biases": Row("LlamaForCausalLM", dict(DECODER, attention_bias=True, mlp_bias=True,
                                                 rope_scaling=YARN, tie_word_embeddings=True)),
    "llama_linear": Row("LlamaForCausalLM", dict(
        DECODER, rope_scaling=dict(rope_type="linear", factor=4.0))),
    "llama_dynamic": Row("LlamaForCausalLM", dict(
        DECODER, rope_scaling=dict(rope_type="dynamic", factor=4.0))),
    "mistral": Row("MistralForCausalLM", dict(WIDE, **WINDOW)),
    "ministral3": Row("Ministral3ForCausalLM", dict(WIDE, rope_parameters=MISTRAL_YARN)),
    "seed_oss": Row("SeedOssForCausalLM", WIDE),
    "ernie4_5": Row("Ernie4_5ForCausalLM", dict(WIDE, use_bias=True)),
    "arcee": Row("ArceeForCausalLM", dict(WIDE, rope_scaling=YARN)),
    "helium": Row("HeliumForCausalLM", dict(
        DECODER, head_dim=6, attention_bias=True, mlp_bias=True)),
    "qwen2": Row("Qwen2ForCausalLM", dict(DECODER, **LATER_WINDOW)),
    "qwen3": Row("Qwen3ForCausalLM", dict(WIDE, **LATER_WINDOW)),
    "mixtral": Row("MixtralForCausalLM", dict(DECODER, **WINDOW, num_local_experts=5)),
    "qwen2_moe": Row("Qwen2MoeForCausalLM", dict(
        DECODER, **EXPERTS, shared_expert_intermediate_size=14, mlp_only_layers=[1])),
    "qwen3_moe": Row("Qwen3MoeForCausalLM", dict(
        WIDE, **EXPERTS, norm_topk_prob=True, decoder_sparse_step=2)),
    "phi3": Row("Phi3ForCausalLM", dict(
        DECODER, hidden_size=60, original_max_position_embeddings=32, partial_rotary_factor=0.67,
        **WINDOW, rope_scaling=dict(type="longrope", short_factor=[1.0, 1.08, 1.25],
                                    long_factor=[1.35, 2.1, 4.3]))),
    "granite": Row("GraniteForCausalLM", dict(
        DECODER, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
        attention_multiplier=0.2, residual_multiplier=0.7, logits_scaling=1.5)),
    "gemma": Row("GemmaForCausalLM", WIDE),
    "gemma2": Row("Gemma2ForCausalLM", dict(WIDE, **WINDOW, query_pre_attn_scalar=24)),
    "gemma3_text": Row("Gemma3ForCausalLM", dict(
        WIDE, **WINDOW, sliding_window_pattern=3, query_pre_attn_scalar=20)),
    "minimax_m2": Row("MiniMaxM2ForCausalLM", dict(
        WIDE, rotary_dim=4, num_local_experts=7, num_experts_per_tok=3)),
    "smollm3": Row("SmolLM3ForCausalLM", dict(DECODER, no_rope_layer_interval=3)),
    "smollm3_window": Row("SmolLM3ForCausalLM", dict(
        DECODER, no_rope_layers=[1, 0, 1], **WINDOW, use_sliding_window=True)),
    "glm": Row("GlmForCausalLM", WIDE),
    "glm4": Row("Glm4ForCausalLM", dict(WIDE, attention_bias=True)),
    "glm4_moe": Row("Glm4MoeForCausalLM", dict(
        WIDE, **ROUTED, use_qk_norm=True, attention_bias=True)),
    "dots1": Row("Dots1ForCausalLM", dict(WIDE, **ROUTED)),
    "cohere": Row("CohereForCausalLM", dict(DECODER, logit_scale=0.6, use_qk_norm=True)),
    "cohere2": Row("Cohere2ForCausalLM", dict(
        WIDE, **WINDOW, sliding_window_pattern=3, logit_scale=0.6)),
    "exaone4": Row("Exaone4ForCausalLM", dict(WIDE, **WINDOW, sliding_window_pattern=3)),
    "exaone4_full": Row("Exaone4ForCausalLM", dict(
        WIDE, sliding_window=None, layer_types=3 * ["full_attention"], tie_word_embeddings=True)),
    "starcoder2": Row("Starcoder2ForCausalLM", dict(DECODER, **WINDOW)),
    "gpt_neox": Row("GPTNeoXForCausalLM", dict(ONE_HEAD_EACH, rotary_pct=0.34)),
    "gpt_neox_serial": Row("GPTNeoXForCausalLM", dict(
        ONE_HEAD_EACH, rotary_pct=1.0, use_parallel_residual=False, attention_bias=False)),
    "gptj": Row("GPTJForCausalLM", dict(
        vocab_size=101, n_positions=256, n_embd=60, n_layer=2, n_head=5, rotary_dim=8,
        bos_token_id=1, eos_token_id=2)),
    "codegen": Row("CodeGenForCausalLM", dict(
        vocab_size=101, n_positions=256, n_embd=64, n_layer=2, n_head=4, rotary_dim=8,
        bos_token_id=1, eos_token_id=2)),
    "phi": Row("PhiForCausalLM", dict(DECODER, hidden_size=60, num_attention_heads=5,
                                      num_key_value_heads=None, partial_rotary_factor=0.5)),
    "phi_qk_norm": Row("PhiForCausalLM", dict(DECODER, hidden_size=48, qk_layernorm=True)),
    "stablelm": Row("StableLmForCausalLM", dict(
        DECODER, hidden_size=48, partial_rotary_factor=0.25, use_qkv_bias=True)),
    "stablelm_qk_norm": Row("StableLmForCausalLM", dict(
        DECODER, hidden_size=48, partial_rotary_factor=0.25, qk_layernorm=True,
        use_parallel_residual=True), since=5),
    "falcon": Row("FalconForCausalLM", dict(
        SMALL, hidden_size=40, num_hidden_layers=2, num_attention_heads=5)),
    "falcon_groups": Row("FalconForCausalLM", dict(
        SMALL, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_kv_heads=2,
        new_decoder_architecture=True)),
    "falcon_alibi": Row("FalconForCausalLM", dict(
        SMALL, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, alibi=True, bias=True,
        multi_query=False, parallel_attn=False), attention="sdpa"),
    "olmoe": Row("OlmoeForCausalLM", dict(
        DECODER, num_key_value_heads=6, num_experts=7, num_experts_per_tok=3, clip_qkv=2.0)),
    "olmo2": Row("Olmo2ForCausalLM", DECODER),
    "olmo3": Row("Olmo3ForCausalLM", dict(
        DECODER, **WINDOW, rope_scaling=YARN, rope_theta=5e5,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"])),
    "lfm2": Row("Lfm2ForCausalLM", dict(
        DECODER, block_multiple_of=5, block_ffn_dim_multiplier=1.2, conv_bias=True,
        layer_types=["conv", "full_attention", "conv"])),
    "qwen3_next": Row("Qwen3NextForCausalLM", dict(
        QWEN35, **EXPERTS, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        shared_expert_intermediate_size=14, intermediate_size=48, mlp_only_layers=[1])),
    "qwen3_5": Row("Qwen3_5ForCausalLM", dict(QWEN35, intermediate_size=48), ("mtp",)),
    "qwen3_5_moe": Row("Qwen3_5MoeForCausalLM", dict(
        QWEN35, **EXPERTS, shared_expert_intermediate_size=14), ("mtp",)),
    "gpt2": Row("GPT2LMHeadModel", dict(
        vocab_size=101, n_positions=256, n_embd=60, n_layer=2, n_head=5, bos_token_id=1,
        eos_token_id=2)),
    "gpt_bigcode": Row("GPTBigCodeForCausalLM", dict(
        vocab_size=101, n_positions=256, n_embd=60, n_layer=2, n_head=5, bos_token_id=1,
        eos_token_id=2)),
    "gpt_bigcode_heads": Row("GPTBigCodeForCausalLM", dict(
        vocab_size=101, n_positions=256, n_embd=60, n_layer=2, n_head=5, bos_token_id=1,
        eos_token_id=2, multi_query=False)),
    "opt": Row("OPTForCausalLM", dict(
        SMALL, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, ffn_dim=92,
        word_embed_proj_dim=40)),
    "opt_projected": Row("OPTForCausalLM", dict(
        SMALL, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, ffn_dim=92,
        word_embed_proj_dim=24, do_layer_norm_before=False)),
    "bloom": Row("BloomForCausalLM", dict(
        vocab_size=101, hidden_size=36, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=False)),
    "bloom_after_norm": Row("BloomForCausalLM", dict(
        vocab_size=101, hidden_size=36, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2,
        apply_residual_connection_post_layernorm=True)),
    "mpt": Row("MptForCausalLM", dict(
        vocab_size=101, d_model=36, n_layers=2, n_heads=6, max_seq_len=256)),
    "gpt_oss": Row("GptOssForCausalLM", dict(
        WIDE, **WINDOW, num_local_experts=5, num_experts_per_tok=2)),
    "deepseek_v2": Row("DeepseekV2ForCausalLM", dict(
        LATENT, qk_nope_head_dim=10, qk_rope_head_dim=8, topk_method="group_limited_greedy",
        attention_bias=True, norm_topk_prob=False,
        rope_scaling=dict(YARN, mscale=0.5, mscale_all_dim=0.9)), since=5),
    "deepseek_v2_lite": Row("DeepseekV2ForCausalLM", dict(
        LATENT, qk_nope_head_dim=10, qk_rope_head_dim=8, topk_method="greedy", n_group=1,
        topk_group=1, q_lora_rank=None, norm_topk_prob=False)),
    "deepseek_v3": Row("DeepseekV3ForCausalLM", dict(
        LATENT, rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "glm4_moe_lite": Row("Glm4MoeLiteForCausalLM", dict(LATENT, n_group=1, topk_group=1)),
    "deepseek_v32": Row("DeepseekV32ForCausalLM", dict(LATENT, **INDEXER), ("indexer",)),
    "glm_moe_dsa": Row("GlmMoeDsaForCausalLM", dict(
        LATENT, **INDEXER, n_group=1, topk_group=1), ("indexer",)),
    "rwkv4": Row("RwkvForCausalLM", dict(
        vocab_size=101, hidden_size=40, num_hidden_layers=2, context_length=256,
        attention_hidden_size=48, intermediate_size=72)),
    "granite4": Row("GraniteMoeHybridForCausalLM", dict(
        DECODER, **MAMBA, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=28,
        layer_types=["mamba", "attention", "mamba"], position_embedding_type="nope",
        embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.7,
        logits_scaling=1.5)),
    "granite4_dense": Row("GraniteMoeHybridForCausalLM", dict(
        DECODER, **dict(MAMBA, mamba_n_groups=2), num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=28, layer_types=["mamba", "attention", "mamba"],
        position_embedding_type="rope"), since=5),
    "bamba": Row("BambaForCausalLM", dict(
        DECODER, **dict(MAMBA, mamba_d_head=16), hidden_size=48, attn_layer_indices=[1])),
    "nemotron_h": Row("NemotronHForCausalLM", dict(
        WIDE, hybrid_override_pattern="M-*E", num_hidden_layers=4, mamba_num_heads=6,
        mamba_head_dim=10, ssm_state_size=12, n_groups=2, conv_kernel=4, chunk_size=16,
        n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
        moe_shared_expert_intermediate_size=24)),
    "gemma4_moe": Row("Gemma4ForCausalLM", dict(
        dict(GEMMA4, tie_word_embeddings=False), num_hidden_layers=3, num_key_value_heads=3,
        num_global_key_value_heads=2,
        hidden_size_per_layer_input=0, num_kv_shared_layers=0, attention_k_eq_v=True,
        enable_moe_block=True, num_experts=7, top_k_experts=3, moe_intermediate_size=9,
        layer_types=["sliding_attention", "full_attention", "full_attention"])),
    "llama4_text": Row("Llama4ForCausalLM", dict(
        WIDE, num_hidden_layers=4, intermediate_size=12, intermediate_size_mlp=26,
        num_local_experts=5, interleave_moe_layer_step=2, attention_chunk_size=9, floor_scale=7,
        attn_scale=0.3)),
    "mistral4": Row("Mistral4ForCausalLM", dict(
        LATENT, n_group=1, topk_group=1, rope_parameters=MISTRAL_YARN)),
    "hunyuan_dense": Row("HunYuanDenseV1ForCausalLM", dict(
        WIDE, attention_bias=True, rope_scaling=dict(
            type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0,
            mscale_all_dim=1.0))),
    "nemotron": Row("NemotronForCausalLM", dict(WIDE, mlp_bias=True)),
    "mistral3": Row("Mistral3ForConditionalGeneration", dict(
        text_config=dict(WIDE, model_type="mistral", **WINDOW, tie_word_embeddings=False),
        vision_config=dict(VISION, model_type="pixtral"), tie_word_embeddings=False), TOWERS),
    "gemma3": Row("Gemma3ForConditionalGeneration", dict(
        text_config=dict(WIDE, **WINDOW, sliding_window_pattern=3,
                         rope_scaling=dict(rope_type="linear", factor=8.0)),
        vision_config=dict(VISION, model_type="siglip_vision_model"), mm_tokens_per_image=4),
        TOWERS),
    "llama4": Row("Llama4ForConditionalGeneration", dict(
        text_config=dict(WIDE, num_hidden_layers=4, intermediate_size=12, intermediate_size_mlp=26,
                         num_local_experts=5, interleave_moe_layer_step=2, attention_chunk_size=9),
        vision_config=dict(VISION, vision_output_dim=16, projector_input_dim=16,
                           projector_output_dim=16)), TOWERS),
    "qwen3_vl": Row("Qwen3VLForConditionalGeneration", dict(
        text_config=dict(WIDE, rope_scaling=MROPE), vision_config=dict(
            QWEN_VISION, deepstack_visual_indexes=[0], num_position_embeddings=16,
            out_hidden_size=36)), ("visual",)),
    "qwen3_5_vision": Row("Qwen3_5ForConditionalGeneration", dict(
        text_config=dict(QWEN35, intermediate_size=48), vision_config=dict(
            QWEN_VISION, num_position_embeddings=16, out_hidden_size=32)), ("visual", "mtp")),
    "qwen3_5_moe_vision": Row("Qwen3_5MoeForConditionalGeneration", dict(
        text_config=dict(QWEN35, **EXPERTS, shared_expert_intermediate_size=14),
        vision_config=dict(QWEN_VISION, num_position_embeddings=16, out_hidden_size=32)),
        ("visual", "mtp")),
    "qwen2_vl": Row("Qwen2VLForConditionalGeneration", dict(
        text_config=dict(DECODER, rope_scaling=ROTARY_OF_3), vision_config=dict(
            depth=1, embed_dim=8, hidden_size=36, num_heads=2, patch_size=2)), ("visual",),
        since=5),
    "qwen2_5_vl": Row("Qwen2_5_VLForConditionalGeneration", dict(
        text_config=dict(DECODER, rope_scaling=ROTARY_OF_3, **LATER_WINDOW), vision_config=dict(
            QWEN_VISION, out_hidden_size=36, fullatt_block_indexes=[0])), ("visual",), since=5),
    "qwen3_vl_moe": Row("Qwen3VLMoeForConditionalGeneration", dict(
        text_config=dict(WIDE, **EXPERTS, rope_scaling=MROPE), vision_config=dict(
            QWEN_VISION, deepstack_visual_indexes=[0], num_position_embeddings=16,
            out_hidden_size=36)), ("visual",)),
    "llava": Row("LlavaForConditionalGeneration", dict(
        text_config=dict(DECODER, model_type="llama"), vision_config=CLIP), TOWERS),
    "llava_mistral": Row("LlavaNextForConditionalGeneration", dict(
        text_config=dict(DECODER, model_type="mistral", sliding_window=None),
        vision_config=CLIP), (*TOWERS, "image_newline")),
    "llava_qwen2": Row("LlavaOnevisionForConditionalGeneration", dict(
        text_config=dict(DECODER, model_type="qwen2"),
        vision_config=dict(VISION, model_type="siglip_vision_model", vision_use_head=False)),
        (*TOWERS, "image_newline")),
    "internvl": Row("InternVLForConditionalGeneration", dict(
        text_config=dict(WIDE, model_type="qwen3"), vision_config=dict(
            VISION, image_size=[28, 28], patch_size=[14, 14]), tie_word_embeddings=False), TOWERS),
    "kimi_k25": Row("Kimi_K25ForConditionalGeneration", dict(
        text_config=dict(LATENT, model_type="deepseek_v3"), vision_config=VISION,
        tie_word_embeddings=False),
        (*TOWERS, "mm_projector")),
    "exaone4_5": Row("Exaone4_5_ForConditionalGeneration", dict(
        text_config=dict(WIDE, **WINDOW, sliding_window_pattern=3, model_type="exaone4"),
        vision_config=dict(QWEN_VISION, model_type="exaone4_5_vision", out_hidden_size=36,
                           fullatt_block_indexes=[0])), ("visual", "mtp")),
    "glm4v": Row("Glm4vForConditionalGeneration", dict(
        text_config=dict(WIDE, hidden_size=48, rope_scaling=MROPE), vision_config=GLM_VISION),
        ("visual",), since=5),
    "glm46v": Row("Glm46VForConditionalGeneration", dict(
        text_config=dict(WIDE, hidden_size=48, rope_scaling=MROPE, model_type="glm4v_text"),
        vision_config=dict(GLM_VISION, model_type="glm4v_vision")), ("visual",)),
    "glm4v_moe": Row("Glm4vMoeForConditionalGeneration", dict(
        text_config=dict(WIDE, **ROUTED, rope_scaling=dict(MROPE, mrope_section=[1, 1, 0])),
        vision_config=GLM_VISION), ("visual",), since=5),
    "gemma4": Row("Gemma4ForConditionalGeneration", dict(
        text_config=dict(GEMMA4, num_hidden_layers=6, num_key_value_heads=2,
                         vocab_size_per_layer_input=101, hidden_size_per_layer_input=5,
                         num_kv_shared_layers=3, use_double_wide_mlp=True,
                         layer_types=2 * ["sliding_attention", "sliding_attention",
                                          "full_attention"]),
        vision_config=None, audio_config=None), ("vision", "audio")),
}

# Architectures that transformers does not have: the published model brings their code.
REMOTE_CODE = (
    "BaiChuanForCausalLM", "BaichuanForCausalLM", "InternLMForCausalLM", "InternLM2ForCausalLM",
    "ChatGLMModel", "ChatGLMForConditionalGeneration", "MossForCausalLM",
    "StableLMEpochForCausalLM", "RWForCausalLM", "MPTForCausalLM", "QWenLMHeadModel",
    "Rwkv5ForCausalLM", "Rwkv6ForCausalLM", "Rwkv7ForCausalLM", "RWKV7ForCausalLM",
    "InternVLChatModel", "KimiK25ForConditionalGeneration",
)
