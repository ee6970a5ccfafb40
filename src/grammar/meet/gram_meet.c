// gram_meet.c - the product of two automata, found by a search from their first states.
#include "grammar/meet/gram_meet.h"

#include <stdlib.h>

#include "base/keyed/secret.h"
#include "base/system/grow.h"
#include "grammar/run/gram_auto.h"

enum { MAX_SET = 1 << 15, N_SLOT = 4 * FXI_MEET_MAX_STATE };

typedef enum meet_how {
    MEET_BOTH,    // what a and b match
    MEET_WITHOUT, // what a matches and b does not
} meet_how;

typedef struct state_pair {
    uint32_t a, b;
    uint32_t rule;
} state_pair;

typedef struct byte_group { // the bytes that lead to one pair
    uint32_t pair;
    fxi_byte_set bytes;
} byte_group;

typedef struct meet_search {
    fxi_gram *out;
    fxi_auto *a, *b;
    meet_how how;
    fx_error *err;
    state_pair *pair; // [n]
    size_t n, cap;
    uint32_t *slot; // [N_SLOT] pair + 1; 0: free
    fxi_secret secret;
} meet_search;

static fx_status fail_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

static uint32_t *slot_of_pair(const meet_search *m, uint32_t a, uint32_t b)
{
    size_t i = fxi_secret_mix(m->secret, a, (uint64_t)b << 32) % N_SLOT;
    while (m->slot[i] && (m->pair[m->slot[i] - 1].a != a || m->pair[m->slot[i] - 1].b != b))
        i = (i + 1) % N_SLOT;
    return &m->slot[i];
}

static fx_status find_state_pair(meet_search *m, uint32_t a, uint32_t b, uint32_t *out)
{
    uint32_t *slot = slot_of_pair(m, a, b);
    if (!*slot) {
        if (m->n >= FXI_MEET_MAX_STATE)
            return fxi_fail(m->err, FX_EINVAL, "two conditions together have more than %d states",
                            FXI_MEET_MAX_STATE);
        if (!fxi_grow(&m->pair, sizeof *m->pair, m->n, &m->cap)) return fail_memory(m->err);
        m->pair[m->n++] = (state_pair){a, b, fxi_gram_rule_add(m->out, fxi_str_of("a product"))};
        *slot = (uint32_t)m->n;
    }
    *out = *slot - 1;
    return FX_OK;
}

// The pair after one more byte. *is_dead: there is none.
static fx_status step_pair(meet_search *m, const state_pair *p, uint8_t byte, uint32_t *next,
                           bool *is_dead)
{
    uint32_t a, b;
    FX_TRY(fxi_auto_step(m->a, p->a, byte, &a, m->err));
    FX_TRY(fxi_auto_step(m->b, p->b, byte, &b, m->err));
    *is_dead = a == FXI_AUTO_DEAD || (m->how == MEET_BOTH && b == FXI_AUTO_DEAD);
    return *is_dead ? FX_OK : find_state_pair(m, a, b, next);
}

static void add_to_group(byte_group *group, size_t *n, uint32_t pair, uint8_t byte)
{
    size_t i = 0;
    while (i < *n && group[i].pair != pair) i++;
    if (i == *n) group[(*n)++] = (byte_group){.pair = pair};
    fxi_byte_put(&group[i].bytes, byte);
}

static bool is_final_pair(const meet_search *m, const state_pair *p)
{
    return fxi_auto_is_final(m->a, p->a) && fxi_auto_is_final(m->b, p->b) == (m->how == MEET_BOTH);
}

