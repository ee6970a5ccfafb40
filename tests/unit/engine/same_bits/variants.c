// variants.c - see variants.h.
#include "unit/engine/same_bits/variants.h"

#include "suite.h"
#include "unit/cmocka_all.h"
#include "unit/engine/support/unthreaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BATCH = 16, MAX_SEQ = 32, MAX_CHUNK = 512, MAX_DRAFT = 6 };

// ---- the axes ----------------------------------------------------------------------------------

static const int chunks[N_CHUNK_LEVEL] = {512, 64, 7, 1};
static const int batches[N_BATCH_LEVEL] = {1, 3, MAX_BATCH};
static const int threads[N_THREAD_LEVEL] = {1, 2};

static const struct preempt_row {
    const char *name;
    bool is_done;
    fxi_preempt_how how;
    bool forget; // and what was recorded is dropped, so that everything is computed again
} preempts[N_PREEMPT_LEVEL] = {
    {"never preempted", false, FXI_RECOMPUTE, false},
    {"recomputed at every step", true, FXI_RECOMPUTE, false},
    {"swapped at every step", true, FXI_SWAP, false},
    {"recomputed from nothing", true, FXI_RECOMPUTE, true},
};

static const struct start_row {
    const char *name;
    int n_before;  // tokens of its prompt in an earlier request; -1: the same request ran before
    bool has_twin; // the same request, submitted just before, runs at the same time
    bool no_cache;
} starts[N_START] = {
    [COLD] = {"cold", 0, false, false},
    [WARM_MID_CHUNK] = {"warm by 57", 57, false, false},
    [WARM_BY_ALL] = {"warm by itself", -1, false, false},
    [BESIDE_TWIN] = {"beside its twin", 0, true, false},
    [WARM_BY_FEW] = {"warm by 5", 5, false, false},
    [WARM_BY_64] = {"warm by 64", 64, false, false},
    [NO_CACHE] = {"without the cache", 57, false, true},
};

static const char *const breaker = ",";

// clang-format off
static const struct kind_row {
    const char *name;
    fx_sampling sampling;
    int n_choice, n_best, beam_width;
    bool prompt_probs;
} kinds[N_KIND] = {
    [GREEDY] = {"greedy", {.temperature = 0, .top_p = 1}, 1, 0, 0, false},
    [SEEDED] = {"seeded", {.temperature = 1, .top_p = 0.95f, .seed = 7}, 1, 0, 0, false},
    [FORKS] = {"4 choices", {.temperature = 1, .top_p = 0.95f, .seed = 7}, 4, 0, 0, false},
    [BEAMS] = {"4 beams", {.temperature = 0, .top_p = 1}, 4, 0, 4, false},
    [PROMPT_PROBS] = {"prompt logprobs", {.temperature = 0, .top_p = 1}, 1, 0, 0, true},
    [BEST_OF] = {"2 best of 4", {.temperature = 1.3f, .top_p = 1, .seed = 1ull << 40},
                 2, 4, 0, false},
    [ALL_RULES] = {"all rules", {.temperature = 0.8f, .top_k = 60, .top_p = 0.98f, .min_p = 0.001f,
                                 .typical_p = 0.99f, .repetition_penalty = 1.2f,
                                 .presence_penalty = 0.5f, .frequency_penalty = 0.25f,
                                 .dry_multiplier = 0.8f, .dry_base = 1.75f, .dry_last_tok = -1,
                                 .dry_breaker = &breaker, .n_dry_breaker = 1,
                                 .xtc_probability = 0.5f, .xtc_threshold = 0.05f, .seed = 3},
                   2, 0, 0, false},
};
// clang-format on

static const char *const drafts[N_DRAFTS] = {"nothing", "the answer", "anything", "what is wrong"};

static void name_variant(const rig *r, const variant *v, char out[256])
{
    snprintf(out, 256, "%s, %s, chunks of %d, batch of %d, %d threads, %s, %s, %s drafted", r->name,
             kinds[v->kind].name, chunks[v->chunk], batches[v->batch], threads[v->thread],
             preempts[v->preempt].name, starts[v->start].name, drafts[v->draft]);
}

