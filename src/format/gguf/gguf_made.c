// gguf_made.c - tensors that are made on demand, and how an fxi_gguf of any kind begins and ends.
#include "format/gguf/gguf_made.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/gguf/gguf_impl.h"

#define TASK_BYTES ((uint64_t)256 << 10) // that a thread makes at a time

fx_status fxi_gguf_new(const char *name, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g = calloc(1, sizeof *g);
    if (g) g->name = strdup(name);
    if (!g || !g->name) {
        free(g);
        return fxi_fail(err, FX_ENOMEM, "%s: no memory", name);
    }
    *out = g;
    return FX_OK;
}

void fxi_gguf_close(fxi_gguf *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->n_part; i++) fxi_gguf_close(g->part[i]);
    free(g->part);
    fxi_mapping_close(&g->map);
    if (g->made) munmap(g->made, g->made_bytes);
    if (g->maker.close) g->maker.close(g->maker.ud);
    fxi_buf_free(&g->head);
    free(g->kv);
    free(g->tensor);
    free(g->kv_by_name);
    free(g->tensor_by_name);
    free(g->name);
    free(g);
}

// ---- made tensors ------------------------------------------------------------------------------

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static uint64_t whole_pages(uint64_t n_bytes)
{
    const uint64_t page = page_bytes();
    return (n_bytes + page - 1) / page * page;
}

static bool is_made(const fxi_gguf *g, const void *p)
{
    return g->made && (uintptr_t)p - (uintptr_t)g->made < g->made_bytes;
}

// Addresses without memory for n_bytes.
static fx_status reserve_made(fxi_gguf *g, uint64_t n_bytes, fx_error *err)
{
    if (!n_bytes) return FX_OK;
    void *p = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return fxi_fail(err, FX_ENOMEM, "%s: no address space", g->name);
    g->made = p;
    g->made_bytes = n_bytes;
    return FX_OK;
}

static fx_status place_made(fxi_gguf *g, fx_error *err)
{
    uint64_t sum = 0;
    bool over = false;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        g->tensor[i].data = g->maker.place(g->maker.ud, i);
        if (g->tensor[i].data) continue;
        over |= g->tensor[i].size_bytes > INT64_MAX / 2;
        over |= __builtin_add_overflow(sum, whole_pages(g->tensor[i].size_bytes), &sum);
    }
    if (over || sum > INT64_MAX)
        return fxi_fail(err, FX_EFORMAT, "%s: the tensors' sizes are too large", g->name);
    FX_TRY(reserve_made(g, sum, err));
    sum = 0;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        if (g->tensor[i].data) continue;
        g->tensor[i].data = g->made + sum;
        sum += whole_pages(g->tensor[i].size_bytes);
    }
    return FX_OK;
}

fx_status fxi_gguf_present(const char *name, fxi_buf *head, const fxi_gguf_maker *maker,
                           fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g;
    fx_status st = fxi_gguf_new(name, &g, err);
    if (st != FX_OK) {
        fxi_buf_free(head);
        maker->close(maker->ud);
        return st;
    }
    g->head = *head;
    *head = (fxi_buf){0};
    g->maker = *maker;
    g->data = (const unsigned char *)g->head.p;
    g->size_bytes = g->head.n;
    g->file_bytes = maker->file_bytes;
    st = fxi_gguf_parse_head(g, err);
    if (st == FX_OK) st = place_made(g, err);
    if (st == FX_OK)
        *out = g;
    else
        fxi_gguf_close(g);
    return st;
}

static fx_status back_pages(const fxi_gguf *g, uintptr_t from, uintptr_t to, fx_error *err)
{
    const uintptr_t first = from / page_bytes() * page_bytes();
    if (!mprotect((void *)first, to - first, PROT_READ | PROT_WRITE)) return FX_OK;
    return fxi_fail(err, FX_ENOMEM, "%s: no memory for a part of a tensor", g->name);
}

// Rows [first, end) of tensor i; a task makes some of them.
typedef struct make_job {
    const fxi_gguf_maker *maker;
    uint64_t i, first, end, task_rows, row_bytes;
    char *dst; // of row `first`
} make_job;

static void make_task(void *arg, int task)
{
    const make_job *j = arg;
    const uint64_t at = (uint64_t)task * j->task_rows, rest = j->end - j->first - at;
    j->maker->make(j->maker->ud, j->i, j->first + at, rest < j->task_rows ? rest : j->task_rows,
                   j->dst + at * j->row_bytes);
}

static void run_make(make_job *j, fxi_pool *pool)
{
    const uint64_t n_row = j->end - j->first;
    j->task_rows = j->row_bytes < TASK_BYTES ? TASK_BYTES / j->row_bytes : 1;
    if (!pool || n_row / j->task_rows >= INT32_MAX) j->task_rows = n_row;
    const int n_task = (int)((n_row + j->task_rows - 1) / j->task_rows);
    if (n_task == 1)
        make_task(j, 0);
    else
        fxi_pool_run(pool, make_task, j, n_task);
    if (j->maker->made) j->maker->made(j->maker->ud, j->i);
}

fx_status fxi_gguf_fetch(const fxi_gguf *g, const fxi_gguf_tensor *t, uint64_t from,
                         uint64_t n_bytes, fxi_pool *pool, fx_error *err)
{
    if (!n_bytes || !is_made(g, t->data)) return FX_OK;
    const uint64_t row_bytes = t->ne[0] / t->type->block_elems * t->type->block_bytes;
    make_job j = {.maker = &g->maker,
                  .i = (uint64_t)(t - g->tensor),
                  .first = from / row_bytes,
                  .end = (from + n_bytes + row_bytes - 1) / row_bytes,
                  .row_bytes = row_bytes};
    j.dst = (char *)(uintptr_t)t->data + j.first * row_bytes;
    FX_TRY(back_pages(g, (uintptr_t)j.dst, (uintptr_t)j.dst + (j.end - j.first) * row_bytes, err));
    run_make(&j, pool);
    return FX_OK;
}

// Whole pages only: the others hold bytes that may be wanted.
static void drop_made(const void *p, size_t n_bytes)
{
    const uintptr_t page = page_bytes(), from = ((uintptr_t)p + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)p + n_bytes) / page * page;
    if (from >= to) return;
    (void)madvise((void *)from, to - from, MADV_DONTNEED);
    (void)mprotect((void *)from, to - from, PROT_NONE);
}

void fxi_gguf_drop(const fxi_gguf *g, const void *p, size_t n_bytes)
{
    if (is_made(g, p)) return drop_made(p, n_bytes);
    if (fxi_mapping_holds(&g->map, p)) return fxi_mapping_drop(&g->map, p, n_bytes);
    for (size_t i = 0; i < g->n_part; i++)
        if (fxi_mapping_holds(&g->part[i]->map, p))
            return fxi_mapping_drop(&g->part[i]->map, p, n_bytes);
    if (g->maker.drop) g->maker.drop(g->maker.ud, p, n_bytes);
}
