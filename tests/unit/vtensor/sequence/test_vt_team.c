// test_vt_team.c - the same operation on several managers is all or nothing.
//
// Ranks have different budgets and different planes: rows of one kind, a state beside them, or
// windows and scales beside them. First every call of every rank's backend fails once, in each
// operation: afterwards all ranks agree, and a retry succeeds. Then random traces, with shortages
// in one rank at a time and with random faults; then the same beside the ranks' mapper threads.
// A rank's call fails in one of two ways, the next rank's in the other; with FX_TEST_LONG in both.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or make the traces longer.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/team.h"

enum {
    MAX_RANK = 3,
    MAX_SEQ = 6,
    MAX_TOK = 256,
    CHUNK_TOK = 32,
    ROW_BYTES = VT_FAKE_PAGE_BYTES / CHUNK_TOK
};

typedef enum rig_kind { PLAIN = 0, WITH_STATE, WITH_WINDOWS, N_RIG_KIND } rig_kind;

typedef struct rig {
    uint32_t n;
    rig_kind kind;
    vt_team *t;
    vt_team_domain *d;
    vt_manager *m[MAX_RANK];
    vt_vmm *fault[MAX_RANK], *fake[MAX_RANK];
    uint32_t n_plane[MAX_RANK]; // of tokens, from plane 0 on, but for those behind a state
    vt_fake_report end[MAX_RANK];
    vt_team_seq *seq[MAX_SEQ];
    uint32_t len[MAX_SEQ];
    bool swapped[MAX_SEQ];
    uint64_t rng;
} rig;

static rig r;

static uint32_t draw(uint32_t below)
{
    r.rng = r.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((r.rng >> 33) % below);
}

// ---- A team. Rank k has 2 + k planes and a budget of its own.

static size_t chunk_bytes(uint32_t k)
{
    return (2 + k) * (size_t)VT_FAKE_PAGE_BYTES;
}

static uint32_t groups_of(uint32_t k, vt_group group[3])
{
    static const uint32_t n_group[N_RIG_KIND] = {1, 2, 3};
    group[0] = (vt_group){.kind = VT_GROUP_TOKENS, .n_plane = 2 + k, .row_bytes = ROW_BYTES};
    group[1] = (vt_group){.kind = VT_GROUP_STATE, .n_plane = 1, .row_bytes = 5000};
    group[2] = (vt_group){.kind = VT_GROUP_TOKENS, .n_plane = 1, .row_bytes = 4};
    if (r.kind == WITH_WINDOWS)
        group[1] = (vt_group){.kind = VT_GROUP_TOKENS,
                              .n_plane = 1 + k,
                              .row_bytes = ROW_BYTES,
                              .window_tok = 40 + 9 * k};
    return n_group[r.kind];
}

static void rank_open(uint32_t k, uint64_t budget_chunks, vt_mapper mapper)
{
    vt_group groups[3];
    vt_vmm *fake = vt_fake_open();
    assert_non_null(fake);
    vt_fake_set_epitaph(fake, &r.end[k]);
    r.fake[k] = fake;
    r.fault[k] = vt_fault_open(fake);
    assert_non_null(r.fault[k]);
    vt_config cfg = vt_config_default();
    cfg.group = groups;
    cfg.n_group = groups_of(k, groups);
    r.n_plane[k] = groups[0].n_plane + (r.kind == WITH_WINDOWS ? groups[1].n_plane : 0);
    cfg.max_tok = MAX_TOK;
    cfg.max_seq = MAX_SEQ;
    cfg.budget_bytes = budget_chunks * chunk_bytes(k);
    cfg.swap_bytes = 64 * chunk_bytes(k);
    cfg.swap_dir = "/tmp";
    cfg.mapper = mapper;
    cfg.vmm = r.fault[k];
    assert_ok(vt_manager_create(&cfg, &r.m[k]));
}

static void rig_open_as(uint32_t n, const uint64_t *budget_chunks, rig_kind kind, vt_mapper mapper)
{
    r = (rig){.n = n, .kind = kind, .rng = 7};
    for (uint32_t k = 0; k < n; k++) rank_open(k, budget_chunks[k], mapper);
    assert_ok(vt_team_create(r.m, n, &r.t));
    assert_ok(vt_team_domain_open(r.t, "team", 4, &r.d));
}

