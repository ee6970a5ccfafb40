// test_vt_give_back.c - 64 GiB go back to the system a little at a time: what a call of the owner
// does is bounded, whatever the amount; sequences grow and others begin meanwhile; and a smaller
// budget holds from its first moment. spare_high_bytes keeps its share of a budget that changes.
//
// The backend has no memory: it counts, for each call of the manager, the calls of its table that
// the owner makes. The mapper's are made in vt_work, between them.
#include "assert_vt.h"

#include <stdlib.h>

#include "suite.h"
#include "vtensor/core/manager.h"
#include "vtensor/vtensor.h"

#define GIB        ((uint64_t)1 << 30)
#define PAGE_BYTES ((size_t)64 << 10)

enum {
    N_PLANE = 8,                  // 512 KiB to a chunk
    CHUNK_TOK = 16,               // and tokens, which are a block
    PROMPT_TOK = 256 * CHUNK_TOK, // 128 MiB
    MOST_NODES = 256,             // evicted in one call
    MOST_CHUNKS = 1024,           // that return to the system in one call
};

typedef struct counting {
    vt_vmm vmm;
    vt_vmm_geometry geo;
    uintptr_t next_addr;
    uint64_t created_bytes, mapped_bytes;
    uint64_t n_call, n_destroyed; // calls that take time, and chunks
} counting;

static counting *of(vt_vmm *vmm)
{
    return (counting *)vmm;
}

static size_t c_granularity(vt_vmm *vmm)
{
    (void)vmm;
    return PAGE_BYTES;
}

static vt_status c_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    of(vmm)->geo = *geo;
    return VT_OK;
}

static uint64_t c_max_runs(vt_vmm *vmm)
{
    (void)vmm;
    return UINT64_MAX;
}

static bool c_yes(vt_vmm *vmm)
{
    (void)vmm;
    return true;
}

static vt_status c_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    *addr = of(vmm)->next_addr;
    of(vmm)->next_addr += size_bytes;
    return VT_OK;
}

static vt_status c_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm, (void)addr, (void)size_bytes;
    return VT_OK;
}

static vt_status c_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    (void)index;
    of(vmm)->n_call++;
    of(vmm)->created_bytes += n * N_PLANE * PAGE_BYTES;
    return VT_OK;
}

static vt_status c_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    (void)index;
    of(vmm)->n_call++;
    of(vmm)->n_destroyed += n;
    of(vmm)->created_bytes -= n * N_PLANE * PAGE_BYTES;
    return VT_OK;
}

static vt_status c_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                       vt_vmm_use use)
{
    (void)addr, (void)slice, (void)index, (void)use;
    of(vmm)->n_call++;
    of(vmm)->mapped_bytes += n * PAGE_BYTES;
    return VT_OK;
}

static vt_status c_protect(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_use use)
{
    (void)addr, (void)size_bytes, (void)use;
    of(vmm)->n_call++;
    return VT_OK;
}

static vt_status c_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)addr;
    of(vmm)->n_call++;
    of(vmm)->mapped_bytes -= size_bytes;
    return VT_OK;
}

static vt_status c_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                         size_t size_bytes, vt_vmm_order order)
{
    (void)dst, (void)slice, (void)index, (void)offset, (void)size_bytes, (void)order;
    of(vmm)->n_call++;
    return VT_OK;
}

static vt_status c_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    (void)addr, (void)size_bytes, (void)order;
    of(vmm)->n_call++;
    return VT_OK;
}

static vt_status c_fence(vt_vmm *vmm, uint64_t *ticket)
{
    (void)vmm;
    *ticket = 0;
    return VT_OK;
}

static vt_status c_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    (void)vmm, (void)ticket, (void)wait;
    *is_passed = true;
    return VT_OK;
}

static vt_status c_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    *size_bytes = of(vmm)->created_bytes;
    return VT_OK;
}

static vt_status c_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    *size_bytes = of(vmm)->mapped_bytes;
    *n_mapping = 0;
    return VT_OK;
}

static void c_close(vt_vmm *vmm)
{
    (void)vmm;
}

static const vt_vmm_ops counting_ops = {
    .name = "counting",
    .granularity = c_granularity,
    .configure = c_configure,
    .max_runs = c_max_runs,
    .can_protect = c_yes,
    .creates_zeroed = c_yes,
    .reserve = c_reserve,
    .unreserve = c_unreserve,
    .create = c_create,
    .destroy = c_destroy,
    .map = c_map,
    .protect = c_protect,
    .unmap = c_unmap,
    .fetch = c_fetch,
    .zero = c_zero,
    .fence = c_fence,
    .passed = c_passed,
    .resident = c_resident,
    .mapped = c_mapped,
    .close = c_close,
};

