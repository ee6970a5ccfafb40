// pack.c - rows of a file become panels: what loading a model takes besides its memory. One thread,
// from and to the second-level cache. GB/s counts the rows. Each panel is compared with the rows
// first.
#include <stdlib.h>

#include "bench_kernels.h"

enum { PACK_N_IN = 2048, PACK_PANELS = 4, PACK_REPEAT = 8 };

typedef struct pack_bench {
    fxi_linear w;
    char *rows;
} pack_bench;

static void run_pack(void *arg)
{
    const pack_bench *p = arg;
    for (int i = 0; i < PACK_REPEAT; i++)
        for (int panel = 0; panel < PACK_PANELS; panel++)
            fxi_linear_pack_panel(&p->w, p->rows, panel);
}

static void check_rows(const kernel_bench *b, const pack_bench *p, const fxi_dtype_info *t)
{
    const size_t row_bytes = (size_t)PACK_N_IN / t->block_elems * t->block_bytes;
    float got[PACK_N_IN], want[PACK_N_IN];
    run_pack((void *)(uintptr_t)p);
    for (int row = 0; row < p->w.n_out; row++) {
        fxi_row_to_f32(p->w.type, p->rows + (size_t)row * row_bytes, PACK_N_IN, want);
        fxi_linear_row(&p->w, row, got);
        bench_same_bits(b, "pack", t->name, got, want, sizeof got);
    }
}

static void pack_type(const kernel_bench *b, fxi_dtype type)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    const int n_out = PACK_PANELS * FXI_PANEL;
    const size_t n = (size_t)PACK_N_IN * (size_t)n_out,
                 n_bytes = n / t->block_elems * t->block_bytes;
    float *x = bench_random_floats(n);
    pack_bench p = {{.type = type, .n_in = PACK_N_IN, .n_out = n_out}, bench_lines(n_bytes)};
    double s;
    if (!fxi_linear_reads_q8(&p.w)) p.w.group = b->group;
    p.w.data = bench_lines(fxi_linear_bytes(&p.w));
    fxi_row_from_f32(type, x, n, p.rows);
    check_rows(b, &p, t);
    bench_time(b, &(bench_timed){.run = run_pack, .arg = &p}, 1, &s);
    bench_print_plain(b, "pack", t->name, PACK_N_IN, n_out, s / PACK_REPEAT, (double)n_bytes);
    free(x), free(p.rows), free(p.w.data);
}

void bench_pack_all(const kernel_bench *b)
{
    for (int type = 0; type < FXI_DTYPE_END; type++) {
        const fxi_dtype_info *t = fxi_dtype_find((uint32_t)type);
        const bool wanted = !b->only_type || fxi_dtype_by_name(b->only_type) == t;
        if (t && t->runs && wanted) pack_type(b, (fxi_dtype)type);
    }
}
