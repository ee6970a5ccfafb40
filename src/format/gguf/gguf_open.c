// gguf_open.c - opens models as an fxi_gguf: a GGUF file, a file in parts, or a model of another
// format whose tensors are made on demand.
//
// Programs split large files: NAME-00001-of-00003.gguf and so on; any part's path opens all of
// them. Each part is a GGUF file of its own, with some of the tensors and three keys: split.no
// (from 0), split.count, and split.tensors.count (of all parts together). The model's metadata are
// in the first part.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/gguf/gguf_impl.h"
#include "format/gguf/gguf_made.h"
#include "format/show.h"

// ---- an fxi_gguf of any kind --------------------------------------------------------------------

#define TASK_BYTES ((uint64_t)256 << 10) // that a thread makes at a time

static fx_status make_gguf(const char *name, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g = calloc(1, sizeof *g);
    if (g) g->name = strdup(name);
    if (!g || !g->name) {
        free(g);
        return fxi_fail_memory(err);
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

// Gives g to the caller, or closes it if it could not be opened.
static fx_status give_or_close(fx_status st, fxi_gguf *g, fxi_gguf **out)
{
    if (st == FX_OK)
        *out = g;
    else
        fxi_gguf_close(g);
    return st;
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

// Gives the tensors that are made addresses without memory.
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
    if (!sum) return FX_OK;
    void *p = mmap(NULL, sum, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return fxi_fail(err, FX_ENOMEM, "%s: no address space", g->name);
    g->made = p;
    g->made_bytes = sum;
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
    fxi_gguf *g = NULL;
    fx_status st = make_gguf(name, &g, err);
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
    st = fxi_gguf_parse_bytes(g, false, err);
    if (st == FX_OK) st = place_made(g, err);
    return give_or_close(st, g, out);
}

// Rows [first, end) of tensor i; a task makes some of them.
typedef struct make_job {
    const fxi_gguf_maker *maker;
    uint64_t i, first, end, task_rows, row_bytes;
    char *dst; // where row `first` goes
} make_job;

static void make_task(void *arg, int task)
{
    const make_job *j = arg;
    const uint64_t at = (uint64_t)task * j->task_rows, rest = j->end - j->first - at;
    j->maker->make(j->maker->ud, j->i, j->first + at, rest < j->task_rows ? rest : j->task_rows,
                   j->dst + at * j->row_bytes);
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
    const uint64_t n_row = j.end - j.first;
    const uintptr_t at = (uintptr_t)j.dst, first = at / page_bytes() * page_bytes();
    if (mprotect((void *)first, at + n_row * row_bytes - first, PROT_READ | PROT_WRITE))
        return fxi_fail_memory(err);
    j.task_rows = j.row_bytes < TASK_BYTES ? TASK_BYTES / j.row_bytes : 1;
    if (!pool || n_row / j.task_rows >= INT32_MAX) j.task_rows = n_row;
    const int n_task = (int)((n_row + j.task_rows - 1) / j.task_rows);
    if (n_task == 1)
        make_task(&j, 0);
    else
        fxi_pool_run(pool, make_task, &j, n_task);
    if (j.maker->made) j.maker->made(j.maker->ud, j.i);
    return FX_OK;
}

void fxi_gguf_drop(const fxi_gguf *g, const void *p, size_t n_bytes)
{
    if (is_made(g, p)) { // whole pages only: the others hold bytes that may be wanted
        const uintptr_t page = page_bytes(), from = ((uintptr_t)p + page - 1) / page * page;
        const uintptr_t to = ((uintptr_t)p + n_bytes) / page * page;
        if (from >= to) return;
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
        (void)mprotect((void *)from, to - from, PROT_NONE);
        return;
    }
    if (fxi_mapping_holds(&g->map, p)) return fxi_mapping_drop(&g->map, p, n_bytes);
    for (size_t i = 0; i < g->n_part; i++)
        if (fxi_mapping_holds(&g->part[i]->map, p))
            return fxi_mapping_drop(&g->part[i]->map, p, n_bytes);
    if (g->maker.drop) g->maker.drop(g->maker.ud, p, n_bytes);
}

// ---- one file -----------------------------------------------------------------------------------

fx_status fxi_gguf_parse(const void *data, size_t size_bytes, const char *name, fxi_gguf **out,
                         fx_error *err)
{
    fxi_gguf *g = NULL;
    FX_TRY(make_gguf(name, &g, err));
    g->data = data;
    g->size_bytes = g->file_bytes = size_bytes;
    return give_or_close(fxi_gguf_parse_bytes(g, true, err), g, out);
}

static fx_status open_one_file(const char *path, bool with_data, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g = NULL;
    FX_TRY(make_gguf(path, &g, err));
    fx_status st = fxi_mapping_open(path, &g->map, err);
    g->data = g->map.data;
    g->size_bytes = g->file_bytes = g->map.size_bytes;
    if (st == FX_OK) st = fxi_gguf_parse_bytes(g, with_data, err);
    return give_or_close(st, g, out);
}

fx_status fxi_gguf_open_head(const char *path, fxi_gguf **out, fx_error *err)
{
    return open_one_file(path, false, out, err);
}

// ---- files in parts -----------------------------------------------------------------------------

enum {
    MAX_PART = 9999,
    TAIL_BYTES = sizeof "-00001-of-00003.gguf" - 1,
    TAIL_ROOM = sizeof "-4294967295-of-4294967295.gguf", // room for any two numbers
};

typedef struct part_place { // what a part's keys say
    uint32_t no, count;
} part_place;

static fx_status read_place(const fxi_gguf *g, part_place *p, fx_error *err)
{
    *p = (part_place){0, 1};
    FX_TRY(fxi_gguf_u32(g, "split.no", false, &p->no, err));
    FX_TRY(fxi_gguf_u32(g, "split.count", false, &p->count, err));
    if (p->count <= 1) return FX_OK;
    if (p->count > MAX_PART || p->no >= p->count)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: keys 'split.no' and 'split.count': %" PRIu32 " of %" PRIu32, g->name,
                        p->no, p->count);
    return FX_OK;
}

static void part_tail(char tail[TAIL_ROOM], uint32_t no, uint32_t count)
{
    snprintf(tail, TAIL_ROOM, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", no + 1, count);
}

// Opens the part after g->n_part - 1 into its place. *out is closed with the whole, on errors too.
static fx_status open_part(fxi_gguf *g, const char *path, const part_place *want, fx_error *err)
{
    fxi_gguf **out = &g->part[g->n_part++];
    part_place is;
    if (access(path, F_OK)) return fxi_fail(err, FX_EIO, "%s: the file is missing", path);
    FX_TRY(open_one_file(path, true, out, err));
    FX_TRY(read_place(*out, &is, err));
    if (is.no == want->no && is.count == want->count) return FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: its keys say part %" PRIu32 " of %" PRIu32 ", its name part %" PRIu32
                    " of %" PRIu32,
                    path, is.no + 1, is.count, want->no + 1, want->count);
}

// The parts' paths are that of any of them but for the number at their ends.
static fx_status open_parts(fxi_gguf *g, uint32_t count, fx_error *err)
{
    char tail[TAIL_ROOM], *path = strdup(g->name);
    g->part = calloc(count, sizeof(fxi_gguf *));
    fx_status st = path && g->part ? FX_OK : fxi_fail_memory(err);
    while (st == FX_OK && g->n_part < count) {
        const part_place p = {(uint32_t)g->n_part, count};
        part_tail(tail, p.no, count);
        memcpy(path + strlen(path) - TAIL_BYTES, tail, TAIL_BYTES);
        if (open_part(g, path, &p, err) != FX_OK)
            st = fxi_fail_in(err, "part %" PRIu32 " of %" PRIu32, p.no + 1, count);
    }
    free(path);
    return st;
}

// ---- joining them ------------------------------------------------------------------------------

// Part j must not have a tensor that an earlier part has.
static fx_status check_twice(const fxi_gguf *g, size_t j, const fxi_gguf_tensor *t, fx_error *err)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    for (size_t i = 0; i < j; i++)
        if (fxi_gguf_find_tensor(g->part[i], name))
            return fxi_fail(err, FX_EFORMAT,
                            "%s: part %zu of %zu: tensor '%s' is in part %zu already", g->name,
                            j + 1, g->n_part, fxi_show_text(t->name).s, i + 1);
    return FX_OK;
}

static fx_status join_tensors(fxi_gguf *g, fx_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->n_part; i++) n += g->part[i]->n_tensor;
    g->tensor = calloc(n + 1, sizeof *g->tensor);
    if (!g->tensor) return fxi_fail_memory(err);
    for (size_t i = 0; i < g->n_part; i++) {
        const fxi_gguf *part = g->part[i];
        for (uint64_t k = 0; k < part->n_tensor; k++) {
            FX_TRY(check_twice(g, i, &part->tensor[k], err));
            g->tensor[g->n_tensor++] = part->tensor[k];
        }
        g->file_bytes += part->file_bytes;
    }
    return fxi_gguf_index_tensors(g, err);
}