// ---- A manager, and how much its owner does in a call

typedef struct rig {
    counting backend;
    vt_manager *m;
    vt_domain *d;
    vt_seq *stream;     // one that grows by a token in each step
    uint32_t n_prompt;  // so far: each is another
    uint64_t n_call;    // of the backend, before this call of the owner
    uint64_t n_evicted; // the same of nodes
    uint64_t n_made;    // chunks destroyed so far, before the last vt_work
} rig;

static rig r;

static vt_stats stats(void)
{
    vt_stats st;
    vt_get_stats(r.m, &st);
    return st;
}

static void begin_call(void)
{
    r.n_call = r.backend.n_call;
    r.n_evicted = stats().prefix_evicted;
}

static void end_call(uint64_t most_calls)
{
    assert_in_range(r.backend.n_call - r.n_call, 0, most_calls);
    assert_in_range(stats().prefix_evicted - r.n_evicted, 0, MOST_NODES);
}

// What the owner has planned is done here, all of it.
static void work_as_mapper(void)
{
    const uint64_t had = r.backend.n_destroyed;
    vt_work(r.m, UINT32_MAX, NULL);
    assert_in_range(r.backend.n_destroyed - had, 0, MOST_CHUNKS);
}

static void step_once(uint64_t now_ms)
{
    begin_call();
    assert_ok(vt_step(r.m, VT_AHEAD_SLACK, CHUNK_TOK, now_ms));
    end_call(0);
    work_as_mapper();
}

static void fill_prompt(uint32_t *tok, uint32_t name)
{
    for (uint32_t i = 0; i < PROMPT_TOK; i++) tok[i] = name * PROMPT_TOK + i;
}

// A request: its prompt is recorded, or not, and it ends.
static void serve_one(uint32_t n_tok, bool records)
{
    uint32_t *tok = malloc(PROMPT_TOK * sizeof *tok), n_hit;
    vt_seq *s;
    assert_non_null(tok);
    fill_prompt(tok, ++r.n_prompt);
    assert_ok(vt_seq_match(r.d, tok, n_tok, 0, &s, &n_hit));
    assert_ok(vt_seq_extend(s, n_tok));
    if (records) assert_ok(vt_seq_record(s, r.d, tok, n_tok, NULL));
    vt_seq_release(s);
    free(tok);
}

static void open_with(uint64_t gib, uint64_t spare_gib)
{
    vt_config cfg = vt_config_default();
    r = (rig){.backend = {.vmm.ops = &counting_ops, .next_addr = PAGE_BYTES}};
    cfg.n_plane = N_PLANE;
    cfg.row_bytes = PAGE_BYTES / CHUNK_TOK;
    cfg.max_tok = PROMPT_TOK;
    cfg.max_seq = 1024;
    cfg.slice_bytes = PAGE_BYTES;
    cfg.budget_bytes = (gib + spare_gib + 1) * GIB;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = &r.backend.vmm;
    assert_ok(vt_manager_create(&cfg, &r.m));
    assert_ok(vt_domain_open(r.m, "big", 3, &r.d));
    assert_ok(vt_seq_create(r.m, 0, &r.stream));
    assert_ok(vt_seq_extend(r.stream, 1));
    for (uint64_t done = 0; done < gib * GIB; done += GIB / 8) serve_one(PROMPT_TOK, true);
    vt_seq *s[512];
    const uint32_t n = (uint32_t)(spare_gib * 8);
    for (uint32_t i = 0; i < n; i++) {
        assert_ok(vt_seq_create(r.m, 0, &s[i]));
        assert_ok(vt_seq_extend(s[i], PROMPT_TOK));
    }
    for (uint32_t i = 0; i < n; i++) vt_seq_release(s[i]);
    for (int i = 0; i < 3; i++) step_once(0);
    assert_in_range(stats().cached_bytes, gib * GIB, (gib + 1) * GIB);
    assert_in_range(stats().spare_bytes, spare_gib * GIB, (spare_gib + 1) * GIB);
}

static void close_all(void)
{
    assert_ok(vt_check(r.m, NULL));
    vt_seq_release(r.stream);
    vt_domain_close(r.d);
    vt_manager_destroy(r.m);
    assert_int_equal(r.backend.created_bytes, 0);
    assert_int_equal(r.backend.mapped_bytes, 0);
}

