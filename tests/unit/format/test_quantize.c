// test_quantize.c - mixtures of types, importance matrices, and files that are rewritten: the error
// of each type, the same bytes whatever the threads, and numbers that no type holds.
#include "unit/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "format/gguf_write.h"
#include "format/quantize/quantize_impl.h"
#include "unit/format/gguf_bytes.h"

#define SOURCE FX_BINARY_DIR "/test_quantize_in.tmp"
#define RESULT FX_BINARY_DIR "/test_quantize_out.tmp"

// ---- mixtures ----------------------------------------------------------------------------------

static fxi_gguf_tensor tensor_named(const char *name, uint64_t n_col, uint32_t n_dim)
{
    return (fxi_gguf_tensor){.name = fxi_str_of(name),
                             .type = fxi_dtype_find(FXI_F16),
                             .n_dim = n_dim,
                             .ne = {n_col, n_dim > 1 ? 64 : 1, 1, 1}};
}

typedef struct type_case {
    const char *mixture, *arch, *tensor;
    uint32_t n_layer, n_expert;
    uint64_t n_col;
    const char *want;
} type_case;

static const type_case type_cases[] = {
    {"q8_0", "llama", "blk.3.attn_v.weight", 32, 0, 4096, "Q8_0"},
    {"q8_0", "llama", "output.weight", 32, 0, 4096, "Q8_0"},
    {"q4_0", "llama", "output.weight", 32, 0, 4096, "Q6_K"},
    {"q4_0", "llama", "output.weight", 32, 0, 4000, "Q8_0"},
    {"q4_0", "falcon", "output.weight", 32, 0, 4096, "Q8_0"},
    {"q4_0", "llama", "blk.0.ffn_down.weight", 32, 0, 4096, "Q4_0"},
    {"q4_k_m", "llama", "blk.0.attn_q.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_m", "llama", "blk.0.attn_v.weight", 32, 0, 4096, "Q6_K"}, // the first eighth
    {"q4_k_m", "llama", "blk.3.attn_v.weight", 32, 0, 4096, "Q6_K"},
    {"q4_k_m", "llama", "blk.4.attn_v.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_m", "llama", "blk.6.attn_v.weight", 32, 0, 4096, "Q6_K"},  // every third
    {"q4_k_m", "llama", "blk.28.attn_v.weight", 32, 0, 4096, "Q6_K"}, // the last eighth
    {"q4_k_m", "llama", "blk.5.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_m", "llama", "blk.6.ffn_down.weight", 32, 0, 4096, "Q6_K"},
    {"q4_k_m", "llama", "blk.6.ffn_down_exps.weight", 32, 64, 4096, "Q6_K"},
    {"q4_k_m", "llama", "blk.5.attn_v.weight", 80, 0, 8192, "Q6_K"},
    {"q4_k_m", "llama", "blk.10.attn_v.weight", 80, 0, 8192, "Q5_K"}, // 8 heads share it
    {"q4_k_m", "llama", "blk.5.attn_v.weight", 32, 8, 4096, "Q8_0"},  // 8 experts share it
    {"q4_k_m", "llama", "blk.5.attn_k.weight", 32, 8, 4096, "Q8_0"},
    {"q4_k_m", "llama", "blk.5.attn_output.weight", 32, 8, 4096, "Q5_K"},
    {"q4_k_m", "phi3", "blk.5.attn_qkv.weight", 32, 0, 4096, "Q5_K"},
    {"q4_k_m", "falcon", "blk.1.ffn_down.weight", 32, 0, 4096, "Q6_K"},
    {"q4_k_m", "falcon", "blk.3.ffn_down.weight", 32, 0, 4096, "Q5_K"},
    {"q4_k_m", "llama", "blk.5.attn_q.weight", 32, 0, 4064, "Q5_0"}, // no multiple of 256
    {"q4_k_m", "llama", "blk.0.attn_v.weight", 32, 0, 4064, "Q8_0"},
    {"q4_k_m", "llama", "blk.5.attn_q.weight", 32, 0, 4001, "F16"},  // nor of 32
    {"q4_k_s", "llama", "blk.3.attn_v.weight", 32, 0, 4096, "Q5_K"}, // the first four
    {"q4_k_s", "llama", "blk.4.attn_v.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_s", "llama", "blk.4.attn_v.weight", 80, 0, 8192, "Q5_K"},
    {"q4_k_s", "llama", "blk.3.ffn_down.weight", 32, 0, 4096, "Q5_K"}, // the first eighth
    {"q4_k_s", "llama", "blk.31.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_s", "falcon", "blk.3.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q4_k_s", "llama", "blk.5.attn_output.weight", 32, 8, 4096, "Q5_K"},
    {"q4_k_s", "phi3", "blk.5.attn_qkv.weight", 32, 0, 4096, "Q4_K"},
    {"q5_k_s", "llama", "blk.3.ffn_down.weight", 32, 0, 4096, "Q5_K"},
    {"q5_k_s", "phi3", "blk.5.attn_qkv.weight", 32, 0, 4096, "Q5_K"},
    {"q5_k_s", "llama", "output.weight", 32, 0, 4096, "Q6_K"},
    {"q3_k_s", "llama", "blk.0.attn_v.weight", 32, 0, 4096, "Q3_K"},
    {"q3_k_s", "llama", "blk.0.attn_v.weight", 80, 0, 8192, "Q5_K"},
    {"q3_k_s", "llama", "blk.5.attn_output.weight", 32, 8, 4096, "Q5_K"},
    {"q3_k_s", "llama", "blk.5.attn_output.weight", 32, 0, 4096, "Q3_K"},
    {"q3_k_m", "llama", "blk.1.attn_v.weight", 32, 0, 4096, "Q5_K"}, // the first two
    {"q3_k_m", "llama", "blk.2.attn_v.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_m", "llama", "blk.1.ffn_down.weight", 32, 0, 4096, "Q5_K"}, // the first sixteenth
    {"q3_k_m", "llama", "blk.2.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_m", "falcon", "blk.4.ffn_down.weight", 32, 0, 4096, "Q3_K"},
    {"q3_k_m", "falcon", "blk.6.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_m", "llama", "blk.5.attn_output.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_m", "falcon", "blk.5.attn_output.weight", 32, 0, 4096, "Q3_K"},
    {"q3_k_m", "phi3", "blk.5.attn_qkv.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_m", "llama", "blk.5.ffn_gate.weight", 32, 0, 4096, "Q3_K"},
    {"q3_k_l", "llama", "blk.9.attn_v.weight", 32, 0, 4096, "Q5_K"},
    {"q3_k_l", "llama", "blk.9.ffn_down.weight", 32, 0, 4096, "Q5_K"},
    {"q3_k_l", "falcon", "blk.9.ffn_down.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_l", "llama", "blk.5.attn_output.weight", 32, 0, 4096, "Q5_K"},
    {"q3_k_l", "falcon", "blk.5.attn_output.weight", 32, 0, 4096, "Q4_K"},
    {"q3_k_l", "llama", "blk.5.attn_output.weight", 32, 8, 4096, "Q3_K"},
    {"q3_k_m", "llama", "blk.5.attn_q.weight", 32, 0, 4064, "IQ4_NL"}, // no multiple of 256
    {"q3_k_m", "llama", "blk.5.attn_q.weight", 32, 0, 4001, "F16"},
    {"q6_k", "llama", "blk.5.attn_q.weight", 32, 0, 4096, "Q6_K"},
    {"q5_k_m", "llama", "blk.5.attn_qkv.weight", 32, 0, 4096, "Q6_K"},
    {"f32", "llama", "blk.5.attn_q.weight", 32, 0, 4096, "F32"},
    {"bf16", "llama", "output.weight", 32, 0, 4096, "BF16"},
    {"q4_k_m", "llama", "blk.5.ffn_gate_inp.weight", 32, 8, 4096, "F16"}, // kept
    {"q4_k_m", "llama", "blk.5.attn_q_norm.weight", 32, 0, 4096, "F16"},
    {"q4_k_m", "gpt2", "position_embd.weight", 32, 0, 4096, "F16"},
};