static void rig_open(uint32_t n, const uint64_t *budget_chunks, rig_kind kind)
{
    rig_open_as(n, budget_chunks, kind, VT_MAPPER_OWNER);
}

static void rig_close(void)
{
    for (uint32_t k = 0; k < r.n; k++) vt_fault_disarm(r.fault[k]);
    vt_team_destroy(r.t);
    for (uint32_t k = 0; k < r.n; k++) {
        vt_manager_destroy(r.m[k]);
        if (r.end[k].violation) fail_msg("the contract is broken: %s", r.end[k].violation);
        assert_int_equal(r.end[k].n_created, 0);
        assert_int_equal(r.end[k].reserved_bytes, 0);
    }
}

static bool count_seq(void *ud, vt_team_seq *s)
{
    uint32_t *n = ud;
    bool known = false;
    for (uint32_t i = 0; i < MAX_SEQ; i++) known |= r.seq[i] == s;
    *n += known;
    return true;
}

static bool stop_at_once(void *ud, vt_team_seq *s)
{
    ++*(uint32_t *)ud;
    (void)s;
    return false;
}

// A walk meets every sequence once, or as many as it wants.
static void verify_walk(void)
{
    uint32_t n = 0, n_met = 0, n_first = 0;
    for (uint32_t i = 0; i < MAX_SEQ; i++) n += r.seq[i] != NULL;
    vt_team_seq_each(r.t, count_seq, &n_met);
    vt_team_seq_each(r.t, stop_at_once, &n_first);
    assert_int_equal(n_met, n);
    assert_int_equal(n_first, n > 0);
}

static void verify_team(void)
{
    const char *what = NULL;
    for (uint32_t k = 0; k < r.n; k++) vt_fault_disarm(r.fault[k]);
    vt_status st = vt_team_check(r.t, &what);
    if (st != VT_OK) fail_msg("vt_team_check: %s", what ? what : vt_status_name(st));
    verify_walk();
    for (uint32_t i = 0; i < MAX_SEQ; i++) {
        if (!r.seq[i] || vt_team_seq_is_lost(r.seq[i])) continue;
        assert_int_equal(vt_team_seq_len(r.seq[i]), r.len[i]);
        for (uint32_t k = 0; k < r.n; k++)
            assert_int_equal(vt_seq_len(vt_team_seq_rank(r.seq[i], k)), r.len[i]);
    }
    for (uint32_t k = 0; k < r.n; k++) {
        vt_stats s;
        vt_get_stats(r.m[k], &s);
        assert_true(s.mapped_bytes <= s.budget_bytes);
    }
}

// ---- The operations: on place i, and place j for what is new

static uint32_t prompt[MAX_TOK]; // all tokens are 0

static vt_status op_create(uint32_t i, uint32_t j)
{
    (void)i;
    vt_status st = vt_team_seq_create(r.t, 40, &r.seq[j]);
    if (st == VT_OK) r.len[j] = 0;
    return st;
}

// New rows are zero in every rank, whatever was taken back there before; then they are written.
static void write_rank(uint32_t i, uint32_t k, uint32_t from_tok)
{
    const vt_seq *s = vt_team_seq_rank(r.seq[i], k);
    for (uint32_t p = 0; p < r.n_plane[k]; p++)
        for (uint32_t t = from_tok; t < r.len[i]; t++) {
            uintptr_t row = (uintptr_t)vt_seq_plane(s, p) + t * vt_plane_stride(r.m[k], p);
            if (!vt_fake_is_zero(r.fake[k], row, ROW_BYTES))
                fail_msg("rank %u, plane %u, token %u is not zero", k, p, t);
            vt_fake_touch(r.fake[k], row, ROW_BYTES);
        }
}

static void has_grown(uint32_t i, uint32_t len_tok)
{
    uint32_t from_tok = r.len[i];
    if (len_tok <= from_tok) return;
    r.len[i] = len_tok;
    for (uint32_t k = 0; k < r.n; k++) write_rank(i, k, from_tok);
}

