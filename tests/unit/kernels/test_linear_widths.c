// test_linear_widths.c - linear layers of all widths that their type can have, those of published
// small models, and those with a row for each token of a large vocabulary: every path against ref,
// bit by bit.
#include "linear_test.h"

enum { N_OTHER_ROW = 17, LONGEST = 1056 };

// Of n_out rows the first N_OTHER_ROW differ; the others repeat them.
static layer make_tall(fxi_dtype type, int n_in, int n_out, int n_tok)
{
    const size_t n_bytes = row_bytes(type, n_in);
    const size_t n_row = n_out < N_OTHER_ROW ? (size_t)n_out : N_OTHER_ROW;
    const plan p = {type, n_in, n_out, n_tok, 0};
    float *weight = random_floats(n_row * (size_t)n_in, EVEN, 1);
    char *raw = guarded_new(n_bytes * (size_t)n_out);
    fxi_row_from_f32(type, weight, n_row * (size_t)n_in, raw);
    for (size_t o = n_row; o < (size_t)n_out; o++)
        memcpy(raw + o * n_bytes, raw + (o - n_row) * n_bytes, n_bytes);
    guarded_free(weight);
    return layer_make(p, raw, random_floats((size_t)n_tok * (size_t)n_in, EVEN, 2));
}

static void check_width(fxi_dtype type, int n_in, int n_out, int n_tok)
{
    if (n_in % (int)fxi_dtype_find(type)->block_elems) return;
    layer l = make_tall(type, n_in, n_out, n_tok);
    paths_same_bits(&l);
    layer_free(&l);
}

// From one block to beyond what paths take together along the width, with every number of rows up
// to three panels.
FX_TEST(test_every_width)
{
    int n_out = 0;
    for (int t = 0; t < N_TYPE; t++)
        for (int n_in = 32; n_in <= LONGEST; n_in += 32) {
            n_out = n_out % (3 * FXI_PANEL) + 1;
            check_width(types[t], n_in, n_out, 5);
        }
}

FX_TEST(test_widths_of_small_models)
{
    static const int widths[] = {576, 640, 896, 1536, 2560, 4864};
    for (int t = 0; t < N_TYPE; t++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            check_width(types[t], widths[i], 33, 4);
}

// bench_kernels has vocabularies of their full width.
FX_TEST(test_rows_of_vocabularies)
{
    static const struct {
        fxi_dtype type;
        int n_in, n_out;
    } rows[] = {{FXI_Q8_0, 32, 262144}, {FXI_Q5_1, 32, 151937}, {FXI_Q6_K, 256, 24593}};
    const fxi_kernels *k;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        layer l = make_tall(rows[i].type, rows[i].n_in, rows[i].n_out, 2);
        for (int p = 0; (k = fast_path(p)); p++)
            for (int n_tok = 1; n_tok <= 2; n_tok++) same_bits(k, &l, n_tok);
        layer_free(&l);
    }
}

FX_RUN(test_linear_widths)
