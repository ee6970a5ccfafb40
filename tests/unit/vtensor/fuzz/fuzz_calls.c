// fuzz_calls.c - the calls of a fuzz world, as a table, and what must hold behind each of them.
#include "fuzz_world.h"

#include <string.h>

#include "assert_vt.h"

// ---- What calls are given

static uint32_t free_place(const fuzz_world *w)
{
    uint32_t i = 0;
    while (i < FUZZ_N_SEQ && w->seq[i].s) i++;
    return i;
}

// A sequence that is there, or FUZZ_N_SEQ.
static uint32_t draw_seq(fuzz_world *w)
{
    uint32_t i = fuzz_draw(w, FUZZ_N_SEQ);
    for (uint32_t k = 0; k < FUZZ_N_SEQ && !w->seq[i].s; k++) i = (i + 1) % FUZZ_N_SEQ;
    return w->seq[i].s ? i : FUZZ_N_SEQ;
}

// Mostly the same token, so that prefixes are often shared.
static void draw_tokens(fuzz_world *w, uint32_t *tok, uint32_t n_tok)
{
    for (uint32_t t = 0; t < n_tok; t++) tok[t] = fuzz_draw(w, 24) == 0 ? fuzz_draw(w, 3) : 7;
}

// A length above len_tok: mostly a little, sometimes much.
static uint32_t draw_longer(fuzz_world *w, uint32_t len_tok)
{
    uint32_t n = len_tok + 1 + fuzz_draw(w, fuzz_draw(w, 3) == 0 ? FUZZ_MAX_TOK : 24);
    return n < FUZZ_MAX_TOK ? n : FUZZ_MAX_TOK;
}

static vt_retention draw_keep(fuzz_world *w)
{
    return (vt_retention){.priority = (uint8_t)fuzz_draw(w, 3),
                          .pinned = fuzz_draw(w, 6) == 0,
                          .until_ms = fuzz_draw(w, 2) ? w->now_ms + fuzz_draw(w, 50) : 0};
}

// ---- Sequences

