// test_vt_radix_model.c - long random traces of sequences that match, write, record, fork, continue
// and end, of evictions, pins, quotas and forgotten domains, against a slow reference: in plain
// groups, with windows, with states.
//
// The reference knows what was recorded as a flat list of strings, and for each chunk the tokens
// whose rows were written there, with all tokens before them: a row depends on these. After each
// step
//   - every prefix that is matched is as long as the list says (in plain groups), and as a look at
//     every node says (with windows and states),
//   - what goes on from some tokens is a path that a look at every node finds, to its end,
//   - each chunk that a lookup names holds the rows of all of its tokens that lie there, and so
//     does each chunk of each node,
//   - the references of the nodes are those that the pSet counts, and vti_radix_check finds
//     nothing,
//   - the leaf that is evicted and what may be evicted are what counting everything anew says.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or run for longer.
#include "assert_vt.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/tree/radix_node.h"

enum { MAX_TOK = 24, MAX_POSITION = 48, MAX_GROUPS = 3, MAX_CHUNK = 4096 };
enum { N_SEQ = 6, N_DOMAIN = 3, MAX_STRING = 400 };

typedef struct string {
    uint32_t n;
    uint32_t tok[MAX_TOK];
} string;

typedef struct seq {
    bool alive;
    uint32_t domain;
    vti_node *node;
    string s;
    uint32_t at[MAX_GROUPS][MAX_POSITION];
} seq;

