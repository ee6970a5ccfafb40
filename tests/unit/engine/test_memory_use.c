// test_memory_use.c - memory follows the load: the memory of a cancelled request is free at once,
// whatever its state; a new budget, or a limit of the system, holds from the next step on and
// changes no answer; idle memory goes back to the system.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_PROMPT = 100, N_GEN = 40, N_REQUEST = 4, CTX_TOK = 1024 };

static fx_engine *open_engine(uint64_t kv_bytes, uint64_t swap_bytes)
{
    fx_options opt = {.n_thread = 1,
                      .ctx_tok = CTX_TOK,
                      .kv_memory_bytes = kv_bytes,
                      .max_seq = 8,
                      .step_tok = 24,
                      .swap_bytes = swap_bytes};
    fx_engine *eng = unthreaded_open_single(MODEL, opt);
    eng->hooks.ahead_tok = 0; // map only what is needed
    return eng;
}

static void make_prompt(int32_t tok[N_PROMPT], int which)
{
    for (int i = 0; i < N_PROMPT; i++) tok[i] = 3 + (which * 7 + i * i * 7 + i * 13) % 310;
}

static fxi_kv_stats memory(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    return st;
}

static uint64_t chunks(const fx_engine *eng, int n)
{
    return (uint64_t)n * fxi_kv_bytes_for(eng->kv, 1);
}

static void expect_nothing_left(fx_engine *eng)
{
    assert_null(eng->sched.running.head);
    assert_null(eng->sched.waiting.head);
    assert_int_equal(memory(eng).held_bytes, 0);
    assert_int_equal(memory(eng).swapped_bytes, 0);
    assert_int_equal(fxi_kv_forget_idle(eng->kv), FX_OK);
    assert_int_equal(fxi_kv_trim(eng->kv, 0), FX_OK);
    assert_int_equal(memory(eng).mapped_bytes, 0);
    unthreaded_check_manager(eng);
}

// ---- cancelling --------------------------------------------------------------------------------

typedef struct cancel_row {
    const char *state;
    int n_choice, n_best, beam_width;
    int max_seq;     // 0: as it was
    int n_iteration; // before it is cancelled
    bool is_preempted;
    fxi_preempt_how how;
    fxi_request_state is; // the state it must have then
} cancel_row;

static const cancel_row cancel_rows[] = {
    {"just submitted", 1, 0, 0, 0, 0, false, 0, FXI_WAITING},
    {"waiting for a place", 1, 0, 0, 1, 3, false, 0, FXI_WAITING},
    {"waiting for four places", 4, 0, 0, 4, 3, false, 0, FXI_WAITING},
    {"reading its prompt", 1, 0, 0, 0, 2, false, 0, FXI_RUNNING},
    {"reading it for four", 4, 0, 0, 0, 2, false, 0, FXI_RUNNING},
    {"decoding", 1, 0, 0, 0, 12, false, 0, FXI_RUNNING},
    {"four choices", 4, 0, 0, 0, 12, false, 0, FXI_RUNNING},
    {"two of four", 2, 4, 0, 0, 12, false, 0, FXI_RUNNING},
    {"beams", 2, 0, 4, 0, 40, false, 0, FXI_RUNNING},
    {"preempted while it reads", 1, 0, 0, 0, 2, true, FXI_RECOMPUTE, FXI_WAITING},
    {"preempted", 4, 0, 0, 0, 12, true, FXI_RECOMPUTE, FXI_WAITING},
    {"preempted beams", 2, 0, 4, 0, 12, true, FXI_RECOMPUTE, FXI_WAITING},
    {"leaving while it reads", 1, 0, 0, 0, 2, true, FXI_SWAP, FXI_SWAPPING_OUT},
    {"leaving", 4, 0, 0, 0, 12, true, FXI_SWAP, FXI_SWAPPING_OUT},
    {"beams that leave", 2, 0, 4, 0, 40, true, FXI_SWAP, FXI_SWAPPING_OUT},
    {"swapped while it reads", 1, 0, 0, 0, 2, true, FXI_SWAP, FXI_SWAPPED},
    {"swapped", 4, 0, 0, 0, 12, true, FXI_SWAP, FXI_SWAPPED},
    {"swapped beams", 2, 0, 4, 0, 40, true, FXI_SWAP, FXI_SWAPPED},
    {"coming while it reads", 1, 0, 0, 0, 2, true, FXI_SWAP, FXI_SWAPPING_IN},
    {"coming", 4, 0, 0, 0, 12, true, FXI_SWAP, FXI_SWAPPING_IN},
    {"beams that come", 2, 0, 4, 0, 40, true, FXI_SWAP, FXI_SWAPPING_IN},
};

