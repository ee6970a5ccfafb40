// radix_letters.c - the tree of letters.
#include "unit/cmocka_all.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "radix_letters.h"

enum { TEXT_BYTES = 4096, N_CHUNK = VT_MAX_GROUP * N_SERIES * N_POSITION };

vti_geo geo;
vti_pset ps;
vti_radix *t;
vt_domain *d;

// ---- Trees

// Each group has a class of its own, with a region for each series.
static void make_geometry(const letter_group *group, uint32_t n_group, uint32_t block_tok)
{
    geo = (vti_geo){.n_group = n_group, .max_tok = MAX_LETTER, .block_tok = block_tok};
    geo.vmm.n_class = n_group;
    for (uint32_t g = 0; g < n_group; g++) {
        const letter_group *from = &group[g];
        bool is_state = from->kind == VT_GROUP_STATE;
        size_t bytes = from->row_bytes * (is_state ? 1 : MAX_LETTER);
        geo.has_state |= is_state;
        geo.group[g] = (vti_lane_geo){
            .is_state = is_state,
            .n_plane = 1,
            .n_view = 1,
            .cls = g,
            .window_tok = from->window_tok,
            .stride_bytes = from->row_bytes,
            .slice_bytes = from->slice_bytes,
            .chunk_bytes = from->slice_bytes,
            .n_position = (uint32_t)((bytes + from->slice_bytes - 1) / from->slice_bytes),
        };
        assert_true(geo.group[g].n_position <= N_POSITION);
        geo.vmm.cls[g] = (vt_vmm_class){1, from->slice_bytes, N_SERIES * N_POSITION};
        geo.region_len[g] = N_POSITION;
    }
}

uint32_t chunk_named(uint32_t group, char series, uint32_t position)
{
    return vti_pset_find(&ps, group, (vti_name){(uint32_t)(series - 'A'), position});
}

static void make_chunks(uint32_t group, char series)
{
    uint32_t region, chunk;
    assert_int_equal(vti_pset_region_open(&ps, group, &region), VT_OK);
    assert_int_equal(region, series - 'A');
    for (uint32_t p = 0; p < geo.group[group].n_position; p++) {
        assert_int_equal(vti_pset_reserve(&ps, group, (vti_name){region, p}, &chunk), VT_OK);
        vti_pset_create(&ps, chunk, false);
    }
}

void tree_open(const letter_group *group, uint32_t n_group, uint32_t block_tok)
{
    make_geometry(group, n_group, block_tok);
    vti_pset_init(&ps, &geo);
    for (uint32_t g = 0; g < n_group; g++)
        for (char s = 'A'; s < 'A' + N_SERIES; s++) make_chunks(g, s);
    assert_int_equal(vti_radix_new(&geo, &ps, NULL, 64, &t), VT_OK);
    assert_int_equal(vti_radix_open(t, "d", 1, &d), VT_OK);
}

void tree_close(void)
{
    n_alloc_left = UINT64_MAX;
    vti_radix_free(t);
    for (uint32_t c = 0; c < ps.n_class; c++) {
        assert_int_equal(ps.cls[c].n_in[VT_CHUNK_CACHED], 0);
        assert_int_equal(ps.cls[c].n_in[VTI_EVICTABLE], 0);
    }
    vti_pset_free(&ps);
}

int tree_setup(void **state)
{
    (void)state;
    tree_open(&(letter_group){VT_GROUP_TOKENS, 1, 2, 0}, 1, 2);
    return 0;
}

int tree_setup4(void **state)
{
    (void)state;
    tree_open(&(letter_group){VT_GROUP_TOKENS, 1, 2, 0}, 1, 4);
    return 0;
}

int tree_teardown(void **state)
{
    (void)state;
    tree_close();
    return 0;
}

// ---- Counting

typedef struct letter_census {
    uint32_t n_node[N_CHUNK], n_kept[N_CHUNK];
} letter_census;

static void count_reference(void *ctx, uint32_t chunk, bool is_kept)
{
    letter_census *c = ctx;
    c->n_node[chunk]++;
    c->n_kept[chunk] += is_kept;
}

void verify(void)
{
    static letter_census c;
    memset(&c, 0, sizeof c);
    const char *wrong = vti_radix_check(t, count_reference, &c);
    if (wrong) fail_msg("%s", wrong);
    for (uint32_t g = 0; g < geo.n_group; g++) {
        uint64_t n = 0;
        for (char s = 'A'; s < 'A' + N_SERIES; s++)
            for (uint32_t p = 0; p < geo.group[g].n_position; p++) {
                uint32_t name = chunk_named(g, s, p);
                vti_chunk is = vti_pset_chunk(&ps, name);
                assert_int_equal(is.n_node, c.n_node[name]);
                if (is.n_node > 0) assert_int_equal(is.n_kept, c.n_kept[name]);
                n += is.n_user == 0 && c.n_node[name] > 0 && c.n_kept[name] == 0;
            }
        assert_int_equal(ps.cls[g].n_in[VTI_EVICTABLE], n);
    }
}