typedef struct model {
    vti_geo geo;
    vti_pset ps;
    vti_radix *t;
    vt_domain *domain[N_DOMAIN];
    seq seq[N_SEQ];
    string written[MAX_GROUPS * MAX_CHUNK]; // in each chunk: this path
    uint32_t counted[MAX_GROUPS * MAX_CHUNK], kept[MAX_GROUPS * MAX_CHUNK];
    uint32_t n_made[MAX_GROUPS];
    string recorded[N_DOMAIN][MAX_STRING];
    uint32_t n_recorded[N_DOMAIN];
    uint64_t quota[N_DOMAIN];
    bool is_plain; // no windows, no states
    uint32_t n_letter;
    uint64_t random;
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

static string path_of(const vti_node *n)
{
    string s = {.n = vti_node_end(n)};
    for (; !vti_node_is_root(n); n = n->parent)
        memcpy(s.tok + n->start, n->room, n->n_tok * sizeof s.tok[0]);
    return s;
}

// ---- Sequences

static uint32_t take_chunk(uint32_t group)
{
    uint32_t chunk = m.ps.cls[group].pool;
    if (chunk != VTI_NO_CHUNK) {
        vti_pset_place(&m.ps, chunk, VTI_WITH_JOB);
    } else {
        const vti_name name = {0, m.n_made[group]++};
        uint32_t region;
        if (name.offset == 0) assert_int_equal(vti_pset_region_open(&m.ps, group, &region), VT_OK);
        assert_int_equal(vti_pset_reserve(&m.ps, group, name, &chunk), VT_OK);
        assert_true(chunk < MAX_GROUPS * MAX_CHUNK);
        vti_pset_create(&m.ps, chunk, false);
    }
    vti_pset_user_hold(&m.ps, chunk);
    return chunk;
}

// Rows from `from` on are written to the end; a chunk that is not there yet is taken. Rows before
// `from` that lie in a new chunk were copied.
static void write_rows(seq *s, uint32_t from)
{
    for (uint32_t g = 0; g < m.geo.n_group; g++) {
        const vti_lane_geo *gr = &m.geo.group[g];
        uint32_t passed = vti_group_passed(gr, s->s.n);
        for (uint32_t p = vti_group_whole(gr, from); p < vti_group_chunks(gr, s->s.n); p++) {
            if (s->at[g][p] == VTI_NO_CHUNK) s->at[g][p] = take_chunk(g);
            m.written[s->at[g][p]] = s->s;
        }
        for (uint32_t p = 0; p < passed; p++) {
            if (s->at[g][p] == VTI_NO_CHUNK) continue;
            vti_pset_user_drop(&m.ps, s->at[g][p], VTI_IN_POOL, false);
            s->at[g][p] = VTI_NO_CHUNK;
        }
    }
}

// Shares the whole chunks of a prefix.
static void begin_with(seq *s, uint32_t (*at)[MAX_POSITION], uint32_t n_tok)
{
    memset(s->at, 0xff, sizeof s->at);
    for (uint32_t g = 0; g < m.geo.n_group; g++)
        for (uint32_t p = vti_group_passed(&m.geo.group[g], n_tok);
             p < vti_group_whole(&m.geo.group[g], n_tok); p++) {
            s->at[g][p] = at[g][p];
            vti_pset_user_hold(&m.ps, at[g][p]);
        }
}

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

static void chunks_of(vti_prefix hit, uint32_t (*chunk)[MAX_POSITION])
{
    uint32_t *at[MAX_GROUPS];
    for (uint32_t g = 0; g < m.geo.n_group; g++) at[g] = chunk[g];
    vti_radix_chunks(m.t, hit, at);
}

static void step_begin(seq *s)
{
    uint32_t chunk[MAX_GROUPS][MAX_POSITION];
    *s = (seq){.alive = true, .domain = draw(N_DOMAIN)};
    string wanted = draw_string(s->domain);
    vti_prefix hit = vti_radix_match(m.domain[s->domain], wanted.tok, wanted.n);
    chunks_of(hit, chunk);
    begin_with(s, chunk, hit.n_tok);
    s->node = hit.node;
    vti_radix_ref(m.t, s->node);
    vti_radix_touch(m.t, hit.last);
    s->s = wanted;
    s->s.n = hit.n_tok; // the copies come first, and windows pass later
    write_rows(s, hit.n_tok);
    s->s = wanted;
    write_rows(s, hit.n_tok);
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
    seq child = *s;
    begin_with(&child, (uint32_t(*)[MAX_POSITION])s->at, s->s.n);
    *to = child;
    write_rows(to, s->s.n);
    vti_radix_ref(m.t, to->node);
}

// ---- Recording

static bool add_path(void *ud, const vt_prefix_info *node)
{
    (void)node;
    return ++*(uint32_t *)ud < MAX_STRING;
}

// What a quota has left.
static void list_anew(uint32_t in)
{
    uint32_t n_seen = 0;
    m.n_recorded[in] = 0;
    vt_prefix_each(m.domain[in], add_path, &n_seen);
    for (vti_node *n = m.domain[in]->nodes.oldest; n && m.n_recorded[in] < MAX_STRING; n = n->newer)
        m.recorded[in][m.n_recorded[in]++] = path_of(n);
    assert_int_equal(n_seen, m.n_recorded[in]);
}

static vti_node *record(seq *s, uint32_t in, uint32_t n_tok)
{
    const uint32_t *at[MAX_GROUPS];
    vti_node *node = NULL;
    for (uint32_t g = 0; g < m.geo.n_group; g++) at[g] = s->at[g];
    vti_push all = {.from = m.domain[in]->root,
                    .tok = s->s.tok,
                    .end = n_tok,
                    .at = at,
                    .has_state = n_tok == s->s.n};
    assert_int_equal(vti_radix_push(m.t, &all, &node), VT_OK);
    if (m.quota[in] < UINT64_MAX) {
        list_anew(in);
        assert_true(node == m.domain[in]->root || m.domain[in]->held_bytes <= m.quota[in] ||
                    node->n_guard > 0 || node->child);
        return node;
    }
    assert_true(vti_node_end(node) >= n_tok);
    assert_true(m.n_recorded[in] < MAX_STRING);
    m.recorded[in][m.n_recorded[in]] = s->s;
    m.recorded[in][m.n_recorded[in]].n = n_tok;
    m.n_recorded[in] += n_tok > 0;
    return node;
}

// Whole blocks in whole chunks, as long as the sequence lives.
static void step_record(seq *s)
{
    uint32_t in = draw(8) == 0 ? draw(N_DOMAIN) : s->domain;
    uint32_t n_tok = draw(3) == 0 ? draw(s->s.n + 1) : s->s.n;
    n_tok -= n_tok % m.geo.block_tok;
    for (uint32_t g = 0; g < m.geo.n_group; g++) {
        const vti_lane_geo *gr = &m.geo.group[g];
        while (n_tok > 0 && !gr->is_state &&
               vti_group_chunks(gr, n_tok) > vti_group_whole(gr, s->s.n))
            n_tok -= m.geo.block_tok;
    }
    if (n_tok == 0 || m.geo.has_state || m.n_recorded[in] == MAX_STRING) return;
    vti_node *node = record(s, in, n_tok);
    vti_radix_ref(m.t, node);
    vti_radix_unref(m.t, s->node);
    s->node = node;
}

static void step_end(seq *s)
{
    if (draw(3) > 0 && m.n_recorded[s->domain] < MAX_STRING)
        (void)record(s, s->domain, s->s.n - (draw(4) == 0 ? draw(s->s.n + 1) : 0));
    for (uint32_t g = 0; g < m.geo.n_group; g++)
        for (uint32_t p = 0; p < MAX_POSITION; p++)
            if (s->at[g][p] != VTI_NO_CHUNK)
                vti_pset_user_drop(&m.ps, s->at[g][p], VTI_IN_POOL, false);
    vti_radix_unref(m.t, s->node);
    s->alive = false;
}

// ---- Eviction

static bool has_ended(const vti_node *n)
{
    return n->keep.until_ms != 0 && n->keep.until_ms <= m.t->now_ms;
}

static bool is_pinned(const vti_node *n)
{
    return n->keep.pinned && !has_ended(n);
}

static uint32_t priority_of(const vti_node *n)
{
    return has_ended(n) ? 0 : n->keep.priority;
}

// By looking at every node.
static vti_node *foresee_leaf(void)
{
    vti_node *best = NULL;
    for (uint32_t in = 0; in < N_DOMAIN; in++)
        for (vti_node *n = m.domain[in]->nodes.oldest; n; n = n->newer) {
            if (n->child || n->n_ref > 0 || is_pinned(n)) continue;
            uint32_t mine = priority_of(n), bests = best ? priority_of(best) : 0;
            if (!best || mine < bests || (mine == bests && n->used < best->used)) best = n;
        }
    return best;
}

static void keep_chunks(const vti_node *n, bool beside)
{
    for (uint32_t g = 0; g < m.geo.n_group; g++) {
        vti_holding h = vti_node_holding(m.t, n, g);
        for (uint32_t i = 0; i < h.n; i++)
            if (h.is_window == beside && h.chunk[i] != VTI_NO_CHUNK) m.kept[h.chunk[i]]++;
    }
}

// Each node on a path to one that is referenced or pinned keeps its rows; to one that is pinned,
// also what it holds beside.
static uint64_t foresee_evictable(void)
{
    uint64_t n_free = 0;
    memset(m.kept, 0, sizeof m.kept);
    for (uint32_t in = 0; in < N_DOMAIN; in++)
        for (vti_node *k = m.domain[in]->nodes.oldest; k; k = k->newer)
            for (const vti_node *n = k; !vti_node_is_root(n); n = n->parent) {
                if (k->n_ref > 0 || is_pinned(k)) keep_chunks(n, false);
                if (is_pinned(k)) keep_chunks(n, true);
            }
    for (uint32_t g = 0; g < m.geo.n_group; g++)
        for (uint32_t i = 0; i < m.n_made[g]; i++) {
            uint32_t chunk = vti_pset_find(&m.ps, g, (vti_name){0, i});
            n_free += vti_pset_state(&m.ps, chunk) == VT_CHUNK_CACHED && m.kept[chunk] == 0;
        }
    return n_free;
}

static uint64_t n_evictable(void)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m.geo.n_group; g++) n += m.ps.cls[g].n_in[VTI_EVICTABLE];
    return n;
}

