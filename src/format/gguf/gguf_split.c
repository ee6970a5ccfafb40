// gguf_split.c - a GGUF file in parts, as programs split large ones: NAME-00001-of-00003.gguf and
// so on. Any part's path opens all of them.
//
// Each part is a GGUF file of its own, with some of the tensors and three keys: split.no (from 0),
// split.count, and split.tensors.count (of all parts together). The model's metadata are in the
// first part.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf/gguf_impl.h"
#include "format/show.h"

enum {
    MAX_PART = 9999,
    TAIL_BYTES = sizeof "-00001-of-00003.gguf" - 1,
    TAIL_ROOM = sizeof "-4294967295-of-4294967295.gguf", // of any two numbers
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

// The file's name must say which part it is, because the others' names follow from it.
static fx_status check_tail(const fxi_gguf *g, const part_place *p, fx_error *err)
{
    char tail[TAIL_ROOM];
    const size_t n = strlen(g->name);
    part_tail(tail, p->no, p->count);
    if (n >= TAIL_BYTES && !strcmp(g->name + n - TAIL_BYTES, tail)) return FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: is part %" PRIu32 " of %" PRIu32 ", but its name does not end in %s",
                    g->name, p->no + 1, p->count, tail);
}

// ---- opening the parts -------------------------------------------------------------------------

static fx_status check_place(const fxi_gguf *part, const part_place *want, fx_error *err)
{
    part_place is;
    FX_TRY(read_place(part, &is, err));
    if (is.no == want->no && is.count == want->count) return FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: its keys say part %" PRIu32 " of %" PRIu32 ", its name part %" PRIu32
                    " of %" PRIu32,
                    part->name, is.no + 1, is.count, want->no + 1, want->count);
}

static fx_status open_and_check(const char *path, const part_place *p, fxi_gguf **out,
                                fx_error *err)
{
    if (access(path, F_OK)) return fxi_fail(err, FX_EIO, "%s: the file is missing", path);
    FX_TRY(fxi_gguf_open_one(path, out, err));
    return check_place(*out, p, err);
}

// *out is closed with the whole, on errors too.
static fx_status open_part(const fxi_gguf *any, const part_place *p, fxi_gguf **out, fx_error *err)
{
    char tail[TAIL_ROOM], *path = strdup(any->name);
    if (!path) return fxi_fail(err, FX_ENOMEM, "%s: no memory", any->name);
    part_tail(tail, p->no, p->count);
    memcpy(path + strlen(path) - TAIL_BYTES, tail, TAIL_BYTES);
    fx_status st = open_and_check(path, p, out, err);
    free(path);
    if (st == FX_OK) return st;
    return fxi_fail_in(err, "part %" PRIu32 " of %" PRIu32, p->no + 1, p->count);
}

static fx_status open_parts(fxi_gguf *g, const fxi_gguf *any, uint32_t count, fx_error *err)
{
    g->part = calloc(count, sizeof(fxi_gguf *));
    if (!g->part) return fxi_fail(err, FX_ENOMEM, "%s: no memory", g->name);
    while (g->n_part < count) {
        const part_place p = {(uint32_t)g->n_part, count};
        FX_TRY(open_part(any, &p, &g->part[g->n_part++], err));
    }
    return FX_OK;
}

// ---- joining them ------------------------------------------------------------------------------

static void take_keys(fxi_gguf *g, fxi_gguf *first)
{
    g->version = first->version;
    g->kv = first->kv;
    g->n_kv = first->n_kv;
    g->kv_by_name = first->kv_by_name;
    first->kv = NULL;
    first->kv_by_name = NULL;
    first->n_kv = 0;
}

static fx_status check_n_tensor(const fxi_gguf *g, fx_error *err)
{
    uint32_t want = (uint32_t)g->n_tensor;
    FX_TRY(fxi_gguf_u32(g, "split.tensors.count", false, &want, err));
    if (want == g->n_tensor) return FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: the %zu parts hold %" PRIu64
                    " tensors, key 'split.tensors.count' says %" PRIu32,
                    g->name, g->n_part, g->n_tensor, want);
}

// Part j must not have a tensor that an earlier part has.
static fx_status check_twice(const fxi_gguf *g, size_t j, const fxi_gguf_tensor *t, fx_error *err)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    for (size_t i = 0; i < j; i++)
        if (fxi_gguf_find_tensor(g->part[i], name))
            return fxi_fail(err, FX_EFORMAT,
                            "%s: part %zu of %zu: tensor '%s' is in part %zu already", g->name,
                            j + 1, g->n_part, fxi_show_text(t->name.p, t->name.n).s, i + 1);
    return FX_OK;
}

static fx_status join_tensors(fxi_gguf *g, fx_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->n_part; i++) n += g->part[i]->n_tensor;
    g->tensor = calloc(n + 1, sizeof *g->tensor);
    if (!g->tensor) return fxi_fail(err, FX_ENOMEM, "%s: no memory", g->name);
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

static fx_status join_parts(fxi_gguf *g, const fxi_gguf *any, uint32_t count, fx_error *err)
{
    FX_TRY(open_parts(g, any, count, err));
    FX_TRY(join_tensors(g, err));
    take_keys(g, g->part[0]);
    return check_n_tensor(g, err);
}

// If *g is a part, replaces it by the whole. On an error *g is closed.
static fx_status open_whole(fxi_gguf **g, fx_error *err)
{
    part_place p;
    fxi_gguf *all = NULL;
    fx_status st = read_place(*g, &p, err);
    if (st == FX_OK && p.count <= 1) return FX_OK;
    if (st == FX_OK) st = check_tail(*g, &p, err);
    if (st == FX_OK) st = fxi_gguf_new((*g)->name, &all, err);
    if (st == FX_OK) st = join_parts(all, *g, p.count, err);
    fxi_gguf_close(*g);
    *g = all;
    if (st == FX_OK) return FX_OK;
    fxi_gguf_close(all);
    *g = NULL;
    return st;
}

fx_status fxi_gguf_open(const char *path, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_open_one(path, &g, err));
    FX_TRY(open_whole(&g, err));
    *out = g;
    return FX_OK;
}
