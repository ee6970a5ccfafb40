// test_vt_window.c - a model of which five layers in six attend to a window only: its memory is
// what the formula says, to the byte, at every step of a long sequence. On the host, by st_blocks.
// And what a router learns of it: which prefixes can no longer serve, and which can again.
#include "assert_vt.h"
#include "suite.h"

#include "router.h"
#include "vtensor/vtensor.h"

enum { N_FULL = 4, N_WINDOW = 5 * N_FULL, WINDOW_TOK = 1024, MAX_TOK = 32768, CHUNK_TOK = 32 };
enum { ROW_BYTES = 128, SLICE_BYTES = CHUNK_TOK * ROW_BYTES, KV = 2 };

static vt_manager *m;
static vt_vmm *vmm;

static const vt_group groups[] = {
    {.n_plane = KV * N_FULL, .row_bytes = ROW_BYTES},
    {.n_plane = KV * N_WINDOW, .row_bytes = ROW_BYTES, .window_tok = WINDOW_TOK}};

static void open_manager(uint64_t budget_bytes, uint64_t spare_high_bytes)
{
    vt_config cfg = vt_config_default();
    assert_ok(vt_vmm_host_open(&vmm));
    cfg.group = groups;
    cfg.n_group = 2;
    cfg.n_event = ROUTER_N_EVENT;
    cfg.max_tok = MAX_TOK;
    cfg.max_seq = 1;
    cfg.budget_bytes = budget_bytes;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.spare_high_bytes = spare_high_bytes;
    cfg.vmm = vmm;
    assert_ok(vt_manager_create(&cfg, &m));
}

// Chunks that a group of whole rows needs for tokens [first, end).
static uint64_t chunks_of(uint64_t first, uint64_t end)
{
    return (end + CHUNK_TOK - 1) / CHUNK_TOK - first / CHUNK_TOK;
}

// After an extend from `from` to `to`: the windows begin with what token `from` attends to.
static uint64_t formula_bytes(uint64_t from, uint64_t to)
{
    uint64_t front = from > WINDOW_TOK - 1 ? from - (WINDOW_TOK - 1) : 0;
    return chunks_of(0, to) * KV * N_FULL * SLICE_BYTES +
           chunks_of(front, to) * KV * N_WINDOW * SLICE_BYTES;
}

static void return_spare(void)
{
    uint32_t n_left = 1;
    for (int turn = 0; turn < 4; turn++) {
        assert_ok(vt_step(m, VT_AHEAD_NONE, 0, 0));
        for (n_left = 1; n_left > 0;) vt_work(m, 64, &n_left);
    }
}

static void verify_bytes(uint64_t want)
{
    uint64_t resident, mapped, n_mapping;
    vt_stats st;
    vt_get_stats(m, &st);
    assert_int_equal(st.mapped_bytes - st.spare_bytes, want);
    assert_int_equal(st.spare_bytes, 0);
    assert_ok(vmm->ops->resident(vmm, &resident));
    assert_int_equal(resident, want);
    assert_ok(vmm->ops->mapped(vmm, &mapped, &n_mapping));
    assert_int_equal(mapped, want);
}

// A byte in every plane and row of the tokens [from, to), where they can be written.
static void write_rows(vt_seq *s, uint32_t from, uint32_t to)
{
    for (uint32_t p = 0; p < KV * (N_FULL + N_WINDOW); p++)
        for (uint32_t t = from; t < to; t++)
            *((char *)vt_seq_plane(s, p) + t * vt_plane_stride(m, p)) = (char)(t * 7 + p + 1);
}

static void verify_rows(vt_seq *s, uint32_t len_tok)
{
    for (uint32_t p = 0; p < KV * (N_FULL + N_WINDOW); p++)
        for (uint32_t t = vt_seq_front(s, p); t < len_tok; t++)
            assert_int_equal(*((char *)vt_seq_plane(s, p) + t * vt_plane_stride(m, p)),
                             (char)(t * 7 + p + 1));
}

static void grow_by(vt_seq *s, uint32_t n_tok)
{
    for (uint32_t to, from = 0; from < MAX_TOK; from = to) {
        to = from + n_tok < MAX_TOK ? from + n_tok : MAX_TOK;
        assert_ok(vt_seq_extend(s, to));
        write_rows(s, from, to);
        return_spare();
        verify_bytes(formula_bytes(from, to));
    }
    verify_rows(s, MAX_TOK);
}

FX_TEST(test_memory_is_the_formula_at_every_step)
{
    static const uint32_t n_tok[] = {1, 512, 3000};
    for (size_t i = 0; i < sizeof n_tok / sizeof n_tok[0]; i++) {
        vt_seq *s;
        open_manager((uint64_t)1 << 30, 0);
        assert_ok(vt_seq_create(m, 0, &s));
        grow_by(s, n_tok[i]);
        const char *what = NULL;
        assert_ok(vt_check(m, &what));
        vt_manager_destroy(m);
    }
}

