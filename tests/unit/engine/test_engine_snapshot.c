// test_engine_snapshot.c - snapshots of an engine: they agree with the statistics and with the
// sequences, and nothing is taken without subscribers.
#include "unit/cmocka_all.h"

#include "engine/engine_snapshot.h"
#include "kv/kv_snapshot.h"
#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <semaphore.h>
#include <string.h>

enum { PROMPT_TOK = 90, ANSWER_TOK = 60 };

static uint64_t clock_us;

static uint64_t our_clock(void *ud)
{
    (void)ud;
    return clock_us++;
}

static fx_engine *open_with(fx_options opt)
{
    opt.kv_memory_bytes = 8 << 20;
    fx_engine *eng = unthreaded_open_single(MODEL, opt);
    clock_us = 1000;
    eng->journal.now_us = our_clock;
    return eng;
}

// With a subscriber.
static fx_engine *open_seen(fx_options opt)
{
    fx_engine *eng = open_with(opt);
    fx_snapshot_subscribe(eng);
    return eng;
}

static void close_seen(fx_engine *eng, const fx_snapshot *p)
{
    fx_snapshot_unref(p);
    fx_snapshot_unsubscribe(eng);
    unthreaded_close(eng);
}

static void note_last(void *ud, const fx_event *ev)
{
    if (ev->last) *(bool *)ud = true;
}

static uint64_t ask(fx_engine *eng, const prompt *p, int n_choice, bool *last)
{
    fx_request req = fx_request_default();
    req.n_choice = n_choice;
    req.on_event = note_last;
    req.ud = last;
    *last = false;
    return unthreaded_submit(eng, req, p->tok, PROMPT_TOK, ANSWER_TOK);
}

static void iterations(fx_engine *eng, int n)
{
    while (n-- > 0) (void)fxi_iteration_run(eng);
}

// The snapshot that is due after this iteration.
static const fx_snapshot *look(fx_engine *eng)
{
    fxi_iteration_publish(eng); // some tests act between iterations
    clock_us += 10000000;
    assert_int_equal(fxi_snapshot_act(eng), 0);
    const fx_snapshot *p = fx_snapshot_get(eng, 0);
    assert_non_null(p);
    return p;
}

static uint64_t bytes_in(const fx_snapshot *p, unsigned state)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_chunk_run; i++)
        if (p->chunk[i].state == state)
            sum += p->chunk[i].n * p->group[p->chunk[i].group].chunk_bytes;
    return sum;
}

static unsigned state_of_chunk(const fx_snapshot *p, uint64_t chunk)
{
    for (size_t i = 0; i < p->n_chunk_run; i++)
        if (chunk >= p->chunk[i].first && chunk - p->chunk[i].first < p->chunk[i].n)
            return p->chunk[i].state;
    return FX_CHUNK_absent;
}

// Of the first segment of a span's first group.
static uint64_t first_chunk(const fx_snapshot *p, size_t span)
{
    assert_true(span < p->n_span && p->span[span].n_run > 0);
    const fx_segment_run *r = &p->segment[p->span[span].first_run];
    assert_int_equal(r->at, 0);
    return r->chunk;
}

// Names grow, runs do not touch if they could be one, and every segment has a chunk.
static void check_form(const fx_snapshot *p)
{
    for (size_t i = 1; i < p->n_chunk_run; i++)
        assert_true(p->chunk[i].first >= p->chunk[i - 1].first + p->chunk[i - 1].n);
    for (size_t i = 0; i < p->n_segment_run; i++)
        for (uint32_t k = 0; k < p->segment[i].n; k++)
            assert_int_not_equal(state_of_chunk(p, p->segment[i].chunk + k), FX_CHUNK_absent);
    for (size_t i = 1; i < p->n_node; i++) assert_true(p->node[i].id > p->node[i - 1].id);
    assert_int_equal(p->n_all_node, p->n_node);
    assert_int_equal(p->n_all_span, p->n_span);
    assert_int_equal(p->n_all_request, p->n_request);
    for (size_t i = 1; i < p->n_request; i++) assert_true(p->request[i].id > p->request[i - 1].id);
}

