// vtensor_world.c - a manager for each measurement, sequences, meters, rows of results, and the
// other work of a step.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench_vtensor.h"

#define BUDGET_BYTES ((uint64_t)8 << 30)

enum { DEFAULT_TOK = 32 }; // of a chunk, as vt_config says

void must(vt_status st, const char *what)
{
    if (st != VT_OK) die("%s: %s", what, vt_status_name(st));
}

// ---- a manager

static vt_vmm *open_backend(const bench *b, size_t huge_bytes)
{
    vt_vmm *vmm = NULL;
    if (b->gpu) {
        const char *why = "";
        vt_vmm_cuda_config cfg = {.device = gpu_device(b->gpu)};
        must(vt_vmm_cuda_open(&cfg, &vmm, &why), why);
    } else if (huge_bytes > 0) {
        if (vt_vmm_host_open_huge(huge_bytes, &vmm) != VT_OK) return NULL;
    } else {
        must(vt_vmm_host_open(&vmm), "open the host backend");
    }
    return vmm;
}

bool world_open(world *w, const bench *b, world_size size)
{
    bool split = b->layout == VT_LAYOUT_SPLIT;
    *w =
        (world){.b = b, .n_view = split ? b->n_plane : 1, .token_bytes = b->n_plane * b->row_bytes};
    size_t stride = split ? b->row_bytes : w->token_bytes;
    w->vmm = open_backend(b, size.huge_bytes);
    if (!w->vmm) return false;
    size_t granularity = w->vmm->ops->granularity(w->vmm);
    const size_t default_bytes =
        (DEFAULT_TOK * stride + granularity - 1) / granularity * granularity;
    w->slice_bytes = size.slice_bytes > 0 ? size.slice_bytes : default_bytes;
    if (w->slice_bytes % granularity != 0) {
        w->vmm->ops->close(w->vmm);
        return false;
    }
    w->chunk_tok = w->slice_bytes > stride ? (uint32_t)(w->slice_bytes / stride) : 1;
    vt_config cfg = vt_config_default();
    cfg.n_plane = b->n_plane;
    cfg.row_bytes = b->row_bytes;
    cfg.layout = b->layout;
    cfg.slice_bytes = w->slice_bytes;
    cfg.max_tok = size.max_tok ? size.max_tok : 8192;
    cfg.max_seq = size.max_seq ? size.max_seq : 64;
    cfg.budget_bytes = size.budget_bytes ? size.budget_bytes : BUDGET_BYTES;
    cfg.spare_low_bytes = size.spare_low_bytes;
    cfg.no_guard = size.no_guard;
    cfg.swap_dir = "/tmp";
    cfg.swap_bytes = size.swap_bytes;
    cfg.vmm = w->vmm;
    must(vt_manager_create(&cfg, &w->m), "make a manager");
    must(vt_domain_open(w->m, "bench", 5, &w->d), "open a domain");
    return true;
}

void world_close(world *w)
{
    vt_domain_close(w->d);
    vt_manager_destroy(w->m);
}

// The second step reclaims what the first has released.
void world_settle(world *w)
{
    for (int i = 0; i < 2; i++) {
        uint32_t n_left;
        must(vt_step(w->m, VT_AHEAD_NONE, 0, 0), "step");
        for (vt_work(w->m, 0, &n_left); n_left > 0; vt_work(w->m, 0, &n_left)) sleep_ms(0.05);
    }
}

void world_empty(world *w)
{
    must(vt_trim(w->m, 0, NULL), "trim");
}

vt_stats world_stats(const world *w)
{
    vt_stats st;
    vt_get_stats(w->m, &st);
    return st;
}

uint64_t world_resident(const world *w)
{
    uint64_t size_bytes;
    must(w->vmm->ops->resident(w->vmm, &size_bytes), "ask what is resident");
    return size_bytes;
}

uint64_t world_mappings(const world *w)
{
    uint64_t size_bytes, n;
    must(w->vmm->ops->mapped(w->vmm, &size_bytes, &n), "ask what is mapped");
    return n;
}

// ---- rows of sequences

vt_seq *seq_new(world *w, uint32_t len_tok)
{
    vt_seq *s;
    must(vt_seq_create(w->m, len_tok, &s), "create");
    must(vt_seq_extend(s, len_tok), "extend");
    return s;
}

// Each view of a sequence is one range of bytes.
static char *view_at(const world *w, const vt_seq *s, uint32_t view)
{
    return vt_seq_plane(s, w->n_view > 1 ? view : 0);
}

void seq_fill(const world *w, vt_seq *s, uint32_t len_tok, int value)
{
    size_t size_bytes = len_tok * vt_seq_stride(s);
    for (uint32_t v = 0; v < w->n_view; v++) {
        char *at = view_at(w, s, v);
        if (!w->b->gpu)
            memset(at, value, size_bytes);
        else if (!gpu_fill(w->b->gpu, NULL, (uintptr_t)at, (unsigned char)value, size_bytes))
            must(VT_EDEVICE, "fill");
    }
    if (w->b->gpu && !gpu_synchronize(w->b->gpu)) must(VT_EDEVICE, "synchronize");
}