static fx_status define_pair(meet_search *m, uint32_t at)
{
    byte_group group[256];
    uint32_t way[257];
    size_t n_group = 0, n_way = 0;
    const state_pair p = m->pair[at]; // the array may move
    for (int byte = 0; byte < 256; byte++) {
        uint32_t next = 0;
        bool is_dead;
        FX_TRY(step_pair(m, &p, (uint8_t)byte, &next, &is_dead));
        if (!is_dead) add_to_group(group, &n_group, next, (uint8_t)byte);
    }
    if (is_final_pair(m, &p)) way[n_way++] = fxi_gram_text(m->out, NULL, 0);
    for (size_t i = 0; i < n_group; i++) {
        const uint32_t part[] = {fxi_gram_set(m->out, &group[i].bytes),
                                 fxi_gram_ref(m->out, m->pair[group[i].pair].rule)};
        way[n_way++] = fxi_gram_seq(m->out, part, 2);
    }
    fxi_gram_rule_define(m->out, p.rule, fxi_gram_alt(m->out, way, n_way));
    return FX_OK;
}

static fx_status search_pairs(meet_search *m)
{
    uint32_t first;
    FX_TRY(find_state_pair(m, fxi_auto_start(m->a), fxi_auto_start(m->b), &first));
    for (uint32_t i = 0; i < m->n; i++) FX_TRY(define_pair(m, i));
    return FX_OK;
}

// Adds it to `out`, which is another form than the two finished ones.
static fx_status meet_forms(fxi_gram *out, const fxi_gram *a, const fxi_gram *b, meet_how how,
                            uint32_t *node, size_t *n_pair, fx_error *err)
{
    meet_search m = {.out = out, .how = how, .err = err, .secret = fxi_secret_make()};
    m.slot = calloc(N_SLOT, sizeof *m.slot);
    fx_status st = m.slot ? FX_OK : fail_memory(err);
    if (!st) st = fxi_auto_make(a, MAX_SET, &m.a, err);
    if (!st) st = fxi_auto_make(b, MAX_SET, &m.b, err);
    if (!st) st = search_pairs(&m);
    if (!st) *node = fxi_gram_ref(out, m.pair[0].rule);
    *n_pair += m.n;
    fxi_auto_free(m.a);
    fxi_auto_free(m.b);
    free(m.pair);
    free(m.slot);
    return st;
}

// ---- several forms ------------------------------------------------------------------------------

// *is_never: nothing matches.
static fx_status finish_form(fxi_gram *g, uint32_t root, bool *is_never, fx_error *err)
{
    const fx_status st = fxi_gram_finish(g, root, err);
    *is_never = st == FX_EINVAL && !g->broken && (!g->n_node || !g->node[root].productive);
    return *is_never ? FX_OK : st;
}

// part[0] becomes what it and the part allow, in `to`.
static fx_status meet_part(fxi_meet_part *first, fxi_meet_part *part, fxi_gram *to, uint32_t *node,
                           size_t *n_pair, fx_error *err)
{
    bool a_is_never, b_is_never;
    FX_TRY(finish_form(&first->form, first->root, &a_is_never, err));
    FX_TRY(finish_form(&part->form, part->root, &b_is_never, err));
    *node = 0;
    if (a_is_never || (b_is_never && !part->is_not)) return FX_OK;
    const fxi_gram *b = b_is_never ? &first->form : &part->form; // no condition at all
    const bool is_not = part->is_not && !b_is_never;
    return meet_forms(to, &first->form, b, is_not ? MEET_WITHOUT : MEET_BOTH, node, n_pair, err);
}

fx_status fxi_gram_meet_all(fxi_gram *out, fxi_meet_part *part, size_t n, uint32_t *node,
                            size_t *n_pair, fx_error *err)
{
    fx_status st = FX_OK;
    *n_pair = 0;
    for (size_t i = 1; !st && i < n; i++) {
        fxi_gram next = {0};
        const bool is_last = i + 1 == n;
        st = meet_part(&part[0], &part[i], is_last ? out : &next, node, n_pair, err);
        fxi_gram_free(&part[0].form);
        part[0].form = next;
        part[0].root = *node;
    }
    for (size_t i = 0; i < n; i++) fxi_gram_free(&part[i].form);
    return st;
}