// In each step the stream grows, and a newcomer is served.
static uint32_t steps_until_done(uint64_t most_bytes)
{
    uint32_t n_step = 0;
    uint64_t left = UINT64_MAX;
    while (stats().returning_bytes > 0) {
        assert_ok(vt_seq_extend(r.stream, 1 + n_step % PROMPT_TOK));
        serve_one(CHUNK_TOK, false);
        step_once(n_step++);
        assert_in_range(stats().mapped_bytes, 0, left); // it only goes down
        left = stats().mapped_bytes + GIB / 64;
        assert_in_range(n_step, 0, 2000);
    }
    assert_in_range(stats().mapped_bytes, 0, most_bytes);
    return n_step;
}

// What the stream has, and newcomers release in a few steps.
#define LITTLE GIB

FX_TEST(test_a_cleared_cache_goes_bit_by_bit)
{
    static const uint64_t gib[] = {1, 8, 64};
    for (size_t i = 0; i < sizeof gib / sizeof gib[0]; i++) {
        open_with(gib[i], 0);
        begin_call();
        vt_give_back(r.m, 0, true);
        end_call(0);
        assert_true(stats().returning_bytes >= gib[i] * GIB - MOST_CHUNKS * stats().chunk_bytes);
        const uint32_t n_step = steps_until_done(LITTLE);
        assert_in_range(n_step, gib[i] * 8 - 8, gib[i] * 10 + 10);
        assert_int_equal(stats().prefix_nodes, 0);
        close_all();
    }
}

FX_TEST(test_spare_memory_goes_bit_by_bit)
{
    open_with(0, 64);
    begin_call();
    vt_give_back(r.m, 4 * GIB, false);
    end_call(0);
    (void)steps_until_done(4 * GIB + LITTLE);
    assert_true(stats().mapped_bytes > 3 * GIB);
    close_all();
}

FX_TEST(test_a_smaller_budget_holds_at_once_and_memory_follows)
{
    open_with(64, 0);
    begin_call();
    assert_ok(vt_aim_budget(r.m, GIB));
    end_call(0);
    assert_int_equal(stats().budget_bytes, GIB);
    assert_true(stats().mapped_bytes > 60 * GIB);
    for (uint32_t i = 0; i < 9; i++) { // there is memory, but not for the eighth
        vt_seq *s;
        assert_ok(vt_seq_create(r.m, 0, &s));
        assert_int_equal(vt_seq_extend(s, PROMPT_TOK), i < 7 ? VT_OK : VT_NOSPACE);
    }
    assert_ok(vt_check(r.m, NULL));
    for (int i = 0; stats().returning_bytes > 0; i++) {
        step_once((uint64_t)i);
        assert_in_range(i, 0, 1000);
    }
    assert_in_range(stats().mapped_bytes, 7 * GIB / 8, GIB);
    close_all();
}

FX_TEST(test_a_budget_below_what_sequences_hold_changes_nothing)
{
    open_with(1, 0);
    assert_ok(vt_seq_extend(r.stream, PROMPT_TOK));
    const vt_stats was = stats();
    assert_int_equal(vt_aim_budget(r.m, GIB / 16), VT_NOSPACE);
    assert_int_equal(stats().budget_bytes, was.budget_bytes);
    assert_int_equal(stats().prefix_nodes, was.prefix_nodes);
    assert_int_equal(stats().returning_bytes, 0);
    assert_int_equal(vt_aim_budget(r.m, 1), VT_EINVAL);
    close_all();
}

enum { BUDGET = 1 << 20 };

FX_TEST(test_spare_high_follows_the_budget)
{
    static const uint64_t high[][2] = {{BUDGET / 16, BUDGET}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof high / sizeof high[0]; i++) {
        vt_config cfg = vt_config_default();
        cfg.n_plane = 2, cfg.row_bytes = 128, cfg.max_tok = 512, cfg.max_seq = 4;
        cfg.budget_bytes = BUDGET;
        cfg.spare_high_bytes = high[i][0];
        cfg.mapper = VT_MAPPER_OWNER;
        vt_manager *m;
        assert_ok(vt_manager_create(&cfg, &m));
        assert_ok(vt_set_budget(m, 16 * BUDGET));
        assert_int_equal(m->spare_high_bytes, high[i][1]);
        assert_ok(vt_set_budget(m, BUDGET));
        assert_int_equal(m->spare_high_bytes, high[i][0]);
        assert_status(VT_EINVAL, vt_set_budget(m, 1));
        assert_int_equal(m->spare_high_bytes, high[i][0]);
        vt_manager_destroy(m);
    }
}

FX_RUN(test_vt_give_back)
