// test_vt_api.c - what an embedder sees: statuses that tell what ran out, structs of older and
// newer callers, extend of many, quotas, enumeration, events, statistics from another thread, and
// how little is evicted. And fork(2): a child that destroys its copy of a manager, or asks the
// backend to change memory, leaves the parent's as it is, and does not wait for threads that it
// lacks.
#include "assert_vt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "suite.h"
#include "unit/in_child.h"
#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/vattention.h"
#include "vtensor/vmm.h"
#include "vtensor/vtensor.h"

enum { CHUNK_TOK = 32, CHUNK_BYTES = 8192, MAX_TOK = 320 };

typedef struct rig {
    vt_vmm *fake, *fault;
    vt_manager *m;
    vt_domain *d;
} rig;

static rig r;

// Two planes of 128 bytes a token: chunks of 32 tokens, two pages.
static vt_config plain_config(uint64_t budget_chunks)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2, cfg.row_bytes = 128, cfg.max_tok = MAX_TOK, cfg.max_seq = 4;
    cfg.budget_bytes = budget_chunks * CHUNK_BYTES;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.swap_bytes = 2 * CHUNK_BYTES;
    cfg.n_event = 16;
    return cfg;
}

static void open_with(vt_config cfg)
{
    r.fake = vt_fake_open();
    r.fault = cfg.vmm = vt_fault_open(r.fake);
    assert_ok(vt_manager_create(&cfg, &r.m));
    assert_ok(vt_domain_open(r.m, "d", 1, &r.d));
}

VT_FIXTURE(setup)
{
    open_with(plain_config(10));
}

VT_FIXTURE(teardown)
{
    const char *what = NULL;
    if (vt_check(r.m, &what) != VT_OK) fail_msg("vt_check: %s", what);
    assert_null(vt_fake_look(r.fake).violation);
    vt_domain_close(r.d);
    vt_manager_destroy(r.m);
}

static vt_seq *grown(uint32_t len_tok)
{
    vt_seq *s;
    assert_ok(vt_seq_create(r.m, 0, &s));
    assert_ok(vt_seq_extend(s, len_tok));
    return s;
}

// The tokens first, first + 1, ...
static const uint32_t *tokens(uint32_t first)
{
    static uint32_t tok[MAX_TOK];
    for (uint32_t i = 0; i < MAX_TOK; i++) tok[i] = first + i;
    return tok;
}

static void told(uint32_t first, uint32_t n_tok, const vt_retention *keep)
{
    vt_seq *s = grown(n_tok);
    assert_ok(vt_seq_record(s, r.d, tokens(first), n_tok, keep));
    vt_seq_release(s);
}

static uint32_t hit(uint32_t first)
{
    return vt_match(r.d, tokens(first), MAX_TOK);
}

static vt_stats stats(void)
{
    vt_stats st;
    vt_get_stats(r.m, &st);
    return st;
}

// ---- Statuses

FX_TEST_WITH(test_the_budget_and_the_spans_run_out, setup, teardown)
{
    vt_seq *s = grown(6 * CHUNK_TOK), *more;
    assert_status(VT_NOSPACE, vt_seq_extend(grown(4 * CHUNK_TOK), 4 * CHUNK_TOK + 1));
    (void)grown(0), (void)grown(0);
    assert_status(VT_NOSPANS, vt_seq_create(r.m, 0, &more));
    assert_status(VT_NOSPANS, vt_seq_fork(s, 5, &more));
    assert_null(more);
    assert_int_equal(stats().shortages, 3);
}

FX_TEST_WITH(test_mappings_run_out, setup, teardown)
{
    (void)teardown(state);
    r.fake = vt_fake_open();
    vt_config cfg = plain_config(10);
    vt_fake_set_max_runs(r.fake, 3);
    r.fault = cfg.vmm = vt_fault_open(r.fake);
    assert_ok(vt_manager_create(&cfg, &r.m));
    assert_ok(vt_domain_open(r.m, "d", 1, &r.d));
    vt_seq *a = grown(5), *b = grown(0);
    assert_status(VT_NOMAPS, vt_seq_extend(b, 1));
    vt_seq_release(a);
    assert_ok(vt_seq_extend(b, 1));
}