// A pool that was allocated at start ends with what fills no block, and with scratch for the swap.
static void check_bytes(const fx_snapshot *p)
{
    const uint64_t rest = !strcmp(p->manager, "paged") ? 3 * p->group[0].chunk_bytes : 0;
    const uint64_t shared = bytes_in(p, FX_CHUNK_shared), cached = bytes_in(p, FX_CHUNK_cached);
    const uint64_t owned = bytes_in(p, FX_CHUNK_owned), spare = bytes_in(p, FX_CHUNK_spare);
    const uint64_t sum = owned + shared + cached + spare;
    assert_in_range(p->stats.kv_mapped_bytes - sum, 0, rest);
    assert_int_equal(shared, p->stats.kv_shared_bytes);
    assert_int_equal(cached, p->stats.kv_cached_bytes);
    assert_in_range(p->stats.kv_spare_bytes - spare, 0, rest);
}

static const fx_snapshot *look_checked(fx_engine *eng)
{
    const fx_snapshot *p = look(eng);
    check_form(p);
    check_bytes(p);
    return p;
}

// ---- tests -------------------------------------------------------------------------------------

FX_TEST(test_nothing_is_taken_without_subscribers)
{
    fx_engine *eng = open_with((fx_options){.max_seq = 2});
    prompt a = make_prompt(0);
    bool last;
    fx_stats st;
    ask(eng, &a, 1, &last);
    while (!last) {
        iterations(eng, 1);
        clock_us += 1000000;
        assert_int_equal(fxi_snapshot_act(eng), 0);
    }
    fx_engine_stats(eng, &st);
    assert_int_equal(st.n_snapshot, 0);
    assert_null(fx_snapshot_get(eng, 0));
    fx_snapshot_subscribe(eng);
    fx_snapshot_unref(look(eng));
    fx_snapshot_unsubscribe(eng);
    assert_null(fx_snapshot_get(eng, 0)); // it is not kept either
    clock_us += 1000000;
    assert_int_equal(fxi_snapshot_act(eng), 0);
    fx_engine_stats(eng, &st);
    assert_int_equal(st.n_snapshot, 1);
    assert_int_equal(st.n_picture, 1); // for one version
    unthreaded_close(eng);
}

// Two choices of a prompt: two spans that begin with the same chunks.
static void shows_forks(const char *manager)
{
    fx_engine *eng = open_seen((fx_options){.max_seq = 4, .kv_manager = manager});
    prompt a = make_prompt(0);
    bool last;
    const uint64_t id = ask(eng, &a, 2, &last);
    iterations(eng, 4);
    const fx_snapshot *p = look_checked(eng);
    assert_string_equal(p->manager, manager);
    assert_int_equal(p->n_span, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p->span[i].request, id);
        assert_int_equal(p->span[i].choice, i);
        assert_int_equal(p->span[i].n_tok, PROMPT_TOK + 3);
        assert_int_equal(p->span[i].n_generating, 1);
    }
    assert_int_equal(first_chunk(p, 0), first_chunk(p, 1));
    assert_int_equal(state_of_chunk(p, first_chunk(p, 0)), FX_CHUNK_shared);
    assert_int_equal(p->n_request, 1);
    assert_int_equal(p->request[0].state, FX_REQUEST_running);
    assert_int_equal(p->request[0].n_prompt, PROMPT_TOK);
    assert_int_equal(p->request[0].n_generated, 2 * 4);
    assert_true(p->n_node > 0);
    fx_snapshot_unref(p);
    while (!last) iterations(eng, 1);
    p = look_checked(eng);
    assert_int_equal(p->n_span + p->n_request, 0);
    assert_int_equal(bytes_in(p, FX_CHUNK_owned) + bytes_in(p, FX_CHUNK_shared), 0);
    assert_true(bytes_in(p, FX_CHUNK_cached) > 0);
    close_seen(eng, p);
}

FX_TEST(test_forks_share_chunks)
{
    shows_forks("vtensor");
    shows_forks("paged");
}

// A second prompt that begins like the first shares its first chunks while both run.
FX_TEST(test_a_shared_prefix_is_seen)
{
    fx_engine *eng = open_seen((fx_options){.max_seq = 4});
    prompt a = make_prompt(0);
    bool last[2];
    ask(eng, &a, 1, &last[0]);
    iterations(eng, 2);
    ask(eng, &a, 1, &last[1]);
    iterations(eng, 2);
    const fx_snapshot *p = look_checked(eng);
    assert_int_equal(p->n_span, 2);
    assert_int_equal(first_chunk(p, 0), first_chunk(p, 1));
    assert_true(p->request[1].n_cached >= 64);
    close_seen(eng, p);
}

