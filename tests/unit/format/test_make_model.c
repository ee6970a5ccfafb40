// The program make_model, run as a user would: its files parse, its numbers suit a forward pass,
// its vocabulary is valid, and wrong options are errors.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/vocab.h"
#include "unit/cmocka_all.h"

#define SMALL "--layers 2 --dim 64 --ffn 96 --heads 4 --kv-heads 2 --vocab 2048 --ctx 128 "

static const char path[] = FX_BINARY_DIR "/test_make_model.tmp";

static int run(const char *file, const char *options)
{
    char command[1024];
    snprintf(command, sizeof command, "%s -o %s %s 2>%s.err", FX_BINARY_DIR "/bin/make_model", file,
             options, path);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static fxi_gguf *make(const char *options)
{
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(run(path, options), 0);
    if (fxi_gguf_open(path, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

static void check_tensor(const fxi_gguf *g, const char *name, fxi_dtype type, uint64_t ne0,
                         uint64_t ne1, double mean, double stddev)
{
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(g, name);
    if (!t || t->type->id != (uint32_t)type || t->ne[0] != ne0 || t->ne[1] != ne1)
        fail_msg("%s", name);
    size_t n = ne0 * ne1;
    float *x = malloc(n * sizeof *x);
    double sum = 0, squares = 0;
    fxi_row_to_f32(type, t->data, n, x);
    for (size_t i = 0; i < n; i++) sum += (double)x[i], squares += (x[i] - mean) * (x[i] - mean);
    if (!(fabs(sum / (double)n - mean) < 0.1 * stddev + 0.02))
        fail_msg("%s: mean %g", name, sum / (double)n);
    if (n > 1000 && !(fabs(sqrt(squares / (double)n) / stddev - 1) < 0.1))
        fail_msg("%s: standard deviation %g, not %g", name, sqrt(squares / (double)n), stddev);
    free(x);
}

static void check_type(const char *options, fxi_dtype type)
{
    fxi_gguf *g = make(options);
    assert_int_equal(fxi_gguf_n_tensor(g), 2 * 9 + 3);
    check_tensor(g, "token_embd.weight", type, 64, 2048, 0, 1);
    check_tensor(g, "blk.0.attn_norm.weight", FXI_F32, 64, 1, 1, 0.1);
    check_tensor(g, "blk.0.attn_q.weight", type, 64, 64, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.attn_k.weight", type, 64, 32, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.attn_v.weight", type, 64, 32, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.attn_output.weight", type, 64, 64, 0, 0.5 / sqrt(64));
    check_tensor(g, "blk.1.ffn_gate.weight", type, 64, 96, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.ffn_up.weight", type, 64, 96, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.ffn_down.weight", type, 96, 64, 0, 0.5 / sqrt(96));
    check_tensor(g, "output_norm.weight", FXI_F32, 64, 1, 1, 0.1);
    check_tensor(g, "output.weight", type, 64, 2048, 0, 2 / sqrt(64));
    fxi_gguf_close(g);
    remove(path);
}

// A width of heads of its own, and experts in every block.
FX_TEST(test_experts)
{
    fxi_gguf *g = make(SMALL "--type q4_0 --head-dim 32 --experts 5 --experts-used 3");
    fx_error err;
    uint32_t n_expert = 0, n_used = 0, width = 0;
    assert_int_equal(fxi_gguf_n_tensor(g), 2 * 10 + 3);
    check_tensor(g, "blk.0.attn_q.weight", FXI_Q4_0, 64, 128, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.attn_k.weight", FXI_Q4_0, 64, 64, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.attn_output.weight", FXI_Q4_0, 128, 64, 0, 0.5 / sqrt(128));
    check_tensor(g, "blk.1.ffn_gate_inp.weight", FXI_F32, 64, 5, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.ffn_up_exps.weight", FXI_Q4_0, 64, 96, 0, 1 / sqrt(64));
    check_tensor(g, "blk.1.ffn_down_exps.weight", FXI_Q4_0, 96, 64, 0, 0.5 / sqrt(96));
    assert_int_equal(fxi_gguf_find_tensor(g, "blk.1.ffn_down_exps.weight")->ne[2], 5);
    assert_int_equal(fxi_gguf_u32(g, "llama.expert_count", true, &n_expert, &err), FX_OK);
    assert_int_equal(fxi_gguf_u32(g, "llama.expert_used_count", true, &n_used, &err), FX_OK);
    assert_int_equal(fxi_gguf_u32(g, "llama.attention.key_length", true, &width, &err), FX_OK);
    assert_int_equal(n_expert, 5);
    assert_int_equal(n_used, 3);
    assert_int_equal(width, 32);
    fxi_gguf_close(g);
    remove(path);
    assert_int_equal(run(path, SMALL "--experts 2 --experts-used 3"), 2);
}

FX_TEST(test_types)
{
    check_type(SMALL "--type f32", FXI_F32);
    check_type(SMALL "--type F16", FXI_F16);
    check_type(SMALL "--type bf16", FXI_BF16);
    check_type(SMALL "--type q8_0", FXI_Q8_0);
    check_type(SMALL "--type q4_0", FXI_Q4_0);
    check_type(SMALL "--type q4_1", FXI_Q4_1);
    check_type(SMALL "--type q5_0", FXI_Q5_0);
    check_type(SMALL "--type Q5_1", FXI_Q5_1);
}

#define WIDE "--layers 1 --dim 256 --ffn 512 --heads 4 --kv-heads 2 --vocab 384 --ctx 128 "

static void check_k_type(const char *options, fxi_dtype type, uint32_t file_type)
{
    fxi_gguf *g = make(options);
    check_tensor(g, "token_embd.weight", type, 256, 384, 0, 1);
    check_tensor(g, "blk.0.attn_norm.weight", FXI_F32, 256, 1, 1, 0.1);
    check_tensor(g, "blk.0.attn_v.weight", type, 256, 128, 0, 1 / sqrt(256));
    check_tensor(g, "blk.0.ffn_down.weight", type, 512, 256, 0, 1 / sqrt(2) / sqrt(512));
    check_tensor(g, "output.weight", type, 256, 384, 0, 2 / sqrt(256));
    uint32_t v = 0;
    assert_int_equal(fxi_gguf_u32(g, "general.file_type", true, &v, NULL), FX_OK);
    assert_int_equal(v, file_type);
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_k_types)
{
    check_k_type(WIDE "--type q2_k", FXI_Q2_K, 10);
    check_k_type(WIDE "--type q3_k", FXI_Q3_K, 11);
    check_k_type(WIDE "--type q4_k", FXI_Q4_K, 14);
    check_k_type(WIDE "--type q5_k", FXI_Q5_K, 16);
    check_k_type(WIDE "--type Q6_K", FXI_Q6_K, 18);
}

static fxi_dtype type_in(const fxi_gguf *g, const char *name)
{
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(g, name);
    if (!t) fail_msg("%s", name);
    return (fxi_dtype)t->type->id;
}

// Blocks 0 and 7 of 8 are the outer eighths; 3 and 6 every third between them.
static void check_mix(const char *options, fxi_dtype type, bool tied)
{
    static const bool finer[8] = {true, false, false, true, false, false, true, true};
    static const char *const plain[] = {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"};
    static const char *const mixed[] = {"attn_v", "ffn_down"};
    fxi_gguf *g = make(options);
    for (int block = 0; block < 8; block++) {
        char name[64];
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", block, plain[i]);
            assert_int_equal(type_in(g, name), type);
        }
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", block, mixed[i]);
            assert_int_equal(type_in(g, name), finer[block] ? FXI_Q6_K : type);
        }
    }
    assert_int_equal(type_in(g, "token_embd.weight"), tied ? FXI_Q6_K : type);
    if (!tied) assert_int_equal(type_in(g, "output.weight"), FXI_Q6_K);
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_mixes)
{
    check_mix(WIDE "--layers 8 --type q4_k_m", FXI_Q4_K, false);
    check_mix(WIDE "--layers 8 --type Q5_K_M", FXI_Q5_K, false);
    check_mix(WIDE "--layers 8 --type q4_k_m --tied", FXI_Q4_K, true);
}

// Rows that are no multiple of 256.
FX_TEST(test_narrow_rows)
{
    fxi_gguf *g = make(WIDE "--ffn 96 --type q4_k_m");
    assert_int_equal(type_in(g, "blk.0.ffn_up.weight"), FXI_Q4_K);
    check_tensor(g, "blk.0.ffn_down.weight", FXI_Q8_0, 96, 256, 0, 1 / sqrt(2) / sqrt(96));
    fxi_gguf_close(g);
    g = make(WIDE "--ffn 40 --dim 320 --type q6_k");
    check_tensor(g, "blk.0.ffn_down.weight", FXI_F16, 40, 320, 0, 1 / sqrt(2) / sqrt(40));
    check_tensor(g, "output.weight", FXI_Q8_0, 320, 384, 0, 2 / sqrt(320));
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_keys)
{
    static const struct {
        const char *key;
        uint32_t v;
    } keys[] = {
        {"llama.block_count", 2},           {"llama.context_length", 128},
        {"llama.embedding_length", 64},     {"llama.feed_forward_length", 96},
        {"llama.attention.head_count", 4},  {"llama.attention.head_count_kv", 2},
        {"llama.rope.dimension_count", 16}, {"llama.vocab_size", 2048},
        {"general.file_type", 7},
    };
    fxi_gguf *g = make(SMALL "--type q8_0 --tied");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t v = 0;
        assert_int_equal(fxi_gguf_u32(g, keys[i].key, true, &v, NULL), FX_OK);
        if (v != keys[i].v) fail_msg("%s is %u", keys[i].key, (unsigned)v);
    }
    assert_null(fxi_gguf_find_tensor(g, "output.weight"));
    check_tensor(g, "token_embd.weight", FXI_Q8_0, 64, 2048, 0, 2 / sqrt(64));
    fxi_gguf_close(g);
    remove(path);
}

static uint64_t hash_file(const char *options)
{
    fxi_gguf *g = make(options);
    uint64_t h = fxi_gguf_size(g);
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        for (uint64_t k = 0; k < t->size_bytes; k++)
            h = (h ^ ((const unsigned char *)t->data)[k]) * 1099511628211u;
    }
    fxi_gguf_close(g);
    remove(path);
    return h;
}

FX_TEST(test_seeds)
{
    uint64_t one = hash_file(SMALL "--seed 1");
    assert_true(one == hash_file(SMALL "--seed 1"));
    assert_true(one == hash_file(SMALL));
    assert_true(one != hash_file(SMALL "--seed 2"));
}

static size_t count_ids(const fxi_vocab *v, const char *text, size_t n)
{
    fxi_ids ids = {0};
    assert_int_equal(fxi_vocab_encode(v, text, n, 0, &ids, NULL), FX_OK);
    size_t n_id = ids.n;
    fxi_ids_free(&ids);
    return n_id;
}

static void check_vocab(const char *options, int n, size_t max_ids)
{
    static const char english[] =
        " The old house was small, but there was a great light in the garden and people came "
        "to look at it. She said that nothing could make her happy again.";
    fxi_gguf *g = make(options);
    fxi_vocab *v;
    assert_int_equal(fxi_vocab_load(g, &v, NULL), FX_OK);
    fxi_gguf_close(g);
    remove(path);
    assert_int_equal(fxi_vocab_size(v), n);
    assert_int_equal(fxi_vocab_bos(v), 1);
    assert_int_equal(fxi_vocab_eos(v), 2);
    size_t n_reached = 0, n_piece = 0, n_bytes,
           n_english = count_ids(v, english, sizeof english - 1);
    for (int32_t id = 3 + 256; id < n; id++) {
        const char *text = fxi_vocab_bytes(v, id, &n_bytes);
        fxi_vocab_piece(v, id, &n_piece);
        assert_int_equal(fxi_vocab_find(v, fxi_vocab_piece(v, id, &n_piece), n_piece),
                         id); // no piece comes twice
        n_reached += count_ids(v, text, n_bytes) == 1;
    }
    print_message("%d tokens: %zu of %d pieces are reached, %zu bytes of English are %zu ids\n", n,
                  n_reached, n - 259, sizeof english - 1, n_english);
    assert_true(n_reached >= (size_t)(n - 259) * 9 / 10);
    assert_true(n_english <= max_ids);
    fxi_vocab_free(v);
}

FX_TEST(test_vocabularies)
{
    check_vocab(SMALL "--vocab 384", 384, 150);
    check_vocab(SMALL "--vocab 4096", 4096, 60);
    check_vocab(SMALL "--vocab 32000", 32000, 60);
}

FX_TEST(test_wrong_options)
{
    static const struct {
        const char *options;
        int exit_status;
        const char *text;
    } wrong[] = {
        {"--type q4", 2, "--type: 'q4' is none of f32, f16, bf16, q8_0, q4_0"},
        {"--type q8_1", 2, "--type: 'q8_1' is none of"},
        {"--dim 48 --heads 4 --kv-heads 4 --type q5_1", 2, "in multiples of 32"},
        {"--layers 0", 2, "--layers"},
        {"--layers 9999999999", 2, "--layers"},
        {"--dim x", 2, "--dim"},
        {"--dim 66 --heads 4", 2, "--dim 66 does not give 4 --heads of an even width"},
        {"--dim 12 --heads 4", 2, "--dim 12 does not give 4 --heads of an even width"},
        {"--heads 4 --kv-heads 3", 2, "--kv-heads 3 does not divide --heads 4"},
        {"--dim 48 --heads 4 --kv-heads 4 --type q8_0", 2, "in multiples of 32"},
        {"--vocab 100", 2, "--vocab"},
        {"--seed -1", 2, "--seed"},
        {"--colour red", 2, "--colour"},
        {"more", 2, "'more' is not an option"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1024] = "", err_path[sizeof path + 8];
        assert_int_equal(run(path, wrong[i].options), wrong[i].exit_status);
        snprintf(err_path, sizeof err_path, "%s.err", path);
        FILE *f = fopen(err_path, "r");
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        if (strncmp(text, "make_model: ", 12) || !strstr(text, wrong[i].text))
            fail_msg("%s: %s", wrong[i].options, text);
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); // one line
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_int_equal(run("/nonexistent/x", SMALL), 1);
    if (!access("/dev/full", W_OK)) assert_int_equal(run("/dev/full", SMALL), 1);
}

// Latent attention: a row of --latent numbers and half a head.
FX_TEST(test_latent)
{
    static const struct {
        const char *name;
        uint64_t ne[3];
    } tensors[] = {{"blk.1.attn_q.weight", {64, 4 * 24, 1}},
                   {"blk.1.attn_kv_a_mqa.weight", {64, 32 + 8, 1}},
                   {"blk.1.attn_kv_a_norm.weight", {32, 1, 1}},
                   {"blk.1.attn_k_b.weight", {16, 32, 4}},
                   {"blk.1.attn_v_b.weight", {32, 16, 4}},
                   {"blk.1.attn_output.weight", {64, 64, 1}}};
    uint32_t row = 0;
    fxi_gguf *g = make(SMALL "--latent 32 --head-dim 16");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const fxi_gguf_tensor *t = fxi_gguf_find_tensor(g, tensors[i].name);
        if (!t || memcmp(t->ne, tensors[i].ne, sizeof tensors[i].ne) != 0)
            fail_msg("%s", tensors[i].name);
    }
    assert_null(fxi_gguf_find_tensor(g, "blk.1.attn_v.weight"));
    assert_int_equal(fxi_gguf_u32(g, "deepseek2.attention.key_length", true, &row, NULL), FX_OK);
    assert_int_equal(row, 32 + 8);
    fxi_gguf_close(g);
    remove(path);
}

static int remove_log(__attribute__((unused)) void **state)
{
    char err_path[sizeof path + 8];
    snprintf(err_path, sizeof err_path, "%s.err", path);
    return remove(err_path);
}

FX_RUN_GROUP(test_make_model, NULL, remove_log)