FX_TEST_WITH(test_pins_and_the_swap_run_out, setup, teardown)
{
    const vt_retention pin = {.pinned = true};
    vt_seq *s = grown(6 * CHUNK_TOK);
    assert_status(VT_NOPINS, vt_seq_record(s, r.d, tokens(0), 6 * CHUNK_TOK, &pin));
    assert_status(VT_NOSWAP, vt_seq_swap_out(s));
    assert_ok(vt_seq_record(s, r.d, tokens(0), 6 * CHUNK_TOK, NULL));
    assert_status(VT_NOPINS, vt_retain(r.d, tokens(0), 6 * CHUNK_TOK, &pin, NULL));
    assert_ok(vt_retain(r.d, tokens(0), 5 * CHUNK_TOK, &pin, NULL));
}

// Memory that suffices, but that the device still uses.
FX_TEST_WITH(test_the_device_is_busy, setup, teardown)
{
    uint64_t ticket;
    vt_fake_set_async(r.fake, true);
    vt_seq *a = grown(8 * CHUNK_TOK), *b = grown(0);
    assert_ok(vt_seq_record(a, r.d, tokens(0), 8 * CHUNK_TOK, NULL));
    vt_fake_run(r.fake, (uintptr_t)vt_seq_plane(a, 0), 4096);
    vt_seq_release(a);
    assert_status(VT_BUSY, vt_seq_extend(b, 5 * CHUNK_TOK));
    assert_int_equal(hit(0), 8 * CHUNK_TOK); // nothing was evicted in vain
    assert_ok(r.fake->ops->fence(r.fake, &ticket));
    vt_fake_finish(r.fake, ticket);
    assert_ok(vt_seq_extend(b, 5 * CHUNK_TOK));
    assert_int_equal(vt_fake_look(r.fake).n_wait, 0);
}

FX_TEST_WITH(test_statuses_have_names_and_kinds, setup, teardown)
{
    static const struct {
        vt_status st;
        const char *name;
        bool is_shortage;
    } all[] = {
        {VT_OK, "VT_OK", false},           {VT_NOSPACE, "VT_NOSPACE", true},
        {VT_EDEVICE, "VT_EDEVICE", false}, {VT_EINVAL, "VT_EINVAL", false},
        {VT_ENOMEM, "VT_ENOMEM", false},   {VT_NOMAPS, "VT_NOMAPS", true},
        {VT_NOSPANS, "VT_NOSPANS", true},  {VT_NOPINS, "VT_NOPINS", true},
        {VT_NOSWAP, "VT_NOSWAP", true},    {VT_BUSY, "VT_BUSY", true},
    };
    assert_int_equal(sizeof all / sizeof all[0], VT_N_STATUS);
    for (size_t i = 0; i < VT_N_STATUS; i++) {
        assert_string_equal(vt_status_name(all[i].st), all[i].name);
        assert_int_equal(vt_is_shortage(all[i].st), all[i].is_shortage);
    }
    assert_string_equal(vt_status_name(VT_N_STATUS), "VT_?");
}

FX_TEST_WITH(test_an_unknown_policy_is_misuse, setup, teardown)
{
    assert_status(VT_EINVAL, vt_step(r.m, (vt_ahead)3, 1, 0));
    assert_status(VT_EINVAL, vt_step(r.m, (vt_ahead)-1, 1, 0));
}

// ---- Structs of other versions

FX_TEST_WITH(test_a_config_of_another_version, setup, teardown)
{
    struct {
        vt_config cfg;
        uint64_t more[2];
    } newer = {.cfg = plain_config(10)};
    vt_manager *m;
    newer.cfg.struct_bytes = sizeof newer; // newer: what we do not know is not asked for
    assert_ok(vt_manager_create(&newer.cfg, &m));
    vt_manager_destroy(m);
    newer.more[1] = 1; // or it is
    assert_status(VT_EINVAL, vt_manager_create(&newer.cfg, &m));
    assert_null(m);
    newer.cfg.struct_bytes = offsetof(vt_config, group); // older: it knew no groups
    newer.cfg.group = (const vt_group *)1;
    newer.cfg.n_group = 77;
    assert_ok(vt_manager_create(&newer.cfg, &m));
    vt_manager_destroy(m);
    newer.cfg.struct_bytes = 0;
    assert_status(VT_EINVAL, vt_manager_create(&newer.cfg, &m));
}

