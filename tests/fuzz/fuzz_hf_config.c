// fuzz_hf_config.c - any bytes as the config.json of a folder with small tensors: what opens is a
// consistent model whose tensors can be made, what does not says why in one line.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf.h"
#include "fuzz.h"

FUZZ_TARGET(fuzz_hf_config);

static char folder[64];

static void write_in_folder(const char *name, const void *p, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(p, 1, n, f) == n);
    fclose(f);
}

static void remove_folder(void)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

// Tensors of several families, of few numbers.
static void write_small_tensors(void)
{
    static const struct small_tensor {
        const char *name, *shape;
        int n;
    } tensors[] = {
        {"model.embed_tokens.weight", "[2, 4]", 8},
        {"model.norm.weight", "[4]", 4},
        {"model.layers.0.self_attn.q_proj.weight", "[4, 4]", 16},
        {"model.layers.0.self_attn.k_proj.bias", "[4]", 4},
        {"model.layers.0.mlp.experts.0.up_proj.weight", "[2, 4]", 8},
        {"model.layers.0.mlp.experts.1.up_proj.weight", "[2, 4]", 8},
        {"model.layers.0.mlp.experts.gate_up_proj", "[2, 4, 6]", 48},
    };
    char text[2048];
    int n = 0, at = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s\"%s\": {\"dtype\": \"F32\", \"shape\": %s, \"data_offsets\": [%d, %d]}",
                      i ? ", " : "{", tensors[i].name, tensors[i].shape, 4 * at,
                      4 * (at + tensors[i].n));
        at += tensors[i].n;
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "}");
    fxi_buf file = {0};
    const uint64_t n_head = (uint64_t)n;
    FUZZ_CHECK(fxi_buf_add(&file, &n_head, sizeof n_head) && fxi_buf_str(&file, text));
    for (int i = 0; i < at; i++) FUZZ_CHECK(fxi_buf_add(&file, &(float){(float)i}, sizeof(float)));
    write_in_folder("model.safetensors", file.p, file.n);
    fxi_buf_free(&file);
}

static void make_folder(void)
{
    if (folder[0]) return;
    const bool has_shm = !access("/dev/shm", W_OK); // a file is written for each input
    strcpy(folder, has_shm ? "/dev/shm/fuzz_hf_config.XXXXXX" : "/tmp/fuzz_hf_config.XXXXXX");
    FUZZ_CHECK(mkdtemp(folder));
    atexit(remove_folder);
    write_small_tensors();
}

static volatile unsigned char sink;

static void make_all_tensors(const fxi_gguf *g)
{
    fx_error err;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        if (t->size_bytes > 1 << 20) continue; // vectors for long heads
        FUZZ_CHECK(fxi_gguf_fetch(g, t, 0, t->size_bytes, NULL, &err) == FX_OK);
        for (uint64_t k = 0; k < t->size_bytes; k++) sink += ((const unsigned char *)t->data)[k];
        fxi_gguf_drop(g, t->data, t->size_bytes);
    }
}

int fuzz_hf_config_run(const uint8_t *data, size_t n_bytes)
{
    fxi_gguf *g;
    fx_error err = {0};
    make_folder();
    write_in_folder("config.json", data, n_bytes);
    const fx_status st = fxi_hf_open(folder, &g, &err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EFORMAT && !strncmp(err.text, folder, strlen(folder))));
    for (const char *c = err.text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
    if (st != FX_OK) return 0;
    make_all_tensors(g);
    fxi_gguf_close(g);
    return 0;
}

#define SHAPE                                                                             \
    "\"num_hidden_layers\": 1, \"hidden_size\": 4, \"num_attention_heads\": 2, "          \
    "\"intermediate_size\": 2, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, " \
    "\"vocab_size\": 2, \"num_experts\": 2, \"num_experts_per_tok\": 1"

bool fuzz_hf_config_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "{\"model_type\": \"llama\", " SHAPE "}",
        "{\"model_type\": \"qwen3_moe\", " SHAPE
        ", \"head_dim\": 4, \"sliding_window\": 3, \"use_sliding_window\": true, "
        "\"max_window_layers\": 0, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "
        "\"original_max_position_embeddings\": 16, \"mscale\": 1, \"mscale_all_dim\": 0.5}}",
        "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", " SHAPE
        ", \"layer_types\": [\"sliding_attention\"], \"sliding_window\": 3, "
        "\"query_pre_attn_scalar\": 4, \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
        "\"linear\", \"factor\": 2}, \"sliding_attention\": {\"rope_theta\": 5}}}}",
        "{\"model_type\": \"gpt_oss\", " SHAPE
        ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8}, "
        "\"quantization_config\": {\"quant_method\": \"mxfp4\"}}",
        "{\"model_type\": \"nomic_bert\", \"n_embd\": 4, \"n_head\": 1, \"n_layer\": 1, "
        "\"n_inner\": 2, \"max_trained_positions\": 8, \"rotary_emb_fraction\": 1, "
        "\"activation_function\": \"swiglu\", \"rotary_emb_scale_base\": null}",
        "{\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], " SHAPE
        ", \"sentence_transformers\": {\"activation_fn\": \"torch.nn.Identity\"}}",
        "{\"model_type\": \"deepseek_v3\", " SHAPE
        ", \"kv_lora_rank\": 2, \"q_lora_rank\": 2, \"qk_nope_head_dim\": 1, "
        "\"qk_rope_head_dim\": 2, \"v_head_dim\": 1, \"topk_method\": \"noaux_tc\", "
        "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"mscale\": 1, "
        "\"mscale_all_dim\": 1}}",
        "{\"model_type\": \"phi3\", " SHAPE
        ", \"original_max_position_embeddings\": 8, \"rope_scaling\": {\"type\": \"longrope\", "
        "\"long_factor\": [2], \"short_factor\": [1]}, \"eos_token_id\": [1, 2]}",
    };
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