uint64_t n_in(vt_chunk_state state)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < ps.n_class; c++) n += ps.cls[c].n_in[state];
    return n;
}

uint64_t n_evictable(void)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < ps.n_class; c++) n += ps.cls[c].n_in[VTI_EVICTABLE];
    return n;
}

// ---- Steps

static uint32_t spell(const char *letters, uint32_t *tok)
{
    uint32_t n = 0;
    for (; letters[n]; n++) tok[n] = (uint32_t)letters[n];
    return n;
}

vt_status try_push(vt_domain *in, const char *letters, char series, uint32_t front, vti_node **out)
{
    uint32_t tok[MAX_LETTER], chunk[VT_MAX_GROUP][N_POSITION];
    const uint32_t *at[VT_MAX_GROUP];
    for (uint32_t g = 0; g < geo.n_group; g++) {
        bool is_window = geo.group[g].window_tok > 0;
        for (uint32_t p = 0; p < geo.group[g].n_position; p++)
            chunk[g][p] = is_window && p < front ? VTI_NO_CHUNK : chunk_named(g, series, p);
        at[g] = chunk[g];
    }
    vti_push all = {.from = in->root, .tok = tok, .at = at, .has_state = geo.has_state};
    all.end = spell(letters, tok);
    return vti_radix_push(t, &all, out);
}

vti_node *push_front(const char *letters, char series, uint32_t front)
{
    vti_node *n = NULL;
    assert_int_equal(try_push(d, letters, series, front, &n), VT_OK);
    verify();
    return n;
}

vti_node *push(const char *letters, char series)
{
    return push_front(letters, series, 0);
}

vti_prefix match(const char *letters)
{
    uint32_t tok[MAX_LETTER];
    return vti_radix_match(d, tok, spell(letters, tok));
}

void retain(vti_node *n, uint8_t priority, bool pinned, uint64_t until_ms, uint64_t now_ms)
{
    vt_retention keep = {.priority = priority, .pinned = pinned, .until_ms = until_ms};
    t->now_ms = now_ms;
    assert_int_equal(vti_radix_retain(t, n, &keep, UINT64_MAX), VT_OK);
    verify();
}

char last_letter(const vti_node *n)
{
    return (char)n->room[n->n_tok - 1];
}

// ---- Text

static void write_text(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + used, TEXT_BYTES - used, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < TEXT_BYTES - used);
}

static void write_chunk(char *text, uint32_t group, uint32_t chunk)
{
    if (chunk == VTI_NO_CHUNK) {
        write_text(text, "-");
        return;
    }
    assert_int_equal(vti_pset_class(&ps, chunk), group);
    const vti_name name = vti_pset_name(&ps, chunk);
    write_text(text, "%c%u", 'A' + name.region, name.offset);
}

// Recursion as deep as the tree, and as its search trees.
static void write_children(char *text, const vti_node *n, bool *is_first);

static void write_node(char *text, const vti_node *n)
{
    bool is_first = true;
    for (uint32_t i = 0; i < n->n_tok; i++) write_text(text, "%c", (char)n->room[i]);
    for (uint32_t g = 0; g < geo.n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        write_text(text, g == 0 ? "[" : "|");
        for (uint32_t i = 0; i < h.n; i++) {
            if (i > 0) write_text(text, " ");
            write_chunk(text, g, h.chunk[i]);
        }
    }
    write_text(text, "]");
    if (!n->child) return;
    write_text(text, "(");
    write_children(text, n->child, &is_first);
    write_text(text, ")");
}

static void write_children(char *text, const vti_node *n, bool *is_first)
{
    if (!n) return;
    write_children(text, n->left, is_first);
    if (!*is_first) write_text(text, " ");
    *is_first = false;
    write_node(text, n);
    write_children(text, n->right, is_first);
}

const char *tree_of(const vt_domain *of)
{
    static char text[TEXT_BYTES];
    bool is_first = true;
    text[0] = 0;
    write_children(text, of->root->child, &is_first);
    return text;
}

const char *chunks_of(vti_prefix prefix, uint32_t group)
{
    static char text[TEXT_BYTES];
    uint32_t chunk[VT_MAX_GROUP][N_POSITION], *at[VT_MAX_GROUP];
    for (uint32_t g = 0; g < geo.n_group; g++) at[g] = chunk[g];
    vti_radix_chunks(t, prefix, at);
    text[0] = 0;
    for (uint32_t p = 0; p < vti_group_chunks(&geo.group[group], prefix.n_tok); p++) {
        if (p > 0) write_text(text, " ");
        write_chunk(text, group, chunk[group][p]);
    }
    return text;
}