FX_TEST_WITH(test_stats_of_another_version, setup, teardown)
{
    struct {
        vt_stats st;
        uint64_t more;
    } out;
    memset(&out, 0xAA, sizeof out);
    out.st.struct_bytes = offsetof(vt_stats, chunks_owned); // older: shorter
    vt_stats_get(r.m, &out.st);
    assert_int_equal(out.st.budget_bytes, 10 * CHUNK_BYTES);
    assert_int_equal(out.st.chunks_owned, UINT64_C(0xAAAAAAAAAAAAAAAA));
    assert_int_equal(out.st.struct_bytes, offsetof(vt_stats, chunks_owned));
    out.st.struct_bytes = sizeof out; // newer: longer
    vt_stats_read(r.m, &out.st);
    assert_int_equal(out.st.swap_corrupt, 0);
    assert_int_equal(out.st.struct_bytes, sizeof out);
    vt_domain_stats ds = {.struct_bytes = offsetof(vt_domain_stats, held_bytes), .held_bytes = 5};
    vt_domain_get_stats(r.d, &ds);
    assert_int_equal(ds.quota_bytes, UINT64_MAX);
    assert_int_equal(ds.held_bytes, 5);
}

// ---- Many at once

FX_TEST_WITH(test_extend_of_many_stops_at_the_first_error, setup, teardown)
{
    vt_seq *s[3] = {grown(5), grown(5), grown(5)};
    uint32_t n_done, len[] = {40, 8 * CHUNK_TOK, 40};
    assert_status(VT_NOSPACE, vt_seq_extend_many(s, len, 3, &n_done));
    assert_int_equal(n_done, 1);
    assert_int_equal(vt_seq_len(s[0]), 40);
    assert_int_equal(vt_seq_len(s[1]), 5);
    assert_int_equal(vt_seq_len(s[2]), 5);
    len[1] = 40;
    assert_ok(vt_seq_extend_many(s, len, 3, &n_done));
    assert_int_equal(n_done, 3);
    assert_ok(vt_seq_extend_many(s, len, 0, NULL));
}

// ---- Eviction

// By block, from the end of the least valuable leaf, and no more than is needed.
FX_TEST_WITH(test_as_much_is_evicted_as_is_needed, setup, teardown)
{
    const vt_retention dear = {.priority = 1};
    told(1000, 4 * CHUNK_TOK, NULL);
    told(2000, 4 * CHUNK_TOK, &dear); // two are free
    vt_seq *s = grown(2 * CHUNK_TOK);
    for (uint32_t k = 1; k <= 4; k++) {
        assert_ok(vt_seq_extend(s, (2 + k) * CHUNK_TOK));
        assert_int_equal(hit(1000), (4 - k) * CHUNK_TOK);
        assert_int_equal(hit(2000), 4 * CHUNK_TOK);
        assert_int_equal(stats().prefix_evicted, k);
    }
    assert_ok(vt_seq_extend(s, 7 * CHUNK_TOK));
    assert_int_equal(hit(2000), 3 * CHUNK_TOK);
    assert_int_equal(stats().destroy_calls, 0); // chunks go from holder to holder
    assert_int_equal(stats().chunks_created, 10);
    assert_status(VT_NOSPACE, vt_seq_extend(grown(0), 4 * CHUNK_TOK));
    assert_int_equal(hit(2000), 3 * CHUNK_TOK); // nothing in vain
}

// The system has less than the budget says.
FX_TEST_WITH(test_a_full_system_evicts_what_is_needed_only, setup, teardown)
{
    told(1000, 6 * CHUNK_TOK, NULL);
    vt_fake_set_max_chunks(r.fake, 6);
    vt_seq *s = grown(2 * CHUNK_TOK);
    assert_int_equal(hit(1000), 4 * CHUNK_TOK);
    vt_fault_arm(r.fault, 0, 0, VT_NOSPACE); // and once more, in the next step
    assert_ok(vt_step(r.m, VT_AHEAD_NONE, 0, 1));
    assert_ok(vt_seq_extend(s, 3 * CHUNK_TOK));
    vt_fault_disarm(r.fault);
    assert_int_equal(hit(1000), 3 * CHUNK_TOK);
}

// ---- Domains

static vt_domain_stats domain_stats(vt_domain *d)
{
    vt_domain_stats ds = {.struct_bytes = sizeof ds};
    vt_domain_get_stats(d, &ds);
    return ds;
}