// A request that has left comes back at once if there is a place for it.
static void await_state(fx_engine *eng, const fxi_live_request *g, fxi_request_state state)
{
    const int max_seq = eng->opt.max_seq;
    if (state == FXI_SWAPPED) eng->opt.max_seq = 1;
    for (int n = 0; g->state != state && n < 100; n++) (void)fxi_iteration_run(eng);
    eng->opt.max_seq = max_seq;
}

// Brings the request into the state in which it is cancelled.
static void bring(fx_engine *eng, const cancel_row *row, uint64_t id)
{
    const int max_seq = eng->opt.max_seq;
    if (row->max_seq) eng->opt.max_seq = row->max_seq;
    for (int i = 0; i < row->n_iteration; i++) (void)fxi_iteration_run(eng);
    eng->opt.max_seq = max_seq;
    if (row->is_preempted) {
        fxi_preempt_request(&eng->memory, bits_live_request(eng, id), row->how);
        await_state(eng, bits_live_request(eng, id), row->is);
    }
    if (row->n_iteration) assert_int_equal(bits_live_request(eng, id)->state, row->is);
}

static void expect_cancelled(const bits_answer *a, int n_choice)
{
    assert_true(a->last);
    assert_int_equal(a->n_choice, n_choice);
    for (int i = 0; i < n_choice; i++) assert_int_equal(a->choice[i].finish, FX_FINISH_CANCEL);
}

static void check_cancel(const cancel_row *row)
{
    static bits_answer got, of_other;
    fx_engine *eng = open_engine(16 << 20, 16 << 20);
    int32_t tok[2][N_PROMPT];
    for (int i = 0; i < 2; i++) make_prompt(tok[i], i);
    fx_request req = bits_request(tok[0], N_PROMPT, -1, &of_other);
    const uint64_t other = bits_submit(eng, &req);
    while (!of_other.choice[0].n_tok) (void)fxi_iteration_run(eng);
    req = bits_request(tok[1], N_PROMPT, 200, &got);
    req.n_choice = row->n_choice;
    req.n_best = row->n_best;
    req.beam_width = row->beam_width;
    const uint64_t id = bits_submit(eng, &req);
    bring(eng, row, id);
    fx_cancel(eng, id);
    (void)fxi_iteration_run(eng);
    expect_cancelled(&got, row->n_choice);
    const int n_tok = bits_live_request(eng, other)->seq[0].n_computed;
    assert_int_equal(memory(eng).held_bytes, fxi_kv_bytes_for(eng->kv, n_tok));
    assert_int_equal(memory(eng).swapped_bytes, 0);
    assert_int_equal(eng->sched.n_swapped + eng->sched.n_swapping_out + eng->sched.n_swapping_in,
                     0);
    assert_int_equal(eng->sched.n_queued, 0);
    unthreaded_check_manager(eng);
    fx_cancel(eng, other);
    (void)fxi_iteration_run(eng);
    expect_nothing_left(eng);
    unthreaded_close(eng);
}

FX_TEST(test_cancelled_requests_hold_nothing)
{
    for (size_t i = 0; i < sizeof cancel_rows / sizeof *cancel_rows; i++)
        check_cancel(&cancel_rows[i]);
}

