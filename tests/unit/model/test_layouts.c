// test_layouts.c - files lay out the same weights in several ways: queries, keys and values
// together or apart, gate and up together or apart, experts in slices, one by one, or with gate and
// up together. All give the same bits.
//
// Each case writes a model again with its tensors joined or split.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf_write.h"
#include "unit/model/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_TOK = 40, MAX_PART = 3 };

static const char path[] = FX_BINARY_DIR "/test_layouts.gguf";

// Tensors blk.N.PART.KIND become blk.N.WHOLE.KIND: their slices side by side, one part after
// another.
typedef struct joint {
    const char *part[MAX_PART];
    const char *whole; // NULL: slice E of the only part becomes blk.N.SINGLE.E.KIND
    const char *single;
} joint;

static const joint qkv = {{"attn_q", "attn_k", "attn_v"}, "attn_qkv", NULL};
static const joint gate_up = {{"ffn_gate", "ffn_up"}, "ffn_up", NULL};
static const joint gate_up_slices = {{"ffn_gate_exps", "ffn_up_exps"}, "ffn_gate_up_exps", NULL};
static const joint one_gate = {{"ffn_gate_exps"}, NULL, "ffn_gate"};
static const joint one_up = {{"ffn_up_exps"}, NULL, "ffn_up"};
static const joint one_down = {{"ffn_down_exps"}, NULL, "ffn_down"};

typedef struct rewriting {
    const fxi_gguf *g;
    fxi_gguf_writer *w;
    const joint *const *joints; // ends with NULL
    bool has_begun;             // data is written, not declared
} rewriting;

// Splits "blk.N.PART.KIND". False: it is no tensor of a layer.
static bool split_name(const fxi_gguf_tensor *t, int *layer, char part[64], char kind[16])
{
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    return sscanf(name, "blk.%d.%63[^.].%15s", layer, part, kind) == 3;
}

static const joint *find_joint(const rewriting *r, const char *part, int *index)
{
    for (int j = 0; r->joints[j]; j++)
        for (*index = 0; *index < MAX_PART; ++*index) {
            const char *p = r->joints[j]->part[*index];
            if (p && strcmp(p, part) == 0) return r->joints[j];
        }
    return NULL;
}

static const fxi_gguf_tensor *find_part(const rewriting *r, int layer, const char *part,
                                        const char *kind)
{
    char name[128];
    snprintf(name, sizeof name, "blk.%d.%s.%s", layer, part, kind);
    return fxi_gguf_find_tensor(r->g, name);
}

static void put(const rewriting *r, const char *name, const fxi_gguf_tensor *t, uint32_t n_dim,
                const uint64_t ne[3])
{
    if (!r->has_begun) fxi_gguf_declare_tensor(r->w, name, (fxi_dtype)t->type->id, n_dim, ne);
}

// The dimension along which parts are joined: rows, or the numbers of a bias.
static void put_whole(const rewriting *r, const joint *j, int layer, const char *kind)
{
    const fxi_gguf_tensor *t[MAX_PART] = {NULL};
    const bool vector = strcmp(kind, "bias") == 0;
    uint64_t ne[3] = {0, 1, 1};
    char name[128];
    int n = 0;
    for (; n < MAX_PART && j->part[n]; n++) {
        t[n] = find_part(r, layer, j->part[n], kind);
        assert_non_null(t[n]);
        ne[0] = vector ? ne[0] + t[n]->ne[0] : t[n]->ne[0];
        if (!vector) ne[1] += t[n]->ne[1] - (n == 0);
    }
    const uint64_t n_slice = vector ? t[0]->ne[1] : t[0]->ne[2];
    ne[vector ? 1 : 2] = n_slice;
    snprintf(name, sizeof name, "blk.%d.%s.%s", layer, j->whole, kind);
    put(r, name, t[0], t[0]->n_dim, ne);
    for (uint64_t s = 0; r->has_begun && s < n_slice; s++)
        for (int i = 0; i < n; i++) {
            const size_t bytes = t[i]->size_bytes / n_slice;
            fxi_gguf_write_data(r->w, (const char *)t[i]->data + s * bytes, bytes);
        }
}