// With a budget of what the formula says and two chunks of each group more, the sequence grows into
// what its windows give up: nothing is destroyed, and created is only what the full layers need.
FX_TEST(test_what_a_window_gives_up_is_reused)
{
    enum { END = 8 * WINDOW_TOK };
    vt_seq *s;
    vt_stats before, after;
    uint64_t each = KV * (N_FULL + N_WINDOW) * SLICE_BYTES;
    open_manager(formula_bytes(END - 1, END) + 2 * each, UINT64_MAX);
    assert_ok(vt_seq_create(m, 0, &s));
    for (uint32_t t = 1; t <= END; t++) {
        assert_ok(vt_seq_extend(s, t));
        write_rows(s, t - 1, t);
        assert_ok(vt_step(m, VT_AHEAD_NEXT, 1, 0));
        vt_work(m, 64, NULL);
        if (t == END / 2) vt_get_stats(m, &before);
    }
    verify_rows(s, END);
    vt_get_stats(m, &after);
    assert_int_equal(after.destroy_calls, 0);
    uint64_t full = chunks_of(END / 2, END) * KV * N_FULL * SLICE_BYTES;
    assert_int_equal(after.mapped_bytes - before.mapped_bytes, full);
    assert_true(after.mappings <= before.mappings + KV * N_WINDOW);
    vt_manager_destroy(m);
}

// ---- What a router learns

enum { PROMPT = 2 * WINDOW_TOK, WINDOW = 1u << 1 };

static vt_domain *d;
static uint32_t tok[PROMPT];

static void open_routed(void)
{
    for (uint32_t i = 0; i < PROMPT; i++) tok[i] = 1000 + i;
    open_manager((uint64_t)1 << 30, UINT64_MAX);
    assert_ok(vt_domain_open(m, "a", 1, &d));
    router_open(m, 2, groups);
}

// By a sequence of which nothing has passed, unless it grows token by token.
static void record_prompt(uint32_t n_tok, bool by_token)
{
    vt_seq *s;
    assert_ok(vt_seq_create(m, 0, &s));
    for (uint32_t t = by_token ? 1 : n_tok; t <= n_tok; t++) assert_ok(vt_seq_extend(s, t));
    if (by_token) return_spare(); // what the windows have passed is unmapped
    assert_ok(vt_seq_record(s, d, tok, n_tok, NULL));
    vt_seq_release(s);
}

// n events of a kind, of whole blocks, the first of which begins at start_tok.
static void expect_events(uint32_t n, int step, uint32_t start_tok, vt_event_kind kind,
                          uint32_t lacks)
{
    vt_event e;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(vt_events_take(m, &e, 1), 1);
        assert_int_equal(e.start_tok, start_tok + (int)i * step * CHUNK_TOK);
        assert_int_equal(e.kind, kind);
        assert_int_equal(e.lacks, lacks);
        assert_int_equal(e.domain_id, vt_domain_id(d));
        assert_int_equal(e.n_tok, CHUNK_TOK);
    }
}

// What is evicted first is what the windows of the longest prefix do not need, the last tokens
// first. The prefix stays, but those that need it can no longer serve, until it is recorded again.
FX_TEST(test_a_router_learns_which_windows_are_gone)
{
    enum { N_GONE = 8, GONE_TOK = N_GONE * CHUNK_TOK, FIRST_GONE = WINDOW_TOK - GONE_TOK };
    vt_event e;
    const uint64_t each = KV * N_WINDOW * SLICE_BYTES;
    vt_stats st;
    open_routed();
    record_prompt(PROMPT, false);
    expect_events(PROMPT / CHUNK_TOK, 1, 0, VT_EVENT_RECORDED, 0);
    assert_int_equal(vt_match(d, tok, WINDOW_TOK), WINDOW_TOK);
    assert_ok(vt_trim(m, 0, NULL));
    assert_ok(vt_evict(m, N_GONE * each, NULL));
    expect_events(N_GONE, -1, WINDOW_TOK - CHUNK_TOK, VT_EVENT_WINDOW_EVICTED, WINDOW);
    vt_get_stats(m, &st);
    assert_int_equal(st.window_evicted, N_GONE);
    assert_int_equal(st.prefix_evicted, 0);
    assert_int_equal(vt_match(d, tok, WINDOW_TOK), FIRST_GONE);
    assert_int_equal(vt_match(d, tok, PROMPT - CHUNK_TOK), FIRST_GONE);
    assert_int_equal(vt_match(d, tok, PROMPT), PROMPT);

    record_prompt(WINDOW_TOK, false);
    expect_events(N_GONE, 1, FIRST_GONE, VT_EVENT_WINDOW_RECORDED, 0);
    assert_int_equal(vt_match(d, tok, WINDOW_TOK), WINDOW_TOK);
    record_prompt(WINDOW_TOK, false); // nothing is new
    assert_int_equal(vt_events_take(m, &e, 1), 0);
    vt_manager_destroy(m);
}