// Others wait for the prompt that it computes: the next one takes over.
FX_TEST(test_cancel_of_one_that_others_wait_for)
{
    static bits_answer alone, got[3];
    char what[128];
    fx_engine *eng = open_engine(16 << 20, 0);
    int32_t tok[N_PROMPT];
    make_prompt(tok, 5);
    fx_request req = bits_request(tok, N_PROMPT, N_GEN, &alone);
    req.no_cache = true;
    bits_ask(eng, &req, &alone);
    uint64_t id[3];
    for (int i = 0; i < 3; i++) {
        req = bits_request(tok, N_PROMPT, N_GEN, &got[i]);
        id[i] = bits_submit(eng, &req);
    }
    for (int i = 0; i < 2; i++) {
        (void)fxi_iteration_run(eng);
        fx_cancel(eng, id[i]);
    }
    bits_finish(eng, &got[2]);
    for (int i = 0; i < 2; i++) expect_cancelled(&got[i], 1);
    if (!bits_same_choice(&got[2].choice[0], &alone.choice[0], what)) fail_msg("%s", what);
    expect_nothing_left(eng);
    unthreaded_close(eng);
}

// ---- another budget ----------------------------------------------------------------------------

static bits_answer alone[N_REQUEST], got[N_REQUEST];
static int32_t prompt[N_REQUEST][N_PROMPT];

static fx_request request(int i, bits_answer *out)
{
    make_prompt(prompt[i], i);
    fx_request req = bits_request(prompt[i], N_PROMPT, N_GEN, out);
    req.sampling = (fx_sampling){.temperature = (float)(i % 2), .top_p = 1, .seed = 5};
    req.n_choice = 1 + (i == 2);
    return req;
}

static int ask_alone(void **state)
{
    (void)state;
    fx_engine *eng = open_engine(16 << 20, 0);
    for (int i = 0; i < N_REQUEST; i++) {
        const fx_request req = request(i, &alone[i]);
        bits_ask(eng, &req, &alone[i]);
    }
    unthreaded_close(eng);
    return 0;
}

static void submit_all(fx_engine *eng)
{
    for (int i = 0; i < N_REQUEST; i++) {
        const fx_request req = request(i, &got[i]);
        (void)bits_submit(eng, &req);
    }
}

// Mapped memory never exceeds the budget, but by what is on its way back to the system. The budget
// is in effect unless something is leaving for it.
static void expect_budget(const fx_engine *eng, uint64_t budget)
{
    const fxi_kv_stats st = memory(eng);
    assert_true(st.mapped_bytes <= st.budget_bytes + st.returning_bytes);
    if (!eng->sched.n_swapping_out) assert_int_equal(st.budget_bytes, budget);
}

// Until all have ended.
static void finish_all(fx_engine *eng, uint64_t budget)
{
    char what[128];
    while (fxi_iteration_run(eng)) expect_budget(eng, budget);
    for (int i = 0; i < N_REQUEST; i++) {
        assert_true(got[i].last);
        if (!bits_same_answer(&got[i], &alone[i], what)) fail_msg("request %d: %s", i, what);
    }
    expect_nothing_left(eng);
}

static void shrink_and_finish(uint64_t swap_bytes, int n_iteration)
{
    fx_engine *eng = open_engine(16 << 20, swap_bytes);
    fx_stats st;
    submit_all(eng);
    for (int i = 0; i < n_iteration; i++) (void)fxi_iteration_run(eng);
    const uint64_t was = memory(eng).held_bytes, least = chunks(eng, 6);
    assert_int_equal(fx_set_kv_memory(eng, least, NULL), FX_OK);
    finish_all(eng, least);
    fx_engine_stats(eng, &st);
    assert_int_equal(st.kv_budget_bytes, least);
    if (was > least) assert_true(st.n_preempt_recompute + st.n_preempt_swap > 0);
    unthreaded_close(eng);
}

FX_TEST(test_less_memory_costs_time_alone)
{
    for (int n_iteration = 0; n_iteration < 50; n_iteration += 7) {
        shrink_and_finish(0, n_iteration);
        shrink_and_finish(16 << 20, n_iteration);
    }
}