FX_TEST(test_mixtures_are_the_published_ones)
{
    for (size_t i = 0; i < sizeof type_cases / sizeof *type_cases; i++) {
        const type_case *c = &type_cases[i];
        const fxi_mixture_model model = {.arch = fxi_str_of(c->arch),
                                         .n_layer = c->n_layer,
                                         .n_head = 64,
                                         .n_kv_head = 8,
                                         .n_expert = c->n_expert,
                                         .has_output = true};
        const fxi_gguf_tensor t = tensor_named(c->tensor, c->n_col, 2);
        const char *got = fxi_mixture_type(fxi_mixture_find(c->mixture), &model, &t)->name;
        if (strcmp(got, c->want))
            fail_msg("%s %s: %s, not %s", c->mixture, c->tensor, got, c->want);
    }
}

FX_TEST(test_vectors_and_tied_outputs)
{
    const fxi_mixture *m = fxi_mixture_find("Q4_K_M");
    fxi_mixture_model model = {.arch = fxi_str_of("llama"), .n_layer = 32};
    fxi_gguf_tensor t = tensor_named("token_embd.weight", 4096, 2);
    assert_string_equal(fxi_mixture_type(m, &model, &t)->name, "Q6_K"); // the output, too
    model.has_output = true;
    assert_string_equal(fxi_mixture_type(m, &model, &t)->name, "Q4_K");
    t = tensor_named("blk.0.attn_q.bias", 4096, 1);
    assert_string_equal(fxi_mixture_type(m, &model, &t)->name, "F16");
    assert_ptr_equal(fxi_mixture_type(NULL, &model, &t), t.type);
    assert_null(fxi_mixture_find("q2_k")); // known by name alone
    assert_null(fxi_mixture_find("q3_k"));
    char names[200], *rest = names;
    snprintf(names, sizeof names, "%s", fxi_mixture_names());
    for (char *name; (name = strsep(&rest, ", ")) != NULL;)
        assert_true(!*name || fxi_mixture_find(name));
}