static uint64_t n_cached(void)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < m.geo.n_group; g++) n += m.ps.cls[g].n_in[VT_CHUNK_CACHED];
    return n;
}

// What was recorded through the leaf ends before it now.
static void forget_leaf(uint32_t in, const string *path, uint32_t start)
{
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < m.n_recorded[in]; i++) {
        string s = m.recorded[in][i];
        if (s.n > start && common(&s, path) == s.n) s.n = start;
        if (s.n > 0) m.recorded[in][n_kept++] = s;
    }
    m.n_recorded[in] = n_kept;
}

static bool evict_one(void)
{
    const vti_node *leaf = foresee_leaf();
    string path = leaf ? path_of(leaf) : (string){0};
    uint32_t in = 0, start = leaf ? leaf->start : 0;
    while (leaf && m.domain[in] != leaf->domain) in++;
    uint64_t n_node = m.t->n_node, n_was = m.domain[in]->stats.prefix_nodes;
    if (!vti_radix_evict(m.t)) {
        assert_null(leaf);
        assert_int_equal(n_evictable(), 0);
        return false;
    }
    if (m.t->n_node == n_node) { // chunks beside
        assert_false(m.is_plain);
        return true;
    }
    assert_int_equal(m.domain[in]->stats.prefix_nodes, n_was - 1);
    for (const vti_node *n = m.domain[in]->nodes.oldest; n; n = n->newer)
        assert_ptr_not_equal(n, leaf);
    forget_leaf(in, &path, start);
    return true;
}

