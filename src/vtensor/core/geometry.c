// geometry.c - from the configuration to the sizes of spans, lanes and chunks.
//
// A span is one reservation with a lane for each group, and a lane has a view for each plane
// (SPLIT), for a few (view_planes), or one for all (PACKED):
//
//   addr
//   | guard | view 0: mapped slices | reserved | guard | view 1: ... | guard | next group's ...
//           |<------------- view_stride -------------->|
//
// Groups whose chunks have the same slices share a class, so that their chunks replace each other.
#include "geometry.h"

#include "common.h"

enum { MAX_PLANE = 1 << 16 };

static bool config_in_range(const vt_config *cfg)
{
    return cfg->max_tok > 0 && cfg->max_seq > 0 && cfg->budget_bytes > 0 &&
           (cfg->layout == VT_LAYOUT_SPLIT || cfg->layout == VT_LAYOUT_PACKED) &&
           (cfg->mapper == VT_MAPPER_THREAD || cfg->mapper == VT_MAPPER_OWNER) &&
           cfg->n_group <= VT_MAX_GROUP && (cfg->n_group == 0 || cfg->group);
}

// The class with these slices; a new one if there is none.
static uint32_t class_for(vti_geo *g, const vti_lane_geo *gr)
{
    uint32_t c = 0;
    for (; c < g->vmm.n_class; c++)
        if (g->vmm.cls[c].n_slice == gr->n_view && g->vmm.cls[c].slice_bytes == gr->slice_bytes)
            break;
    if (c == g->vmm.n_class)
        g->vmm.cls[g->vmm.n_class++] = (vt_vmm_class){gr->n_view, gr->slice_bytes, 0};
    if (gr->n_position > g->region_len[c]) g->region_len[c] = gr->n_position;
    return c;
}

// The guard is at least a token, so that an access one token out of bounds faults. View 0 begins at
// a multiple of the slice from the span's address, and the views and guards are whole slices, so
// that slices of huge pages are aligned.
static bool lay_out_lane(vti_geo *g, vti_lane_geo *gr)
{
    size_t all, view, views;
    const uint32_t n_row = gr->is_state ? 1 : g->max_tok / gr->row_tok;
    if (__builtin_mul_overflow(gr->stride_bytes, n_row > 0 ? n_row : 1, &all) ||
        !vti_size_round_up(all, gr->slice_bytes, &view) ||
        view / gr->slice_bytes > UINT32_MAX / 4 ||
        !vti_size_round_up(gr->stride_bytes, gr->slice_bytes, &gr->guard_bytes))
        return false;
    gr->n_position = (uint32_t)(view / gr->slice_bytes);
    return !__builtin_add_overflow(g->span_bytes, gr->guard_bytes, &all) &&
           vti_size_round_up(all, gr->slice_bytes, &gr->lane_offset) &&
           !__builtin_add_overflow(view, gr->guard_bytes, &gr->view_stride) &&
           !__builtin_mul_overflow(gr->view_stride, gr->n_view, &views) &&
           !__builtin_add_overflow(gr->lane_offset, views, &g->span_bytes) &&
           g->span_bytes <= PTRDIFF_MAX / 2;
}

// At most `most` planes in a view, and shared out evenly, so that the last view has as few unused
// rows as can be.
static vt_status add_group(vti_geo *g, const vt_group *from, uint64_t most, size_t granularity)
{
    const bool is_state = from->kind == VT_GROUP_STATE, is_blocks = from->kind == VT_GROUP_BLOCKS;
    if (!(is_state || is_blocks || from->kind == VT_GROUP_TOKENS) || from->n_plane == 0 ||
        from->n_plane > MAX_PLANE || from->row_bytes == 0 || (is_state && from->window_tok) ||
        (is_blocks && !from->window_tok))
        return VT_EINVAL;
    const uint64_t n = from->n_plane, most_in_one = most == 0 ? 1 : most < n ? most : n;
    const uint64_t n_view = (n + most_in_one - 1) / most_in_one;
    const uint32_t k = (uint32_t)((n + n_view - 1) / n_view);
    vti_lane_geo *gr = &g->group[g->n_group++];
    *gr = (vti_lane_geo){.is_state = is_state,
                         .n_plane = from->n_plane,
                         .plane0 = g->n_plane,
                         .view_planes = k,
                         .n_view = (from->n_plane + k - 1) / k,
                         .row_tok = is_blocks ? from->window_tok : 1,
                         .window_tok = from->window_tok};
    g->n_plane += from->n_plane;
    g->has_state |= is_state;
    if (__builtin_mul_overflow(from->row_bytes, k, &gr->stride_bytes)) return VT_EINVAL;
    // A state is one chunk by default.
    bool is_one = (is_state || is_blocks) && from->slice_bytes == 0;
    bool fits = is_one ? vti_size_round_up(gr->stride_bytes, granularity, &gr->slice_bytes)
                       : vti_slice_choose(from->slice_bytes, gr->stride_bytes, granularity,
                                          &gr->slice_bytes);
    if (!fits || __builtin_mul_overflow(gr->slice_bytes, gr->n_view, &gr->chunk_bytes) ||
        !lay_out_lane(g, gr))
        return VT_EINVAL;
    gr->plane_stride = k == 1 ? gr->view_stride : from->row_bytes;
    gr->cls = class_for(g, gr);
    return VT_OK;
}