FX_TEST(test_an_importance_matrix_guards_the_first_layers)
{
    const fxi_mixture_model model = {
        .arch = fxi_str_of("llama"), .n_layer = 32, .has_output = true, .has_imatrix = true};
    const fxi_gguf_tensor first = tensor_named("blk.3.ffn_down.weight", 4096, 2),
                          later = tensor_named("blk.4.ffn_down.weight", 4096, 2);
    const fxi_mixture *m = fxi_mixture_find("q4_0");
    assert_string_equal(fxi_mixture_type(m, &model, &first)->name, "Q4_1");
    assert_string_equal(fxi_mixture_type(m, &model, &later)->name, "Q4_0");
}

// ---- refined blocks ----------------------------------------------------------------------------

static float normal_number(uint64_t i)
{
    const double u = fxi_rng_unit(11, 0, 2 * i), v = fxi_rng_unit(11, 0, 2 * i + 1);
    return (float)(sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v));
}

static double weighted_error(const fxi_qformat *f, const float *x, const float *w,
                             const fxi_qblock *b)
{
    float y[FXI_QBLOCK_MAX];
    double sum = 0;
    fxi_qblock_to_f32(f, b, y);
    for (int i = 0; i < f->n; i++) sum += (double)w[i] * pow((double)y[i] - (double)x[i], 2);
    return sum;
}

// Weights of very different size, as activations have them.
FX_TEST(test_refining_lowers_the_weighted_error)
{
    static const struct {
        fxi_dtype type;
        double bound; // of the error after it, relative to before: slightly above the measured one
    } cases[] = {{FXI_Q4_0, 0.74}, {FXI_Q4_1, 0.53}, {FXI_Q5_0, 0.73}, {FXI_Q5_1, 0.56},
                 {FXI_Q4_K, 0.50}, {FXI_Q5_K, 0.45}, {FXI_Q6_K, 0.61}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const fxi_qformat *f = fxi_qformat_find(cases[c].type);
        double before = 0, after = 0;
        for (uint64_t k = 0; k < 200; k++) {
            float x[FXI_QBLOCK_MAX], w[FXI_QBLOCK_MAX];
            for (int i = 0; i < f->n; i++) {
                x[i] = normal_number(k * 1000 + (uint64_t)i);
                w[i] = expf(2 * normal_number(1000000 + k * 1000 + (uint64_t)i));
            }
            fxi_qblock b, was;
            fxi_qblock_from_f32(f, x, &b);
            was = b;
            fxi_qblock_refine(f, x, w, &b);
            const double e0 = weighted_error(f, x, w, &was), e1 = weighted_error(f, x, w, &b);
            assert_true(e1 <= e0 * (1 + 1e-6));
            before += e0;
            after += e1;
        }
        print_message("%s: %.3f\n", fxi_dtype_find(cases[c].type)->name, after / before);
        assert_true(after < before * cases[c].bound);
    }
}