// Evicting all there is sets free what was foreseen.
static void step_evict_all(void)
{
    vti_priority_expire(m.t);
    uint64_t n_before = n_cached(), n_foreseen = n_evictable();
    while (evict_one()) continue;
    assert_int_equal(n_before - n_cached(), n_foreseen);
}

static void step_retain(void)
{
    uint32_t in = draw(N_DOMAIN);
    string s = draw_string(in);
    vti_node *n = vti_radix_match(m.domain[in], s.tok, s.n).last;
    vt_retention keep = {
        .priority = (uint8_t)draw(4),
        .pinned = draw(4) == 0,
        .until_ms = draw(2) * (m.t->now_ms + draw(60)),
    };
    vt_status st = vti_radix_retain(m.t, n, &keep, 600);
    assert_true(st == VT_OK || (st == VT_NOPINS && keep.pinned));
}

static void step_forget(void)
{
    uint32_t in = draw(N_DOMAIN);
    vt_domain_forget(m.domain[in]);
    m.n_recorded[in] = 0;
}

static void step_quota(void)
{
    uint32_t in = draw(N_DOMAIN);
    m.quota[in] = draw(2) ? UINT64_MAX : draw(1000);
    vt_domain_set_quota(m.domain[in], m.quota[in]);
    list_anew(in);
}

// Closed and opened, which changes nothing where something is recorded or referenced.
static void step_reopen(void)
{
    uint32_t in = draw(N_DOMAIN);
    for (int i = 0; i < N_SEQ; i++)
        if (m.seq[i].alive && m.seq[i].domain == in) return;
    if (m.quota[in] < UINT64_MAX) return;
    vt_domain_close(m.domain[in]);
    assert_int_equal(vti_radix_open(m.t, &in, sizeof in, &m.domain[in]), VT_OK);
}

static void step(void)
{
    seq *s = &m.seq[draw(N_SEQ)];
    uint32_t what = draw(100);
    m.t->now_ms += draw(4);
    if (what < 8)
        for (uint32_t n = 1 + draw(6); n > 0 && evict_one();) n--;
    else if (what < 9)
        step_evict_all();
    else if (what < 14)
        step_retain();
    else if (what < 15)
        step_quota();
    else if (what < 16 && draw(4) == 0)
        step_forget();
    else if (what < 17)
        step_reopen();
    else if (!s->alive)
        step_begin(s);
    else if (what < 40)
        step_end(s);
    else if (what < 50)
        step_fork(s, &m.seq[draw(N_SEQ)]);
    else if (what < 75)
        step_go_on(s);
    else
        step_record(s);
}

