// test_vt_rtree_model.c - long random traces of sequences that match, write, record, fork, continue
// and end, of evictions, pins and forgotten domains, against a slow reference.
//
// The reference knows what was recorded as a flat list of strings, and for each chunk the tokens
// whose rows were written there, with all tokens before them: a row depends on these. After each
// step
//   - every prefix that is matched is as long as the list says, and each chunk that a lookup names
//     holds the rows of all of its tokens that lie there,
//   - so does each chunk of each node,
//   - the references of the nodes are those that the pSet counts, and vti_rtree_check finds
//     nothing,
//   - victims and what can be evicted are what counting everything anew says.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or run for longer.
#include "env_or.h"
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/tree/rtree_node.h"

enum { MAX_TOK = 24, MAX_POSITION = 48, MAX_REGION = 200, N_SEQ = 6, N_DOMAIN = 3 };
enum { MAX_STRING = 400 };

typedef struct string {
    uint32_t n;
    uint32_t tok[MAX_TOK];
} string;

typedef struct seq {
    bool alive;
    uint32_t domain, home; // home: region for what it takes
    vti_node *node;
    string s;
    uint32_t at[MAX_POSITION];
} seq;

typedef struct model {
    vti_geo geo;
    vti_pset ps;
    vti_rtree *t;
    vt_domain *domain[N_DOMAIN];
    seq seq[N_SEQ];
    string written[MAX_REGION][MAX_POSITION]; // in each chunk: this path
    uint32_t counted[MAX_REGION][MAX_POSITION];
    string recorded[N_DOMAIN][MAX_STRING];
    uint32_t n_recorded[N_DOMAIN];
    uint32_t n_letter;
    uint64_t now_ms, random;
} model;

static model m;

static uint32_t draw(uint32_t n)
{
    m.random = m.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((m.random >> 33) % n);
}

static uint32_t common(const string *a, const string *b)
{
    uint32_t i = 0;
    while (i < a->n && i < b->n && a->tok[i] == b->tok[i]) i++;
    return i;
}

// ---- Chunks

// Regions that nobody writes into any more are nobody's home; their spare chunks are given back.
static void give_back_strays(void)
{
    for (uint32_t r = 0; r < m.ps.n_region; r++)
        for (uint32_t p = 0; m.ps.region[r].home_of == VTI_NO_SPAN && p < MAX_POSITION; p++)
            if (vti_pset_state(&m.ps, r, p) == VT_CHUNK_SPARE) {
                vti_pset_destroy(&m.ps, r, p, 1);
                m.written[r][p] = (string){0};
            }
}

static void new_home(seq *s)
{
    if (s->home != VTI_NO_REGION) vti_pset_leave(&m.ps, s->home);
    assert_int_equal(vti_pset_open(&m.ps, (uint32_t)(s - m.seq), &s->home), VT_OK);
}

static bool is_own(const seq *s, uint32_t position)
{
    vti_chunk c = vti_pset_chunk(&m.ps, s->at[position], position);
    return c.n_user == 1 && c.n_node == 0;
}

static void take_new(seq *s, uint32_t position)
{
    if (vti_pset_state(&m.ps, s->home, position) != VT_CHUNK_ABSENT) new_home(s);
    vti_pset_create(&m.ps, s->home, position, 1);
    vti_pset_user_hold(&m.ps, s->home, position);
    s->at[position] = s->home;
}

// Writes the rows from `from` on to the end. A tail that others hold is replaced by a copy.
static void write_rows(seq *s, uint32_t from)
{
    uint32_t whole = vti_geo_whole(&m.geo, from), had = vti_geo_chunks(&m.geo, from);
    for (uint32_t p = whole; p < vti_geo_chunks(&m.geo, s->s.n); p++) {
        uint32_t was = s->at[p];
        if (p >= had || !is_own(s, p)) take_new(s, p);
        if (p < had && s->at[p] != was) vti_pset_user_drop(&m.ps, was, p);
        m.written[s->at[p]][p] = s->s;
    }
}

// ---- Steps

static string draw_string(uint32_t domain)
{
    string s = {0};
    if (m.n_recorded[domain] > 0 && draw(4) > 0) {
        s = m.recorded[domain][draw(m.n_recorded[domain])];
        s.n = draw(4) == 0 ? draw(s.n + 1) : s.n;
    }
    uint32_t n = draw(8) == 0 ? draw(MAX_TOK + 1) : s.n + draw(5);
    for (; s.n < n && s.n < MAX_TOK; s.n++) s.tok[s.n] = draw(m.n_letter);
    return s;
}