// The tree's tokens are those of the prompt recorded, each node after its parent.
FX_TEST(test_the_tree_has_the_prompts)
{
    fx_engine *eng = open_seen((fx_options){.max_seq = 2});
    prompt a = make_prompt(0);
    bool last;
    ask(eng, &a, 1, &last);
    while (!last) iterations(eng, 1);
    const fx_snapshot *p = look(eng);
    uint64_t parent = 0;
    uint32_t n_tok = 0;
    for (size_t i = 0; i < p->n_node; i++) {
        const fx_prefix_node *node = &p->node[i];
        assert_int_equal(node->parent, parent);
        parent = node->id;
        n_tok += node->n_tok;
    }
    assert_int_equal(n_tok, PROMPT_TOK + ANSWER_TOK - 1);
    close_seen(eng, p);
}

// Out in the swap: the request says so, and its segments are there.
static void shows_swap(const char *manager)
{
    fx_engine *eng =
        open_seen((fx_options){.max_seq = 4, .swap_bytes = 16 << 20, .kv_manager = manager});
    prompt p[2] = {make_prompt(0), make_prompt(1)};
    bool last[2];
    for (int i = 0; i < 2; i++) ask(eng, &p[i], 1, &last[i]);
    iterations(eng, 2);
    fxi_preempt_request(&eng->memory, eng->sched.running.tail, FXI_SWAP);
    const fx_snapshot *seen = NULL;
    while (!last[1] && !seen) {
        seen = look(eng);
        if (seen->request[1].state == FX_REQUEST_away) break;
        fx_snapshot_unref(seen);
        seen = NULL;
        iterations(eng, 1);
    }
    assert_non_null(seen);
    check_form(seen);
    check_bytes(seen);
    assert_true(bytes_in(seen, FX_CHUNK_swapped) > 0);
    assert_int_equal(seen->span[1].request, seen->request[1].id);
    assert_true(first_chunk(seen, 0) < FX_SWAP_CHUNK);
    const fx_span *out = &seen->span[1];
    assert_true(seen->segment[out->first_run + out->n_run - 1].chunk >= FX_SWAP_CHUNK);
    close_seen(eng, seen);
}

FX_TEST(test_the_swap_is_seen)
{
    shows_swap("vtensor");
    shows_swap("paged");
}

// More than may run: the queue, with places in the order in which they are served.
FX_TEST(test_the_queue_is_seen)
{
    enum { N = 4 };
    fx_engine *eng = open_seen((fx_options){.max_seq = 1});
    prompt p[N];
    bool last[N];
    for (int i = 0; i < N; i++) {
        p[i] = make_prompt(i);
        ask(eng, &p[i], 1, &last[i]);
    }
    iterations(eng, 2);
    const fx_snapshot *seen = look(eng);
    assert_int_equal(seen->n_request, N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(seen->request[i].place, i);
        assert_int_equal(seen->request[i].state, i ? FX_REQUEST_waiting : FX_REQUEST_running);
    }
    assert_int_equal(seen->stats.n_waiting, N - 1);
    close_seen(eng, seen);
}

static uint64_t positions_of(const fx_snapshot *p, const fx_span *span)
{
    uint64_t n = 0;
    for (size_t i = span->first_run; i < span->first_run + span->n_run; i++) n += p->segment[i].n;
    return n;
}

// Of a span that is alone: segments from its first position on, at least as many as its tokens
// need, each of a chunk that it owns.
static void check_span(const fx_snapshot *p)
{
    const fx_span *span = &p->span[0];
    const uint64_t n = positions_of(p, span), chunk_tok = p->group[0].chunk_tok;
    assert_true(span->n_run > 0 && n * chunk_tok >= span->n_tok);
    assert_int_equal(p->segment[span->first_run].at, 0);
    for (size_t i = span->first_run; i < span->first_run + span->n_run; i++)
        for (uint32_t k = 0; k < p->segment[i].n; k++) {
            const unsigned is = state_of_chunk(p, p->segment[i].chunk + k);
            assert_true(is == FX_CHUNK_owned || is == FX_CHUNK_shared);
        }
}