// ---- one request -------------------------------------------------------------------------------

// Closed after three tokens, as if it had been drawn so.
static const int32_t closing[] = {7, 8};
static const fx_thought thought = {.open = {"?"},
                                   .close = {"no such mark"},
                                   .opened = true,
                                   .max_tok = 3,
                                   .close_tok = closing,
                                   .n_close = 2};

fx_request rig_request(const rig *r, int kind, bits_answer *out)
{
    const struct kind_row *k = &kinds[kind];
    fx_request req = bits_request(r->prompt, r->n_prompt, r->n_gen, out);
    req.sampling = k->sampling;
    if (kind == BEST_OF) req.thought = &thought;
    req.n_choice = k->n_choice;
    req.n_best = k->n_best;
    req.beam_width = k->beam_width;
    req.logprobs = true;
    req.n_top = BITS_TOP;
    req.prompt_logprobs = k->prompt_probs;
    req.n_prompt_top = k->prompt_probs ? BITS_TOP : 0;
    return req;
}

// The same for one of the engines, with its grammar.
static fx_request request_to(const rig *r, const fx_engine *eng, int kind, bits_answer *out)
{
    fx_request req = rig_request(r, kind, out);
    for (int i = 0; kind == ALL_RULES && i < N_THREAD_LEVEL; i++)
        if (r->eng[i] == eng) req.grammar = r->grammar[i];
    return req;
}

void rig_make_cold(fx_engine *eng)
{
    assert_null(eng->sched.running.head);
    fxi_cache_forget_idle(&eng->memory);
    if (fxi_kv_can(eng->kv, FXI_KV_ELASTIC)) assert_int_equal(fxi_kv_trim(eng->kv, 0), FX_OK);
}

static void make_warm(const rig *r, fx_engine *eng, const variant *v)
{
    static bits_answer before;
    const int n = starts[v->start].n_before;
    fx_request req = request_to(r, eng, n < 0 ? v->kind : GREEDY, &before);
    if (n > 0) {
        req.n_prompt = (size_t)n;
        req.max_tok = 1;
    }
    if (n) bits_ask(eng, &req, &before);
}

// Other requests that decode in the meantime.
typedef struct company {
    uint64_t id[MAX_BATCH];
    int n, n_decoding;
} company;

static void note_decoding(void *ud, const fx_event *ev)
{
    company *c = ud;
    if (ev->n_generated == 1 && ev->token >= 0) c->n_decoding++;
}

static void call_company(company *c, fx_engine *eng, int n)
{
    static bits_answer unused;
    *c = (company){.n = n};
    for (int i = 0; i < n; i++) {
        const int32_t prompt[] = {10 + i, (20 + i * i) % eng->info.n_vocab};
        fx_request req = bits_request(prompt, 2, -1, &unused);
        req.on_event = note_decoding;
        req.ud = c;
        c->id[i] = bits_submit(eng, &req);
    }
    while (c->n_decoding < n) (void)fxi_iteration_run(eng);
}

// ---- treatments --------------------------------------------------------------------------------

static int total_tok(const fxi_live_request *g)
{
    int n = 0;
    for (int i = 0; i < g->n_seq; i++) n += g->seq[i].n_tok;
    return n;
}

// Whether what has been computed comes back after this preemption, to the token.
static bool survives(const fx_engine *eng, const variant *v)
{
    const struct preempt_row *p = &preempts[v->preempt];
    if (p->how == FXI_SWAP && fxi_kv_can(eng->kv, FXI_KV_SWAP)) return !p->forget;
    return !p->forget && !starts[v->start].no_cache && fxi_kv_can(eng->kv, FXI_KV_EXACT);
}

// A preemption that loses everything computed happens only after some more tokens, or the request
// would never end. True: it was preempted.
static bool preempt(fx_engine *eng, const variant *v, fxi_live_request *g, int *n_tok)
{
    enum { LOSS_TOK = 5 };
    const struct preempt_row *p = &preempts[v->preempt];
    const bool loses_all = !survives(eng, v);
    if (!p->is_done || g->state != FXI_RUNNING) return false;
    if (loses_all && total_tok(g) < *n_tok + LOSS_TOK) return false;
    *n_tok = total_tok(g);
    for (fxi_live_request *r = loses_all ? g : eng->sched.running.head, *next; r; r = next) {
        next = loses_all ? NULL : r->next;
        fxi_preempt_request(&eng->memory, r, p->how);
    }
    if (p->forget) fxi_cache_forget_idle(&eng->memory);
    return true;
}