// ---- Looking

// A chunk of rows holds those of all tokens of s that begin before its end; that of a state, s.
static void look_at_chunk(const string *s, uint32_t n_tok, uint32_t g, uint32_t chunk, uint32_t p)
{
    const vti_lane_geo *gr = &m.geo.group[g];
    const string *there = &m.written[chunk];
    uint32_t n = 0;
    while (n < n_tok && (gr->is_state || n * gr->stride_bytes < (p + 1) * gr->slice_bytes)) n++;
    assert_true(common(s, there) >= n);
    if (gr->is_state) assert_int_equal(there->n, n_tok);
}

// The chunk of the path for a position: the deepest node's.
static uint32_t chunk_at(const vti_node *n, uint32_t g, uint32_t p)
{
    for (; !vti_node_is_root(n); n = n->parent) {
        vti_holding h = vti_node_holding(m.t, n, g);
        if (h.first <= p) return h.chunk[p - h.first];
        if (m.geo.group[g].is_state) break;
    }
    return VTI_NO_CHUNK;
}

static bool can_begin(const vti_node *n, uint32_t end)
{
    for (uint32_t g = 0; g < m.geo.n_group; g++) {
        const vti_lane_geo *gr = &m.geo.group[g];
        if (gr->is_state && end != vti_node_end(n)) return false;
        for (uint32_t p = vti_group_passed(gr, end); p < vti_group_chunks(gr, end); p++)
            if (chunk_at(n, g, p) == VTI_NO_CHUNK) return false;
    }
    return true;
}

// The longest of all ends of nodes, and of all ends of common tokens within them. Of nodes that
// have the same tokens in common a lookup sees one, so only the first is sure to be found.
static void look_everywhere(uint32_t in, const string *s, uint32_t *sure, uint32_t *most)
{
    *sure = *most = 0;
    for (const vti_node *n = m.domain[in]->nodes.oldest; n; n = n->newer) {
        string path = path_of(n);
        uint32_t end = common(&path, s);
        if (end <= n->start || !can_begin(n, end)) continue;
        if (end > *most) *most = end;
        if (end == path.n && end > *sure) *sure = end;
    }
}

static void look_up(uint32_t in, const string *s)
{
    uint32_t listed = 0, sure, most, chunk[MAX_GROUPS][MAX_POSITION];
    for (uint32_t i = 0; i < m.n_recorded[in]; i++) {
        uint32_t n = common(&m.recorded[in][i], s);
        if (n > listed) listed = n;
    }
    vti_prefix hit = vti_radix_match(m.domain[in], s->tok, s->n);
    look_everywhere(in, s, &sure, &most);
    assert_in_range(hit.n_tok, sure, most);
    if (m.is_plain) assert_int_equal(hit.n_tok, listed);
    assert_true(hit.n_tok <= listed || !m.is_plain);
    assert_true(hit.n_tok == 0 ||
                (hit.last->start < hit.n_tok && hit.n_tok <= vti_node_end(hit.last)));
    assert_int_equal(vti_node_end(hit.node), hit.n_tok - hit.n_tok % m.geo.block_tok);
    chunks_of(hit, chunk);
    for (uint32_t g = 0; g < m.geo.n_group; g++)
        for (uint32_t p = 0; p < vti_group_chunks(&m.geo.group[g], hit.n_tok); p++)
            if (p >= vti_group_passed(&m.geo.group[g], hit.n_tok))
                look_at_chunk(s, hit.n_tok, g, chunk[g][p], p);
            else
                assert_int_equal(chunk[g][p], VTI_NO_CHUNK);
}