// A region that no lane prefers any more stays in use while anything holds one of its chunks. So
// there are as many as offsets of one file allow: with 2^61 bytes of them and regions of a sequence
// each, more than a budget has chunks.
static bool count_names(vti_geo *g)
{
    const uint64_t bytes_left = INT64_MAX / 4, least = (uint64_t)g->max_seq * g->n_group;
    for (uint32_t c = 0; c < g->vmm.n_class; c++) {
        vt_vmm_class *cls = &g->vmm.cls[c];
        uint64_t fit = bytes_left / g->vmm.n_class / cls->slice_bytes / cls->n_slice;
        uint64_t n_region = fit / g->region_len[c];
        if (n_region < least) return false;
        if (n_region > INT32_MAX) n_region = INT32_MAX;
        cls->n_index = n_region * g->region_len[c];
    }
    return true;
}

// A block is what a chunk of the first group of rows holds, in whole tokens.
static uint32_t choose_block(const vti_geo *g)
{
    for (uint32_t i = 0; i < g->n_group; i++) {
        const vti_lane_geo *gr = &g->group[i];
        uint32_t n_tok = vti_group_tokens(gr, 1);
        if (!gr->is_state && gr->row_tok == 1)
            return n_tok == 0 ? 1 : n_tok < g->max_tok ? n_tok : g->max_tok;
    }
    return 32 < g->max_tok ? 32 : g->max_tok;
}

vt_status vti_geo_init(vti_geo *g, const vt_config *cfg, size_t granularity)
{
    const vt_group plain = {VT_GROUP_TOKENS, cfg->n_plane, cfg->row_bytes, 0, cfg->slice_bytes};
    const vt_group *from = cfg->n_group > 0 ? cfg->group : &plain;
    if (!config_in_range(cfg)) return VT_EINVAL;
    const uint64_t view_planes = cfg->layout == VT_LAYOUT_SPLIT ? cfg->view_planes : UINT64_MAX;
    *g = (vti_geo){.max_tok = cfg->max_tok, .max_seq = cfg->max_seq};
    for (uint32_t i = 0; i < (cfg->n_group > 0 ? cfg->n_group : 1); i++)
        VT_TRY(add_group(g, &from[i], view_planes, granularity));
    g->span_bytes += g->group[g->n_group - 1].guard_bytes;
    if (!count_names(g)) return VT_EINVAL;
    g->block_tok = choose_block(g);
    return VT_OK;
}

size_t vti_group_plane_at(const vti_lane_geo *gr, uint32_t plane)
{
    uint32_t p = plane - gr->plane0, k = gr->view_planes;
    return p / k * gr->view_stride + p % k * gr->plane_stride;
}

const vti_lane_geo *vti_geo_group_of(const vti_geo *g, uint32_t plane)
{
    const vti_lane_geo *gr = g->group;
    while (plane >= gr->plane0 + gr->n_plane) gr++;
    return gr;
}

VTI_HOT size_t vti_group_bytes(const vti_lane_geo *gr, uint32_t len_tok)
{
    if (gr->is_state) return len_tok > 0 ? gr->stride_bytes : 0;
    if (VTI_RARE(gr->row_tok > 1)) len_tok /= gr->row_tok; // whole blocks
    return len_tok * gr->stride_bytes;                     // cannot overflow: see lay_out_lane
}

VTI_HOT uint32_t vti_group_chunks(const vti_lane_geo *gr, uint32_t len_tok)
{
    return (uint32_t)((vti_group_bytes(gr, len_tok) + gr->slice_bytes - 1) / gr->slice_bytes);
}

VTI_HOT uint32_t vti_group_whole(const vti_lane_geo *gr, uint32_t len_tok)
{
    return gr->is_state ? 0 : (uint32_t)(vti_group_bytes(gr, len_tok) / gr->slice_bytes);
}

VTI_HOT size_t vti_group_tail_bytes(const vti_lane_geo *gr, uint32_t len_tok)
{
    return vti_group_bytes(gr, len_tok) % gr->slice_bytes;
}

uint32_t vti_group_tokens(const vti_lane_geo *gr, uint32_t n_chunk)
{
    if (gr->is_state) return n_chunk >= gr->n_position ? UINT32_MAX : 0;
    size_t n_tok = n_chunk * gr->slice_bytes / gr->stride_bytes;
    if (gr->row_tok > 1) n_tok = (n_tok + 1) * gr->row_tok - 1; // up to where the next row is due
    return n_tok < UINT32_MAX ? (uint32_t)n_tok : UINT32_MAX;
}

VTI_HOT uint32_t vti_group_front_tok(const vti_lane_geo *gr, uint32_t len_tok)
{
    uint32_t w = gr->window_tok;
    if (VTI_RARE(gr->row_tok > 1)) return len_tok < 2 * w ? 0 : (len_tok / w - 1) * w;
    return w > 0 && len_tok >= w ? len_tok + 1 - w : 0;
}

VTI_HOT uint32_t vti_group_passed(const vti_lane_geo *gr, uint32_t len_tok)
{
    return vti_group_whole(gr, vti_group_front_tok(gr, len_tok));
}