FX_TEST(test_more_memory_lets_the_waiting_in)
{
    fx_engine *eng = open_engine(16 << 20, 0);
    const uint64_t little = chunks(eng, 8), much = chunks(eng, 40);
    assert_int_equal(fx_set_kv_memory(eng, little, NULL), FX_OK);
    submit_all(eng);
    for (int i = 0; i < 8; i++) (void)fxi_iteration_run(eng);
    assert_non_null(eng->sched.waiting.head);
    assert_int_equal(fx_set_kv_memory(eng, much, NULL), FX_OK);
    (void)fxi_iteration_run(eng);
    assert_null(eng->sched.waiting.head);
    finish_all(eng, much);
    unthreaded_close(eng);
}

// A running request that the budget does not hold ends with an error once it runs alone.
FX_TEST(test_too_little_memory_ends_a_request)
{
    static bits_answer big;
    fx_engine *eng = open_engine(16 << 20, 16 << 20);
    fx_error err;
    assert_int_equal(fx_set_kv_memory(eng, chunks(eng, 1) - 1, &err), FX_EINVAL);
    make_prompt(prompt[0], 9);
    const fx_request req = bits_request(prompt[0], N_PROMPT, 600, &big);
    (void)bits_submit(eng, &req);
    while (big.choice[0].n_tok < 400) (void)fxi_iteration_run(eng);
    submit_all(eng);
    (void)fxi_iteration_run(eng);
    assert_int_equal(fx_set_kv_memory(eng, chunks(eng, 6), NULL), FX_OK);
    finish_all(eng, chunks(eng, 6));
    assert_int_equal(big.choice[0].finish, FX_FINISH_ERROR);
    assert_true(big.choice[0].error[0] != 0);
    unthreaded_close(eng);
}

// ---- idle --------------------------------------------------------------------------------------

static uint64_t clock_us;

static uint64_t read_clock(void *ud)
{
    (void)ud;
    return clock_us;
}

enum { S = 1000000 };

// Bytes mapped at this time after the last work, which ended at `since`.
static uint64_t mapped_at(fx_engine *eng, uint64_t since, uint64_t after_us)
{
    clock_us = since + after_us;
    do assert_false(fxi_iteration_run(eng));
    while (eng->memory.returning_bytes);
    return memory(eng).mapped_bytes;
}

// Leaves prompt and answer of the first one in the cache, and spare memory.
static void work(fx_engine *eng)
{
    for (int i = 0; i < N_REQUEST; i++) {
        fx_request req = request(i, &got[i]);
        req.no_cache = i != 0;
        bits_ask(eng, &req, &got[i]);
    }
}