static vt_status op_extend(uint32_t i, uint32_t j)
{
    (void)j;
    uint32_t len = r.len[i] + 70 < MAX_TOK ? r.len[i] + 70 : MAX_TOK;
    vt_status st = vt_team_seq_extend(r.seq[i], len);
    if (st == VT_OK) has_grown(i, len);
    return st;
}

static vt_status op_fork(uint32_t i, uint32_t j)
{
    vt_status st = vt_team_seq_fork(r.seq[i], r.len[i], &r.seq[j]);
    if (st == VT_OK) r.len[j] = r.len[i];
    return st;
}

static vt_status op_truncate(uint32_t i, uint32_t j)
{
    (void)j;
    uint32_t len = r.len[i] / 2;
    vt_status st = vt_team_seq_truncate(r.seq[i], len);
    if (st == VT_OK) r.len[i] = len;
    return st;
}

static vt_status op_match(uint32_t i, uint32_t j)
{
    (void)i;
    uint32_t n_hit, n = vt_team_match(r.d, prompt, MAX_TOK);
    vt_status st = vt_team_seq_match(r.d, prompt, MAX_TOK, 0, &r.seq[j], &n_hit);
    assert_int_equal(n_hit, st == VT_OK ? n : 0);
    if (st == VT_OK) r.len[j] = n;
    return st;
}

static vt_status op_record(uint32_t i, uint32_t j)
{
    (void)j;
    const vt_retention keep = {.priority = 1};
    return vt_team_seq_record(r.seq[i], r.d, prompt, r.len[i], draw(2) ? &keep : NULL);
}

// These leave it on its way. Ranks arrive in other steps than others: some have more chunks.
static vt_status op_send_out(uint32_t i, uint32_t j)
{
    (void)j;
    vt_status st = vt_team_seq_swap_out(r.seq[i]);
    if (st == VT_BUSY) assert_true(vt_team_seq_is_swapped(r.seq[i]));
    return st;
}

static vt_status op_send_in(uint32_t i, uint32_t j)
{
    (void)j;
    vt_status st = vt_team_seq_swap_in(r.seq[i]);
    assert_true(vt_team_seq_is_swapped(r.seq[i]) == (st != VT_OK));
    return st;
}

static vt_status op_swap_out(uint32_t i, uint32_t j)
{
    vt_status st = op_send_out(i, j);
    return st == VT_BUSY ? vt_team_seq_wait(r.seq[i]) : st;
}

static vt_status op_swap_in(uint32_t i, uint32_t j)
{
    vt_status st = op_send_in(i, j);
    if (st == VT_BUSY) st = vt_team_seq_wait(r.seq[i]);
    if (st == VT_OK) assert_false(vt_team_seq_is_swapped(r.seq[i]));
    return st;
}

static vt_status op_prepare(uint32_t i, uint32_t j)
{
    (void)j;
    vt_status st = vt_team_seq_prepare(r.seq[i], r.len[i] + 64, 1);
    return st == VT_OK ? vt_team_seq_wait(r.seq[i]) : st;
}

static vt_status op_step(uint32_t i, uint32_t j)
{
    (void)i, (void)j;
    vt_status st = vt_team_step(r.t, VT_AHEAD_SLACK, 16, 0);
    for (uint32_t k = 0; k < r.n; k++) vt_work(r.m[k], 4, NULL);
    return st;
}

static vt_status op_release(uint32_t i, uint32_t j)
{
    (void)j;
    vt_team_seq_release(r.seq[i]);
    r.seq[i] = NULL;
    return VT_OK;
}

static vt_status op_evict(uint32_t i, uint32_t j)
{
    (void)i, (void)j;
    return vt_team_evict(r.t, chunk_bytes(0), NULL);
}

static vt_status op_many(uint32_t i, uint32_t j)
{
    (void)j;
    uint32_t n_done, to[2] = {r.len[i], r.len[i] + 33 < MAX_TOK ? r.len[i] + 33 : MAX_TOK};
    vt_team_seq *const both[2] = {r.seq[i], r.seq[i]};
    vt_status st = vt_team_seq_extend_many(both, to, 2, &n_done);
    assert_true((st == VT_OK) == (n_done == 2));
    if (st == VT_OK) has_grown(i, to[1]);
    return st;
}

