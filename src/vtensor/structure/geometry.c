// geometry.c - the sizes of a manager, computed from its configuration with every product checked.
#include "geometry.h"

#include "vtensor/common/sizes.h"

enum { MORE_REGIONS = 65536 };

static bool config_in_range(const vt_config *c)
{
    return c->n_plane > 0 && c->row_bytes > 0 && c->max_tok > 0 && c->max_seq > 0 &&
           c->budget_bytes > 0 && (c->layout == VT_LAYOUT_SPLIT || c->layout == VT_LAYOUT_PACKED);
}

// The addresses of a span. A guard of at least one token lies before the first view and after each,
// so that a read of token -1 or max_tok faults. It is a multiple of the slice, so that slices of
// huge pages are aligned.
static bool lay_out_span(vti_geo *g)
{
    size_t all_tok, view, views;
    if (!vti_size_mul(g->stride_bytes, g->max_tok, &all_tok) ||
        !vti_size_round_up(all_tok, g->slice_bytes, &view) || view / g->slice_bytes > UINT32_MAX ||
        !vti_size_round_up(g->stride_bytes, g->slice_bytes, &g->guard_bytes))
        return false;
    g->chunks_per_span = (uint32_t)(view / g->slice_bytes);
    return !__builtin_add_overflow(view, g->guard_bytes, &g->view_stride) &&
           vti_size_mul(g->view_stride, g->n_view, &views) &&
           !__builtin_add_overflow(views, g->guard_bytes, &g->span_bytes) &&
           g->span_bytes <= PTRDIFF_MAX;
}

// All chunk indices fit the offsets of one file. Then no sum of bytes or tokens overflows. A region
// that is not a span's home stays in use while anything holds one of its chunks, so there are far
// more regions than spans, if the offsets allow.
static bool count_regions(vti_geo *g)
{
    size_t region_bytes;
    if (!vti_size_mul(g->chunk_bytes, g->chunks_per_span, &region_bytes)) return false;
    uint64_t fit = INT64_MAX / region_bytes;
    uint64_t want = 4 * (uint64_t)g->max_seq + MORE_REGIONS;
    if (want > UINT32_MAX - 1) want = UINT32_MAX - 1;
    g->max_region = (uint32_t)(want < fit ? want : fit);
    return g->max_region >= g->max_seq;
}

vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity)
{
    if (!config_in_range(cfg)) return VT_EINVAL;
    bool split = cfg->layout == VT_LAYOUT_SPLIT;
    *g = (vti_geo){.n_plane = cfg->n_plane,
                   .n_view = split ? cfg->n_plane : 1,
                   .max_tok = cfg->max_tok,
                   .max_seq = cfg->max_seq};
    if (!vti_size_mul(cfg->row_bytes, split ? 1 : cfg->n_plane, &g->stride_bytes) ||
        !vti_slice_choose(cfg->slice_bytes, g->stride_bytes, granularity, &g->slice_bytes) ||
        !vti_size_mul(g->slice_bytes, g->n_view, &g->chunk_bytes) || !lay_out_span(g) ||
        !count_regions(g))
        return VT_EINVAL;
    g->plane_stride = split ? g->view_stride : cfg->row_bytes;
    return VT_OK;
}

uint32_t vti_geo_chunks(const vti_geo *g, uint32_t len_tok)
{
    size_t used = len_tok * g->stride_bytes; // cannot overflow: see lay_out_span
    return (uint32_t)((used + g->slice_bytes - 1) / g->slice_bytes);
}

uint32_t vti_geo_whole(const vti_geo *g, uint32_t len_tok)
{
    return (uint32_t)(len_tok * g->stride_bytes / g->slice_bytes);
}

size_t vti_geo_tail_bytes(const vti_geo *g, uint32_t len_tok)
{
    return len_tok * g->stride_bytes % g->slice_bytes;
}

uint32_t vti_geo_tokens(const vti_geo *g, uint32_t n_chunk)
{
    size_t n_tok = n_chunk * g->slice_bytes / g->stride_bytes;
    return n_tok < g->max_tok ? (uint32_t)n_tok : g->max_tok;
}