uint64_t seq_read(const world *w, const vt_seq *s, uint32_t len_tok)
{
    size_t n = len_tok * vt_seq_stride(s) / sizeof(uint64_t);
    uint64_t sum = 0;
    for (uint32_t v = 0; v < w->n_view; v++) {
        const uint64_t *word = (const void *)view_at(w, s, v);
        for (size_t i = 0; i < n; i++) sum += word[i];
    }
    return sum;
}

void seq_copy(const world *w, vt_seq *to, const vt_seq *from, uint32_t len_tok)
{
    for (uint32_t v = 0; v < w->n_view; v++)
        memcpy(view_at(w, to, v), view_at(w, from, v), len_tok * vt_seq_stride(from));
}

uint32_t *random_tokens(uint64_t seed, uint32_t n)
{
    uint32_t *tok = need(malloc((n ? n : 1) * sizeof *tok));
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        tok[i] = (uint32_t)(x >> 32) % 128000;
    }
    return tok;
}

// ---- meters

void meter_start(meter *mt)
{
    mt->before = world_stats(mt->w);
    mt->start_ns = now_ns();
}

void meter_stop(meter *mt)
{
    double end_ns = now_ns();
    vt_stats st = world_stats(mt->w);
    samples_add(&mt->ns, end_ns - mt->start_ns);
    mt->n_map += st.map_calls - mt->before.map_calls;
    mt->n_unmap += st.unmap_calls - mt->before.unmap_calls;
    mt->n_create += st.create_calls - mt->before.create_calls;
    mt->n_destroy += st.destroy_calls - mt->before.destroy_calls;
}

// ---- rows of results

static void name_row(bench *b, size_t slice_bytes, uint64_t n, const char *format, va_list ap)
{
    results *out = &b->out;
    char name[80];
    vsnprintf(name, sizeof name, format, ap);
    snprintf(out->setting, sizeof out->setting, "%s,%zu",
             b->layout == VT_LAYOUT_SPLIT ? "split" : "packed", slice_bytes / 1024);
    snprintf(out->size, sizeof out->size, ",%llu", (unsigned long long)n);
    row_begin(out, "%s", name);
    if (out->table) fprintf(out->table, " %5zu KiB ", slice_bytes / 1024);
    if (out->table && n > 0) fprintf(out->table, " n %llu ", (unsigned long long)n);
}

void slice_row(bench *b, size_t slice_bytes, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    name_row(b, slice_bytes, 0, format, ap);
    va_end(ap);
}

void slice_row_at(bench *b, size_t slice_bytes, uint64_t n, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    name_row(b, slice_bytes, n, format, ap);
    va_end(ap);
}

void row_times(bench *b, samples *ns, bool has_p99)
{
    row_cell(&b->out, "p50", samples_at(ns, 0.5) / 1e3, "us");
    if (has_p99) row_cell(&b->out, "p99", samples_at(ns, 0.99) / 1e3, "us");
    row_cell(&b->out, "max", samples_at(ns, 1) / 1e3, "us");
}

void row_meter(bench *b, meter *mt, const char *name)
{
    const double n = (double)mt->ns.n;
    slice_row(b, mt->w->slice_bytes, "%s", name);
    row_times(b, &mt->ns, false);
    row_cell(&b->out, "n", n, "runs");
    row_cell(&b->out, "map", (double)mt->n_map / n, "calls");
    row_cell(&b->out, "unmap", (double)mt->n_unmap / n, "calls");
    row_cell(&b->out, "create", (double)mt->n_create / n, "calls");
    row_cell(&b->out, "destroy", (double)mt->n_destroy / n, "calls");
    row_end(&b->out);
    samples_free(&mt->ns);
    *mt = (meter){.w = mt->w};
}

// ---- the work of a step: reads of more memory than a cache holds

enum { PIECE = 1 << 14 };

static volatile uint64_t read_sum; // keeps the reads from being optimised away

busywork busywork_open(void)
{
    busywork bw = {.n = (size_t)8 << 20};
    bw.v = need(calloc(bw.n, sizeof *bw.v));
    for (size_t i = 0; i < bw.n; i += 64) bw.v[i] = i;
    return bw;
}

void busywork_run(const busywork *bw, double ms)
{
    double end = now_ns() + ms * 1e6;
    for (size_t at = 0; now_ns() < end; at = (at + PIECE) % bw->n) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PIECE; i++) sum += bw->v[at + i];
        read_sum = sum;
    }
}

void busywork_free(busywork *bw)
{
    free(bw->v);
    *bw = (busywork){0};
}