static vt_status call_create(fuzz_world *w)
{
    uint32_t i = free_place(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    fuzz_seq *q = &w->seq[i];
    vt_status st = vt_seq_create(w->m, fuzz_draw(w, 2) * fuzz_draw(w, FUZZ_MAX_TOK), &q->s);
    q->len_tok = 0;
    q->tenant = fuzz_draw(w, FUZZ_N_TENANT);
    if (st != VT_OK) q->s = NULL;
    return st;
}

static vt_status call_match(fuzz_world *w)
{
    uint32_t i = free_place(w), n_tok = 1 + fuzz_draw(w, FUZZ_MAX_TOK);
    const fuzz_tale *tale = &w->tale[fuzz_draw(w, FUZZ_N_TALE)];
    if (i == FUZZ_N_SEQ) return VT_OK;
    fuzz_seq *q = &w->seq[i];
    q->tenant = tale->tenant;
    draw_tokens(w, q->tok, n_tok);
    memcpy(q->tok, tale->tok, sizeof q->tok[0] * (tale->n_tok < n_tok ? tale->n_tok : n_tok));
    vt_status st = vt_seq_match(w->domain[q->tenant], q->tok, n_tok, fuzz_draw(w, 2) * n_tok, &q->s,
                                &q->len_tok);
    if (st != VT_OK) q->s = NULL;
    return st;
}

static vt_status call_fork(fuzz_world *w)
{
    uint32_t i = draw_seq(w), to = free_place(w);
    if (i == FUZZ_N_SEQ || to == FUZZ_N_SEQ) return VT_OK;
    fuzz_seq *q = &w->seq[to];
    uint32_t len_tok = fuzz_draw(w, 2) ? w->seq[i].len_tok : fuzz_draw(w, w->seq[i].len_tok + 1);
    vt_seq *s;
    vt_status st = vt_seq_fork(w->seq[i].s, len_tok, &s);
    if (st != VT_OK) return st;
    *q = w->seq[i];
    q->s = s;
    q->len_tok = len_tok;
    return VT_OK;
}

static void grow_to(fuzz_world *w, uint32_t i, uint32_t len_tok)
{
    uint32_t from = w->seq[i].len_tok;
    draw_tokens(w, w->seq[i].tok + from, len_tok - from);
    w->seq[i].len_tok = len_tok;
    fuzz_write(w, i, from);
}

static vt_status call_extend(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    uint32_t len_tok = draw_longer(w, w->seq[i].len_tok);
    vt_status st = vt_seq_extend(w->seq[i].s, len_tok);
    if (st == VT_OK) grow_to(w, i, len_tok);
    return st;
}

static vt_status call_extend_many(fuzz_world *w)
{
    vt_seq *s[FUZZ_N_SEQ];
    uint32_t len_tok[FUZZ_N_SEQ], place[FUZZ_N_SEQ], n = 0, n_done;
    for (uint32_t i = 0; i < FUZZ_N_SEQ; i++) {
        if (!w->seq[i].s || fuzz_draw(w, 2)) continue;
        s[n] = w->seq[i].s;
        place[n] = i;
        len_tok[n++] = draw_longer(w, w->seq[i].len_tok);
    }
    vt_status st = vt_seq_extend_many(s, len_tok, n, &n_done);
    for (uint32_t k = 0; k < n_done; k++) grow_to(w, place[k], len_tok[k]);
    return n_done > 0 && st == VT_NOSPACE ? VT_BUSY : st; // those before may have cost prefixes
}

static vt_status call_truncate(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    uint32_t len_tok = fuzz_draw(w, 4) ? fuzz_draw(w, w->seq[i].len_tok + 1) : 0;
    vt_status st = vt_seq_truncate(w->seq[i].s, len_tok);
    if (st == VT_OK) w->seq[i].len_tok = len_tok < w->seq[i].len_tok ? len_tok : w->seq[i].len_tok;
    return st;
}

static vt_status call_record(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    const fuzz_seq *q = &w->seq[i];
    vt_retention keep = draw_keep(w);
    uint32_t n_tok = fuzz_draw(w, 2) ? q->len_tok : fuzz_draw(w, q->len_tok + 1);
    vt_status st =
        vt_seq_record(q->s, w->domain[q->tenant], q->tok, n_tok, fuzz_draw(w, 4) ? NULL : &keep);
    fuzz_tale *tale = &w->tale[fuzz_draw(w, FUZZ_N_TALE)];
    if (st != VT_OK) return st;
    tale->tenant = q->tenant;
    tale->n_tok = n_tok;
    memcpy(tale->tok, q->tok, sizeof tale->tok);
    return VT_OK;
}

static vt_status call_release(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    vt_seq_release(w->seq[i].s);
    w->seq[i].s = NULL;
    return VT_OK;
}

static vt_status call_swap_out(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    return i == FUZZ_N_SEQ ? VT_OK : vt_seq_swap_out(w->seq[i].s);
}

static vt_status call_swap_in(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    return i == FUZZ_N_SEQ ? VT_OK : vt_seq_swap_in(w->seq[i].s);
}

static vt_status call_prepare(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    if (i == FUZZ_N_SEQ) return VT_OK;
    return vt_seq_prepare(w->seq[i].s, draw_longer(w, w->seq[i].len_tok), fuzz_draw(w, 4));
}

static vt_status call_wait(fuzz_world *w)
{
    uint32_t i = draw_seq(w);
    return i == FUZZ_N_SEQ ? VT_OK : vt_seq_wait(w->seq[i].s);
}

// ---- The manager

static vt_status call_step(fuzz_world *w)
{
    w->now_ms += fuzz_draw(w, 20);
    return vt_step(w->m, (vt_ahead)fuzz_draw(w, 3), fuzz_draw(w, 64), w->now_ms);
}

static vt_status call_work(fuzz_world *w)
{
    vt_work(w->m, 1 + fuzz_draw(w, 8), NULL);
    return VT_OK;
}

static vt_status call_settle(fuzz_world *w)
{
    return vt_settle(w->m);
}

static vt_status call_trim(fuzz_world *w)
{
    return vt_trim(w->m, fuzz_draw(w, 8) * (uint64_t)8192, NULL);
}

static vt_status call_evict(fuzz_world *w)
{
    return vt_evict(w->m, fuzz_draw(w, 8) * (uint64_t)8192, NULL);
}

static vt_status call_set_budget(fuzz_world *w)
{
    uint64_t most = w->setup.cfg.budget_bytes;
    return vt_set_budget(w->m, fuzz_draw(w, 2) ? most : most / 2 + fuzz_draw(w, 64) * (most / 128));
}

static vt_status call_forget(fuzz_world *w)
{
    vt_domain_forget(w->domain[fuzz_draw(w, FUZZ_N_TENANT)]);
    return VT_OK;
}

static vt_status call_set_quota(fuzz_world *w)
{
    uint64_t quota = fuzz_draw(w, 2) ? UINT64_MAX : fuzz_draw(w, 16) * (uint64_t)16384;
    vt_domain_set_quota(w->domain[fuzz_draw(w, FUZZ_N_TENANT)], quota);
    return VT_OK;
}

static vt_status call_retain(fuzz_world *w)
{
    const fuzz_tale *tale = &w->tale[fuzz_draw(w, FUZZ_N_TALE)];
    vt_retention keep = draw_keep(w);
    return vt_retain(w->domain[tale->tenant], tale->tok, tale->n_tok, &keep, NULL);
}

// ---- A step

typedef struct fuzz_call {
    const char *name;
    vt_status (*run)(fuzz_world *w);
    uint32_t weight;
    bool loses_none; // after VT_NOSPACE no prefix is lost
} fuzz_call;

static const fuzz_call calls[] = {
    {"vt_seq_create", call_create, 8, true},
    {"vt_seq_match", call_match, 12, true},
    {"vt_seq_fork", call_fork, 8, true},
    {"vt_seq_extend", call_extend, 30, true},
    {"vt_seq_extend_many", call_extend_many, 4, true},
    {"vt_seq_truncate", call_truncate, 8, false},
    {"vt_seq_record", call_record, 10, false},
    {"vt_seq_release", call_release, 12, false},
    {"vt_seq_swap_out", call_swap_out, 3, false},
    {"vt_seq_swap_in", call_swap_in, 5, false},
    {"vt_seq_prepare", call_prepare, 6, false},
    {"vt_seq_wait", call_wait, 4, false},
    {"vt_step", call_step, 12, false},
    {"vt_work", call_work, 8, false},
    {"vt_settle", call_settle, 1, false},
    {"vt_trim", call_trim, 2, false},
    {"vt_evict", call_evict, 2, false},
    {"vt_set_budget", call_set_budget, 2, false},
    {"vt_domain_forget", call_forget, 1, false},
    {"vt_domain_set_quota", call_set_quota, 1, false},
    {"vt_retain", call_retain, 3, false},
};
enum { N_CALL = sizeof calls / sizeof calls[0] };

static const fuzz_call *draw_call(fuzz_world *w)
{
    uint32_t sum = 0, k = 0;
    for (uint32_t i = 0; i < N_CALL; i++) sum += calls[i].weight;
    for (uint32_t at = fuzz_draw(w, sum); at >= calls[k].weight; k++) at -= calls[k].weight;
    return &calls[k];
}

// What can be matched of all that was recorded.
typedef struct fuzz_matches {
    uint32_t n_tok[FUZZ_N_TALE];
} fuzz_matches;

static fuzz_matches look_up(const fuzz_world *w)
{
    fuzz_matches all;
    for (uint32_t k = 0; k < FUZZ_N_TALE; k++)
        all.n_tok[k] = vt_match(w->domain[w->tale[k].tenant], w->tale[k].tok, w->tale[k].n_tok);
    return all;
}

static void release_lost(fuzz_world *w)
{
    for (uint32_t i = 0; i < FUZZ_N_SEQ; i++) {
        if (!w->seq[i].s || !vt_seq_is_lost(w->seq[i].s)) continue;
        vt_seq_release(w->seq[i].s);
        w->seq[i].s = NULL;
    }
}

void fuzz_step(fuzz_world *w)
{
    const fuzz_call *call = draw_call(w);
    bool is_faulty = w->setup.fault_one_in > 0 && fuzz_draw(w, 2);
    fuzz_matches before = look_up(w);
    w->call = call->name;
    w->n_call++;
    if (is_faulty) vt_fault_arm_random(w->fault, w->rng, w->setup.fault_one_in);
    w->st = call->run(w);
    vt_fault_disarm(w->fault);
    if (w->setup.fault_one_in == 0 && (w->st == VT_EDEVICE || w->st == VT_ENOMEM))
        fuzz_fail(w, "the device works", FUZZ_N_SEQ);
    fuzz_matches after = look_up(w);
    if (call->loses_none && w->st == VT_NOSPACE && !(is_faulty && vt_fault_fired(w->fault) > 0) &&
        memcmp(&before, &after, sizeof before) != 0)
        fuzz_fail(w, "a prefix is lost", FUZZ_N_SEQ);
    fuzz_look(w);
    release_lost(w);
}
