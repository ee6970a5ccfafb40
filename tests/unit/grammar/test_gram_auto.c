// test_gram_auto.c - the automaton compared with a naive matcher, on every short string of two
// letters, for grammars made at random and for some by hand; and what a grammar is refused for.
//
// The naive matcher knows no stacks: for each node and each position it finds the positions at
// which a match may end.
#include "base/number/rng.h"
#include "grammar/syntax/gram.h"
#include "unit/grammar/gram_machine.h"

enum { MAX_TEXT = 7, MAX_NODE = 64, MAX_SET = 1 << 16 };

// ---- the reference ------------------------------------------------------------------------------

typedef struct naive_run {
    const fxi_gram *g;
    const char *s;
    uint32_t n;
    bool known[MAX_NODE][MAX_TEXT + 1];
    uint32_t ends[MAX_NODE][MAX_TEXT + 1]; // bit p: a match may end at p
} naive_run;

static uint32_t naive_ends(naive_run *r, uint32_t node, uint32_t from);

static uint32_t naive_from_all(naive_run *r, uint32_t node, uint32_t from_bits)
{
    uint32_t to = 0;
    for (uint32_t p = 0; p <= r->n; p++)
        if (from_bits >> p & 1) to |= naive_ends(r, node, p);
    return to;
}

static uint32_t naive_repeat(naive_run *r, const fxi_gram_node *x, uint32_t from)
{
    uint32_t at = 1u << from, to = 0;
    for (uint32_t k = 0; k <= x->max && k <= x->min + MAX_TEXT + 1; k++) {
        if (k >= x->min) to |= at;
        at = naive_from_all(r, x->at, at);
    }
    return to;
}

static uint32_t naive_node(naive_run *r, const fxi_gram_node *x, uint32_t from)
{
    const fxi_gram *g = r->g;
    uint32_t at = 1u << from, to = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT:
        return from + x->n <= r->n && !memcmp(r->s + from, g->text.p + x->at, x->n)
                   ? 1u << (from + x->n)
                   : 0;
    case FXI_GRAM_SET:
        return from < r->n && fxi_byte_in(&g->set[x->at], (uint8_t)r->s[from]) ? 2u << from : 0;
    case FXI_GRAM_SEQ:
        for (uint32_t i = 0; i < x->n; i++) at = naive_from_all(r, g->kid[x->at + i], at);
        return at;
    case FXI_GRAM_ALT:
        for (uint32_t i = 0; i < x->n; i++) to |= naive_ends(r, g->kid[x->at + i], from);
        return to;
    case FXI_GRAM_REPEAT: return naive_repeat(r, x, from);
    case FXI_GRAM_REF: return naive_ends(r, g->rule[x->at].node, from);
    default: return 0;
    }
}

static uint32_t naive_ends(naive_run *r, uint32_t node, uint32_t from)
{
    if (!r->g->node[node].productive) return 0; // may begin with itself
    if (!r->known[node][from]) r->ends[node][from] = naive_node(r, &r->g->node[node], from);
    r->known[node][from] = true;
    return r->ends[node][from];
}

static bool naive_matches(const fxi_gram *g, const char *s, uint32_t n)
{
    naive_run r = {.g = g, .s = s, .n = n};
    assert_true(g->n_node <= MAX_NODE);
    return naive_ends(&r, g->root, 0) >> n & 1;
}

// ---- every short string -------------------------------------------------------------------------

typedef struct walk {
    const fxi_gram *g;
    fxi_auto *a;
    char s[MAX_TEXT + 1];
    size_t n_match;
} walk;

static uint32_t step_state(fxi_auto *a, uint32_t state, char byte)
{
    uint32_t next = 0;
    fx_error err = {0};
    if (fxi_auto_step(a, state, (uint8_t)byte, &next, &err)) fail_msg("%s", err.text);
    return next;
}