static void step_begin(seq *s)
{
    *s = (seq){.alive = true, .domain = draw(N_DOMAIN), .home = VTI_NO_REGION};
    s->s = draw_string(s->domain);
    vti_prefix hit = vti_rtree_match(m.domain[s->domain], s->s.tok, s->s.n);
    vti_rtree_regions(m.t, hit, s->at);
    for (uint32_t p = 0; p < vti_geo_chunks(&m.geo, hit.n_tok); p++)
        vti_pset_user_hold(&m.ps, s->at[p], p);
    s->node = hit.node;
    vti_rtree_ref(m.t, s->node);
    vti_rtree_touch(m.t, s->node);
    new_home(s);
    write_rows(s, hit.n_tok);
}

static void step_end(seq *s)
{
    for (uint32_t p = 0; p < vti_geo_chunks(&m.geo, s->s.n); p++)
        vti_pset_user_drop(&m.ps, s->at[p], p);
    vti_pset_leave(&m.ps, s->home);
    vti_rtree_unref(m.t, s->node);
    s->alive = false;
}

static void step_go_on(seq *s)
{
    uint32_t from = s->s.n, n = from + draw(6);
    for (; s->s.n < n && s->s.n < MAX_TOK; s->s.n++) s->s.tok[s->s.n] = draw(m.n_letter);
    write_rows(s, from);
}

static void step_fork(const seq *s, seq *to)
{
    if (to->alive) return;
    *to = *s;
    to->home = VTI_NO_REGION;
    to->s.n = draw(s->s.n + 1);
    new_home(to);
    for (uint32_t p = 0; p < vti_geo_chunks(&m.geo, to->s.n); p++)
        vti_pset_user_hold(&m.ps, to->at[p], p);
    vti_rtree_ref(m.t, to->node);
}

static void step_record(seq *s)
{
    uint32_t in = draw(8) == 0 ? draw(N_DOMAIN) : s->domain, *n = &m.n_recorded[in];
    uint32_t n_tok = draw(3) == 0 ? draw(s->s.n + 1) : s->s.n;
    vti_node *node = NULL;
    if (*n == MAX_STRING) return;
    assert_int_equal(vti_rtree_push(m.t, m.domain[in], s->s.tok, n_tok, s->at, &node), VT_OK);
    assert_int_equal(vti_node_end(node), n_tok);
    vti_rtree_ref(m.t, node);
    vti_rtree_unref(m.t, s->node);
    s->node = node;
    m.recorded[in][*n] = s->s;
    m.recorded[in][*n].n = n_tok;
    *n += n_tok > 0;
}

static string path_of(const vti_node *n)
{
    string s = {.n = vti_node_end(n)};
    for (; n->parent && n->n_tok > 0; n = n->parent)
        memcpy(s.tok + n->start, n->tok, n->n_tok * sizeof s.tok[0]);
    return s;
}

static uint32_t domain_of(const vti_node *n)
{
    for (uint32_t i = 0; i < N_DOMAIN; i++)
        if (m.domain[i] == n->domain) return i;
    fail_msg("a node of no domain");
    return 0;
}

static void drop(vti_node *leaf)
{
    uint32_t in = domain_of(leaf), n_kept = 0;
    string path = path_of(leaf);
    for (uint32_t i = 0; i < m.n_recorded[in]; i++) {
        string s = m.recorded[in][i];
        if (common(&s, &path) > leaf->start) s.n = leaf->start;
        if (s.n > 0) m.recorded[in][n_kept++] = s;
    }
    m.n_recorded[in] = n_kept;
    vti_rtree_drop(m.t, leaf);
}

static bool has_ended(const vti_node *n)
{
    return n->keep.until_ms != 0 && n->keep.until_ms <= m.now_ms;
}

static bool guards(const vti_node *n)
{
    return n->n_ref > 0 || (n->keep.pinned && !has_ended(n));
}

static uint32_t priority_of(const vti_node *n)
{
    return has_ended(n) ? 0 : n->keep.priority;
}

// By looking at every node.
static vti_node *foresee_victim(void)
{
    vti_node *best = NULL;
    for (vti_node *n = m.t->top; n; n = vti_node_after(n, false)) {
        if (n->n_tok == 0 || n->child[VTI_FRONT] || guards(n)) continue;
        uint32_t mine = priority_of(n), bests = best ? priority_of(best) : 0;
        if (!best || mine < bests || (mine == bests && n->used < best->used)) best = n;
    }
    return best;
}

