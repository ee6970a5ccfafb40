// gram_intersect.c - the product of two automata, found by a search from their first states.
#include "grammar/automaton/gram_intersect.h"

#include <stdlib.h>

#include "base/keyed/hash.h"
#include "base/system/grow.h"
#include "grammar/automaton/gram_auto.h"

enum { MAX_SET = 1 << 15 };

typedef struct state_pair {
    uint32_t a, b;
    uint32_t rule;
} state_pair;

typedef struct byte_group { // bytes that lead to one pair
    uint32_t pair;
    fxi_byte_set bytes;
} byte_group;

typedef struct pair_search {
    fxi_gram *out;
    fxi_auto *a, *b;
    bool is_not; // the texts of a that b does not match, not those that both match
    fx_error *err;
    state_pair *pair; // [n]
    size_t n, cap;
    fxi_hash_index index; // pair + 1, by its states
    fxi_secret secret;
} pair_search;

static fx_status find_state_pair(pair_search *m, uint32_t a, uint32_t b, uint32_t *out)
{
    const uint32_t hash = (uint32_t)(fxi_secret_mix(m->secret, a, (uint64_t)b << 32) >> 32);
    size_t probe = 0;
    uint32_t id;
    while ((id = fxi_hash_index_next(&m->index, hash, &probe)))
        if (m->pair[id - 1].a == a && m->pair[id - 1].b == b) {
            *out = id - 1;
            return FX_OK;
        }
    if (m->n >= FXI_INTERSECT_MAX_STATE)
        return fxi_fail(m->err, FX_EINVAL, "two conditions together have more than %d states",
                        FXI_INTERSECT_MAX_STATE);
    if (!fxi_grow(&m->pair, sizeof *m->pair, m->n, &m->cap) ||
        !fxi_hash_index_add(&m->index, (uint32_t)m->n + 1, hash))
        return fxi_fail_memory(m->err);
    *out = (uint32_t)m->n;
    m->pair[m->n++] = (state_pair){a, b, fxi_gram_rule_add(m->out, fxi_str_of("a product"))};
    return FX_OK;
}

// The pair after one more byte. *is_dead: there is none.
static fx_status step_pair(pair_search *m, const state_pair *p, uint8_t byte, uint32_t *next,
                           bool *is_dead)
{
    uint32_t a, b;
    FX_TRY(fxi_auto_step(m->a, p->a, byte, &a, m->err));
    FX_TRY(fxi_auto_step(m->b, p->b, byte, &b, m->err));
    *is_dead = a == FXI_AUTO_DEAD || (!m->is_not && b == FXI_AUTO_DEAD);
    return *is_dead ? FX_OK : find_state_pair(m, a, b, next);
}

static void add_to_group(byte_group *group, size_t *n, uint32_t pair, uint8_t byte)
{
    size_t i = 0;
    while (i < *n && group[i].pair != pair) i++;
    if (i == *n) group[(*n)++] = (byte_group){.pair = pair};
    fxi_byte_put(&group[i].bytes, byte);
}

static fx_status define_pair(pair_search *m, uint32_t at)
{
    byte_group group[256];
    uint32_t alt[257];
    size_t n_group = 0, n_alt = 0;
    const state_pair p = m->pair[at]; // the array may move
    for (int byte = 0; byte < 256; byte++) {
        uint32_t next = 0;
        bool is_dead;
        FX_TRY(step_pair(m, &p, (uint8_t)byte, &next, &is_dead));
        if (!is_dead) add_to_group(group, &n_group, next, (uint8_t)byte);
    }
    if (fxi_auto_is_final(m->a, p.a) && fxi_auto_is_final(m->b, p.b) != m->is_not)
        alt[n_alt++] = fxi_gram_text(m->out, NULL, 0);
    for (size_t i = 0; i < n_group; i++)
        alt[n_alt++] = FXI_SEQ_OF(m->out, fxi_gram_set(m->out, &group[i].bytes),
                                  fxi_gram_ref(m->out, m->pair[group[i].pair].rule));
    fxi_gram_rule_define(m->out, p.rule, fxi_gram_alt(m->out, alt, n_alt));
    return FX_OK;
}

// Adds the result to `out`, a grammar other than the two finished ones.
static fx_status intersect_two(fxi_gram *out, const fxi_gram *a, const fxi_gram *b, bool is_not,
                               uint32_t *node, size_t *n_pair, fx_error *err)
{
    pair_search m = {.out = out, .is_not = is_not, .err = err, .secret = fxi_secret_make()};
    uint32_t first;
    fx_status st = fxi_auto_make(a, MAX_SET, &m.a, err);
    if (!st) st = fxi_auto_make(b, MAX_SET, &m.b, err);
    if (!st) st = find_state_pair(&m, fxi_auto_start(m.a), fxi_auto_start(m.b), &first);
    for (uint32_t i = 0; !st && i < m.n; i++) st = define_pair(&m, i);
    if (!st) *node = fxi_gram_ref(out, m.pair[0].rule);
    *n_pair += m.n;
    fxi_auto_free(m.a);
    fxi_auto_free(m.b);
    free(m.pair);
    fxi_hash_index_free(&m.index);
    return st;
}

// ---- several grammars ---------------------------------------------------------------------------

// *is_never: nothing matches.
static fx_status finish_part(fxi_intersect_part *p, bool *is_never, fx_error *err)
{
    fxi_gram *g = &p->g;
    const fx_status st = fxi_gram_finish(g, p->root, err);
    *is_never = st == FX_EINVAL && !g->broken && (!g->n_node || !g->node[p->root].productive);
    return *is_never ? FX_OK : st;
}

// Adds to `to` what both parts allow.
static fx_status intersect_part(fxi_intersect_part *first, fxi_intersect_part *part, fxi_gram *to,
                                uint32_t *node, size_t *n_pair, fx_error *err)
{
    bool a_is_never, b_is_never;
    FX_TRY(finish_part(first, &a_is_never, err));
    FX_TRY(finish_part(part, &b_is_never, err));
    *node = 0;
    if (a_is_never || (b_is_never && !part->is_not)) return FX_OK;
    const fxi_gram *b = b_is_never ? &first->g : &part->g; // "not nothing" is no condition
    return intersect_two(to, &first->g, b, part->is_not && !b_is_never, node, n_pair, err);
}

fx_status fxi_gram_intersect(fxi_gram *out, fxi_intersect_part *part, size_t n, uint32_t *node,
                             size_t *n_pair, fx_error *err)
{
    fx_status st = FX_OK;
    *n_pair = 0;
    for (size_t i = 1; !st && i < n; i++) {
        fxi_gram next = {0};
        const bool is_last = i + 1 == n;
        st = intersect_part(&part[0], &part[i], is_last ? out : &next, node, n_pair, err);
        fxi_gram_free(&part[0].g);
        part[0].g = next;
        part[0].root = *node;
    }
    for (size_t i = 0; i < n; i++) fxi_gram_free(&part[i].g);
    return st;
}