static void check_state(walk *w, uint32_t state, uint32_t n)
{
    fxi_byte_set may = fxi_auto_bytes(w->a, state);
    const bool final = fxi_auto_is_final(w->a, state);
    const bool a = fxi_byte_in(&may, 'a'), b = fxi_byte_in(&may, 'b');
    if (final != naive_matches(w->g, w->s, n)) fail_msg("\"%.*s\"", (int)n, w->s);
    w->n_match += final;
    assert_int_equal(state == FXI_AUTO_DEAD, !final && !a && !b);
    assert_int_equal(fxi_auto_forced(w->a, state), final || a == b ? -1 : a ? 'a' : 'b');
}

static void walk_strings(walk *w, uint32_t state, uint32_t n)
{
    check_state(w, state, n);
    if (n == MAX_TEXT) return;
    for (char c = 'a'; c <= 'c'; c++) { // c is in no grammar
        w->s[n] = c;
        const uint32_t next = step_state(w->a, state, c);
        fxi_byte_set may = fxi_auto_bytes(w->a, state);
        assert_int_equal(next != FXI_AUTO_DEAD, fxi_byte_in(&may, (uint8_t)c));
        assert_int_equal(step_state(w->a, state, c), next);
        if (c < 'c') walk_strings(w, next, n + 1);
    }
}

static size_t count_matches(const fxi_gram *g)
{
    walk w = {.g = g};
    fx_error err = {0};
    if (fxi_auto_make(g, MAX_SET, &w.a, &err)) fail_msg("%s", err.text);
    walk_strings(&w, fxi_auto_start(w.a), 0);
    fxi_auto_free(w.a);
    return w.n_match;
}

// ---- grammars at random -------------------------------------------------------------------------

typedef struct dice {
    uint64_t seed, i;
} dice;

static uint32_t roll_dice(dice *d, uint32_t n)
{
    return (uint32_t)(fxi_rng_u64(d->seed, 19, d->i++) % n);
}

static uint32_t random_leaf(fxi_gram *g, dice *d, uint32_t n_rule)
{
    static const char *const text[] = {"", "a", "b", "ab", "ba", "aab"};
    fxi_byte_set set = {0};
    switch (roll_dice(d, 4)) {
    case 0:
        if (roll_dice(d, 8)) fxi_byte_put(&set, 'a');
        if (roll_dice(d, 2)) fxi_byte_put(&set, 'b');
        return fxi_gram_set(g, &set);
    case 1: return fxi_gram_ref(g, roll_dice(d, n_rule));
    default: break;
    }
    return fxi_gram_str(g, text[roll_dice(d, 6)]);
}

static uint32_t random_node(fxi_gram *g, dice *d, const uint32_t *old, uint32_t n_old)
{
    uint32_t kid[3], n = 1 + roll_dice(d, 3), min = roll_dice(d, 3);
    for (uint32_t i = 0; i < n; i++) kid[i] = old[roll_dice(d, n_old)];
    switch (roll_dice(d, 3)) {
    case 0: return fxi_gram_seq(g, kid, n);
    case 1: return fxi_gram_alt(g, kid, n);
    default: break;
    }
    const bool bounded = roll_dice(d, 2);
    return fxi_gram_repeat(g, kid[0], min, bounded ? min + roll_dice(d, 4) : FXI_GRAM_NO_MAX);
}

static fx_status random_form(fxi_gram *g, uint64_t seed)
{
    enum { N_RULE = 3, N_LEAF = 6, N_ALL = 18 };
    dice d = {seed, 0};
    uint32_t node[N_ALL];
    fx_error err = {0};
    for (int r = 0; r < N_RULE; r++) fxi_gram_rule_add(g, fxi_str_of("r"));
    for (uint32_t i = 0; i < N_ALL; i++)
        node[i] = i < N_LEAF ? random_leaf(g, &d, N_RULE) : random_node(g, &d, node, i);
    for (uint32_t r = 0; r < N_RULE; r++)
        fxi_gram_rule_define(g, r, node[N_LEAF + roll_dice(&d, N_ALL - N_LEAF)]);
    return fxi_gram_finish(g, node[N_ALL - 1], &err);
}