FX_TEST_WITH(test_a_quota_holds_a_domain_down, setup, teardown)
{
    vt_domain *other;
    assert_ok(vt_domain_open(r.m, "other", 5, &other));
    vt_domain_set_quota(r.d, 3 * CHUNK_BYTES);
    vt_seq *s = grown(2 * CHUNK_TOK);
    assert_ok(vt_seq_record(s, other, tokens(9000), 2 * CHUNK_TOK, NULL));
    vt_seq_release(s);
    told(1000, 2 * CHUNK_TOK, NULL);
    told(2000, 2 * CHUNK_TOK, NULL); // its own least valuable goes
    assert_int_equal(domain_stats(r.d).held_bytes, 3 * CHUNK_BYTES);
    assert_int_equal(hit(1000), CHUNK_TOK);
    assert_int_equal(hit(2000), 2 * CHUNK_TOK);
    told(3000, 5 * CHUNK_TOK, NULL); // what does not fit is not recorded
    assert_int_equal(hit(3000), 3 * CHUNK_TOK);
    assert_int_equal(vt_match(other, tokens(9000), MAX_TOK), 2 * CHUNK_TOK);
    vt_domain_set_quota(r.d, CHUNK_BYTES);
    assert_int_equal(domain_stats(r.d).held_bytes, CHUNK_BYTES);
    assert_int_equal(domain_stats(other).held_bytes, 2 * CHUNK_BYTES);
    vt_domain_close(other);
}

FX_TEST_WITH(test_a_domain_counts_its_own, setup, teardown)
{
    vt_seq *s;
    uint32_t n_hit;
    told(1000, 2 * CHUNK_TOK + 5, NULL);
    assert_ok(vt_seq_match(r.d, tokens(1000), 50, 0, &s, &n_hit));
    vt_domain_stats ds = domain_stats(r.d);
    assert_int_equal(ds.prefix_nodes, 3);
    assert_int_equal(ds.prefix_tok, 2 * CHUNK_TOK + 5);
    assert_int_equal(ds.held_bytes, 3 * CHUNK_BYTES);
    assert_int_equal(ds.match_calls, 1);
    assert_int_equal(ds.match_tok, 50);
    assert_int_equal(ds.hit_tok, 50);
    vt_seq_release(s);
    assert_ok(vt_evict(r.m, UINT64_MAX, NULL));
    assert_int_equal(domain_stats(r.d).evicted_nodes, 3);
    assert_int_equal(domain_stats(r.d).held_bytes, 0);
}

// ---- Enumeration

typedef struct walk {
    uint32_t n, n_tok, most;
    uint64_t last_id, held_bytes;
} walk;

static bool see_node(void *ud, const vt_prefix_info *node)
{
    walk *k = ud;
    assert_int_equal(node->parent_id, k->last_id); // one path
    assert_int_equal(node->start_tok, k->n_tok);
    assert_int_equal(node->tok[0], 1000 + k->n_tok);
    assert_int_equal(node->keep.priority,
                     node->start_tok > 0 ? 3 : 0); // the last block and the rest
    k->n++;
    k->n_tok += node->n_tok;
    k->last_id = node->id;
    k->held_bytes += node->held_bytes;
    return k->n < k->most;
}

static bool see_domain(void *ud, vt_domain *d, const void *key, size_t key_bytes)
{
    walk *k = ud;
    k->n++;
    assert_ptr_equal(d, r.d);
    assert_int_equal(key_bytes, 1);
    assert_memory_equal(key, "d", 1);
    return true;
}

static bool see_older_node(void *ud, const vt_prefix_info *node)
{
    walk *k = ud;
    assert_true(!k->n || node->id == k->last_id); // the parent of the one before
    k->n++;
    k->last_id = node->parent_id;
    return k->n < k->most;
}

FX_TEST_WITH(test_the_tree_is_enumerated, setup, teardown)
{
    const vt_retention keep = {.priority = 3};
    walk domains = {0}, nodes = {.most = 100}, some = {.most = 2};
    told(1000, 2 * CHUNK_TOK + 5, &keep);
    vt_domain_each(r.m, see_domain, &domains);
    assert_int_equal(domains.n, 1);
    vt_prefix_each(r.d, see_node, &nodes);
    assert_int_equal(nodes.n, 3);
    assert_int_equal(nodes.n_tok, 2 * CHUNK_TOK + 5);
    assert_int_equal(nodes.held_bytes, 3 * CHUNK_BYTES);
    vt_prefix_each(r.d, see_node, &some);
    assert_int_equal(some.n, 2);
    walk newest = {.most = 2}, all = {.most = 100};
    vt_prefix_each_newest(r.d, see_older_node, &newest);
    assert_int_equal(newest.n, 2);
    vt_prefix_each_newest(r.d, see_older_node, &all);
    assert_int_equal(all.n, 3);
    assert_int_equal(all.last_id, 0);
}