// What the windows have passed before it is recorded is lacking from the start.
FX_TEST(test_a_router_learns_what_was_never_held)
{
    vt_event e;
    open_routed();
    record_prompt(PROMPT, true);
    for (uint32_t t = 0; t < PROMPT; t += CHUNK_TOK) {
        assert_int_equal(vt_events_take(m, &e, 1), 1);
        assert_int_equal(e.kind, VT_EVENT_RECORDED);
        assert_int_equal(e.start_tok, t);
        assert_int_equal(e.lacks, t < PROMPT - WINDOW_TOK ? WINDOW : 0);
    }
    vt_manager_destroy(m);
}

// Recording, matching, evicting and forgetting, as a router sees it.
FX_TEST(test_a_router_knows_the_tree)
{
    open_routed();
    for (uint32_t round = 0; round < 6; round++) {
        tok[500 * (round % 3)] += round / 3; // another prompt from there on
        record_prompt(PROMPT - 100 * round, round % 2);
        router_verify(d);
        assert_ok(vt_trim(m, 0, NULL));
        assert_ok(vt_evict(m, 90 * KV * N_WINDOW * SLICE_BYTES, NULL));
        router_verify(d);
    }
    vt_stats st;
    vt_get_stats(m, &st);
    assert_true(st.window_evicted > 50 && st.prefix_evicted > 5);
    vt_domain_forget(d);
    router_verify(d);
    vt_manager_destroy(m);
}

// A window of one token needs no rows of those before it: the sequence that matched them has mapped
// nothing there, and is recorded under another key all the same.
FX_TEST(test_a_record_of_rows_that_no_window_needs)
{
    enum { N = CHUNK_TOK };
    const vt_group narrow[] = {{.n_plane = 1, .row_bytes = ROW_BYTES},
                               {.n_plane = 1, .row_bytes = ROW_BYTES, .window_tok = 1}};
    vt_config cfg = vt_config_default();
    cfg.group = narrow, cfg.n_group = 2, cfg.max_tok = 4 * N, cfg.max_seq = 4;
    cfg.budget_bytes = 1 << 20, cfg.mapper = VT_MAPPER_OWNER;
    uint32_t path[N], n_hit;
    for (uint32_t i = 0; i < N; i++) path[i] = i;
    vt_domain *one, *two;
    vt_seq *s, *t;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "one", 3, &one));
    assert_ok(vt_domain_open(m, "two", 3, &two));
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, N));
    assert_ok(vt_seq_record(s, one, path, N, NULL));
    assert_ok(vt_seq_match(one, path, N, 0, &t, &n_hit));
    assert_int_equal(n_hit, N);
    assert_ok(vt_seq_record(t, two, path, N, NULL));
    assert_int_equal(vt_match(two, path, N), N);
    assert_ok(vt_check(m, NULL));
    vt_manager_destroy(m);
}

static void count_states(void *ud, uint64_t first, uint64_t n, uint32_t group, vt_chunk_state state)
{
    (void)first;
    if (group == 2 && state == VT_CHUNK_CACHED) *(uint64_t *)ud += n;
}

// Prompts with a common beginning and states of blocks: the first leaves the state of its end; the
// second, which parts from it, that of the last whole block before; and the third begins there.
FX_TEST(test_states_where_they_pay)
{
    enum { N = 20 * CHUNK_TOK, PART = 11 * CHUNK_TOK + 5, BLOCK = 2 * CHUNK_TOK };
    const vt_group with_states[] = {
        {.n_plane = 1, .row_bytes = ROW_BYTES},
        {.n_plane = 1, .row_bytes = ROW_BYTES, .window_tok = BLOCK},
        {.kind = VT_GROUP_BLOCKS, .n_plane = 1, .row_bytes = 40960, .window_tok = BLOCK}};
    static const uint32_t want_hit[] = {0, CHUNK_TOK, PART, N};
    static const uint32_t want_states[] = {1, 3, 4, 4};
    vt_config cfg = vt_config_default();
    cfg.group = with_states, cfg.n_group = 3, cfg.max_tok = N, cfg.max_seq = 2;
    cfg.budget_bytes = 64 << 20, cfg.mapper = VT_MAPPER_OWNER;
    uint32_t path[N], n_hit;
    vt_domain *prompts;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "d", 1, &prompts));
    for (uint32_t k = 0; k < 4; k++) {
        vt_seq *s;
        uint64_t n_state = 0;
        for (uint32_t i = 0; i < N; i++) path[i] = i < PART ? i : i + 1000 * (k % 3);
        assert_ok(vt_seq_match(prompts, path, N, 0, &s, &n_hit));
        assert_int_equal(n_hit, want_hit[k]);
        assert_ok(vt_seq_extend(s, N));
        assert_ok(vt_seq_record(s, prompts, path, N, NULL));
        vt_seq_release(s);
        vt_chunk_each(m, count_states, &n_state);
        assert_int_equal(n_state, want_states[k]);
        assert_ok(vt_check(m, NULL));
    }
    vt_manager_destroy(m);
}

FX_RUN(test_vt_window)