FX_TEST(test_random_forms_match_as_the_naive_matcher_says)
{
    size_t n_form = 0, n_match = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        fxi_gram g = {0};
        if (random_form(&g, seed) == FX_OK) {
            n_match += count_matches(&g);
            n_form++;
        }
        fxi_gram_free(&g);
    }
    assert_true(n_form > 1000);
    assert_true(n_match > 10 * n_form); // not all of them nearly empty
}

// ---- grammars by hand ---------------------------------------------------------------------------

// Finishes the grammar and makes its automaton.
static void open_form(gram_machine *m, uint32_t root, size_t max_set)
{
    fx_error err = {0};
    if (fxi_gram_finish(&m->g, root, &err) || fxi_auto_make(&m->g, max_set, &m->a, &err))
        fail_msg("%s", err.text);
}

// s = "a" s "b" | "": as many b as a.
static uint32_t balanced_rule(fxi_gram *g)
{
    const uint32_t s = fxi_gram_rule_add(g, fxi_str_of("s"));
    const uint32_t more =
        FXI_SEQ_OF(g, fxi_gram_str(g, "a"), fxi_gram_ref(g, s), fxi_gram_str(g, "b"));
    fxi_gram_rule_define(g, s, FXI_ALT_OF(g, more, fxi_gram_str(g, "")));
    return fxi_gram_ref(g, s);
}

FX_TEST(test_recursion_counts)
{
    gram_machine m = {0};
    open_form(&m, balanced_rule(&m.g), MAX_SET);
    assert_int_equal(count_matches(&m.g), 4); // "", ab, aabb, aaabbb
    uint32_t at = fxi_auto_start(m.a);
    for (int i = 0; i < 1000; i++) at = step_state(m.a, at, 'a');
    for (int i = 0; i < 999; i++) {
        at = step_state(m.a, at, 'b');
        assert_int_equal(fxi_auto_forced(m.a, at), 'b');
    }
    at = step_state(m.a, at, 'b');
    assert_true(fxi_auto_is_final(m.a, at));
    assert_int_equal(step_state(m.a, at, 'b'), FXI_AUTO_DEAD);
    close_machine(&m);
}

FX_TEST(test_nesting_beyond_the_limit_is_an_error_and_the_automaton_stays_usable)
{
    gram_machine m = {0};
    fx_error err = {0};
    fx_status st = FX_OK;
    open_form(&m, balanced_rule(&m.g), MAX_SET);
    uint32_t at = fxi_auto_start(m.a), before = at;
    for (int i = 0; i < 10000 && !st; i++) {
        before = at;
        st = fxi_auto_step(m.a, at, 'a', &at, &err);
    }
    assert_int_equal(st, FX_EINVAL);
    assert_non_null(strstr(err.text, "nested deeper"));
    assert_int_not_equal(step_state(m.a, before, 'b'), FXI_AUTO_DEAD);
    close_machine(&m);
}

// Right recursion and loops come back to states they had.
FX_TEST(test_right_recursion_takes_no_stack)
{
    gram_machine m = {0};
    const uint32_t s = fxi_gram_rule_add(&m.g, fxi_str_of("s"));
    const uint32_t more = FXI_SEQ_OF(&m.g, fxi_gram_str(&m.g, "a"), fxi_gram_ref(&m.g, s));
    fxi_gram_rule_define(&m.g, s, FXI_ALT_OF(&m.g, more, fxi_gram_str(&m.g, "b")));
    open_form(&m, fxi_gram_ref(&m.g, s), MAX_SET);
    uint32_t at = fxi_auto_start(m.a);
    for (int i = 0; i < 100000; i++) at = step_state(m.a, at, 'a');
    assert_true(fxi_auto_n_set(m.a) < 10);
    assert_true(fxi_auto_is_final(m.a, step_state(m.a, at, 'b')));
    close_machine(&m);
}

