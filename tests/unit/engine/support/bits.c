// bits.c - see bits.h.
#include "unit/engine/support/bits.h"

#include "unit/cmocka_all.h"

#include "model/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- events ------------------------------------------------------------------------------------

static bits_tok kept(const fx_event *ev)
{
    bits_tok t = {.tok = ev->token};
    if (!ev->prob) return t;
    t.logprob = ev->prob->logprob;
    t.rank = ev->prob->rank;
    t.n_top = ev->prob->n_top;
    assert_in_range(t.n_top, 0, BITS_TOP);
    for (int i = 0; i < t.n_top; i++) t.top[i] = ev->prob->top[i];
    return t;
}

static void on_event(void *ud, const fx_event *ev)
{
    bits_answer *a = ud;
    bits_choice *c = &a->choice[ev->choice];
    assert_false(a->last);
    assert_int_equal(c->finish, FX_FINISH_NONE);
    if (ev->token >= 0 && ev->position < ev->n_prompt) {
        assert_int_equal(ev->position, ++a->n_prompt_emitted); // each once, in order
        a->prompt[ev->position] = kept(ev);
    } else if (ev->token >= 0) {
        assert_int_equal(ev->position, ev->n_prompt + c->n_tok);
        if (c->n_tok < BITS_MAX_GEN) c->tok[c->n_tok] = kept(ev);
        c->n_tok++;
    }
    if (ev->choice >= a->n_choice) a->n_choice = ev->choice + 1;
    c->finish = ev->finish;
    c->score = ev->score;
    if (ev->error) snprintf(c->error, sizeof c->error, "%s", ev->error);
    a->n_cached = ev->n_cached;
    a->last = ev->last;
}

fx_request bits_request(const int32_t *prompt, int n_prompt, int max_tok, bits_answer *out)
{
    memset(out, 0, sizeof *out);
    fx_request req = fx_request_default();
    req.prompt = prompt;
    req.n_prompt = (size_t)n_prompt;
    req.max_tok = max_tok;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.on_event = on_event;
    req.ud = out;
    return req;
}

uint64_t bits_submit(fx_engine *eng, const fx_request *req)
{
    fx_error err = {0};
    uint64_t id = 0;
    if (fx_submit(eng, req, &id, &err) != FX_OK) fail_msg("%s", err.text);
    return id;
}

void bits_finish(fx_engine *eng, const bits_answer *a)
{
    for (int i = 0; !a->last; i++) {
        if (i == 100000) fail_msg("the request does not get on");
        (void)fxi_iteration_run(eng);
    }
}

void bits_ask(fx_engine *eng, const fx_request *req, const bits_answer *a)
{
    (void)bits_submit(eng, req);
    bits_finish(eng, a);
}

static fxi_live_request *in_list(const fxi_request_list *l, uint64_t id)
{
    fxi_live_request *g = l->head;
    while (g && g->id != id) g = g->next;
    return g;
}

fxi_live_request *bits_live_request(const fx_engine *eng, uint64_t id)
{
    fxi_live_request *g = in_list(&eng->sched.running, id);
    if (!g) g = in_list(&eng->sched.waiting, id);
    return g ? g : in_list(&eng->sched.aside, id);
}

// ---- comparing answers -------------------------------------------------------------------------

bool bits_same_tok(const bits_tok *a, const bits_tok *b, char what[128])
{
    if (memcmp(a, b, sizeof *a) == 0) return true;
    int i = 0;
    while (i < BITS_TOP - 1 && memcmp(&a->top[i], &b->top[i], sizeof a->top[i]) == 0) i++;
    snprintf(what, 128, "token %d %a rank %d top[%d] %d %a, not token %d %a rank %d top %d %a",
             a->tok, (double)a->logprob, a->rank, i, a->top[i].token, (double)a->top[i].logprob,
             b->tok, (double)b->logprob, b->rank, b->top[i].token, (double)b->top[i].logprob);
    return false;
}

// Puts "<place> <i>: " in front.
static bool within(const char *place, int i, char what[128])
{
    char inner[128];
    memcpy(inner, what, sizeof inner);
    snprintf(what, 128, "%s %d: %.90s", place, i, inner);
    return false;
}

bool bits_same_choice(const bits_choice *a, const bits_choice *b, char what[128])
{
    for (int i = 0; i < a->n_tok && i < b->n_tok && i < BITS_MAX_GEN; i++)
        if (!bits_same_tok(&a->tok[i], &b->tok[i], what)) return within("token", i, what);
    if (a->n_tok == b->n_tok && a->finish == b->finish &&
        memcmp(&a->score, &b->score, sizeof a->score) == 0)
        return true;
    snprintf(what, 128, "%d tokens, finish %d %.40s, score %a, not %d, %d, %a", a->n_tok,
             (int)a->finish, a->error, a->score, b->n_tok, (int)b->finish, b->score);
    return false;
}

