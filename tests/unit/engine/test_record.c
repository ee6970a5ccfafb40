// test_record.c - the flight recorder: what an engine notes, in which order, and what a full ring
// drops.
#include "unit/cmocka_all.h"

#include "engine/record/record.h"
#include "model/model.h"
#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT_TOK = 40, ANSWER_TOK = 3, MAX_SEEN = 4096 };

// ---- the ring ----------------------------------------------------------------------------------

static void add_numbered(fxi_recorder *r, uint64_t k)
{
    fxi_recorder_add(r, &(fx_record){.at_us = k, .request = 3 * k, .n_tok = (uint32_t)k});
}

static void check_numbered(const fx_record *ev, size_t n, uint64_t first)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ev[i].at_us, first + i);
        assert_int_equal(ev[i].request, 3 * (first + i));
        assert_int_equal(ev[i].n_tok, first + i);
    }
}

FX_TEST(test_the_oldest_are_dropped_and_counted)
{
    fx_record ev[16];
    uint64_t first;
    fxi_recorder *r = fxi_recorder_make(8);
    assert_non_null(r);
    assert_int_equal(fxi_recorder_copy(r, 0, ev, 16, &first), 0);
    assert_int_equal(first, 0);
    for (uint64_t k = 0; k < 8; k++) add_numbered(r, k);
    assert_int_equal(fxi_recorder_copy(r, 0, ev, 16, &first), 8);
    assert_int_equal(first, 0);
    for (uint64_t k = 8; k < 21; k++) add_numbered(r, k);
    assert_int_equal(fxi_recorder_copy(r, 4, ev, 16, &first), 8);
    assert_int_equal(first, 13); // 4 .. 12 are gone
    check_numbered(ev, 8, first);
    free(r);
}

// In pieces, without a gap, and from numbers that are still to come.
FX_TEST(test_copies_go_on)
{
    fx_record ev[3];
    uint64_t from = 0, first;
    fxi_recorder *r = fxi_recorder_make(8);
    for (uint64_t k = 0; k < 8; k++) add_numbered(r, k);
    for (size_t n; (n = fxi_recorder_copy(r, from, ev, 3, &first)) > 0; from += n) {
        assert_int_equal(first, from);
        check_numbered(ev, n, from);
    }
    assert_int_equal(from, 8);
    assert_int_equal(fxi_recorder_copy(r, 100, ev, 3, &first), 0);
    assert_int_equal(first, 8);
    assert_int_equal(fxi_recorder_copy(r, 2, ev, 0, &first), 0);
    assert_int_equal(first, 2);
    free(r);
}

typedef struct race {
    fxi_recorder *r;
    atomic_bool stop;
} race;

static void *add_on_and_on(void *arg)
{
    race *x = arg;
    for (uint64_t k = 0; !atomic_load(&x->stop); k++) add_numbered(x->r, k);
    return NULL;
}

// Beside a writer that goes round and round, whatever is copied is whole and in order.
FX_TEST(test_readers_see_whole_events)
{
    fx_record ev[8];
    pthread_t thread;
    race x = {.r = fxi_recorder_make(8)};
    uint64_t from = 0, first, n_seen = 0;
    assert_int_equal(pthread_create(&thread, NULL, add_on_and_on, &x), 0);
    while (n_seen < 20000) {
        const size_t n = fxi_recorder_copy(x.r, from, ev, 8, &first);
        assert_true(first >= from);
        check_numbered(ev, n, first);
        from = first + n;
        n_seen += n;
    }
    atomic_store(&x.stop, true);
    pthread_join(thread, NULL);
    free(x.r);
}

// ---- the engine --------------------------------------------------------------------------------

static uint64_t clock_us;

static uint64_t our_clock(void *ud)
{
    (void)ud;
    return clock_us++;
}

static fx_engine *open_here(fx_options opt)
{
    fx_engine *eng = unthreaded_open_single(MODEL, opt);
    clock_us = 1000;
    eng->journal.now_us = our_clock;
    return eng;
}