// By the test's own clock: spare memory beyond 1/16 of the budget goes after 1 s, the prefixes
// after 10 minutes; work in between restarts the time.
FX_TEST(test_idle_memory_goes_back)
{
    fx_engine *eng = open_engine(16 << 20, 0);
    eng->journal.now_us = read_clock;
    clock_us = S;
    assert_int_equal(fx_set_kv_memory(eng, chunks(eng, 32), NULL), FX_OK);
    for (int round = 0; round < 2; round++) {
        work(eng);
        const uint64_t since = clock_us, worked = mapped_at(eng, since, 0);
        const uint64_t kept = memory(eng).cached_bytes + chunks(eng, 32 / 16);
        assert_true(worked >= kept); // by spare_high nearly all has gone
        assert_int_equal(mapped_at(eng, since, S - 1), worked);
        assert_int_equal(mapped_at(eng, since, S), kept);
        assert_int_equal(mapped_at(eng, since, 600 * S - 1), kept);
        if (round) assert_int_equal(mapped_at(eng, since, 600 * S), 0);
    }
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

// Prefixes stay for as long as the option says; fx_clear_cache does not wait for that.
FX_TEST(test_prefixes_stay_while_wanted)
{
    static const struct {
        int cache_idle_s;
        uint64_t kept_s, gone_s; // gone_s 0: never
    } rows[] = {{0, 599, 600}, {30, 29, 30}, {3, 2, 3}, {-1, 1000000, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fx_engine *eng =
            unthreaded_open_single(MODEL, (fx_options){.n_thread = 1,
                                                       .kv_memory_bytes = 16 << 20,
                                                       .cache_idle_s = rows[i].cache_idle_s});
        eng->journal.now_us = read_clock;
        clock_us = S;
        work(eng);
        const uint64_t since = clock_us;
        (void)mapped_at(eng, since, 0);
        (void)mapped_at(eng, since, rows[i].kept_s * S);
        assert_true(memory(eng).cached_bytes > 0);
        if (rows[i].gone_s)
            (void)mapped_at(eng, since, rows[i].gone_s * S);
        else
            fx_clear_cache(eng);
        do (void)fxi_iteration_run(eng);
        while (eng->memory.returning_bytes);
        assert_int_equal(memory(eng).cached_bytes, 0);
        assert_int_equal(memory(eng).mapped_bytes, 0);
        unthreaded_check_manager(eng);
        unthreaded_close(eng);
    }
}

// ---- the limit of a memory cgroup --------------------------------------------------------------

static char group_root[64];

static void put_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", group_root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// The cgroup has what the cache has, and the page cache of a file. limit_bytes 0: there is none.
static void put_cgroup(const fx_engine *eng, uint64_t limit_bytes)
{
    const uint64_t file_bytes = 3 << 20;
    char text[64];
    snprintf(text, sizeof text, limit_bytes ? "%llu\n" : "max\n", (unsigned long long)limit_bytes);
    put_file("sys/fs/cgroup/box/memory.max", text);
    snprintf(text, sizeof text, "%llu\n",
             (unsigned long long)(memory(eng).mapped_bytes + file_bytes));
    put_file("sys/fs/cgroup/box/memory.current", text);
    snprintf(text, sizeof text, "inactive_file 0\nactive_file %llu\n",
             (unsigned long long)file_bytes);
    put_file("sys/fs/cgroup/box/memory.stat", text);
}

static int make_cgroup(void **state)
{
    static const char *const folder[] = {"proc",   "proc/self",     "sys",
                                         "sys/fs", "sys/fs/cgroup", "sys/fs/cgroup/box"};
    char path[128];
    (void)state;
    strcpy(group_root, "/tmp/test_memory_use-XXXXXX");
    if (!mkdtemp(group_root)) return -1;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        snprintf(path, sizeof path, "%s/%s", group_root, folder[i]);
        if (mkdir(path, 0700)) return -1;
    }
    put_file("proc/self/cgroup", "0::/box\n");
    return 0;
}

static int remove_cgroup(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", group_root);
    return system(command);
}

static fx_engine *open_in_cgroup(void)
{
    fx_engine *eng = open_engine(16 << 20, 0);
    eng->memory.root = group_root;
    eng->journal.now_us = read_clock;
    clock_us = S;
    put_cgroup(eng, 0);
    return eng;
}

static bool iterate_in_cgroup(fx_engine *eng, uint64_t limit_bytes)
{
    put_cgroup(eng, limit_bytes);
    clock_us += S;
    return fxi_iteration_run(eng);
}

// Somebody lowers the limit while requests run, and lifts it again: the budget in effect stays
// below it, less a sixteenth of the one requested, and no answer changes.
FX_TEST_WITH(test_the_budget_follows_a_limit, make_cgroup, remove_cgroup)
{
    for (int n_iteration = 0; n_iteration < 50; n_iteration += 7) {
        fx_engine *eng = open_in_cgroup();
        const uint64_t few = chunks(eng, 6);
        submit_all(eng);
        for (int i = 0; i < n_iteration; i++) (void)iterate_in_cgroup(eng, 0);
        assert_int_equal(memory(eng).budget_bytes, 16 << 20);
        while (iterate_in_cgroup(eng, (1 << 20) + few)) expect_budget(eng, few);
        assert_in_range(fxi_limit_wait_ms(&eng->memory), 1, 1000); // what is idle looks, too
        (void)iterate_in_cgroup(eng, 0);
        (void)iterate_in_cgroup(eng, 0);
        assert_int_equal(fxi_limit_wait_ms(&eng->memory), 0);
        finish_all(eng, 16 << 20);
        unthreaded_close(eng);
    }
}

// Beside neighbours that come and go by less than half of the reserve, the budget stays.
FX_TEST_WITH(test_the_budget_does_not_follow_every_breath, make_cgroup, remove_cgroup)
{
    fx_engine *eng = open_in_cgroup();
    const uint64_t some = 4 << 20;
    (void)iterate_in_cgroup(eng, some);
    const uint64_t budget = memory(eng).budget_bytes;
    assert_int_equal(budget, some - (1 << 20));
    (void)iterate_in_cgroup(eng, some + (1 << 19));
    assert_int_equal(memory(eng).budget_bytes, budget);
    (void)iterate_in_cgroup(eng, some + (1 << 19) + 1);
    assert_int_equal(memory(eng).budget_bytes, budget + (1 << 19) + 1);
    (void)iterate_in_cgroup(eng, some);
    assert_int_equal(memory(eng).budget_bytes, budget);
    unthreaded_close(eng);
}

// Nodes that one iteration evicts, at most: a slice as it is asked for, and one in the step.
enum { MOST_EVICTED = 2 * 256, N_FILL = 1600 };

// Prompts of three tokens: a node each, and a chunk.
static void fill_cache(fx_engine *eng)
{
    static bits_answer out[64];
    for (int i = 0; i < N_FILL; i += 64) {
        for (int k = 0; k < 64; k++) {
            const int32_t tok[3] = {1, 3 + (i + k) % 300, 3 + (i + k) / 300};
            out[k] = (bits_answer){0};
            const fx_request req = bits_request(tok, 3, 1, &out[k]);
            (void)bits_submit(eng, &req);
        }
        while (fxi_iteration_run(eng)) {
        }
    }
}

// While a large cache is cleared, in small parts, a stream gets a token in each iteration, and who
// comes is admitted in the iteration that follows.
FX_TEST(test_clearing_keeps_nobody_waiting)
{
    static bits_answer stream, newcomer[64];
    static const int32_t tok[3] = {1, 310, 311};
    fx_engine *eng = open_engine(1 << 30, 0);
    fill_cache(eng);
    assert_true(memory(eng).cached_bytes >= chunks(eng, N_FILL));
    fx_request req = bits_request(tok, 3, 200, &stream);
    req.no_cache = true;
    (void)bits_submit(eng, &req);
    (void)fxi_iteration_run(eng);
    fx_clear_cache(eng);
    int n_iteration = 0;
    do {
        const uint64_t n_evicted = memory(eng).n_evicted;
        const int n_tok = stream.choice[0].n_tok;
        if (n_iteration < 64) {
            newcomer[n_iteration] = (bits_answer){0};
            req = bits_request(tok, 3, 1, &newcomer[n_iteration]);
            req.no_cache = true;
            (void)bits_submit(eng, &req);
        }
        (void)fxi_iteration_run(eng);
        assert_int_equal(stream.choice[0].n_tok, n_tok + 1);
        if (n_iteration < 64) assert_int_equal(newcomer[n_iteration].choice[0].n_tok, 1);
        assert_in_range(memory(eng).n_evicted - n_evicted, 0, MOST_EVICTED);
        assert_in_range(++n_iteration, 0, 150);
    } while (memory(eng).cached_bytes > 0);
    assert_true(n_iteration >= N_FILL / MOST_EVICTED);
    while (fxi_iteration_run(eng) || eng->memory.returning_bytes) {
    }
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

// A prompt that is only to be kept is computed, and its tokens are not computed again.
FX_TEST(test_prompt_is_computed_to_be_kept)
{
    fx_engine *eng = open_engine(16 << 20, 0);
    for (int round = 0; round < 2; round++) {
        fx_request req = request(0, &got[0]);
        req.max_tok = 0;
        req.n_choice = 1;
        req.prompt_logprobs = false;
        req.keep_priority = 3;
        bits_ask(eng, &req, &got[0]);
        assert_int_equal(got[0].choice[0].finish, FX_FINISH_LENGTH);
        assert_int_equal(got[0].n_cached > 0, round);
    }
    unthreaded_close(eng);
}

FX_RUN_GROUP(test_memory_use, ask_alone, NULL)