// Counts, for each chunk, the nodes that hold it and must stay.
static void count_kept(void)
{
    memset(m.counted, 0, sizeof m.counted);
    for (vti_node *g = m.t->top; g; g = vti_node_after(g, false))
        for (const vti_node *n = guards(g) ? g : NULL; n && n->n_tok > 0; n = n->parent)
            for (uint32_t i = 0; i < vti_node_positions(&m.geo, n); i++)
                m.counted[n->region[i]][vti_node_first(&m.geo, n) + i]++;
}

static uint64_t foresee_evictable(void)
{
    uint64_t n = 0;
    count_kept();
    for (uint32_t r = 0; r < m.ps.n_region; r++)
        for (uint32_t p = 0; p < MAX_POSITION; p++)
            n += vti_pset_state(&m.ps, r, p) == VT_CHUNK_CACHED && m.counted[r][p] == 0;
    return n;
}

static void step_evict(uint32_t n)
{
    for (; n > 0; n--) {
        vti_node *want = foresee_victim(), *got = vti_rtree_victim(m.t, m.now_ms);
        assert_ptr_equal(want, got);
        if (!got) return;
        drop(got);
    }
}

// Evicting all there is sets free what was foreseen.
static void step_evict_all(void)
{
    uint64_t n_before = m.ps.n_in[VT_CHUNK_CACHED];
    uint64_t n_foreseen = vti_rtree_evictable(m.t, m.now_ms);
    for (vti_node *v; (v = vti_rtree_victim(m.t, m.now_ms));) drop(v);
    assert_int_equal(n_before - m.ps.n_in[VT_CHUNK_CACHED], n_foreseen);
}

static void step_retain(void)
{
    uint32_t in = draw(N_DOMAIN);
    string s = draw_string(in);
    vti_node *n = vti_rtree_match(m.domain[in], s.tok, s.n).node;
    vt_retention keep = {
        .priority = (uint8_t)draw(4),
        .pinned = draw(4) == 0,
        .until_ms = draw(2) * (m.now_ms + draw(60)),
    };
    vt_status st = vti_rtree_retain(m.t, n, &keep, 20, m.now_ms);
    assert_true(st == VT_OK || (st == VT_NOSPACE && keep.pinned));
}

static void step_forget(void)
{
    uint32_t in = draw(N_DOMAIN);
    vti_rtree_forget(m.domain[in]);
    m.n_recorded[in] = 0;
}

// Closed and opened, which changes nothing where something is recorded or referenced.
static void step_reopen(void)
{
    uint32_t in = draw(N_DOMAIN);
    for (int i = 0; i < N_SEQ; i++)
        if (m.seq[i].alive && m.seq[i].domain == in) return;
    vti_rtree_close(m.domain[in]);
    assert_int_equal(vti_rtree_open(m.t, &in, sizeof in, &m.domain[in]), VT_OK);
}

static void step(void)
{
    seq *s = &m.seq[draw(N_SEQ)];
    uint32_t what = draw(100);
    m.now_ms += draw(4);
    if (what < 6)
        step_evict(1 + draw(4));
    else if (what < 7)
        step_evict_all();
    else if (what < 12)
        step_retain();
    else if (what < 13 && draw(4) == 0)
        step_forget();
    else if (what < 14)
        step_reopen();
    else if (!s->alive)
        step_begin(s);
    else if (what < 30)
        step_end(s);
    else if (what < 40)
        step_fork(s, &m.seq[draw(N_SEQ)]);
    else if (what < 65)
        step_go_on(s);
    else
        step_record(s);
    give_back_strays();
}

// ---- Looking

static void look_at_chunk(const string *s, uint32_t n_tok, uint32_t region, uint32_t position)
{
    const string *there = &m.written[region][position];
    uint32_t n = 0; // tokens that begin before the chunk ends
    while (n < n_tok && n * m.geo.stride_bytes < (position + 1) * m.geo.slice_bytes) n++;
    assert_true(common(s, there) >= n);
}

static void look_up(uint32_t in, const string *s)
{
    uint32_t want = 0, at[MAX_POSITION];
    for (uint32_t i = 0; i < m.n_recorded[in]; i++) {
        uint32_t n = common(&m.recorded[in][i], s);
        if (n > want) want = n;
    }
    vti_prefix hit = vti_rtree_match(m.domain[in], s->tok, s->n);
    assert_int_equal(hit.n_tok, want);
    assert_true(want == 0 || (hit.node->start < want && want <= vti_node_end(hit.node)));
    vti_rtree_regions(m.t, hit, at);
    for (uint32_t p = 0; p < vti_geo_chunks(&m.geo, want); p++) look_at_chunk(s, want, at[p], p);
}

