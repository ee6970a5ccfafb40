// shapes.c - see shapes.h.
#include "shapes.h"

#define TOKENS(planes, bytes, window)                                                        \
    {                                                                                        \
        .kind = VT_GROUP_TOKENS, .n_plane = planes, .row_bytes = bytes, .window_tok = window \
    }
#define STATE(planes, bytes)                                          \
    {                                                                 \
        .kind = VT_GROUP_STATE, .n_plane = planes, .row_bytes = bytes \
    }

#define BLOCKS(planes, bytes, tok)                                                        \
    {                                                                                     \
        .kind = VT_GROUP_BLOCKS, .n_plane = planes, .row_bytes = bytes, .window_tok = tok \
    }

typedef struct shape {
    const char *name;
    uint32_t n_group;
    vt_group group[FAMILY_MAX_GROUP];
    uint64_t budget_chunks;
    bool swap;
} shape;

static const shape shapes[SHAPE_N_SETUP] = {
    {"wide keys, narrow values, scales",
     3,
     {TOKENS(2, 200, 0), TOKENS(1, 60, 0), TOKENS(2, 2, 0)},
     UINT64_MAX,
     true},
    {"the same, tight", 3, {TOKENS(2, 200, 0), TOKENS(1, 60, 0), TOKENS(2, 2, 0)}, 16, true},
    {"a window beside full layers", 2, {TOKENS(1, 128, 0), TOKENS(2, 128, 50)}, UINT64_MAX, true},
    {"windows, tight", 3, {TOKENS(1, 160, 0), TOKENS(2, 128, 33), TOKENS(1, 96, 70)}, 20, true},
    {"a window alone", 1, {TOKENS(2, 200, 40)}, 14, false},
    {"a state beside tokens", 2, {TOKENS(2, 128, 0), STATE(2, 5000)}, UINT64_MAX, true},
    {"state, window and scales, tight",
     4,
     {TOKENS(1, 200, 0), TOKENS(1, 200, 40), TOKENS(1, 2, 0), STATE(1, 9000)},
     26,
     true},
    {"states of blocks beside tokens and a window",
     3,
     {TOKENS(2, 128, 0), TOKENS(1, 128, 24), BLOCKS(2, 5000, 24)},
     UINT64_MAX,
     true},
    {"several states in a chunk, tight",
     3,
     {TOKENS(1, 200, 0), BLOCKS(2, 900, 19), BLOCKS(1, 3000, 48)},
     22,
     true},
};

family_setup shape_setup(uint32_t k, shape_where at, vt_layout layout, vt_mapper mapper)
{
    static const backend backends[SHAPE_N_WHERE] = {ON_HOST, ON_FAKE, ON_FAKE, ON_CUDA};
    family_setup setup = {
        .name = shapes[k].name,
        .backend = backends[at],
        .layout = layout,
        .slice_pages = 1,
        .n_group = shapes[k].n_group,
        .view_planes = k % 3,
        .n_seq = SHAPE_N_SEQ,
        .budget_chunks = shapes[k].budget_chunks,
        .swap_chunks = shapes[k].swap ? 400 : 0,       // more than all sequences have
        .max_runs = at == SHAPE_ON_FAKE ? 1 << 20 : 0, // with store
        .mapper = mapper,
        .device = at == SHAPE_ON_DEVICE,
    };
    for (uint32_t g = 0; g < setup.n_group; g++) setup.group[g] = shapes[k].group[g];
    return setup;
}
