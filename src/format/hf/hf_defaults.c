// hf_defaults.c - what the numbers of a family are where config.json leaves them out.
//
// A library that saves a model may leave out what is as its own class of the family has it: the
// config.json of Gemma 3 4B names neither its heads nor its rotary base. Listed is what changes
// results and is not what every family would get: 1e-5 for epsilons, 10000 for the rotary base, no
// window, no scales, an output of its own.
#include <string.h>

#include "format/hf/hf_folder.h"
#include "format/json_text.h"

#define EPS_1E6  "\"rms_norm_eps\": 1e-6"
#define EPS_1E12 "\"layer_norm_eps\": 1e-12"
#define TIED     "\"tie_word_embeddings\": true"
#define GEMMA                                                                      \
    EPS_1E6 ", " TIED ", \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
            "\"head_dim\": 256, \"query_pre_attn_scalar\": 256, \"sliding_window\": 4096, "

static const struct family_defaults {
    const char *model_type, *members; // of config.json
} family_defaults[] = {
    {"llama", EPS_1E6},
    {"mistral", EPS_1E6 ", \"num_key_value_heads\": 8, \"sliding_window\": 4096, "
                        "\"max_position_embeddings\": 131072"},
    {"ministral", EPS_1E6 ", \"num_key_value_heads\": 8, \"sliding_window\": 4096, "
                          "\"max_position_embeddings\": 131072"},
    {"ministral3", "\"num_key_value_heads\": 8, \"head_dim\": 128"},
    {"mixtral", "\"num_key_value_heads\": 8, \"num_local_experts\": 8, "
                "\"num_experts_per_tok\": 2, \"rope_theta\": 1000000, "
                "\"max_position_embeddings\": 131072"},
    {"qwen2", EPS_1E6 ", \"max_position_embeddings\": 32768"},
    {"qwen3", EPS_1E6 ", \"head_dim\": 128, \"max_position_embeddings\": 32768"},
    {"qwen2_moe", EPS_1E6 ", \"norm_topk_prob\": false, \"max_position_embeddings\": 32768"},
    {"qwen3_moe", EPS_1E6 ", \"norm_topk_prob\": false, \"max_position_embeddings\": 32768"},
    {"phi3", "\"max_position_embeddings\": 4096"},
    {"phi", "\"partial_rotary_factor\": 0.5"},
    {"gemma2", GEMMA "\"attn_logit_softcapping\": 50, \"final_logit_softcapping\": 30, "
                     "\"max_position_embeddings\": 8192"},
    {"gemma3_text", GEMMA "\"vocab_size\": 262208, \"rope_theta\": 1000000, "
                          "\"max_position_embeddings\": 131072"},
    {"smollm3", EPS_1E6 ", " TIED ", \"rope_theta\": 2000000, \"max_position_embeddings\": 32768"},
    {"olmo3", "\"rope_theta\": 500000, \"sliding_window\": 4096"},
    {"olmoe", "\"norm_topk_prob\": false, \"max_position_embeddings\": 4096"},
    {"granite", EPS_1E6},
    {"granitemoe", EPS_1E6},
    {"stablelm", "\"partial_rotary_factor\": 0.25, \"max_position_embeddings\": 4096"},
    {"starcoder2", TIED ", \"max_position_embeddings\": 4096"},
    {"falcon", TIED},
    {"gpt2", TIED ", \"n_positions\": 1024"},
    {"gpt_neox", "\"rotary_pct\": 0.25, \"use_parallel_residual\": true"},
    {"opt", TIED},
    {"cohere", TIED ", \"logit_scale\": 0.0625, \"rope_theta\": 500000, "
                    "\"max_position_embeddings\": 8192"},
    {"bert", EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"roberta", EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"xlm-roberta", EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"nomic_bert", EPS_1E12 ", \"rotary_emb_base\": 1000"},
    {"gpt_oss", "\"sliding_window\": 128"},
};

static const char *members_of(const fxi_hf_family *family)
{
    for (size_t i = 0; i < sizeof family_defaults / sizeof *family_defaults; i++)
        if (!strcmp(family_defaults[i].model_type, family->model_type))
            return family_defaults[i].members;
    return "";
}

fx_status fxi_hf_add_defaults(fxi_folder *f)
{
    char text[512];
    json_error_t e;
    bool no_memory;
    const int n = snprintf(text, sizeof text, "{%s}", members_of(f->family));
    json_t *all = fxi_json_text(text, (size_t)n, JSON_DECODE_INT_AS_REAL, &no_memory, &e);
    const int failed = json_object_update_missing(f->config.root, all);
    json_decref(all);
    return failed ? fxi_fail(f->err, FX_ENOMEM, "%s: no memory", f->path) : FX_OK;
}