FX_TEST(test_refining_without_weight_keeps_the_block)
{
    const fxi_qformat *f = fxi_qformat_find(FXI_Q4_K);
    float x[FXI_QBLOCK_MAX], w[FXI_QBLOCK_MAX] = {0};
    for (int i = 0; i < f->n; i++) x[i] = normal_number((uint64_t)i);
    fxi_qblock b, was;
    fxi_qblock_from_f32(f, x, &b);
    was = b;
    fxi_qblock_refine(f, x, w, &b);
    assert_memory_equal(&b, &was, sizeof b);
}

// ---- files -------------------------------------------------------------------------------------

enum { N_COL = 512, N_ROW = 96 };

static void write_source(float spike)
{
    fx_error err;
    fxi_gguf_writer *w;
    const uint64_t ne[] = {N_COL, N_ROW}, n_norm[] = {N_COL}, n_exp[] = {N_COL, N_ROW / 4, 4};
    float *v = malloc(N_COL * N_ROW * sizeof *v);
    for (size_t i = 0; i < N_COL * N_ROW; i++) v[i] = normal_number(i);
    assert_int_equal(fxi_gguf_writer_open(SOURCE, &w, &err), FX_OK);
    fxi_gguf_write_str(w, "general.architecture", "llama");
    fxi_gguf_write_u32(w, "llama.block_count", 8);
    fxi_gguf_write_u32(w, "general.file_type", 1);
    fxi_gguf_declare_tensor(w, "blk.4.attn_q.weight", FXI_F32, 2, ne);
    fxi_gguf_declare_tensor(w, "blk.4.attn_norm.weight", FXI_F32, 1, n_norm);
    fxi_gguf_declare_tensor(w, "blk.4.ffn_up_exps.weight", FXI_F32, 3, n_exp);
    fxi_gguf_begin_data(w);
    fxi_gguf_write_data(w, v, N_COL * N_ROW * sizeof *v);
    fxi_gguf_write_data(w, v, N_COL * sizeof *v);
    if (spike != 0) v[7 * N_COL + 3] = spike;
    fxi_gguf_write_data(w, v, N_COL * N_ROW * sizeof *v);
    assert_int_equal(fxi_gguf_writer_finish(w, &err), FX_OK);
    free(v);
}

static fx_status rewrite_source(const char *type, const fxi_imatrix *matrix, int n_thread,
                                fx_error *err)
{
    fxi_gguf *g;
    fxi_rewritten done;
    fxi_rewrite how = {
        .mixture = fxi_mixture_find(type), .imatrix = matrix, .imatrix_name = "matrix"};
    assert_int_equal(fxi_pool_create(n_thread, &how.pool, err), FX_OK);
    assert_int_equal(fxi_gguf_open(SOURCE, &g, err), FX_OK);
    fx_status st = fxi_rewrite_model(g, RESULT, &how, &done, err);
    fxi_gguf_close(g);
    fxi_pool_destroy(how.pool);
    return st;
}

static double file_error(const char *tensor)
{
    fxi_gguf *a, *b;
    fx_error err;
    double diff = 0, all = 0;
    assert_int_equal(fxi_gguf_open(SOURCE, &a, &err), FX_OK);
    assert_int_equal(fxi_gguf_open(RESULT, &b, &err), FX_OK);
    const fxi_gguf_tensor *x = fxi_gguf_find_tensor(a, tensor),
                          *y = fxi_gguf_find_tensor(b, tensor);
    float *back = malloc(N_COL * N_ROW * sizeof *back);
    fxi_row_to_f32((fxi_dtype)y->type->id, y->data, N_COL * N_ROW, back);
    for (size_t i = 0; i < N_COL * N_ROW; i++) {
        const double v = (double)((const float *)x->data)[i];
        diff += pow((double)back[i] - v, 2);
        all += v * v;
    }
    free(back);
    fxi_gguf_close(a);
    fxi_gguf_close(b);
    return sqrt(diff / all);
}