// Whether some node's path begins with s, and is as long or longer; *longer: longer.
static bool begins_a_path(uint32_t in, const string *s, bool *longer)
{
    bool any = false;
    *longer = false;
    for (const vti_node *n = m.domain[in]->nodes.oldest; n; n = n->newer) {
        string path = path_of(n);
        if (common(&path, s) < s->n) continue;
        any = true;
        *longer |= path.n > s->n;
    }
    return any;
}

// What goes on from s is a path, and goes on to the end of one, or as far as is asked for.
static void look_behind(uint32_t in, const string *s)
{
    string with = *s;
    const uint32_t max_n = draw(MAX_TOK + 1 - s->n);
    bool longer, goes_on;
    (void)begins_a_path(in, s, &longer);
    const uint32_t n = vt_prefix_continue(m.domain[in], s->tok, s->n, with.tok + with.n, max_n);
    assert_in_range(n, 0, max_n);
    assert_int_equal(n > 0, longer && max_n > 0);
    if (n == 0) return;
    with.n += n;
    assert_true(begins_a_path(in, &with, &goes_on));
    assert_true(n == max_n || !goes_on || m.geo.has_state);
}

static void look_at_nodes(uint32_t in)
{
    for (const vti_node *n = m.domain[in]->nodes.oldest; n; n = n->newer) {
        string s = path_of(n);
        for (uint32_t g = 0; g < m.geo.n_group; g++) {
            vti_holding h = vti_node_holding(m.t, n, g);
            for (uint32_t i = 0; i < h.n; i++)
                if (h.chunk[i] != VTI_NO_CHUNK)
                    look_at_chunk(&s, s.n, g, h.chunk[i], h.first + i);
                else
                    assert_true(h.is_window);
        }
    }
}

static void count_reference(void *ctx, uint32_t chunk, bool is_kept)
{
    (void)ctx;
    (void)is_kept;
    m.counted[chunk]++;
}

static void look_at_counts(void)
{
    vti_priority_expire(m.t);
    memset(m.counted, 0, sizeof m.counted);
    const char *wrong = vti_radix_check(m.t, count_reference, NULL);
    if (wrong) fail_msg("%s", wrong);
    assert_int_equal(n_evictable(), foresee_evictable());
    for (uint32_t g = 0; g < m.geo.n_group; g++)
        for (uint32_t i = 0; i < m.n_made[g]; i++) {
            uint32_t chunk = vti_pset_find(&m.ps, g, (vti_name){0, i});
            assert_int_equal(vti_pset_chunk(&m.ps, chunk).n_node, m.counted[chunk]);
            if (m.counted[chunk] > 0)
                assert_true((vti_pset_chunk(&m.ps, chunk).n_kept > 0) == (m.kept[chunk] > 0));
        }
}

static void look(void)
{
    look_at_counts();
    for (uint32_t in = 0; in < N_DOMAIN; in++) {
        look_at_nodes(in);
        for (int i = 0; i < 4; i++) {
            string s = draw_string(in);
            look_up(in, &s);
            look_behind(in, &s);
        }
    }
}

// ---- Traces

static void make_geometry(const vt_group *group, uint32_t n_group, uint32_t block_tok)
{
    m.geo = (vti_geo){.n_group = n_group, .max_tok = MAX_TOK, .block_tok = block_tok};
    m.geo.vmm.n_class = n_group;
    m.is_plain = true;
    for (uint32_t g = 0; g < n_group; g++) {
        bool is_state = group[g].kind == VT_GROUP_STATE;
        size_t slice = group[g].slice_bytes, bytes = group[g].row_bytes * (is_state ? 1 : MAX_TOK);
        m.geo.group[g] = (vti_lane_geo){.is_state = is_state,
                                        .n_view = 1,
                                        .cls = g,
                                        .window_tok = group[g].window_tok,
                                        .stride_bytes = group[g].row_bytes,
                                        .slice_bytes = slice,
                                        .chunk_bytes = slice,
                                        .n_position = (uint32_t)((bytes + slice - 1) / slice)};
        m.geo.vmm.cls[g] = (vt_vmm_class){1, slice, MAX_CHUNK};
        m.geo.region_len[g] = MAX_CHUNK;
        m.geo.has_state |= is_state;
        m.is_plain &= !is_state && group[g].window_tok == 0;
    }
}