// ---- Events

FX_TEST_WITH(test_events_tell_what_is_cached, setup, teardown)
{
    vt_event ev[16];
    vt_seq *child;
    assert_ok(vt_step(r.m, VT_AHEAD_NONE, 0, 77));
    vt_seq *s = grown(2 * CHUNK_TOK);
    assert_ok(vt_seq_record(s, r.d, tokens(1000), 2 * CHUNK_TOK, NULL));
    assert_ok(vt_seq_fork(s, 7, &child));
    vt_seq_release(child), vt_seq_release(s);
    assert_ok(vt_evict(r.m, 1, NULL));
    assert_int_equal(vt_events_take(r.m, ev, 2), 2); // some now, the others later
    assert_int_equal(vt_events_take(r.m, ev + 2, 14), 2);
    assert_int_equal(vt_events_take(r.m, ev + 4, 12), 0);
    static const vt_event_kind kinds[] = {VT_EVENT_RECORDED, VT_EVENT_RECORDED, VT_EVENT_FORKED,
                                          VT_EVENT_EVICTED};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ev[i].number, i);
        assert_int_equal(ev[i].kind, kinds[i]);
        assert_int_equal(ev[i].now_ms, 77);
        assert_int_equal(ev[i].domain_id, vt_domain_id(r.d));
        assert_int_equal(ev[i].lacks, 0);
    }
    assert_int_equal(ev[1].parent_id, ev[0].id);
    assert_int_equal(ev[1].start_tok, CHUNK_TOK);
    assert_int_equal(ev[1].n_tok, CHUNK_TOK);
    assert_int_equal(ev[2].n_tok, 7);
    assert_int_equal(ev[3].id, ev[1].id);
}

FX_TEST_WITH(test_events_that_nobody_takes_are_overwritten, setup, teardown)
{
    vt_event ev[32];
    vt_seq *s = grown(5), *child;
    for (int i = 0; i < 20; i++) {
        assert_ok(vt_seq_fork(s, 5, &child));
        vt_seq_release(child);
    }
    assert_int_equal(vt_events_take(r.m, ev, 32), 16);
    assert_int_equal(ev[0].number, 4); // a gap of four
    assert_int_equal(ev[15].number, 19);
}

// ---- Another thread

static atomic_bool done;

static void *look_from_beside(void *ud)
{
    vt_event ev[4];
    uint64_t last = 0;
    (void)ud;
    while (!atomic_load(&done)) {
        vt_stats st;
        vt_read_stats(r.m, &st);
        if (st.chunks_created !=
                st.chunks_owned + st.chunks_shared + st.chunks_cached + st.chunks_spare ||
            st.match_calls < last)
            return "torn";
        last = st.match_calls;
        (void)vt_events_take(r.m, ev, 4);
    }
    return NULL;
}

FX_TEST_WITH(test_stats_and_events_are_read_beside_the_owner, setup, teardown)
{
    pthread_t beside;
    void *wrong;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&beside, NULL, look_from_beside, NULL), 0);
    for (uint64_t k = 0; k < 300; k++) {
        vt_seq *s;
        uint32_t n_hit;
        assert_ok(vt_seq_match(r.d, tokens(1000), 40, 0, &s, &n_hit));
        assert_ok(vt_seq_extend(s, 40 + (uint32_t)k % 100));
        assert_ok(vt_seq_record(s, r.d, tokens(1000), 40, NULL));
        vt_seq_release(s);
        assert_ok(vt_step(r.m, VT_AHEAD_NEXT, 8, k));
    }
    atomic_store(&done, true);
    assert_int_equal(pthread_join(beside, &wrong), 0);
    assert_null(wrong);
    vt_stats st;
    vt_read_stats(r.m, &st);
    assert_int_equal(st.match_calls, 300);
}

enum { N_PLANE = 4, ROW_BYTES = 1024, N_TOK = 256, PLANE_BYTES = N_TOK * ROW_BYTES };

static void destroy_copy(void *of)
{
    vt_manager_destroy(of);
}