FX_TEST(test_error_of_each_type)
{
    static const struct {
        const char *type;
        double bound; // of the relative error of normal numbers, slightly above the measured one
    } cases[] = {{"f32", 1e-9},      {"bf16", 0.0017},   {"f16", 0.00021}, {"q8_0", 0.0056},
                 {"q4_0", 0.0843},   {"q4_1", 0.0728},   {"q5_0", 0.0421}, {"q5_1", 0.0348},
                 {"q4_k_m", 0.0715}, {"q5_k_m", 0.0352}, {"q6_k", 0.0178}, {"q4_k_s", 0.0715},
                 {"q5_k_s", 0.0352}, {"q3_k_m", 0.145}};
    fx_error err;
    write_source(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (rewrite_source(cases[i].type, NULL, 2, &err) != FX_OK) fail_msg("%s", err.text);
        const double e = file_error("blk.4.attn_q.weight");
        if (!(e <= cases[i].bound)) fail_msg("%s: %g", cases[i].type, e);
    }
    remove(SOURCE);
    remove(RESULT);
}

static fxi_buf read_result(void)
{
    fxi_buf b = {0};
    FILE *f = fopen(RESULT, "rb");
    assert_non_null(f);
    fxi_buf_reserve(&b, 1 << 20);
    b.n = fread(b.p, 1, 1 << 20, f);
    fclose(f);
    return b;
}

FX_TEST(test_same_bytes_whatever_the_threads)
{
    fx_error err;
    write_source(0);
    assert_int_equal(rewrite_source("q4_k_m", NULL, 1, &err), FX_OK);
    fxi_buf one = read_result();
    assert_int_equal(rewrite_source("q4_k_m", NULL, 5, &err), FX_OK);
    fxi_buf five = read_result();
    assert_true(one.n == five.n && !memcmp(one.p, five.p, one.n));
    fxi_buf_free(&one);
    fxi_buf_free(&five);
    remove(SOURCE);
    remove(RESULT);
}