static void note_last(void *ud, const fx_event *ev)
{
    *(bool *)ud = ev->last;
}

static uint64_t submit(fx_engine *eng, fx_request req, const prompt *p, bool *last)
{
    req.on_event = note_last;
    req.ud = last;
    *last = false;
    return unthreaded_submit(eng, req, p->tok, PROMPT_TOK, ANSWER_TOK);
}

static void finish(fx_engine *eng, const bool *last)
{
    while (!*last) (void)fxi_iteration_run(eng);
}

// All events as one text. Times are left out, and memory, which depends on the size of pages.
static const char *story_of(const fx_engine *eng, uint64_t from)
{
    static fx_record ev[MAX_SEEN];
    static char text[MAX_SEEN * 32];
    uint64_t first, at_us = 0;
    size_t at = 0;
    const size_t n = fx_record_copy(eng, from, ev, MAX_SEEN, &first);
    assert_int_equal(first, from);
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(ev[i].at_us > at_us);
        at_us = ev[i].at_us;
        if (ev[i].kind == FX_RECORD_memory) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%d.%d %s %u %u %u\n",
                               (int)ev[i].request, ev[i].choice, fx_record_name(ev[i].kind),
                               ev[i].n_tok, ev[i].n, ev[i].status);
    }
    return text;
}

static uint64_t count_events(const fx_engine *eng)
{
    fx_record ev;
    uint64_t first;
    (void)fx_record_copy(eng, UINT64_MAX, &ev, 1, &first);
    return first;
}

// A line: request.choice event n_tok n status.
static const char two_choices[] = "1.0 arrive 40 2 0\n"
                                  "1.0 match 0 1 0\n"
                                  "1.0 admit 40 2 0\n"
                                  "1.0 extend 40 1 0\n"
                                  "0.0 step_begin 40 1 0\n"
                                  "1.0 record 40 1 0\n"
                                  "1.1 fork 40 1 0\n"
                                  "0.0 step_end 2 0 0\n"
                                  "0.0 extend 2 2 0\n"
                                  "0.0 step_begin 2 2 0\n"
                                  "0.0 step_end 2 0 0\n"
                                  "0.0 extend 2 2 0\n"
                                  "0.0 step_begin 2 2 0\n"
                                  "0.0 step_end 2 0 0\n"
                                  "1.0 record 42 1 0\n"
                                  "1.0 release 42 1 0\n"
                                  "1.1 record 42 1 0\n"
                                  "1.1 release 42 1 0\n"
                                  "1.0 finish 40 2 2\n";
static const char known_prompt[] = "2.0 arrive 40 1 0\n"
                                   "2.0 match 39 1 0\n"
                                   "2.0 admit 40 1 0\n"
                                   "0.0 extend 1 1 0\n"
                                   "0.0 step_begin 1 1 0\n"
                                   "2.0 record 40 1 0\n"
                                   "0.0 step_end 1 0 0\n"
                                   "0.0 extend 1 1 0\n"
                                   "0.0 step_begin 1 1 0\n"
                                   "0.0 step_end 1 0 0\n"
                                   "0.0 extend 1 1 0\n"
                                   "0.0 step_begin 1 1 0\n"
                                   "0.0 step_end 1 0 0\n"
                                   "2.0 record 42 1 0\n"
                                   "2.0 release 42 1 0\n"
                                   "2.0 finish 40 1 2\n";

FX_TEST(test_the_story_of_a_request)
{
    fx_engine *eng = open_here((fx_options){0});
    prompt a = make_prompt(0);
    bool last;
    fx_request req = fx_request_default();
    req.n_choice = 2;
    assert_int_equal(submit(eng, req, &a, &last), 1);
    finish(eng, &last);
    assert_string_equal(story_of(eng, 0), two_choices);
    unthreaded_close(eng);
}