// Half of what it was, and back.
static vt_status op_budget(uint32_t i, uint32_t j)
{
    (void)i, (void)j;
    uint64_t had[MAX_RANK], less[MAX_RANK];
    vt_stats s;
    for (uint32_t k = 0; k < r.n; k++) {
        vt_get_stats(r.m[k], &s);
        had[k] = s.budget_bytes;
        less[k] = had[k] / 2;
    }
    vt_status st = vt_team_set_budget(r.t, less);
    for (uint32_t k = 0; k < r.n; k++) {
        vt_get_stats(r.m[k], &s);
        assert_int_equal(s.budget_bytes, st == VT_OK ? less[k] : had[k]);
    }
    if (st == VT_OK) assert_ok(vt_team_set_budget(r.t, had));
    return st;
}

// ---- The sweep

typedef vt_status op_fn(uint32_t i, uint32_t j);

// A sequence of 100 tokens, recorded and shared by another; with `out`, swapped out.
static void set_stage(bool out)
{
    assert_ok(op_create(0, 0));
    assert_ok(op_extend(0, 0));
    assert_ok(op_record(0, 0));
    if (!out) assert_ok(op_fork(0, 1));
    if (out) assert_ok(op_swap_out(0, 0));
}

static rig_kind sweep_kind;

// Call number i of rank k fails in the operation. False: it has no such call.
static bool sweep_one(op_fn *op, bool out, uint32_t k, uint64_t i, uint64_t n_more, vt_status how)
{
    const uint64_t budget[MAX_RANK] = {60, 50, 40};
    rig_open(MAX_RANK, budget, sweep_kind);
    set_stage(out);
    vt_fault_arm(r.fault[k], i, n_more, how);
    vt_status st = op(0, 2);
    bool fired = vt_fault_fired(r.fault[k]) > 0;
    verify_team();
    if (st != VT_OK) assert_true(vt_team_seq_is_lost(r.seq[0]) || !r.seq[2]);
    assert_ok(op_step(0, 0)); // after which the system is asked for memory again
    if (st != VT_OK && !vt_team_seq_is_lost(r.seq[0])) assert_ok(op(0, 2));
    verify_team();
    rig_close();
    return fired;
}

static void sweep_op(op_fn *op, bool out)
{
    static const vt_status how[] = {VT_NOSPACE, VT_EDEVICE};
    for (uint32_t i = 0; i < 4 * MAX_RANK; i++) {
        const uint32_t rank = i / 4, h = i % 2;
        const uint64_t n_more = i & 2;
        if (!suite_takes(rank + n_more / 2 + h + sweep_kind, 2)) continue;
        for (uint64_t call = 0; sweep_one(op, out, rank, call, n_more, how[h]);) call++;
    }
}

FX_TEST(test_a_failing_call_of_one_rank_changes_none)
{
    op_fn *const in[] = {op_create,   op_extend,  op_fork, op_truncate, op_match, op_record,
                         op_swap_out, op_prepare, op_step, op_evict,    op_many,  op_budget};
    for (sweep_kind = PLAIN; sweep_kind < N_RIG_KIND; sweep_kind++) {
        for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
            if (sweep_kind == PLAIN || in[i] != op_truncate) sweep_op(in[i], false);
        sweep_op(op_swap_in, true);
    }
}

// ---- Traces

static const struct {
    op_fn *op;
    uint32_t weight;
    bool makes; // a sequence in the other place
} ops[] = {
    {op_extend, 30, false},  {op_fork, 8, true},      {op_truncate, 6, false},
    {op_record, 14, false},  {op_match, 14, true},    {op_create, 6, true},
    {op_release, 16, false}, {op_swap_out, 5, false}, {op_swap_in, 8, false},
    {op_prepare, 6, false},  {op_step, 8, false},     {op_evict, 2, false},
    {op_many, 8, false},     {op_budget, 2, false},   {op_send_out, 9, false},
    {op_send_in, 9, false},
};

static op_fn *draw_op(bool lives)
{
    uint32_t sum = 0, n = 0;
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) sum += ops[k].weight;
    if (!lives) return draw(2) ? op_create : op_match;
    uint32_t at = draw(sum);
    while (at >= ops[n].weight) at -= ops[n++].weight;
    return ops[n].op;
}