FX_TEST(test_numbers_that_no_type_holds)
{
    static const struct {
        float spike;
        const char *type;
        bool fits;
    } cases[] = {{NAN, "q8_0", false}, {INFINITY, "f16", false}, {-INFINITY, "q4_k_m", false},
                 {1e5f, "f16", false}, {1e5f, "bf16", true},     {NAN, "f32", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_error err = {0};
        write_source(cases[i].spike);
        const fx_status st = rewrite_source(cases[i].type, NULL, 2, &err);
        assert_int_equal(st, cases[i].fits ? FX_OK : FX_EFORMAT);
        if (!cases[i].fits)
            assert_non_null(strstr(err.text, "tensor 'blk.4.ffn_up_exps.weight' row 7 holds"));
    }
    remove(SOURCE);
    remove(RESULT);
}

// ---- importance matrices -----------------------------------------------------------------------

static void put_i32(fxi_buf *b, int32_t v)
{
    put_bytes(b, &v, sizeof v);
}

// The older form: n_value means of 1 to 5, from two calls.
static fxi_buf older_matrix(const char *name, int n_value)
{
    fxi_buf b = {0};
    put_i32(&b, 1);
    put_i32(&b, (int32_t)strlen(name));
    put_bytes(&b, name, strlen(name));
    put_i32(&b, 2);
    put_i32(&b, n_value);
    for (int i = 0; i < n_value; i++)
        put_bytes(&b, &(float){2 * (float)(1 + i % 5)}, sizeof(float));
    put_i32(&b, 2); // the last call and the data set's path follow in newer files
    return b;
}

static fxi_buf gguf_matrix(const char *name, uint64_t n_col, uint64_t n_slice)
{
    fxi_buf b = {0};
    char text[128];
    const uint64_t sums[2] = {n_col, n_slice}, counts[2] = {1, n_slice};
    put_header(&b, 3, 2, 0);
    snprintf(text, sizeof text, "%s.in_sum2", name);
    put_tensor(&b, text, 2, sums, FXI_F32, 0);
    snprintf(text, sizeof text, "%s.counts", name);
    const uint64_t n_sums = n_col * n_slice * sizeof(float);
    put_tensor(&b, text, 2, counts, FXI_F32, (n_sums + 31) / 32 * 32);
    pad_to(&b, 32);
    for (uint64_t i = 0; i < n_col * n_slice; i++)
        put_bytes(&b, &(float){3 * (float)(1 + i % 5)}, sizeof(float));
    pad_to(&b, 32);
    for (uint64_t i = 0; i < n_slice; i++) put_bytes(&b, &(float){i ? 3.0f : 0}, sizeof(float));
    return b;
}

FX_TEST(test_both_forms_of_matrices)
{
    size_t n_slice;
    fx_error err;
    fxi_imatrix *m;
    fxi_buf b = older_matrix("t", 12);
    if (fxi_imatrix_parse(b.p, b.n, "m", &m, &err) != FX_OK) fail_msg("%s", err.text);
    const float *v = fxi_imatrix_find(m, fxi_str_of("t"), 12, &n_slice);
    assert_true(v && n_slice == 1 && v[0] == 1 && v[4] == 5 && v[5] == 1);
    assert_null(fxi_imatrix_find(m, fxi_str_of("u"), 12, &n_slice));
    assert_null(fxi_imatrix_find(m, fxi_str_of("t"), 5, &n_slice));
    fxi_imatrix_free(m);
    fxi_buf_free(&b);
    b = gguf_matrix("t", 6, 2);
    if (fxi_imatrix_parse(b.p, b.n, "m", &m, &err) != FX_OK) fail_msg("%s", err.text);
    v = fxi_imatrix_find(m, fxi_str_of("t"), 6, &n_slice);
    assert_true(v && n_slice == 2 && v[0] == 1 && v[5] == 1); // nothing was counted
    assert_true(v[6] == 2 && v[9] == 5);
    fxi_imatrix_free(m);
    fxi_buf_free(&b);
}

FX_TEST(test_cut_matrices_are_refused)
{
    fxi_buf forms[] = {older_matrix("t", 12), gguf_matrix("t", 6, 2)};
    forms[0].n -= 4;
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < forms[i].n; n++) {
            fxi_imatrix *m;
            fx_error err = {0};
            char *part = malloc(n + 1);
            memcpy(part, forms[i].p, n);
            assert_int_equal(fxi_imatrix_parse(part, n, "m", &m, &err), FX_EFORMAT);
            assert_true(!strncmp(err.text, "m: ", 3) && !m);
            free(part);
        }
        fxi_buf_free(&forms[i]);
    }
}

// Columns that matter get smaller errors than without a matrix.
FX_TEST(test_a_matrix_moves_the_error)
{
    double error[2][2]; // [with a matrix][column matters]
    fx_error err;
    float weight[N_COL], x[N_COL], y[N_COL];
    for (int i = 0; i < N_COL; i++) weight[i] = i % 16 ? 0.01f : 1;
    memset(error, 0, sizeof error);
    fxi_pool *pool;
    assert_int_equal(fxi_pool_create(2, &pool, &err), FX_OK);
    for (uint64_t row = 0; row < 64; row++)
        for (int with = 0; with < 2; with++) {
            char block[N_COL];
            size_t bad;
            for (int i = 0; i < N_COL; i++) x[i] = normal_number(row * N_COL + (uint64_t)i);
            const fxi_encode_rows e = {.from = fxi_dtype_find(FXI_F32),
                                       .to = fxi_dtype_find(FXI_Q4_K),
                                       .n_col = N_COL,
                                       .n_row = 1,
                                       .src = x,
                                       .dst = block,
                                       .weight = with ? weight : NULL,
                                       .rows_per_slice = 1,
                                       .n_slice = 1};
            assert_int_equal(fxi_rows_encode(&e, pool, &bad, &err), FX_OK);
            fxi_row_to_f32(FXI_Q4_K, block, N_COL, y);
            for (int i = 0; i < N_COL; i++)
                error[with][i % 16 == 0] += pow((double)y[i] - (double)x[i], 2);
        }
    fxi_pool_destroy(pool);
    assert_true(error[1][1] < 0.7 * error[0][1]);
    assert_true(error[1][0] < 1.5 * error[0][0]);
}

FX_RUN(test_quantize)