// The prompt that is recorded already: a match instead of a forward pass.
FX_TEST(test_a_match_is_noted)
{
    fx_engine *eng = open_here((fx_options){0});
    prompt a = make_prompt(0);
    bool last;
    submit(eng, fx_request_default(), &a, &last);
    finish(eng, &last);
    const uint64_t from = count_events(eng);
    submit(eng, fx_request_default(), &a, &last);
    finish(eng, &last);
    assert_string_equal(story_of(eng, from), known_prompt);
    unthreaded_close(eng);
}

// Whatever the number of sequences: one extension of all of them, the step's begin and end, and
// the memory after it.
FX_TEST(test_a_step_of_decodes_costs_four_events)
{
    enum { N = 8 };
    fx_engine *eng = open_here((fx_options){.max_seq = N});
    prompt p[N];
    bool last[N];
    for (int i = 0; i < N; i++) {
        p[i] = make_prompt(i);
        submit(eng, fx_request_default(), &p[i], &last[i]);
    }
    (void)fxi_iteration_run(eng);
    while (eng->sched.running.n_seq == N) {
        const uint64_t before = count_events(eng);
        (void)fxi_iteration_run(eng);
        if (eng->sched.running.n_seq == N) assert_int_equal(count_events(eng), before + 4);
    }
    unthreaded_close(eng);
}

// What happened to a request as a whole, in order; calls of its caches left out.
static const char *states_of(const fx_engine *eng, uint64_t request)
{
    static fx_record ev[MAX_SEEN];
    static char text[512];
    uint64_t first;
    size_t at = 0;
    const size_t n = fx_record_copy(eng, 0, ev, MAX_SEEN, &first);
    text[0] = 0;
    for (size_t i = 0; i < n; i++)
        if (ev[i].request == request && ev[i].kind >= FX_RECORD_arrive &&
            ev[i].kind <= FX_RECORD_preempt)
            at += (size_t)snprintf(text + at, sizeof text - at, " %s", fx_record_name(ev[i].kind));
    return text;
}

static void run_preempted(fxi_preempt_how how, const char *want)
{
    fx_engine *eng = open_here((fx_options){.swap_bytes = 16 << 20});
    prompt p[2] = {make_prompt(0), make_prompt(1)};
    bool last[2];
    for (int i = 0; i < 2; i++) submit(eng, fx_request_default(), &p[i], &last[i]);
    (void)fxi_iteration_run(eng);
    fxi_preempt_request(&eng->memory, eng->sched.running.tail, how);
    for (int i = 0; i < 2; i++) finish(eng, &last[i]);
    assert_string_equal(states_of(eng, 1), " arrive admit finish");
    assert_string_equal(states_of(eng, 2), want);
    unthreaded_close(eng);
}

FX_TEST(test_the_ways_of_preemption)
{
    run_preempted(FXI_RECOMPUTE, " arrive admit preempt wait admit finish");
    run_preempted(FXI_SWAP, " arrive admit preempt leave away come admit finish");
}

static size_t count_kind(const fx_engine *eng, int kind)
{
    static fx_record ev[1 << 16];
    uint64_t first;
    const size_t n = fx_record_copy(eng, 0, ev, 1 << 16, &first);
    size_t n_kind = 0;
    for (size_t i = 0; i < n; i++) n_kind += ev[i].kind == kind;
    return n_kind;
}

