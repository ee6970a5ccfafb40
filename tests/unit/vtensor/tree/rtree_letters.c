// rtree_letters.c - the tree of letters.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "rtree_letters.h"

enum { TEXT_BYTES = 4096 };

vti_geo geo;
vti_pset ps;
vti_rtree *t;
vt_domain *d;

void tree_open(size_t stride_bytes, size_t slice_bytes)
{
    geo = (vti_geo){.stride_bytes = stride_bytes, .slice_bytes = slice_bytes, .max_tok = 32};
    vti_pset_init(&ps, N_REGION, N_POSITION);
    for (uint32_t r = 0; r < N_REGION; r++) {
        uint32_t got;
        assert_int_equal(vti_pset_open(&ps, r, &got), VT_OK);
        assert_int_equal(got, r);
        vti_pset_create(&ps, r, 0, N_POSITION);
    }
    assert_int_equal(vti_rtree_new(&geo, &ps, NULL, &t), VT_OK);
    assert_int_equal(vti_rtree_open(t, "d", 1, &d), VT_OK);
}

void tree_close(void)
{
    vti_rtree_free(t);
    for (uint32_t r = 0; r < N_REGION; r++)
        for (uint32_t p = 0; p < N_POSITION; p++)
            assert_int_equal(vti_pset_chunk(&ps, r, p).n_node, 0);
    vti_pset_free(&ps);
}

int tree_setup(void **state)
{
    (void)state;
    tree_open(1, 2); // two tokens to a chunk
    return 0;
}

int tree_teardown(void **state)
{
    (void)state;
    tree_close();
    return 0;
}

static void count_reference(void *ctx, uint32_t region, uint32_t position)
{
    uint32_t(*n)[N_POSITION] = ctx;
    n[region][position]++;
}

void verify(void)
{
    uint32_t n[N_REGION][N_POSITION] = {0};
    const char *wrong = vti_rtree_check(t, count_reference, n);
    if (wrong) fail_msg("%s", wrong);
    for (uint32_t r = 0; r < N_REGION; r++)
        for (uint32_t p = 0; p < N_POSITION; p++)
            assert_int_equal(vti_pset_chunk(&ps, r, p).n_node, n[r][p]);
}

static uint32_t spell(const char *letters, uint32_t *tok)
{
    uint32_t n = 0;
    for (; letters[n]; n++) tok[n] = (uint32_t)letters[n];
    return n;
}

vt_status try_push(vt_domain *in, const char *letters, char region, vti_node **out)
{
    uint32_t tok[32], at[N_POSITION];
    for (uint32_t p = 0; p < N_POSITION; p++) at[p] = (uint32_t)(region - 'A');
    return vti_rtree_push(t, in, tok, spell(letters, tok), at, out);
}

vti_node *push(const char *letters, char region)
{
    vti_node *n = NULL;
    assert_int_equal(try_push(d, letters, region, &n), VT_OK);
    verify();
    return n;
}

vti_prefix match(const char *letters)
{
    uint32_t tok[32];
    return vti_rtree_match(d, tok, spell(letters, tok));
}

static void write_children(char *text, const vti_node *n);

static void write_text(char *text, const char *format, uint32_t a, uint32_t b)
{
    size_t used = strlen(text);
    assert_true(snprintf(text + used, TEXT_BYTES - used, format, a, b) < 64);
}

static void write_node(char *text, const vti_node *n)
{
    for (uint32_t i = 0; i < n->n_tok; i++) write_text(text, "%c", n->tok[i], 0);
    uint32_t first = vti_node_first(&geo, n);
    for (uint32_t i = 0; i < vti_node_positions(&geo, n); i++)
        write_text(text, i == 0 ? "[%c%u" : " %c%u", 'A' + n->region[i], first + i);
    write_text(text, "]", 0, 0);
    if (n->child[VTI_FRONT]) {
        write_text(text, "(", 0, 0);
        write_children(text, n);
        write_text(text, ")", 0, 0);
    }
}

static void write_children(char *text, const vti_node *n)
{
    const char *gap = "";
    for (uint32_t tok = 0; tok < 128; tok++) {
        const vti_node *c = vti_node_child(t, n, tok);
        if (!c) continue;
        write_text(text, gap, 0, 0);
        write_node(text, c);
        gap = " ";
    }
}

const char *tree_of(const vt_domain *of)
{
    static char text[TEXT_BYTES];
    text[0] = 0;
    write_children(text, of->root);
    return text;
}

uint32_t n_node(char region, uint32_t position)
{
    return vti_pset_chunk(&ps, (uint32_t)(region - 'A'), position).n_node;
}

void retain(vti_node *n, uint8_t priority, bool pinned, uint64_t until_ms, uint64_t now_ms)
{
    vt_retention keep = {.priority = priority, .pinned = pinned, .until_ms = until_ms};
    assert_int_equal(vti_rtree_retain(t, n, &keep, UINT64_MAX, now_ms), VT_OK);
    verify();
}

uint64_t n_alloc_left = UINT64_MAX;

void *__real_calloc(size_t n, size_t size_bytes);
void *__wrap_calloc(size_t n, size_t size_bytes);

void *__wrap_calloc(size_t n, size_t size_bytes)
{
    if (n_alloc_left == 0) return NULL;
    if (n_alloc_left != UINT64_MAX) n_alloc_left--;
    return __real_calloc(n, size_bytes);
}