static bool reads_all(const vt_seq *s, unsigned char byte)
{
    for (uint32_t plane = 0; plane < N_PLANE; plane++) {
        const unsigned char *at = vt_seq_plane(s, plane);
        if (at[0] != byte || memcmp(at, at + 1, PLANE_BYTES - 1) != 0) return false;
    }
    return true;
}

static void destroyed_by_child(vt_mapper mapper)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = N_PLANE, cfg.row_bytes = ROW_BYTES, cfg.max_tok = 4 * N_TOK, cfg.max_seq = 4;
    cfg.budget_bytes = 16 << 20;
    cfg.mapper = mapper;
    vt_manager *m;
    vt_seq *s;
    const char *what = NULL;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, N_TOK));
    for (uint32_t plane = 0; plane < N_PLANE; plane++)
        memset(vt_seq_plane(s, plane), 0x5a, PLANE_BYTES);
    run_in_child(destroy_copy, m);
    assert_true(reads_all(s, 0x5a));
    assert_ok(vt_check(m, &what));
    assert_ok(vt_seq_extend(s, 2 * N_TOK)); // it goes on
    vt_manager_destroy(m);
}

FX_TEST(test_a_child_that_destroys_leaves_the_parents_rows)
{
    destroyed_by_child(VT_MAPPER_OWNER);
    destroyed_by_child(VT_MAPPER_THREAD);
}

static void clean_up_copy(void *of)
{
    vt_va_cleanup(of);
}

FX_TEST(test_a_child_that_cleans_up_leaves_the_parents_requests)
{
    vt_va_config cfg = {.n_plane = 2};
    cfg.row_bytes = ROW_BYTES, cfg.max_tok = N_TOK, cfg.max_batch = 2;
    cfg.budget_bytes = 4 << 20;
    vt_va *va;
    uint32_t id, len[2] = {0, 0};
    assert_ok(vt_va_init(&cfg, &va));
    assert_ok(vt_va_alloc_reqid(va, N_TOK, &id));
    len[id] = N_TOK;
    assert_ok(vt_va_step(va, len, false));
    unsigned char *row = (unsigned char *)vt_va_tensor(va, 1) + id * vt_va_request_stride(va);
    memset(row, 0x5a, PLANE_BYTES);
    run_in_child(clean_up_copy, va);
    assert_int_equal(row[0], 0x5a);
    assert_memory_equal(row, row + 1, PLANE_BYTES - 1);
    vt_va_cleanup(va);
}

static void change_memory(void *of)
{
    vt_vmm *vmm = of;
    uint64_t sum;
    char bytes[4096] = {1};
    bool is_refused = vmm->ops->create(vmm, 1, 1) == VT_EDEVICE &&
                      vmm->ops->destroy(vmm, 0, 1) == VT_EDEVICE &&
                      vmm->ops->store(vmm, 0, 0, 0, (uintptr_t)bytes, 8) == VT_EDEVICE &&
                      vmm->ops->swap_write(vmm, 0, (uintptr_t)bytes, 8, &sum) == VT_EDEVICE;
    vmm->ops->swap_drop(vmm, 0, sizeof bytes);
    vmm->ops->close(vmm);
    if (!is_refused) _exit(1);
}

FX_TEST(test_a_child_changes_neither_memory_nor_swap)
{
    const vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, 4096, 2}}};
    char bytes[4096], back[4096];
    uint64_t sum, resident;
    vt_vmm *vmm;
    memset(bytes, 0x5a, sizeof bytes);
    assert_ok(vt_vmm_host_open(&vmm));
    assert_ok(vmm->ops->configure(vmm, &geo));
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->store(vmm, 0, 0, 0, (uintptr_t)bytes, sizeof bytes));
    assert_ok(vmm->ops->swap_open(vmm, "/tmp", sizeof bytes));
    assert_ok(vmm->ops->swap_write(vmm, 0, (uintptr_t)bytes, sizeof bytes, &sum));
    run_in_child(change_memory, vmm);
    assert_ok(vmm->ops->resident(vmm, &resident));
    assert_int_equal(resident, sizeof bytes);
    assert_ok(vmm->ops->fetch(vmm, (uintptr_t)back, 0, 0, 0, sizeof back, VT_VMM_NOW));
    assert_memory_equal(back, bytes, sizeof back);
    assert_ok(vmm->ops->swap_read(vmm, (uintptr_t)back, 0, sizeof back, &sum));
    assert_memory_equal(back, bytes, sizeof back);
    vmm->ops->close(vmm);
}

FX_RUN(test_vt_api)