static fx_status join_parts(fxi_gguf *g, uint32_t count, fx_error *err)
{
    FX_TRY(open_parts(g, count, err));
    FX_TRY(join_tensors(g, err));
    g->version = g->part[0]->version;
    g->kv = g->part[0]->kv;
    g->n_kv = g->part[0]->n_kv;
    g->kv_by_name = g->part[0]->kv_by_name;
    g->part[0]->kv = NULL;
    g->part[0]->kv_by_name = NULL;
    g->part[0]->n_kv = 0;
    uint32_t want = (uint32_t)g->n_tensor;
    FX_TRY(fxi_gguf_u32(g, "split.tensors.count", false, &want, err));
    if (want == g->n_tensor) return FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: the %zu parts hold %" PRIu64
                    " tensors, key 'split.tensors.count' says %" PRIu32,
                    g->name, g->n_part, g->n_tensor, want);
}

fx_status fxi_gguf_open(const char *path, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g = NULL, *all = NULL;
    part_place p;
    char tail[TAIL_ROOM];
    const size_t n = strlen(path);
    FX_TRY(open_one_file(path, true, &g, err));
    fx_status st = read_place(g, &p, err);
    if (st != FX_OK || p.count <= 1) return give_or_close(st, g, out);
    fxi_gguf_close(g);
    // The file's name must say which part it is, because the others' names follow from it.
    part_tail(tail, p.no, p.count);
    if (n < TAIL_BYTES || strcmp(path + n - TAIL_BYTES, tail) != 0)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: is part %" PRIu32 " of %" PRIu32 ", but its name does not end in %s",
                        path, p.no + 1, p.count, tail);
    FX_TRY(make_gguf(path, &all, err));
    return give_or_close(join_parts(all, p.count, err), all, out);
}