// A cache, and its length compared so far.
typedef struct watch {
    const fxi_kv_seq *kv;
    int n_seen;
} watch;

static void check_rows(rig *r, const variant *v, const fxi_seq *s, watch *w)
{
    bits_diff d;
    char where[256];
    if (r->settle) r->settle();
    if (w->kv != s->kv || w->n_seen > s->n_computed) *w = (watch){s->kv, 0};
    if (!s->kv || bits_ledger_check(r->ledger, r->eng[v->thread], s, w->n_seen, &d)) {
        w->n_seen = s->n_computed;
        return;
    }
    name_variant(r, v, where);
    fail_msg("%s: choice %d, position %d: first difference in the %s of layer %d", where, s->choice,
             d.position, d.in_values ? "values" : "keys", d.layer);
}

// The worker of grammars does only what somebody waits for.
static void run_iteration(fx_engine *eng)
{
    unthreaded_pause_grammars(eng, !eng->sched.n_deferred);
    (void)fxi_iteration_run(eng);
}

// Runs iterations until the last event, and does to the request what the variant says.
static void follow(rig *r, const variant *v, uint64_t id, const bits_answer *got)
{
    fx_engine *eng = r->eng[v->thread];
    watch w[BITS_MAX_CHOICE] = {{NULL, 0}};
    for (int n_tok = 0; run_iteration(eng), !got->last;) {
        fxi_live_request *g = bits_live_request(eng, id);
        for (int i = 0; i < g->n_seq; i++)
            if (g->state == FXI_RUNNING) check_rows(r, v, &g->seq[i], &w[i]);
        if (preempt(eng, v, g, &n_tok)) memset(w, 0, sizeof w);
    }
}

