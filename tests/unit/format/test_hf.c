// test_hf.c - Hugging Face folders as GGUF: every family's tensors and keys are those of a file
// that was made independently (tests/vectors/make_model_vectors.py), and what cannot be read is
// named in one line. Safetensors files: what is there is read, and each way to be broken is named
// in one line.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "format/gguf.h"
#include "format/hf/hf_files.h"
#include "unit/cmocka_all.h"
#include "unit/vector_folders.h"

// ---- folders ------------------------------------------------------------------------------------

#define SCRATCH FX_BINARY_DIR "/test_hf.tmp"

// ---- families ----------------------------------------------------------------------------------

static float *numbers_of(const fxi_gguf *g, const fxi_gguf_tensor *t, size_t *n)
{
    fx_error err;
    *n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    float *v = malloc(*n * sizeof *v);
    if (fxi_gguf_fetch(g, t, 0, t->size_bytes, NULL, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_row_to_f32((fxi_dtype)t->type->id, t->data, *n, v);
    fxi_gguf_drop(g, t->data, t->size_bytes);
    return v;
}

static void name_of(fxi_str s, char out[128])
{
    snprintf(out, 128, "%.*s", (int)s.n, s.p);
}

static void check_same_tensor(const char *model, const fxi_gguf *want, const fxi_gguf_tensor *w,
                              const fxi_gguf *got)
{
    char name[128];
    size_t n, n_got;
    name_of(w->name, name);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(got, name);
    if (!t) fail_msg("%s: no tensor %s", model, name);
    if (memcmp(t->ne, w->ne, sizeof t->ne)) fail_msg("%s: shape of %s", model, name);
    float *a = numbers_of(want, w, &n), *b = numbers_of(got, t, &n_got);
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%s: %s[%zu] is %g, not %g", model, name, i, (double)b[i], (double)a[i]);
    free(a);
    free(b);
}

// Keys that say the same in another way, or that the folders have not or the vectors change.
static bool is_said_otherwise(const char *model, const char *key)
{
    return strstr(key, "yarn_log_multiplier") || !strncmp(key, "tokenizer.", 10) ||
           (!strcmp(model, "llama-dynamic") && strstr(key, "context_length"));
}

static float number_of(const fxi_gguf_kv *kv)
{
    return kv->type == FXI_GGUF_F32 ? (float)fxi_gguf_float_at(kv, 0)
                                    : (float)fxi_gguf_int_at(kv, 0);
}

static void check_same_key(const char *model, const fxi_gguf_kv *w, const fxi_gguf *got)
{
    char key[128];
    bool flag, is_flag;
    name_of(w->key, key);
    if (!strncmp(key, "general.", 8) || is_said_otherwise(model, key)) return;
    if (!fxi_gguf_find(got, key)) fail_msg("%s: no key %s", model, key);
    fx_error err;
    if (w->type == FXI_GGUF_BOOL) {
        flag = w->value[0];
        assert_int_equal(fxi_gguf_bool(got, key, true, &is_flag, &err), FX_OK);
        assert_int_equal(is_flag, flag);
    } else if (w->type != FXI_GGUF_STR) {
        const float want = number_of(w), is = number_of(fxi_gguf_find(got, key));
        if (fabsf(is - want) > 1e-6f * fabsf(want))
            fail_msg("%s: %s is %g, not %g", model, key, (double)is, (double)want);
    }
}

static void check_family(const char *model, const char *folder, const char *file)
{
    fxi_gguf *want, *got;
    fx_error err;
    if (fxi_gguf_open(file, &want, &err) != FX_OK) fail_msg("%s", err.text);
    if (fxi_model_file_open(folder, &got, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(fxi_gguf_n_tensor(got), fxi_gguf_n_tensor(want));
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(want); i++)
        check_same_tensor(model, want, fxi_gguf_tensor_at(want, i), got);
    for (uint64_t i = 0; i < fxi_gguf_n_kv(want); i++)
        check_same_key(model, fxi_gguf_kv_at(want, i), got);
    fxi_gguf_close(want);
    fxi_gguf_close(got);
}

FX_TEST(test_every_family_is_as_converters_make_it)
{
    for_each_folder(check_family);
}

// Parts of a computed tensor, of any size and in any order, are what the whole has there.
FX_TEST(test_parts_of_computed_tensors)
{
    fxi_gguf *g;
    fx_error err;
    size_t n;
    assert_int_equal(fxi_model_file_open(VECTORS "folders/llama", &g, &err), FX_OK);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(g, "blk.0.attn_q.weight");
    float *all = numbers_of(g, t, &n);
    const uint64_t row = t->ne[0] * t->type->block_bytes;
    for (uint64_t from = t->ne[1]; from-- > 0;) {
        float v[256];
        assert_true(t->ne[0] <= 256);
        const char *at = (const char *)t->data + from * row;
        assert_int_equal(fxi_gguf_fetch(g, t, from * row + row / 2, 1, NULL, &err), FX_OK);
        fxi_row_to_f32((fxi_dtype)t->type->id, at, t->ne[0], v);
        assert_memory_equal(v, all + from * t->ne[0], t->ne[0] * sizeof *v);
        fxi_gguf_drop(g, at, row);
    }
    free(all);
    fxi_gguf_close(g);
}

// ---- broken folders ----------------------------------------------------------------------------

static void write_text(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, SCRATCH "/%s", name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void empty_scratch(void)
{
    static const char *const names[] = {
        "config.json",   "model.safetensors", "pytorch_model.bin", "model.safetensors.index.json",
        "a.safetensors", "b.safetensors",     "tokenizer.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, SCRATCH "/%s", names[i]);
        remove(path);
    }
    mkdir(SCRATCH, 0755);
}

// A file of F32 zeros, [2][2] under each name.
static void write_tensors(const char *file, const char *const *name, int n)
{
    char path[512], head[4096];
    size_t at = 0;
    snprintf(path, sizeof path, SCRATCH "/%s", file);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(head + at, sizeof head - at,
                               "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [2, 2], "
                               "\"data_offsets\": [%d, %d]}",
                               i ? ", " : "{", name[i], 16 * i, 16 * i + 16);
    at += (size_t)snprintf(head + at, sizeof head - at, "}");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const uint64_t n_head = at;
    const float zero[4] = {0};
    fwrite(&n_head, sizeof n_head, 1, f);
    fwrite(head, 1, at, f);
    for (int i = 0; i < n; i++) fwrite(zero, sizeof zero, 1, f);
    fclose(f);
}

#define CONFIG                                                                               \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 2, "             \
    "\"num_attention_heads\": 1, \"intermediate_size\": 2, \"max_position_embeddings\": 8, " \
    "\"rms_norm_eps\": 1e-5, \"vocab_size\": 2"

#define NOMIC                                                                         \
    "{\"model_type\": \"nomic_bert\", \"n_layer\": 1, \"n_embd\": 2, \"n_head\": 1, " \
    "\"n_inner\": 2, \"n_positions\": 8"

static void expect_refused(const char *text)
{
    fxi_gguf *g = NULL;
    fx_error err = {0};
    if (fxi_model_file_open(SCRATCH, &g, &err) == FX_OK) fail_msg("opened, not: %s", text);
    assert_null(g);
    if (!strstr(err.text, text)) fail_msg("'%s' lacks '%s'", err.text, text);
    assert_null(strchr(err.text, '\n'));
}

FX_TEST(test_broken_configs_are_named)
{
    static const char *const embed[] = {"model.embed_tokens.weight"};
    static const struct {
        const char *config, *error;
    } cases[] = {
        {"", "config.json: the file is empty"},
        {"{", "config.json: line 1"},
        {"[]", "config.json: not a JSON object"},
        {"{}", "config.json: model_type: missing"},
        {"{\"model_type\": 3}", "model_type: not a string"},
        {"{\"model_type\": \"x\"}", "model_type: 'x' is not supported, only llama, "},
        {"{\"model_type\": \"llama\"}", "num_hidden_layers: missing"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1e9}", "is out of range (1 to 1024)"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 0.5}", "not a whole number"},
        {CONFIG ", \"num_hidden_layers\": 1}", "the key 'num_hidden_layers' twice"},
        {CONFIG ", \"num_key_value_heads\": 3}", "1 heads are not a multiple of 3 KV heads"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}",
         "quantization_config.quant_method: 'bitsandbytes' is not supported"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
         "quantization_config.bits: missing"},
        {CONFIG ", \"hidden_act\": \"tanh\"}", "hidden_act: 'tanh' is not supported"},
        {CONFIG ", \"rope_scaling\": {\"rope_type\": \"mrope\"}}",
         "rope_scaling.rope_type: 'mrope' is not supported"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor: missing"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": -1}}",
         "rope_scaling.factor: -1 is not positive"},
        {CONFIG ", \"rope_theta\": 0}", "rope_theta: 0 is not positive"},
        {CONFIG ", \"partial_rotary_factor\": 0.1}", "cannot be rotated in pairs"},
        {CONFIG ", \"is_encoder_decoder\": true}", "is_encoder_decoder: only false is supported"},
        {CONFIG ", \"scale_attn_weights\": false}", "scale_attn_weights: only true is supported"},
        {NOMIC ", \"activation_function\": \"gelu\"}", "activation_function: only swiglu is"},
        {NOMIC ", \"prenorm\": true}", "prenorm: only false is supported"},
        {NOMIC ", \"rotary_emb_interleaved\": true}", "rotary_emb_interleaved: only false is"},
        {NOMIC ", \"rotary_emb_scale_base\": 512}", "rotary_emb_scale_base: only null is"},
        {NOMIC ", \"rotary_emb_fraction\": 0}", "cannot be rotated in pairs"},
    };
    empty_scratch();
    write_tensors("model.safetensors", embed, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].config);
        expect_refused(cases[i].error);
    }
    empty_scratch();
}