static void trace(const vt_group *group, uint32_t n_group, uint32_t block_tok, uint64_t seed)
{
    memset(&m, 0, sizeof m);
    make_geometry(group, n_group, block_tok);
    m.n_letter = 2 + (uint32_t)seed % 2;
    m.random = seed;
    vti_pset_init(&m.ps, &m.geo);
    assert_int_equal(vti_radix_new(&m.geo, &m.ps, NULL, 0, &m.t), VT_OK);
    for (uint32_t i = 0; i < N_DOMAIN; i++) {
        assert_int_equal(vti_radix_open(m.t, &i, sizeof i, &m.domain[i]), VT_OK);
        m.quota[i] = UINT64_MAX;
    }
    for (uint64_t n = env_or("VT_TEST_STEPS", 300); n > 0; n--) {
        step();
        look();
    }
    for (int i = 0; i < N_SEQ; i++)
        if (m.seq[i].alive) step_end(&m.seq[i]);
    vti_radix_free(m.t);
    for (uint32_t g = 0; g < n_group; g++)
        assert_int_equal(m.ps.cls[g].n_in[VTI_POOLED], m.n_made[g]); // nothing is held any more
    vti_pset_free(&m.ps);
}

typedef struct shape {
    const char *name;
    uint32_t block_tok, n_group;
    vt_group group[3];
} shape;

static const shape shapes[] = {
    {"slices of half a token", 1, 1, {{VT_GROUP_TOKENS, 1, 16, 0, 8}}},
    {"slices of a token", 1, 1, {{VT_GROUP_TOKENS, 1, 16, 0, 16}}},
    {"slices of two thirds of a token", 2, 1, {{VT_GROUP_TOKENS, 1, 24, 0, 16}}},
    {"slices of three tokens", 3, 1, {{VT_GROUP_TOKENS, 1, 16, 0, 48}}},
    {"slices of seven tokens and a half", 7, 1, {{VT_GROUP_TOKENS, 1, 16, 0, 120}}},
    {"slices of more tokens than there are", MAX_TOK, 1, {{VT_GROUP_TOKENS, 1, 1, 0, 64}}},
    {"groups of two shapes",
     4,
     2,
     {{VT_GROUP_TOKENS, 1, 16, 0, 64}, {VT_GROUP_TOKENS, 1, 12, 0, 40}}},
    {"a window beside all rows",
     4,
     2,
     {{VT_GROUP_TOKENS, 1, 16, 0, 64}, {VT_GROUP_TOKENS, 1, 16, 5, 32}}},
    {"windows that straddle blocks",
     2,
     3,
     {{VT_GROUP_TOKENS, 1, 16, 0, 32},
      {VT_GROUP_TOKENS, 1, 8, 3, 60},
      {VT_GROUP_TOKENS, 1, 24, 9, 16}}},
    {"a state beside all rows",
     4,
     2,
     {{VT_GROUP_TOKENS, 1, 16, 0, 64}, {VT_GROUP_STATE, 1, 100, 0, 64}}},
    {"a state and a window",
     3,
     3,
     {{VT_GROUP_STATE, 1, 30, 0, 32},
      {VT_GROUP_TOKENS, 1, 16, 4, 48},
      {VT_GROUP_TOKENS, 1, 16, 0, 48}}},
};

static void test_traces_against_reference(void **state)
{
    const shape *s = *state;
    uint64_t seed = env_or("VT_TEST_SEED", 0);
    for (uint64_t i = seed ? seed : 1; i <= (seed ? seed : 6); i++)
        trace(s->group, s->n_group, s->block_tok, i);
}

FX_SUITE(test_vt_radix_model)
{
    return RUN_CASES(test_vt_radix_model, test_traces_against_reference, shapes);
}