static void put_singles(const rewriting *r, const joint *j, int layer, const fxi_gguf_tensor *t)
{
    for (uint64_t e = 0; e < t->ne[2]; e++) {
        char name[128];
        const size_t bytes = t->size_bytes / t->ne[2];
        snprintf(name, sizeof name, "blk.%d.%s.%d.weight", layer, j->single, (int)e);
        put(r, name, t, 2, t->ne);
        if (r->has_begun) fxi_gguf_write_data(r->w, (const char *)t->data + e * bytes, bytes);
    }
}

static void put_tensor(const rewriting *r, const fxi_gguf_tensor *t)
{
    char part[64], kind[16], name[128];
    int layer, index = 0;
    const bool in_layer = split_name(t, &layer, part, kind);
    const joint *j = in_layer ? find_joint(r, part, &index) : NULL;
    if (j && !j->whole) {
        put_singles(r, j, layer, t);
    } else if (j) {
        if (index == 0) put_whole(r, j, layer, kind);
    } else {
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        put(r, name, t, t->n_dim, t->ne);
        if (r->has_begun) fxi_gguf_write_data(r->w, t->data, t->size_bytes);
    }
}

static void rewrite(const char *model, const joint *const *joints)
{
    fx_error err;
    fxi_gguf *g;
    rewriting r = {.joints = joints};
    assert_int_equal(fxi_gguf_open(model, &g, &err), FX_OK);
    r.g = g;
    assert_int_equal(fxi_gguf_writer_open(path, &r.w, &err), FX_OK);
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) fxi_gguf_write_kv(r.w, fxi_gguf_kv_at(g, i));
    for (int pass = 0; pass < 2; pass++) {
        r.has_begun = pass == 1;
        if (r.has_begun) fxi_gguf_begin_data(r.w);
        for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++)
            put_tensor(&r, fxi_gguf_tensor_at(g, i));
    }
    if (fxi_gguf_writer_finish(r.w, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
}

static void same_when(const char *model, const joint *const *joints)
{
    char file[256];
    int n_vocab;
    snprintf(file, sizeof file, MODELS "%s.gguf", model);
    rewrite(file, joints);
    float *want = run_plain((runner_model){file, NULL}, N_TOK, &n_vocab);
    float *got = run_plain((runner_model){path, NULL}, N_TOK, &n_vocab);
    if (memcmp(want, got, (size_t)n_vocab * sizeof *got) != 0) fail_msg("%s", model);
    free(want), free(got);
    unlink(path);
}

FX_TEST(test_heads_together)
{
    const joint *const joints[] = {&qkv, NULL};
    same_when("llama", joints);
    same_when("llama-bias", joints);
    same_when("qwen2", joints); // its rows get another order, with biases
    same_when("qwen3", joints);
    same_when("gpt-oss", joints);
}

FX_TEST(test_gate_and_up_together)
{
    const joint *const joints[] = {&gate_up, NULL};
    same_when("llama", joints);
    same_when("llama-bias", joints);
    same_when("gemma2", joints);
}

FX_TEST(test_experts_one_by_one)
{
    const joint *const joints[] = {&one_gate, &one_up, &one_down, NULL};
    same_when("mixtral", joints);
    same_when("qwen3moe", joints);
    same_when("qwen2moe", joints); // one of its layers has no experts
}

FX_TEST(test_experts_gate_and_up_together)
{
    const joint *const joints[] = {&gate_up_slices, NULL};
    same_when("mixtral", joints);
    same_when("gpt-oss", joints); // with biases
    same_when("gpt-oss-mxfp4", joints);
}

FX_RUN(test_layouts)