FX_TEST(test_missing_files_are_named)
{
    empty_scratch();
    expect_refused("test_hf.tmp: a directory without config.json");
    write_text("config.json", CONFIG "}");
    expect_refused("a directory without model.safetensors or model.safetensors.index.json");
    write_text("pytorch_model.bin", "x");
    expect_refused("pytorch_model.bin can hold programs and is never read");
    empty_scratch();
}

FX_TEST(test_broken_indexes_are_named)
{
    static const char *const one[] = {"model.embed_tokens.weight"}, *const two[] = {
                                                                        "model.norm.weight"};
    static const struct {
        const char *index, *error;
    } cases[] = {
        {"{}", "weight_map: not an object"},
        {"{\"weight_map\": {\"x\": 3}}", "weight_map: 'x' is not mapped to a file name"},
        {"{\"weight_map\": {\"x\": \"../a.safetensors\"}}",
         "weight_map: 'x' is not mapped to a file name"},
        {"{\"weight_map\": {\"x\": \"c.safetensors\"}}", "c.safetensors: the file is missing"},
        {"{\"weight_map\": {\"x\": \"a.safetensors\"}}", "tensor 'x' is not in a.safetensors"},
        {"{\"weight_map\": {\"model.embed_tokens.weight\": \"b.safetensors\", "
         "\"model.norm.weight\": \"a.safetensors\"}}",
         "is not in "},
    };
    empty_scratch();
    write_text("config.json", CONFIG "}");
    write_tensors("a.safetensors", one, 1);
    write_tensors("b.safetensors", two, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("model.safetensors.index.json", cases[i].index);
        expect_refused(cases[i].error);
    }
    write_tensors("b.safetensors", one, 1); // in both files
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"model.embed_tokens.weight\": \"a.safetensors\", "
               "\"y\": \"b.safetensors\"}}");
    expect_refused("b.safetensors: tensor 'model.embed_tokens.weight' is also in ");
    empty_scratch();
}