static void look_at_nodes(void)
{
    for (vti_node *n = m.t->top; n; n = vti_node_after(n, false)) {
        string s = path_of(n);
        for (uint32_t i = 0; i < vti_node_positions(&m.geo, n); i++)
            look_at_chunk(&s, s.n, n->region[i], vti_node_first(&m.geo, n) + i);
    }
}

static void count_reference(void *ctx, uint32_t region, uint32_t position)
{
    (void)ctx;
    m.counted[region][position]++;
}

static void look_at_counts(void)
{
    memset(m.counted, 0, sizeof m.counted);
    const char *wrong = vti_rtree_check(m.t, count_reference, NULL);
    if (wrong) fail_msg("%s", wrong);
    for (uint32_t r = 0; r < m.ps.n_region; r++)
        for (uint32_t p = 0; p < MAX_POSITION; p++)
            assert_int_equal(vti_pset_chunk(&m.ps, r, p).n_node, m.counted[r][p]);
    uint64_t n_tok = 0;
    for (uint32_t in = 0; in < N_DOMAIN; in++)
        for (uint32_t i = 0; i < m.n_recorded[in]; i++) {
            uint32_t old = 0;
            for (uint32_t k = 0; k < i; k++) {
                uint32_t n = common(&m.recorded[in][k], &m.recorded[in][i]);
                if (n > old) old = n;
            }
            n_tok += m.recorded[in][i].n - old;
        }
    assert_int_equal(vti_rtree_look(m.t).n_tok, n_tok);
}

static void look(void)
{
    look_at_counts();
    look_at_nodes();
    for (uint32_t in = 0; in < N_DOMAIN; in++)
        for (int i = 0; i < 4; i++) {
            string s = draw_string(in);
            look_up(in, &s);
        }
    assert_int_equal(vti_rtree_evictable(m.t, m.now_ms), foresee_evictable());
    assert_ptr_equal(vti_rtree_victim(m.t, m.now_ms), foresee_victim());
}

// ---- Traces

static void trace(size_t stride_bytes, size_t slice_bytes, uint32_t n_letter, uint64_t seed)
{
    memset(&m, 0, sizeof m);
    m.geo = (vti_geo){.stride_bytes = stride_bytes, .slice_bytes = slice_bytes, .max_tok = MAX_TOK};
    m.n_letter = n_letter;
    m.random = seed;
    vti_pset_init(&m.ps, MAX_REGION, MAX_POSITION);
    assert_int_equal(vti_rtree_new(&m.geo, &m.ps, NULL, &m.t), VT_OK);
    for (uint32_t i = 0; i < N_DOMAIN; i++)
        assert_int_equal(vti_rtree_open(m.t, &i, sizeof i, &m.domain[i]), VT_OK);
    for (uint64_t n = env_or("VT_TEST_STEPS", 400); n > 0; n--) {
        step();
        look();
    }
    for (int i = 0; i < N_SEQ; i++)
        if (m.seq[i].alive) step_end(&m.seq[i]);
    vti_rtree_free(m.t);
    give_back_strays();
    assert_int_equal(vti_pset_created(&m.ps), 0);
    vti_pset_free(&m.ps);
}

static void traces(size_t stride_bytes, size_t slice_bytes)
{
    uint64_t seed = env_or("VT_TEST_SEED", 0);
    for (uint64_t i = seed ? seed : 1; i <= (seed ? seed : 6); i++)
        trace(stride_bytes, slice_bytes, 2 + (uint32_t)i % 2, i);
}

static void test_slices_of_half_a_token(void **state)
{
    (void)state;
    traces(16, 8);
}

static void test_slices_of_a_token(void **state)
{
    (void)state;
    traces(16, 16);
}

static void test_slices_of_two_thirds_of_a_token(void **state)
{
    (void)state;
    traces(24, 16);
}

static void test_slices_of_three_tokens(void **state)
{
    (void)state;
    traces(16, 48);
}

static void test_slices_of_seven_tokens_and_a_half(void **state)
{
    (void)state;
    traces(16, 120);
}

static void test_slices_of_more_tokens_than_there_are(void **state)
{
    (void)state;
    traces(1, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_of_half_a_token),
        cmocka_unit_test(test_slices_of_a_token),
        cmocka_unit_test(test_slices_of_two_thirds_of_a_token),
        cmocka_unit_test(test_slices_of_three_tokens),
        cmocka_unit_test(test_slices_of_seven_tokens_and_a_half),
        cmocka_unit_test(test_slices_of_more_tokens_than_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