// Whoever manages the memory: requests, spans, and the chunks that back them.
FX_TEST(test_every_manager_has_spans)
{
    for (int i = 0; fx_kv_manager_name(i); i++) {
        fx_engine *eng = open_seen((fx_options){.max_seq = 2, .kv_manager = fx_kv_manager_name(i)});
        prompt a = make_prompt(0);
        bool last;
        ask(eng, &a, 1, &last);
        iterations(eng, 3);
        const fx_snapshot *p = look(eng);
        assert_string_equal(p->manager, fx_kv_manager_name(i));
        assert_int_equal(p->n_request, 1);
        assert_int_equal(p->n_span, 1);
        assert_int_equal(p->span[0].n_tok, PROMPT_TOK + 2);
        check_form(p);
        check_span(p);
        if (strncmp(p->manager, "reserve-", 8) != 0)
            check_bytes(p);
        else {
            // Pools that are divided by sequences' own sizes: what is reserved, and what is left.
            const uint64_t owned = bytes_in(p, FX_CHUNK_owned), spare = bytes_in(p, FX_CHUNK_spare);
            const uint64_t n = positions_of(p, &p->span[0]);
            assert_int_equal(owned, n * p->group[0].chunk_bytes);
            assert_in_range(owned + spare, p->stats.kv_mapped_bytes - p->group[0].chunk_bytes,
                            p->stats.kv_mapped_bytes + p->group[0].chunk_bytes);
        }
        fx_snapshot_unref(p);
        while (!last) iterations(eng, 1);
        p = look(eng);
        assert_int_equal(p->n_span, 0);
        assert_int_equal(bytes_in(p, FX_CHUNK_owned), 0);
        close_seen(eng, p);
    }
}

// Not before a tenth of a second has passed; then what has changed is owed.
FX_TEST(test_snapshots_keep_their_distance)
{
    fx_engine *eng = open_seen((fx_options){.max_seq = 2});
    fx_snapshot_unref(look(eng));
    const fx_snapshot *p = fx_snapshot_get(eng, 0);
    assert_int_equal(p->number, 1);
    fx_snapshot_unref(p);
    assert_true(fxi_snapshot_act(eng) > 0);
    clock_us += 50000;
    const int wait_ms = fxi_snapshot_act(eng);
    assert_true(wait_ms > 0);
    assert_null(fx_snapshot_get(eng, 1));
    clock_us += (uint64_t)wait_ms * 1000;
    assert_int_equal(fxi_snapshot_act(eng), 0);
    p = fx_snapshot_get(eng, 1);
    assert_non_null(p);
    assert_int_equal(p->number, 2);
    close_seen(eng, p);
}

// Whatever publishing each snapshot costs, and however many subscribe: taking and publishing
// together stay a bounded share of the time.
static void stays_a_share(int n_subscriber, uint64_t each_us)
{
    enum { END_US = 100000000 };
    fx_engine *eng = open_with((fx_options){.max_seq = 2});
    for (int i = 0; i < n_subscriber; i++) fx_snapshot_subscribe(eng);
    const uint64_t start_us = clock_us, cost_us = each_us * (uint64_t)n_subscriber;
    uint64_t paid_us = 0, all_us = 0, n_shown = 0; // paid: for all snapshots but the last
    while (clock_us - start_us < END_US) {
        fx_stats st;
        fxi_iteration_publish(eng);
        const int wait_ms = fxi_snapshot_act(eng);
        clock_us += wait_ms ? (uint64_t)wait_ms * 1000 : 0;
        const fx_snapshot *p = fx_snapshot_get(eng, n_shown);
        if (!p) continue;
        n_shown = p->number;
        fx_snapshot_unref(p);
        fx_snapshot_charge(eng, cost_us);
        fx_engine_stats(eng, &st);
        paid_us = all_us;
        all_us = st.snapshot_us + cost_us * n_shown;
    }
    assert_true(n_shown > 1);
    assert_true(paid_us * FX_SNAPSHOT_SHARE <= clock_us - start_us);
    for (int i = 0; i < n_subscriber; i++) fx_snapshot_unsubscribe(eng);
    unthreaded_close(eng);
}