// s = "a" s "a" | "a" s "b" | "a": 2^n stacks after n bytes, which share their frames.
FX_TEST(test_an_ambiguous_form_shares_its_stacks)
{
    gram_machine m = {0};
    const uint32_t s = fxi_gram_rule_add(&m.g, fxi_str_of("s")), ref = fxi_gram_ref(&m.g, s);
    const uint32_t x = fxi_gram_str(&m.g, "a"), y = fxi_gram_str(&m.g, "b");
    const uint32_t as = FXI_SEQ_OF(&m.g, x, ref, x), ab = FXI_SEQ_OF(&m.g, x, ref, y);
    fxi_gram_rule_define(&m.g, s, FXI_ALT_OF(&m.g, as, ab, x));
    open_form(&m, ref, MAX_SET);
    count_matches(&m.g);
    uint32_t at = fxi_auto_start(m.a);
    for (int i = 0; i < 101; i++) at = step_state(m.a, at, 'a');
    assert_true(fxi_auto_is_final(m.a, at));
    assert_true(fxi_auto_n_set(m.a) < 30000);
    close_machine(&m);
}

FX_TEST(test_a_bounded_repeat_is_not_written_out)
{
    gram_machine m = {0};
    open_form(&m, fxi_gram_repeat(&m.g, fxi_gram_str(&m.g, "ab"), 3, 50000), 1 << 18);
    assert_true(m.g.n_node < 5);
    uint32_t at = fxi_auto_start(m.a);
    for (int i = 1; i <= 50000; i++) {
        at = step_state(m.a, step_state(m.a, at, 'a'), 'b');
        assert_int_equal(fxi_auto_is_final(m.a, at), i >= 3);
    }
    assert_int_equal(step_state(m.a, at, 'a'), FXI_AUTO_DEAD);
    close_machine(&m);
}

FX_TEST(test_states_have_a_limit)
{
    gram_machine m = {0};
    fx_error err = {0};
    fx_status st = FX_OK;
    open_form(&m, fxi_gram_repeat(&m.g, fxi_gram_str(&m.g, "a"), 0, 50000), 100);
    uint32_t at = fxi_auto_start(m.a);
    for (int i = 0; i < 1000 && !st; i++) st = fxi_auto_step(m.a, at, 'a', &at, &err);
    assert_int_equal(st, FX_EINVAL);
    assert_string_equal(err.text, "the grammar needs more than 100 states");
    close_machine(&m);
}

// ---- what is refused ----------------------------------------------------------------------------

static void expect_refused(fxi_gram *g, uint32_t root, const char *text)
{
    fx_error err = {0};
    assert_int_equal(fxi_gram_finish(g, root, &err), FX_EINVAL);
    assert_string_equal(err.text, text);
    fxi_gram_free(g);
}

FX_TEST(test_left_recursion_is_refused_by_name)
{
    fxi_gram g = {0};
    const uint32_t r = fxi_gram_rule_add(&g, fxi_str_of("list")), a = fxi_gram_str(&g, "a");
    const uint32_t maybe = fxi_gram_repeat(&g, fxi_gram_str(&g, "b"), 0, 1);
    fxi_gram_rule_define(&g, r,
                         FXI_ALT_OF(&g, 0, FXI_SEQ_OF(&g, maybe, fxi_gram_ref(&g, r), a), a));
    expect_refused(&g, fxi_gram_ref(&g, r),
                   "rule \"list\" begins with itself: left recursion is not supported");
}

FX_TEST(test_what_cannot_match_is_refused)
{
    fxi_gram g = {0};
    const uint32_t r = fxi_gram_rule_add(&g, fxi_str_of("endless"));
    fxi_gram_rule_define(&g, r, FXI_SEQ_OF(&g, fxi_gram_str(&g, "a"), fxi_gram_ref(&g, r)));
    expect_refused(&g, fxi_gram_ref(&g, r), "nothing matches the grammar");
    fxi_gram_rule_add(&g, fxi_str_of("missing"));
    expect_refused(&g, fxi_gram_ref(&g, 0), "rule \"missing\" is not defined");
    expect_refused(&g, 0, "nothing matches the grammar");
}

FX_TEST(test_a_form_has_a_limit)
{
    fxi_gram g = {0};
    uint32_t last = 1;
    for (int i = 0; i < FXI_GRAM_MAX_SIZE && last; i++) last = fxi_gram_str(&g, "");
    assert_int_equal(last, 0);
    expect_refused(&g, 1, "the grammar has more than 1048576 parts");
}

FX_RUN(test_gram_auto)
