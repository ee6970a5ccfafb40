// kv_snapshot.c - the lists of a snapshot: neighbours are merged, and each list has a limit.
#include "kv/kv_snapshot.h"

#include <stdlib.h>

_Static_assert((int)FX_MAX_CHUNK_GROUP == FXI_MAX_RANK * FXI_KV_MAX_GROUP, "room for all groups");

#define LAST(type, buf) (FXI_ROWS(type, buf) + FXI_N_ROW(type, buf) - 1)

static bool add_list_row(fxi_kv_snapshot *to, fxi_buf *list, const void *row, size_t row_bytes,
                         size_t max_row)
{
    if (to->has_failed || list->n / row_bytes >= max_row) return false;
    to->has_failed = !fxi_buf_add(list, row, row_bytes);
    return !to->has_failed;
}

void fxi_kv_snapshot_add_group(fxi_kv_snapshot *to, uint64_t chunk_bytes, int chunk_tok, int device)
{
    to->group[to->n_group++] = (fx_chunk_group){chunk_bytes, (uint32_t)chunk_tok, (uint32_t)device};
}

void fxi_kv_snapshot_add_chunks(fxi_kv_snapshot *to, int group, uint64_t first, uint32_t n,
                                unsigned state)
{
    const fx_chunk_run run = {first, n, (uint16_t)group, (uint16_t)state};
    fx_chunk_run *last = to->chunk.n ? LAST(fx_chunk_run, &to->chunk) : NULL;
    to->n_chunk[state] += n;
    if (last && last->first + last->n == first && last->state == state && last->group == group)
        last->n += n;
    else
        add_list_row(to, &to->chunk, &run, sizeof run, FX_MAX_CHUNK_RUN);
}

void fxi_kv_snapshot_add_segments(fxi_kv_snapshot *to, int i, int group, uint32_t at,
                                  uint64_t chunk, uint32_t n)
{
    const fx_segment_run run = {chunk, at, n, (uint64_t)group};
    fx_segment_run *last = to->n_run[i] ? LAST(fx_segment_run, &to->segment) : NULL;
    if (last && last->chunk + last->n == chunk && last->at + last->n == at &&
        last->group == (uint64_t)group)
        last->n += n;
    else
        to->n_run[i] += add_list_row(to, &to->segment, &run, sizeof run, FX_MAX_SEGMENT_RUN);
}

bool fxi_kv_snapshot_add_node(fxi_kv_snapshot *to, const fx_prefix_node *node)
{
    return add_list_row(to, &to->node, node, sizeof *node, FX_MAX_PREFIX_NODE);
}

static int compare_rows(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Most lists are in order already.
void fxi_snapshot_sort_rows(fxi_buf *list, size_t row_bytes)
{
    const size_t n = list->n / row_bytes;
    for (size_t i = 1; i < n; i++)
        if (compare_rows(list->p + (i - 1) * row_bytes, list->p + i * row_bytes) > 0) {
            qsort(list->p, n, row_bytes, compare_rows);
            return;
        }
}

void fxi_kv_snapshot_sort(fxi_kv_snapshot *to)
{
    fxi_snapshot_sort_rows(&to->chunk, sizeof(fx_chunk_run));
    fxi_snapshot_sort_rows(&to->node, sizeof(fx_prefix_node));
}

void fxi_kv_snapshot_free(fxi_kv_snapshot *s)
{
    fxi_buf_free(&s->chunk);
    fxi_buf_free(&s->segment);
    fxi_buf_free(&s->node);
}