bool bits_same_answer(const bits_answer *a, const bits_answer *b, char what[128])
{
    for (int i = 0; i < BITS_MAX_PROMPT; i++)
        if (!bits_same_tok(&a->prompt[i], &b->prompt[i], what)) return within("position", i, what);
    for (int i = 0; i < BITS_MAX_CHOICE; i++)
        if (!bits_same_choice(&a->choice[i], &b->choice[i], what)) return within("choice", i, what);
    return true;
}

// ---- the ledger --------------------------------------------------------------------------------

enum { N_SLOT = 1 << 16 };

struct bits_ledger {
    fxi_kv_layout layout;
    int n_rank;       // devices that have a part of each row
    size_t tok_bytes; // and those of a state, which is complete with every so many tokens
    char *row;        // [cap][tok_bytes] the planes of a token, group after group
    size_t n, cap;
    struct slot {
        uint64_t key; // of the tokens up to the row's; 0: free
        size_t row;
        unsigned groups; // whose planes have been seen: a window may have passed the others
    } slot[N_SLOT];
};

bits_ledger *bits_ledger_make(const fx_engine *eng)
{
    bits_ledger *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->layout = eng->model->shape.kv;
    l->n_rank = eng->device->ranks ? eng->device->ranks->n : 1;
    l->tok_bytes = fxi_kv_tok_bytes(&l->layout) + fxi_kv_state_bytes(&l->layout);
    return l;
}

void bits_ledger_free(bits_ledger *l)
{
    free(l->row);
    free(l);
}

static uint64_t next_key(uint64_t key, int32_t tok)
{
    key = (key ^ (uint64_t)(tok + 1)) * 0x9E3779B97F4A7C15ull;
    return (key ^ key >> 31) | 1;
}

static struct slot *find_slot(bits_ledger *l, uint64_t key)
{
    size_t i = (size_t)(key >> 1) % N_SLOT;
    while (l->slot[i].key && l->slot[i].key != key) i = (i + 1) % N_SLOT;
    return &l->slot[i];
}

static void add_row(bits_ledger *l, struct slot *to, uint64_t key)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        assert_true(l->cap <= N_SLOT / 2);
        l->row = realloc(l->row, l->cap * l->tok_bytes);
        assert_non_null(l->row);
    }
    *to = (struct slot){.key = key, .row = l->n++};
}

// Where device `rank` has its part of a row.
static const char *part_of_row(const fxi_kv_views *v, int group, int rank, int plane, int position)
{
    fxi_kv_view of = v->group[group];
    if (rank) of.base = v->rank_base[rank - 1][group];
    return fxi_kv_row(&of, plane, position);
}

// Compares the planes of one group at a position with those that were seen first, at `seen`.
static bool same_planes(const bits_ledger *l, int group, bool is_first, char *seen,
                        const fxi_kv_views *v, int position, bits_diff *diff)
{
    const fxi_kv_group *g = &l->layout.group[group];
    const size_t n = g->row_bytes / (size_t)l->n_rank;
    const int row = g->is_state ? position / FXI_KV_STATE_TOK : position;
    for (int i = 0; i < g->n_plane * l->n_rank; i++, seen += n) {
        const int p = i / l->n_rank;
        const char *part = part_of_row(v, group, i % l->n_rank, p, row);
        if (is_first) memcpy(seen, part, n);
        if (memcmp(seen, part, n) == 0) continue;
        *diff = (bits_diff){position, diff->layer + p / 2, p % 2};
        return false;
    }
    return true;
}

static bool same_rows(bits_ledger *l, struct slot *of, const fxi_kv_views *v, int position,
                      bits_diff *diff)
{
    char *seen = l->row + of->row * l->tok_bytes;
    diff->layer = 0; // counted group after group
    for (int g = 0; g < l->layout.n_group; g++) {
        const fxi_kv_group *gr = &l->layout.group[g];
        const bool is_row = !gr->is_state || (position + 1) % FXI_KV_STATE_TOK == 0;
        const bool is_there = is_row && position >= v->group[g].first_tok;
        const bool is_first = !(of->groups & 1u << g);
        if (is_there && !same_planes(l, g, is_first, seen, v, position, diff)) return false;
        if (is_there) of->groups |= 1u << g;
        seen += (size_t)gr->n_plane * gr->row_bytes;
        diff->layer += gr->n_plane / 2;
    }
    return true;
}

bool bits_ledger_check(bits_ledger *l, fx_engine *eng, const fxi_seq *s, int first, bits_diff *diff)
{
    const fxi_kv_views v = fxi_kv_get_views(eng->kv, s->kv);
    uint64_t key = 1;
    for (int i = 0; i < s->n_computed; i++) {
        key = next_key(key, s->tok[i]);
        if (i < first) continue;
        struct slot *at = find_slot(l, key);
        if (!at->key) add_row(l, at, key);
        if (!same_rows(l, at, &v, i, diff)) return false;
    }
    return true;
}