FX_TEST(test_foreign_tensors_are_named)
{
    static const char *const alien[] = {"model.layers.0.alien.weight"},
                             *const twice[] = {"model.norm.weight", "norm.weight"},
                             *const expert[] = {"model.layers.0.mlp.experts.0.up_proj.weight"},
                             *const query[] = {"model.layers.0.self_attn.q_proj.weight"};
    empty_scratch();
    write_text("config.json", CONFIG "}");
    write_tensors("model.safetensors", alien, 1);
    expect_refused("tensor 'model.layers.0.alien.weight': is not part of a model of type llama");
    write_tensors("model.safetensors", twice, 2);
    expect_refused("tensor 'output_norm.weight' appears twice");
    write_tensors("model.safetensors", expert, 1);
    expect_refused("config.json does not give the number of experts");
    write_text("config.json", CONFIG ", \"num_experts\": 2}");
    expect_refused("part 1 of 2 of 'blk.0.ffn_up_exps.weight' is missing");
    write_text("config.json", CONFIG ", \"head_dim\": 4}");
    write_tensors("model.safetensors", query, 1);
    expect_refused("2 rows are not a multiple of the head size 4");
    empty_scratch();
}

// ---- what a config leaves out -------------------------------------------------------------------

// Gemma 3 4B's config.json says no more about its text model than this.
FX_TEST(test_members_left_out)
{
    static const char *const embed[] = {"language_model.model.embed_tokens.weight"};
    static const struct {
        const char *key;
        float value;
    } want[] = {{"gemma3.attention.head_count", 8},
                {"gemma3.attention.head_count_kv", 4},
                {"gemma3.attention.key_length", 256},
                {"gemma3.attention.scale", 1.0f / 16},
                {"gemma3.attention.layer_norm_rms_epsilon", 1e-6f},
                {"gemma3.context_length", 131072},
                {"gemma3.rope.freq_base", 1e6f},
                {"gemma3.rope.freq_base_swa", 1e4f},
                {"gemma3.rope.scaling.factor", 8}};
    fxi_gguf *g;
    fx_error err;
    empty_scratch();
    write_tensors("model.safetensors", embed, 1);
    write_text("config.json",
               "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, "
               "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", "
               "\"num_hidden_layers\": 34, \"sliding_window\": 1024, "
               "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}}}");
    if (fxi_model_file_open(SCRATCH, &g, &err) != FX_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const fxi_gguf_kv *kv = fxi_gguf_find(g, want[i].key);
        if (!kv) fail_msg("no key %s", want[i].key);
        const float got = number_of(kv);
        if (got != want[i].value) fail_msg("%s is %g", want[i].key, (double)got);
    }
    fxi_gguf_close(g);
    empty_scratch();
}