static fx_grammar *make_grammar(const fx_engine *eng)
{
    static const char words[] = "(?:[^E]{1,9}[0-9 ,.])+";
    const fx_part root = {.kind = FX_PART_REGEX, .text = words, .n_bytes = sizeof words - 1};
    fx_error err = {0};
    fx_grammar *g;
    if (fx_grammar_compile(eng, &root, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

// One that has learnt nothing. On one of the engines the engine's thread finds out nothing itself:
// sequences are late for each of its states (run_iteration).
static void renew_grammar(rig *r, int thread)
{
    fx_engine *eng = r->eng[thread];
    fx_grammar_release(r->grammar[thread]);
    fxi_grammars_forget(&eng->grammars);
    r->grammar[thread] = make_grammar(eng);
    eng->sched.mask_spend = thread ? 0 : FXI_MATCHER_NO_LIMIT;
}

static void run(rig *r, const variant *v, bits_answer *out)
{
    static bits_answer twin;
    static company others;
    fx_engine *eng = r->eng[v->thread];
    const struct start_row *start = &starts[v->start];
    if (v->kind == ALL_RULES) renew_grammar(r, v->thread);
    fx_request req = request_to(r, eng, v->kind, out), req2 = request_to(r, eng, v->kind, &twin);
    // The company decodes in every step; the rest of a step is a chunk.
    const int n_seq = fxi_request_n_seq(&req) * (1 + start->has_twin);
    const int n_other = batches[v->batch] - 1;
    eng->opt.max_seq = n_other + n_seq;
    eng->opt.step_tok = n_other + (chunks[v->chunk] > n_seq ? chunks[v->chunk] : n_seq);
    r->drafter.kind = v->draft;
    r->drafter.want = v->draft ? &r->want[v->kind] : NULL;
    rig_make_cold(eng);
    make_warm(r, eng, v);
    call_company(&others, eng, batches[v->batch] - 1);
    if (start->has_twin) (void)bits_submit(eng, &req2);
    req.no_cache = start->no_cache;
    follow(r, v, bits_submit(eng, &req), out);
    if (start->has_twin) bits_finish(eng, &twin);
    for (int i = 0; i < others.n; i++) fx_cancel(eng, others.id[i]);
    while (eng->sched.running.head || eng->sched.waiting.head || eng->sched.aside.head)
        (void)fxi_iteration_run(eng);
    // The settings that the engine was opened with.
    eng->opt.max_seq = MAX_SEQ;
    eng->opt.step_tok = MAX_SEQ + MAX_CHUNK;
}

// ---- many of them ------------------------------------------------------------------------------

const bits_answer *rig_want(rig *r, int kind)
{
    bits_answer *want = &r->want[kind];
    if (want->last) return want;
    run(r, &(variant){.kind = kind}, want);
    for (int i = 0; i < want->n_choice; i++) {
        assert_int_equal(want->choice[i].n_tok, r->n_gen);
        assert_int_equal(want->choice[i].finish, FX_FINISH_LENGTH);
    }
    return want;
}

void rig_compare(rig *r, const variant *v)
{
    static bits_answer got;
    char where[256], what[128];
    const bits_answer *want = rig_want(r, v->kind);
    run(r, v, &got);
    if (bits_same_answer(&got, want, what)) return;
    name_variant(r, v, where);
    fail_msg("%s: %s", where, what);
}

// Columns of an orthogonal array: any two columns (a + c b) mod n take all pairs of values.
void rig_compare_pairs(rig *r, int n_level)
{
    rig_compare_some_pairs(r, n_level, 1, 0);
}

void rig_compare_some_pairs(rig *r, int n_level, int every, int first)
{
    for (int i = 0; i < n_level * n_level; i++) {
        if (!suite_takes((size_t)(i + first), (size_t)every)) continue;
        const int a = i / n_level, b = i % n_level;
        const variant v = {.kind = a,
                           .start = b,
                           .chunk = (a + b) % n_level % N_CHUNK_LEVEL,
                           .preempt = (a + 2 * b) % n_level % N_PREEMPT_LEVEL,
                           .batch = (a + 3 * b) % n_level % N_BATCH_LEVEL,
                           .thread = (a + 4 * b) % n_level % N_THREAD_LEVEL,
                           .draft = (enum drafts)((a + 5 * b) % n_level % N_DRAFTS)};
        rig_compare(r, &v);
    }
}

void rig_check_preemptions(const rig *r)
{
    const bool swaps = fxi_kv_can(r->eng[0]->kv, FXI_KV_SWAP);
    const bool is_exact = fxi_kv_can(r->eng[0]->kv, FXI_KV_EXACT);
    for (int i = 0; i < N_THREAD_LEVEL; i++) {
        fx_stats st;
        fx_engine_stats(r->eng[i], &st);
        assert_true(!swaps || st.n_preempt_swap > 50);
        assert_true(st.n_preempt_recompute > (is_exact ? 50 : 20)); // see preempt
    }
}

void rig_check_drafts(const rig *r)
{
    for (int i = 0; i < N_THREAD_LEVEL; i++) {
        fx_stats st;
        fx_engine_stats(r->eng[i], &st);
        assert_true(st.n_draft > 50 && st.n_accepted_tok > 50);
        assert_true(st.n_draft_tok > st.n_accepted_tok + 50);
    }
}

// ---- models ------------------------------------------------------------------------------------

static const struct model_row {
    const char *name, *path, *kv_type, *manager;
    memory_maker *make_memory; // of the cache; NULL: the device's
    const char *device, *math; // NULL: the host, or law
} models[] = {
    [TINY] = {"tiny-f32", FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf", NULL, NULL, NULL,
              NULL, NULL},
    [STORYTELLER] = {"storyteller", FX_SOURCE_DIR "/models/storyteller.gguf", NULL, NULL, NULL,
                     NULL, NULL},
    [STORIES] = {"stories260K", FX_SOURCE_DIR "/../shared/data/models/stories260K.gguf", NULL, NULL,
                 NULL, NULL, NULL},
    [STORYTELLER_Q8_KV] = {"storyteller, cache q8_0", FX_SOURCE_DIR "/models/storyteller.gguf",
                           "q8_0", NULL, NULL, NULL, NULL},
    [TINY_F32_KV] = {"tiny-f32, cache f32", FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf",
                     "f32", NULL, NULL, NULL, NULL},
    [TINY_BF16] = {"tiny-bf16", FX_SOURCE_DIR "/tests/vectors/logits/tiny-bf16.gguf", NULL, NULL,
                   NULL, NULL, NULL},
    [WINDOWED] = {"gemma3", FX_SOURCE_DIR "/tests/vectors/models/gemma3.gguf", NULL, NULL, NULL,
                  NULL, NULL},
};

bool model_is_present(int model)
{
    if (access(models[model].path, R_OK) == 0) return true;
    print_message("%s skipped: ../shared/data not present\n", models[model].name);
    return false;
}

static fx_engine *open_engine(const struct model_row *m, int ctx_tok, int n_thread)
{
    fx_options opt = {.n_thread = n_thread,
                      .ctx_tok = ctx_tok,
                      .kv_memory_bytes = m->manager || m->device ? 48 << 20 : 256 << 20,
                      .kv_manager = m->manager,
                      .kv_type = m->kv_type,
                      .max_seq = MAX_SEQ,
                      .step_tok = MAX_SEQ + MAX_CHUNK,
                      .swap_bytes = 64 << 20,
                      .speculate = "auto",
                      .draft_tok = MAX_DRAFT,
                      .device = m->device,
                      .gpu_math = m->math};
    if (m->make_memory) return unthreaded_open_over(m->make_memory(), m->path, opt);
    return unthreaded_open(m->path, opt);
}

// Words without one letter, of up to 9 characters, and a digit or a mark behind each: every model's
// vocabulary has digits.
static rig *open_rig(const struct model_row *m, int ctx_tok, int n_prompt, int n_gen)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->name = m->name;
    r->n_prompt = n_prompt;
    r->n_gen = n_gen;
    for (int i = 0; i < N_THREAD_LEVEL; i++) {
        r->eng[i] = open_engine(m, ctx_tok, threads[i]);
        r->grammar[i] = make_grammar(r->eng[i]);
        r->eng[i]->draft_hooks.drafter = drafter_guess;
        r->eng[i]->draft_hooks.ud = &r->drafter;
    }
    r->ledger = bits_ledger_make(r->eng[0]);
    const int n_vocab = r->eng[0]->info.n_vocab;
    r->drafter = (drafter){.prompt = r->prompt, .n_prompt = n_prompt, .n_vocab = n_vocab};
    for (int i = 0; i < n_prompt; i++)
        r->prompt[i] = i ? 3 + (i * i * 7 + i * 13) % (n_vocab - 3) : 1;
    return r;
}

rig *rig_open(int model, int n_prompt, int n_gen)
{
    return open_rig(&models[model], RIG_CTX_TOK, n_prompt, n_gen);
}

rig *rig_open_device(int model, const rig_device *on, int n_prompt, int n_gen)
{
    struct model_row row = models[model];
    row.device = on->name;
    row.math = on->math;
    row.manager = on->manager;
    return open_rig(&row, RIG_CTX_TOK, n_prompt, n_gen);
}

rig *rig_open_managed(int model, const char *manager, int n_prompt, int n_gen)
{
    struct model_row row = models[model];
    row.manager = manager;
    return open_rig(&row, RIG_CTX_TOK, n_prompt, n_gen);
}

rig *rig_open_over(int model, memory_maker *make_memory, int n_prompt, int n_gen)
{
    struct model_row row = models[model];
    row.make_memory = make_memory;
    return open_rig(&row, RIG_CTX_TOK, n_prompt, n_gen);
}

rig *rig_open_file(const char *path, int n_prompt, int n_gen)
{
    return open_rig(&(struct model_row){.name = path, .path = path}, 0, n_prompt, n_gen);
}

void rig_close(rig *r)
{
    for (int i = 0; i < N_THREAD_LEVEL; i++) {
        fx_grammar_release(r->grammar[i]);
        unthreaded_close(r->eng[i]);
    }
    bits_ledger_free(r->ledger);
    free(r);
}
