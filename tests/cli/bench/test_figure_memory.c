// test_figure_memory.c - a figure's script when memory runs out: whichever allocation fails, the
// answer is FX_ENOMEM or the whole script, never a part of it.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "cli/figures/figures.h"

#include <stdlib.h>
#include <string.h>

static const char rows[] = "rate_per_s,manager,s_per_token_mean\n"
                           "1,vtensor,0.1\n2,vtensor,0.4\n1,paged,0.2\n2,paged,0.5\n";

static int n_left = -1; // allocations that succeed; -1: all

static bool may_allocate(void)
{
    if (n_left == 0) return false;
    n_left -= n_left > 0;
    return true;
}

void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

static const fxi_figure *figure_of_kind(fxi_figure_kind kind)
{
    static fxi_figure figure = {.name = "test",
                                .title = "title",
                                .x = "rate_per_s",
                                .x_label = "x",
                                .series = "manager",
                                .y_label = "y",
                                .y = {{"s_per_token_mean", NULL}}};
    figure.kind = kind;
    return &figure;
}

// The status with only n allocations; the script goes to *script.
static fx_status write_with(int n, const fxi_figure *f, const fxi_csv *data, fxi_buf *script)
{
    fx_error err = {0};
    n_left = n;
    const fx_status st = fxi_figure_script(f, data, script, &err);
    n_left = -1;
    if (st != FX_OK) assert_non_null(strstr(err.text, "no memory"));
    return st;
}

static void test_no_script_is_cut_short(void **state)
{
    (void)state;
    for (int kind = FXI_FIGURE_LINES; kind <= FXI_FIGURE_STACKS; kind++) {
        const fxi_figure *f = figure_of_kind((fxi_figure_kind)kind);
        fxi_csv data;
        fxi_buf whole = {0};
        fx_error err = {0};
        int n_failed = 0;
        assert_int_equal(fxi_csv_read(fxi_str_of(rows), "test", &data, &err), FX_OK);
        assert_int_equal(write_with(-1, f, &data, &whole), FX_OK);
        for (bool fails = true; fails; n_failed += fails) {
            fxi_buf script = {0};
            const fx_status st = write_with(n_failed, f, &data, &script);
            fails = st != FX_OK;
            if (fails)
                assert_int_equal(st, FX_ENOMEM);
            else
                assert_string_equal(script.p, whole.p);
            fxi_buf_free(&script);
        }
        assert_true(n_failed > 1);
        fxi_buf_free(&whole);
        fxi_csv_free(&data);
    }
}

FX_SUITE(test_figure_memory)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_script_is_cut_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