static bool op_makes(op_fn *op)
{
    size_t k = 0;
    while (ops[k].op != op) k++;
    return ops[k].makes;
}

static void trace_step(bool faulty)
{
    uint32_t i = draw(MAX_SEQ), j = draw(MAX_SEQ);
    if (r.seq[i] && vt_team_seq_is_lost(r.seq[i])) (void)op_release(i, i);
    op_fn *op = draw_op(r.seq[i] != NULL);
    if (!r.seq[i]) j = i;
    if (op_makes(op) && r.seq[j]) return;
    bool out = r.seq[i] && vt_team_seq_is_swapped(r.seq[i]);
    vt_status st = op(i, j);
    assert_int_not_equal(st, VT_ENOMEM);
    if (!faulty) assert_int_not_equal(st, VT_EDEVICE);
    if (st == VT_EINVAL) assert_true(out || r.kind != PLAIN);
}

static void run_trace(uint32_t n, const uint64_t *budget, rig_kind kind, bool faulty)
{
    uint64_t seed = env_or("VT_TEST_SEED", 11), n_step = env_or("VT_TEST_STEPS", 1500);
    rig_open(n, budget, kind);
    r.rng = seed;
    for (uint64_t s = 0; s < n_step; s++) {
        if (faulty && s % 3 > 0)
            vt_fault_arm_random(r.fault[s % n], seed ^ (s << 20), 2 + (uint32_t)(s % 9));
        trace_step(faulty);
        verify_team();
    }
    rig_close();
}

FX_TEST(test_ranks_never_differ)
{
    const uint64_t roomy[] = {60, 60, 60}, first_is_poor[] = {14, 40, 60},
                   last_is_poor[] = {50, 40, 13};
    for (int faulty = 0; faulty < 2; faulty++) {
        run_trace(2, roomy, PLAIN, faulty);
        run_trace(2, first_is_poor, PLAIN, faulty);
        run_trace(3, first_is_poor, PLAIN, faulty);
        run_trace(3, last_is_poor, PLAIN, faulty);
        run_trace(3, last_is_poor, WITH_STATE, faulty);
        run_trace(2, first_is_poor, WITH_WINDOWS, faulty);
        run_trace(3, last_is_poor, WITH_WINDOWS, faulty);
    }
}

// Ranks get ahead at different speeds.
static void run_soak(uint64_t seed, rig_kind kind, bool faulty)
{
    const uint64_t budget[] = {16 + seed % 40, 40, 18};
    rig_open_as(3, budget, kind, VT_MAPPER_THREAD);
    r.rng = seed;
    for (uint32_t k = 0; k < r.n; k++) vt_fault_set_delay(r.fault[k], seed + k, 10u << k);
    for (uint64_t s = 0; s < 300; s++) {
        if (faulty && s % 3 > 0)
            vt_fault_arm_random(r.fault[s % 3], seed ^ (s << 20), 4 + (uint32_t)(s % 9));
        trace_step(faulty);
        for (uint32_t k = 0; k < r.n; k++) vt_fault_disarm(r.fault[k]);
        if (s % 16 == 0) verify_team();
    }
    verify_team();
    rig_close();
}

FX_TEST(test_ranks_never_differ_beside_their_mappers)
{
    uint64_t seed = env_or("VT_TEST_SEED", 11), n_round = env_or("VT_TEST_STEPS", 3600) / 300;
    for (uint64_t i = 0; i < n_round; i++)
        run_soak(seed + i, (rig_kind)(i % N_RIG_KIND), i / N_RIG_KIND % 2);
}

// ---- Details