// Budgets change, memory is short: what the statistics count, the events tell.
FX_TEST(test_events_agree_with_the_statistics)
{
    enum { N = 10 };
    fx_engine *eng = open_here((fx_options){.max_seq = N});
    prompt p[N];
    bool last[N];
    fx_stats st;
    fx_details d;
    fx_request req = fx_request_default();
    for (int i = 0; i < N; i++) {
        p[i] = make_prompt(i);
        submit(eng, req, &p[i], &last[i]);
    }
    (void)fxi_iteration_run(eng);
    assert_int_equal(
        fx_set_kv_memory(eng, fxi_request_alone_bytes(&eng->service, 2 * PROMPT_TOK), NULL), FX_OK);
    for (int i = 0; i < N; i++) finish(eng, &last[i]);
    fx_engine_stats(eng, &st);
    fx_engine_details(eng, &d);
    assert_true(st.n_preempt_recompute > 0);
    assert_int_equal(count_kind(eng, FX_RECORD_preempt), st.n_preempt_recompute);
    assert_true(count_kind(eng, FX_RECORD_evict) > 0);
    assert_int_equal(count_kind(eng, FX_RECORD_budget), 1);
    static fx_record ev[1 << 16];
    uint64_t first;
    size_t n = fx_record_copy(eng, 0, ev, 1 << 16, &first);
    while (n > 0 && ev[n - 1].kind != FX_RECORD_memory) n--;
    assert_true(n > 0);
    const fx_record memory = ev[n - 1];
    assert_int_equal(memory.mapped_kib, st.kv_mapped_bytes >> 10);
    assert_int_equal(memory.live_kib, st.kv_live_bytes >> 10);
    assert_int_equal(memory.shared_kib, st.kv_shared_bytes >> 10);
    assert_int_equal(count_kind(eng, FX_RECORD_step_begin), st.n_step);
    assert_int_equal(count_kind(eng, FX_RECORD_step_end), st.n_step);
    assert_int_equal(count_kind(eng, FX_RECORD_arrive), N);
    assert_int_equal(count_kind(eng, FX_RECORD_finish), N);
    assert_int_equal(count_kind(eng, FX_RECORD_match), d.kv[FX_KV_match].n_call);
    assert_int_equal(count_kind(eng, FX_RECORD_record), d.kv[FX_KV_record].n_call);
    unthreaded_close(eng);
}

// A pass during which request 1 is cancelled, once it computes drafted tokens.
static struct {
    fxi_model_ops ops;
    const fxi_model_ops *real;
    fx_engine *eng;
} cancelling;

static fx_status pass_and_cancel(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err)
{
    if (b->seq[0].pos == PROMPT_TOK) {
        assert_int_equal(b->seq[0].n_tok, 2);
        fx_cancel(cancelling.eng, 1);
    }
    return cancelling.real->submit(m, b, logits, err);
}

static int draft_sevens(void *ud, const fxi_seq *s, int32_t *tok, int most)
{
    (void)ud, (void)s;
    for (int i = 0; i < most; i++) tok[i] = 7;
    return most;
}

// What the pass has computed of a cancelled sequence counts, without its draft.
FX_TEST(test_a_cancel_beside_a_pass_keeps_the_count)
{
    fx_engine *eng = open_here((fx_options){.speculate = "auto"});
    prompt p = make_prompt(0);
    bool last;
    eng->draft_hooks.drafter = draft_sevens;
    cancelling.eng = eng;
    cancelling.real = eng->model->ops;
    cancelling.ops = *cancelling.real;
    cancelling.ops.submit = pass_and_cancel;
    eng->model->ops = &cancelling.ops;
    submit(eng, fx_request_default(), &p, &last);
    finish(eng, &last);
    const char *end = strstr(story_of(eng, 0), "1.0 release");
    assert_non_null(end);
    assert_string_equal(end, "1.0 release 41 1 0\n1.0 finish 40 1 3\n");
    unthreaded_close(eng);
}

// Off: answers are the same, and there is nothing to copy.
FX_TEST(test_it_can_be_off)
{
    fx_engine *eng = open_here((fx_options){.n_record = -1});
    prompt p = make_prompt(0);
    bool last;
    fx_record ev[1];
    uint64_t first;
    submit(eng, fx_request_default(), &p, &last);
    finish(eng, &last);
    assert_null(eng->journal.recorder);
    assert_int_equal(fx_record_copy(eng, 3, ev, 1, &first), 0);
    assert_int_equal(first, 0);
    unthreaded_close(eng);
}

FX_RUN(test_record)