FX_TEST(test_all_subscribers_share_one_budget)
{
    stays_a_share(1, 300);
    stays_a_share(4, 300);
    stays_a_share(64, 300);
    stays_a_share(64, 3000);
}

// More requests, sequences and nodes than the lists have room for: they end, and the counts do not.
FX_TEST(test_lists_have_limits)
{
    enum { N = FX_MAX_REQUEST_VIEW + 50 };
    static bool last[N];
    fx_engine *eng = open_seen((fx_options){.max_seq = 2, .max_queue = 2 * N});
    prompt a = make_prompt(0);
    for (int i = 0; i < N; i++) ask(eng, &a, 1, &last[i]);
    iterations(eng, 2);
    const fx_snapshot *p = look(eng);
    assert_int_equal(p->n_request, FX_MAX_REQUEST_VIEW);
    assert_int_equal(p->n_all_request, N);
    assert_int_equal(p->request[0].state, FX_REQUEST_running);
    for (size_t i = 1; i < p->n_request; i++) assert_true(p->request[i].id > p->request[i - 1].id);
    close_seen(eng, p);
}

FX_TEST(test_a_managers_lists_have_limits)
{
    enum { MORE = 100 };
    uint32_t n_run[1] = {0};
    fxi_kv_snapshot kv = {.n_run = n_run, .n_seq = 1};
    for (uint32_t i = 0; i < FX_MAX_CHUNK_RUN + MORE; i++)
        fxi_kv_snapshot_add_chunks(&kv, 0, 10ull * i, 2, 1 + i % 4);
    for (uint32_t i = 0; i < FX_MAX_SEGMENT_RUN + MORE; i++)
        fxi_kv_snapshot_add_segments(&kv, 0, 0, i, 10ull * i, 1);
    uint64_t id = 0;
    do id++;
    while (fxi_kv_snapshot_add_node(&kv, &(fx_prefix_node){.id = id}));
    assert_false(kv.has_failed);
    assert_int_equal(id, FX_MAX_PREFIX_NODE + 1);
    assert_int_equal(kv.chunk.n, FX_MAX_CHUNK_RUN * sizeof(fx_chunk_run));
    assert_int_equal(n_run[0], FX_MAX_SEGMENT_RUN);
    assert_int_equal(kv.n_chunk[1] + kv.n_chunk[2] + kv.n_chunk[3] + kv.n_chunk[4],
                     2 * (FX_MAX_CHUNK_RUN + MORE));
    fxi_kv_snapshot_free(&kv);
}

FX_TEST(test_states_have_names)
{
    assert_string_equal(fx_chunk_state_name(FX_CHUNK_absent), "absent");
    assert_string_equal(fx_chunk_state_name(FX_CHUNK_swapped), "swapped");
    assert_string_equal(fx_chunk_state_name(FX_N_CHUNK_STATE), "?");
    assert_string_equal(fx_request_state_name(FX_REQUEST_coming), "coming");
    assert_string_equal(fx_request_state_name(FX_N_REQUEST_STATE), "?");
}

static void post_semaphore(void *ud)
{
    sem_post(ud);
}

// An idle engine takes one for a new subscriber, and one more of what happened last.
FX_TEST(test_an_idle_engine_is_seen)
{
    fx_engine *eng;
    sem_t taken;
    sem_init(&taken, 0, 0);
    assert_int_equal(fx_engine_open(&(fx_options){.model_path = MODEL, .max_seq = 2}, &eng, NULL),
                     FX_OK);
    fx_engine_on_snapshot(eng, post_semaphore, &taken);
    fx_snapshot_subscribe(eng);
    sem_wait(&taken);
    prompt a = make_prompt(0);
    bool last;
    ask(eng, &a, 1, &last);
    const fx_snapshot *p = NULL;
    for (uint64_t after = 0; !p || !p->stats.n_generated_tok || p->n_request; after = p->number) {
        fx_snapshot_unref(p);
        sem_wait(&taken);
        p = fx_snapshot_get(eng, after);
        assert_non_null(p);
    }
    assert_int_equal(p->stats.n_generated_tok, ANSWER_TOK);
    fx_snapshot_unref(p);
    fx_engine_on_snapshot(eng, NULL, NULL);
    fx_snapshot_unsubscribe(eng);
    fx_engine_close(eng);
    sem_destroy(&taken);
}

FX_RUN(test_engine_snapshot)