#define PAIR_CONFIG                                                                       \
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], " \
    "\"num_hidden_layers\": 1, \"hidden_size\": 2, \"num_attention_heads\": 1, "          \
    "\"intermediate_size\": 2"

// ---- embeddings --------------------------------------------------------------------------------

static void expect_pooling(const char *pooling, const char *modules, uint32_t type, bool normal)
{
    fxi_gguf *g;
    fx_error err;
    uint32_t got = 99;
    bool is_normal = !normal;
    write_text("1_Pooling/config.json", pooling);
    write_text("modules.json", modules);
    if (fxi_model_file_open(SCRATCH, &g, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(fxi_gguf_u32(g, "llama.pooling_type", true, &got, &err), FX_OK);
    assert_int_equal(fxi_gguf_bool(g, "llama.pooling_normalize", true, &is_normal, &err), FX_OK);
    assert_int_equal(got, type);
    assert_int_equal(is_normal, normal);
    fxi_gguf_close(g);
}

FX_TEST(test_pooling_of_sentence_transformers)
{
    static const char *const embed[] = {"embed_tokens.weight"};
    static const char list[] = "[{\"type\": \"sentence_transformers.models.Transformer\"}, "
                               "{\"type\": \"sentence_transformers.models.Normalize\"}]";
    empty_scratch();
    mkdir(SCRATCH "/1_Pooling", 0755);
    write_text("config.json", CONFIG "}");
    write_tensors("model.safetensors", embed, 1);
    expect_pooling("{\"pooling_mode_lasttoken\": true}", list, 3, true);
    expect_pooling("{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false}", "[]",
                   1, false);
    expect_pooling("{\"pooling_mode\": \"cls\"}", list, 2, true);
    write_text("1_Pooling/config.json", "{\"pooling_mode_max_tokens\": true}");
    expect_refused("only mean, cls and lasttoken are supported");
    write_text("1_Pooling/config.json",
               "{\"pooling_mode_cls_token\": true, \"pooling_mode_lasttoken\": true}");
    expect_refused("more than one pooling mode");
    write_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\": true}");
    write_text("modules.json", "[{\"type\": \"sentence_transformers.models.Dense\"}]");
    expect_refused("modules.json: type: module 'Dense' is not supported");
    remove(SCRATCH "/1_Pooling/config.json");
    remove(SCRATCH "/modules.json");
    rmdir(SCRATCH "/1_Pooling");
    empty_scratch();
}

// What config.json says of the score of a pair of texts; NULL: nothing.
static void expect_score(const char *says, bool is_raw)
{
    fxi_gguf *g;
    fx_error err;
    uint32_t type = 0;
    bool raw = false;
    char config[512];
    snprintf(config, sizeof config, PAIR_CONFIG "%s}", says);
    write_text("config.json", config);
    if (fxi_model_file_open(SCRATCH, &g, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(fxi_gguf_u32(g, "bert.pooling_type", true, &type, &err), FX_OK);
    assert_int_equal(fxi_gguf_bool(g, "flexinfer.raw_scores", false, &raw, &err), FX_OK);
    assert_int_equal(type, 4);
    assert_int_equal(raw, is_raw);
    assert_non_null(fxi_gguf_find_tensor(g, "cls.weight"));
    fxi_gguf_close(g);
}

FX_TEST(test_scores_of_sentence_transformers)
{
    static const char *const pooler[] = {"bert.pooler.dense.weight"};
    static const char old[] = ", \"sbert_ce_default_activation_function\": \"torch.nn.Sigmoid\"";
    static const char linear[] = ", \"sentence_transformers\": {\"activation_fn\": "
                                 "\"torch.nn.modules.linear.Identity\"}";
    static const char other[] = PAIR_CONFIG ", \"sentence_transformers\": {\"activation_fn\": "
                                            "\"torch.nn.Tanh\"}}";
    empty_scratch();
    write_tensors("model.safetensors", pooler, 1);
    expect_score("", false);
    expect_score(old, false);
    expect_score(linear, true);
    write_text("config.json", other);
    expect_refused("activation 'torch.nn.Tanh' of a score is neither Identity nor Sigmoid");
    empty_scratch();
}

// ---- safetensors files --------------------------------------------------------------------------

static const char sound[] =
    "{\"__metadata__\": {\"format\": \"pt\"}, "
    "\"b\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"data_offsets\": [4, 16]}, "
    "\"a\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [0, 4]}, "
    "\"c\": {\"dtype\": \"F8_E4M3\", \"shape\": [0, 7], \"data_offsets\": [16, 16]}}    ";

enum { N_DATA = 16 };

static fxi_buf file_of(const char *header, size_t n_data)
{
    fxi_buf b = {0};
    const uint64_t n = strlen(header);
    assert_true(fxi_buf_add(&b, &n, sizeof n) && fxi_buf_add(&b, header, n));
    for (size_t i = 0; i < n_data; i++) {
        const char c = (char)i;
        assert_true(fxi_buf_add(&b, &c, 1));
    }
    return b;
}

FX_TEST(test_what_is_there_is_read)
{
    fxi_safetensors s;
    fx_error err;
    fxi_buf b = file_of(sound, N_DATA);
    if (fxi_safetensors_parse(b.p, b.n, "x", &s, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(s.n_tensor, 3);
    assert_string_equal(s.tensor[0].name, "a");
    assert_int_equal(s.tensor[0].n_elem, 1);
    assert_int_equal(s.tensor[0].n_dim, 0);
    const fxi_st_tensor *t = &s.tensor[1];
    assert_string_equal(t->name, "b");
    assert_int_equal(t->type, FXI_ST_BF16);
    assert_true(t->n_dim == 2 && t->dim[0] == 2 && t->dim[1] == 3 && t->size_bytes == 12);
    assert_int_equal(t->data[0], 4);
    fxi_safetensors_close(&s);
    fxi_buf_free(&b);
}

static void expect_broken(const char *header, size_t n_data, const char *text)
{
    fxi_safetensors s;
    fx_error err = {0};
    fxi_buf b = file_of(header, n_data);
    assert_int_equal(fxi_safetensors_parse(b.p, b.n, "x", &s, &err), FX_EFORMAT);
    if (strncmp(err.text, "x: ", 3) || !strstr(err.text, text) || strchr(err.text, '\n'))
        fail_msg("'%s' lacks '%s'", err.text, text);
    fxi_safetensors_close(&s);
    fxi_buf_free(&b);
}

#define ONE(dtype, shape, offsets) \
    "{\"t\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"
#define TWO(offsets)                                                           \
    "{\"t\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, " \
    "\"u\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": " offsets "}}"

FX_TEST(test_broken_headers_are_named)
{
    static const struct {
        const char *header;
        size_t n_data;
        const char *error;
    } cases[] = {
        {"", 0, "the header is not JSON"},
        {"[]", 0, "the header is not an object"},
        {"{\"t\": 1}", 0, "tensor 't': is not an object"},
        {"{\"t\": {}}", 0, "tensor 't': has no dtype"},
        {"{\"t\": {\"dtype\": \"F32\"}}", 0, "tensor 't': has no shape"},
        {ONE("\"Q4\"", "[1]", "[0, 4]"), 4, "has the unknown type 'Q4'"},
        {ONE("\"F32\"", "[1.5]", "[0, 4]"), 4, "dimension 0 is not a count"},
        {ONE("\"F32\"", "[-1]", "[0, 4]"), 4, "dimension 0 is not a count"},
        {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "has 9 dimensions"},
        {ONE("\"F32\"", "[4294967296, 4294967296]", "[0, 4]"), 4, "product is too large"},
        {ONE("\"F32\"", "[4611686018427387904]", "[0, 4]"), 4, "is not a count"},
        {ONE("\"F32\"", "[1]", "[0]"), 4, "data_offsets are not two counts"},
        {ONE("\"F32\"", "[1]", "[4, 0]"), 4, "bytes 4 to 0 are not within the 4 bytes"},
        {ONE("\"F32\"", "[1]", "[0, 8]"), 4, "bytes 0 to 8 are not within the 4 bytes"},
        {ONE("\"F32\"", "[2]", "[0, 4]"), 4, "4 bytes of data for 2 numbers of type F32"},
        {ONE("\"F32\"", "[1]", "[0, 4]"), 6, "the last 2 bytes belong to no tensor"},
        {TWO("[2, 6]"), 6, "tensor 'u': overlaps tensor 't'"},
        {TWO("[6, 10]"), 10, "tensor 'u': 2 bytes before it belong to no tensor"},
        {"{\"t\": {}, \"t\": {}}", 0, "the key 't' twice"},
        {"{\"t\\u0000\": {}}", 0, "U+0000"},
        {"{\"\": {\"dtype\": \"F32\"}}", 0, "a name of 0 bytes"},
        {"{\"t\": [[[[[[[[[]]]]]]]]]}", 0, "deep"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_broken(cases[i].header, cases[i].n_data, cases[i].error);
}

FX_TEST(test_cut_anywhere)
{
    fxi_buf b = file_of(sound, N_DATA);
    for (size_t n = 0; n < b.n; n++) {
        fxi_safetensors s;
        fx_error err = {0};
        char *part = malloc(n + 1); // so that reading past it is caught
        memcpy(part, b.p, n);
        assert_int_equal(fxi_safetensors_parse(part, n, "cut", &s, &err), FX_EFORMAT);
        assert_true(!strncmp(err.text, "cut: ", 5) && !strchr(err.text, '\n'));
        fxi_safetensors_close(&s);
        free(part);
    }
    fxi_buf_free(&b);
}

FX_TEST(test_huge_headers)
{
    fxi_safetensors s;
    fx_error err;
    const uint64_t huge[2] = {UINT64_MAX, 0}, large[2] = {1000, 0};
    assert_int_equal(fxi_safetensors_parse(huge, 16, "x", &s, &err), FX_EFORMAT);
    assert_non_null(strstr(err.text, "a header of 18446744073709551615 bytes"));
    fxi_safetensors_close(&s);
    assert_int_equal(fxi_safetensors_parse(large, 16, "x", &s, &err), FX_EFORMAT);
    assert_non_null(strstr(err.text, "ends inside the header of 1000 bytes (8 left)"));
    fxi_safetensors_close(&s);
    enum { N = 3000000 };
    char *zeros = malloc(2 * N + 2);
    memset(zeros, '0', 2 * N);
    for (int i = 0; i < N; i++) zeros[2 * i] = i ? ',' : '[';
    memcpy(zeros + 2 * N, "]", 2);
    expect_broken(zeros, 0, "the header has more than 2000000 values");
    free(zeros);
}

FX_RUN(test_hf)