FX_TEST(test_a_match_is_what_all_ranks_have)
{
    const uint64_t budget[] = {40, 40};
    rig_open(2, budget, PLAIN);
    assert_ok(op_create(0, 0));
    assert_ok(vt_team_seq_extend(r.seq[0], 96));
    assert_ok(vt_team_seq_record(r.seq[0], r.d, prompt, 96, NULL));
    vt_team_seq_release(r.seq[0]);
    assert_int_equal(vt_team_match(r.d, prompt, MAX_TOK), 96);
    uint64_t freed;
    assert_ok(vt_evict(r.m[1], 1, &freed)); // the last chunk of that rank
    assert_int_equal(vt_match(vt_team_domain_rank(r.d, 0), prompt, MAX_TOK), 96);
    uint32_t n_hit, least = vt_match(vt_team_domain_rank(r.d, 1), prompt, MAX_TOK);
    assert_true(least < 96);
    assert_ok(vt_team_seq_match(r.d, prompt, MAX_TOK, 0, &r.seq[0], &n_hit));
    assert_int_equal(n_hit, least);
    r.len[0] = least;
    verify_team();
    rig_close();
}

FX_TEST(test_what_a_team_tells_and_forgets_is_of_all_ranks)
{
    const uint64_t budget[] = {40, 40};
    rig_open(2, budget, PLAIN);
    assert_int_equal(vt_team_n_rank(r.t), 2);
    for (uint32_t k = 0; k < 2; k++) assert_ptr_equal(vt_team_manager(r.t, k), r.m[k]);
    assert_ok(op_create(0, 0));
    assert_ok(vt_team_seq_extend(r.seq[0], 96));
    r.len[0] = 96;
    assert_int_equal(vt_team_seq_backed(r.seq[0]), 96);
    vt_seq *ahead = vt_team_seq_rank(r.seq[0], 1); // of the other rank
    assert_ok(vt_seq_prepare(ahead, 128, 0));
    assert_ok(vt_seq_wait(ahead));
    assert_int_equal(vt_seq_backed(ahead), 128);
    assert_int_equal(vt_team_seq_backed(r.seq[0]), 96);
    assert_ok(vt_team_seq_record(r.seq[0], r.d, prompt, 96, NULL));
    assert_int_equal(vt_team_match(r.d, prompt, 96), 96);
    vt_team_domain_forget(r.d);
    for (uint32_t k = 0; k < 2; k++)
        assert_int_equal(vt_match(vt_team_domain_rank(r.d, k), prompt, 96), 0);
    verify_team();
    assert_ok(op_swap_out(0, 0));
    assert_int_equal(vt_team_seq_backed(r.seq[0]), 96); // all of it can come back
    rig_close();
}

FX_TEST(test_an_extend_with_a_state_is_taken_back)
{
    const uint64_t budget[] = {40, 40, 9};
    rig_open(3, budget, WITH_STATE);
    assert_ok(op_create(0, 0));
    assert_ok(vt_team_seq_extend(r.seq[0], 40));
    r.len[0] = 40;
    assert_ok(op_create(1, 1));
    assert_ok(vt_team_seq_extend(r.seq[1], 96));
    r.len[1] = 96;
    assert_int_equal(vt_team_seq_extend(r.seq[0], 256), VT_NOSPACE); // rank 2 has no more
    verify_team();
    assert_ok(vt_team_seq_extend(r.seq[0], 64));
    rig_close();
}

// What a window passes is gone: no rank lets it pass rows in an extend that another one refuses.
FX_TEST(test_an_extend_with_windows_is_taken_back)
{
    const uint64_t budget[] = {40, 12};
    rig_open(2, budget, WITH_WINDOWS);
    assert_ok(op_create(0, 0));
    assert_ok(vt_team_seq_extend(r.seq[0], 33));
    assert_ok(vt_team_seq_extend(r.seq[0], 160));
    r.len[0] = 160;
    assert_int_equal(vt_team_seq_extend(r.seq[0], 250), VT_NOSPACE); // of rank 1
    verify_team();
    assert_ok(vt_team_seq_truncate(r.seq[0], 33)); // as before that call
    r.len[0] = 33;
    verify_team();
    rig_close();
}

FX_TEST(test_bad_teams_are_refused)
{
    const uint64_t budget[] = {10, 10};
    rig_open(2, budget, PLAIN);
    vt_manager *twice[] = {r.m[0], r.m[0]};
    vt_team *t;
    assert_int_equal(vt_team_create(twice, 2, &t), VT_EINVAL);
    assert_null(t);
    assert_int_equal(vt_team_create(twice, 0, &t), VT_EINVAL);
    rig_close();
}

FX_RUN(test_vt_team)
