// test_kv_mappings.c - 80 layers for 1,000 conversations of up to 8K tokens under Linux's default
// limit of mappings: all of them fit beside each other, as admission counts and as the system does,
// whatever they share, record and grow; and the host's mappings are those that were counted.
#include "unit/cmocka_all.h"

#include "kv/kv.h"
#include "maps.h"
#include "vmm_fake.h"

#include <stdlib.h>

enum {
    N_LAYER = 80,
    ROW_BYTES = 2048,   // 8 heads of 128 numbers
    THIN_ROW_BYTES = 8, // so that a chunk of 32 tokens is a page in each view
    MAX_SEQ = 1000,
    MAX_TOK = 8192,
    HEAD_TOK = 1000, // that all begin with
    N_TURN = 3,
    STEP_TOK = 32,
    MAX_MAP_COUNT = 65530, // of a process, by default
    HOST_MAX_RUNS = 28669, // of these, the host's
};

typedef struct chat {
    fxi_kv_seq *s;
    int32_t tok[MAX_TOK];
    int n;
} chat;

typedef struct town {
    fxi_kv *kv;
    fxi_kv_domain *d;
    chat *chat; // [n]
    int n, end_tok;
    uint64_t now_ms;
    uint64_t most_needed; // mappings, as admission counts them
} town;

static town open_town(vt_vmm *vmm, size_t row_bytes, int n, int end_tok)
{
    town t = {.n = n, .end_tok = end_tok, .chat = calloc((size_t)n, sizeof(chat))};
    const fxi_kv_shape shape = {.layout = {1, {{.n_plane = 2 * N_LAYER, .row_bytes = row_bytes}}},
                                .ctx_tok = MAX_TOK,
                                .max_seq = 2 * MAX_SEQ,
                                .run_seq = MAX_SEQ,
                                .budget_bytes = row_bytes * ((uint64_t)5 << 30),
                                .vmm = vmm,
                                .single_thread = true};
    assert_non_null(t.chat);
    assert_int_equal(fxi_kv_open("vtensor", &shape, &t.kv, NULL), FX_OK);
    assert_int_equal(fxi_kv_domain_open(t.kv, "town", 4, &t.d), FX_OK);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < HEAD_TOK; k++) t.chat[i].tok[k] = k;
        t.chat[i].n = HEAD_TOK;
    }
    return t;
}

static void close_town(town *t)
{
    const char *broken = "";
    if (fxi_kv_check(t->kv, &broken) != FX_OK) fail_msg("%s", broken);
    fxi_kv_domain_close(t->kv, t->d);
    fxi_kv_close(t->kv);
    free(t->chat);
}

static void take_step(town *t)
{
    fxi_kv_step(t->kv, 0, ++t->now_ms);
}

static fxi_kv_stats stats_of(const town *t)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(t->kv, &st);
    return st;
}

// Tokens that nobody else has.
static void grow_chat(town *t, int i, int end_tok)
{
    chat *c = &t->chat[i];
    for (; c->n < end_tok; c->n++) c->tok[c->n] = (i + 1) * MAX_TOK + c->n;
    assert_int_equal(fxi_kv_extend(t->kv, c->s, c->n), FX_OK);
}

static void record_chat(town *t, int i)
{
    const chat *c = &t->chat[i];
    assert_int_equal(fxi_kv_record(t->kv, c->s, t->d, c->tok, c->n, &(fxi_kv_keep){0}), FX_OK);
}

// A turn of a conversation begins: its past is matched, its prompt computed and recorded. In the
// first one, each fourth is a choice beside the one before it.
static void begin_turn(town *t, int i, int prompt_tok)
{
    chat *c = &t->chat[i], *before = &t->chat[i - i % 4];
    int n_hit;
    if (i % 4 == 3 && before->n == HEAD_TOK + prompt_tok && c->n == HEAD_TOK) {
        for (; c->n < before->n; c->n++) c->tok[c->n] = before->tok[c->n];
        assert_int_equal(fxi_kv_fork(t->kv, before->s, c->n, &c->s), FX_OK);
        return;
    }
    const fxi_kv_expect expect = {.begin_tok = c->n + prompt_tok};
    assert_int_equal(fxi_kv_match(t->kv, t->d, c->tok, c->n, &expect, &c->s, &n_hit), FX_OK);
    assert_true(n_hit == c->n || c->n == HEAD_TOK);
    grow_chat(t, i, c->n + prompt_tok);
    record_chat(t, i);
    if (i % 16 == 0) take_step(t);
}

// In each turn all are alive together, half of what they grow by is prompt, and in the last one
// they get as long as they may. `at_most` is asked where mappings are most.
static void live_on(town *t, void (*at_most)(const town *t))
{
    const int half = (t->end_tok - HEAD_TOK) / N_TURN / 2;
    for (int turn = 0; turn < N_TURN; turn++) {
        for (int i = 0; i < t->n; i++) begin_turn(t, i, half);
        const int end = turn + 1 < N_TURN ? t->chat[0].n + half : t->end_tok;
        for (int len = t->chat[0].n; len < end; len += STEP_TOK) {
            for (int i = 0; i < t->n; i++)
                grow_chat(t, i, len + STEP_TOK < end ? len + STEP_TOK : end);
            take_step(t);
        }
        // What an admission would count now: all of them are to have their mappings.
        uint64_t n = 0;
        for (int i = 0; i < t->n; i++) n += fxi_kv_mappings(t->kv, t->chat[i].s);
        if (n > t->most_needed) t->most_needed = n;
        at_most(t);
        for (int i = 0; i < t->n; i++) {
            record_chat(t, i);
            fxi_kv_release(t->kv, t->chat[i].s);
            t->chat[i].s = NULL;
            if (i % 16 == 0) take_step(t);
        }
    }
}

// ---- the fake, which maps no more than the limit ------------------------------------------------

static vt_vmm *fake;

static void expect_fake_runs(const town *t)
{
    assert_int_equal(vt_fake_look(fake).n_run, stats_of(t).n_mapping);
}

FX_TEST(test_a_thousand_conversations_have_their_mappings)
{
    vt_fake_report last;
    fake = vt_fake_open();
    assert_non_null(fake);
    vt_fake_set_max_runs(fake, HOST_MAX_RUNS);
    vt_fake_set_epitaph(fake, &last);
    town t = open_town(fake, THIN_ROW_BYTES, MAX_SEQ, MAX_TOK);
    assert_int_equal(fxi_kv_max_mapped(t.kv) >= MAX_SEQ, 1);
    live_on(&t, expect_fake_runs);
    assert_in_range(t.most_needed, 1, HOST_MAX_RUNS); // so nobody would have had to wait
    close_town(&t);
    assert_int_equal(last.n_violation, 0);
}

// ---- the host -----------------------------------------------------------------------------------

static uint64_t lines_before;

static void expect_host_maps(const town *t)
{
    const uint64_t n = stats_of(t).n_mapping;
    assert_int_equal(maps_of_memfd(), n);
    assert_true(maps_in_all() - lines_before <= 2 * n + 64); // each, and the gap behind it
}

FX_TEST(test_the_host_has_as_many_mappings_as_are_counted)
{
    lines_before = maps_in_all();
    town t = open_town(NULL, THIN_ROW_BYTES, 40, 2048);
    live_on(&t, expect_host_maps);
    close_town(&t);
}

// ---- the host without memory --------------------------------------------------------------------

// Nobody reads or writes rows here: terabytes of them take no memory. Mappings are the system's.
static vt_vmm_ops thin;
static vt_status (*map_full)(vt_vmm *, uintptr_t, uint32_t, uint64_t, uint64_t, vt_vmm_use);
static vt_status (*configure_full)(vt_vmm *, const vt_vmm_geometry *);
static size_t thin_chunk_bytes;
static uint64_t n_thin;

static vt_status thin_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    assert_int_equal(geo->n_class, 1);
    thin_chunk_bytes = geo->cls[0].n_slice * geo->cls[0].slice_bytes;
    return configure_full(vmm, geo);
}

static uint64_t thin_max_runs(vt_vmm *vmm)
{
    (void)vmm;
    return HOST_MAX_RUNS;
}

static vt_status thin_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    (void)vmm, (void)index;
    n_thin += n;
    return VT_OK;
}

static vt_status thin_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    (void)vmm, (void)index;
    n_thin -= n;
    return VT_OK;
}

static vt_status thin_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    return map_full(vmm, addr, slice, index, n, use == VT_VMM_WRITE ? VT_VMM_ALIAS : use);
}

static vt_status thin_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes, vt_vmm_order order)
{
    (void)vmm, (void)dst, (void)slice, (void)index, (void)offset, (void)size_bytes, (void)order;
    return VT_OK;
}

static vt_status thin_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset,
                            uintptr_t src, size_t size_bytes)
{
    (void)vmm, (void)slice, (void)index, (void)offset, (void)src, (void)size_bytes;
    return VT_OK;
}

static vt_status thin_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    (void)vmm, (void)addr, (void)size_bytes, (void)order;
    return VT_OK;
}

static vt_status thin_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    (void)vmm;
    *size_bytes = n_thin * thin_chunk_bytes;
    return VT_OK;
}

static vt_vmm *open_thin_host(void)
{
    vt_vmm *host;
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    thin = *host->ops;
    map_full = thin.map;
    configure_full = thin.configure;
    thin.configure = thin_configure;
    thin.max_runs = thin_max_runs;
    thin.create = thin_create;
    thin.destroy = thin_destroy;
    thin.map = thin_map;
    thin.fetch = thin_fetch;
    thin.store = thin_store;
    thin.zero = thin_zero;
    thin.resident = thin_resident;
    host->ops = &thin;
    return host;
}

static void expect_default_limit(const town *t)
{
    const uint64_t n = stats_of(t).n_mapping, all = maps_in_all();
    print_message("%llu mappings counted, %llu of the process\n", (unsigned long long)n,
                  (unsigned long long)all);
    assert_int_equal(maps_of_memfd(), n);
    assert_in_range(n, MAX_SEQ, HOST_MAX_RUNS);
    assert_in_range(all, n, MAX_MAP_COUNT);
}

FX_TEST(test_a_thousand_conversations_are_mapped_by_the_host)
{
    if (max_map_count() < MAX_MAP_COUNT) skip();
    town t = open_town(open_thin_host(), ROW_BYTES, MAX_SEQ, MAX_TOK);
    live_on(&t, expect_default_limit);
    close_town(&t);
}

// ---- planes in a view ---------------------------------------------------------------------------

static uint64_t mappings_of(int n_seq, int *n_together)
{
    enum { CTX_TOK = 8192 };
    const fxi_kv_shape many = {.layout = {1, {{.n_plane = 2 * N_LAYER, .row_bytes = 64}}},
                               .ctx_tok = CTX_TOK,
                               .max_seq = 2 * n_seq,
                               .run_seq = n_seq,
                               .budget_bytes = (uint64_t)1 << 40};
    fxi_kv *kv;
    fxi_kv_stats stats;
    assert_int_equal(fxi_kv_open("vtensor", &many, &kv, NULL), FX_OK);
    fxi_kv_seq *s;
    assert_int_equal(fxi_kv_create(kv, &(fxi_kv_expect){0}, &s), FX_OK);
    assert_int_equal(fxi_kv_extend(kv, s, 1), FX_OK);
    fxi_kv_get_stats(kv, &stats);
    const fxi_kv_view v = fxi_kv_get_views(kv, s).group[0];
    *n_together = v.view_planes ? v.view_planes : 1;
    for (int layer = 0; layer < N_LAYER; layer++) {
        const fxi_kv_view one = fxi_kv_layer(&v, 2 * layer);
        assert_ptr_equal(fxi_kv_row(&one, 0, 0), fxi_kv_row(&v, 2 * layer, 0));
        assert_ptr_equal(fxi_kv_row(&one, 1, 0), fxi_kv_row(&v, 2 * layer + 1, 0));
    }
    assert_true(2 * stats.n_mapping * (uint64_t)n_seq <= stats.max_mapping);
    fxi_kv_close(kv);
    return stats.n_mapping;
}

// With two runs each, 64 sequences of 160 planes fit Linux's default limit; 1,000 share views.
FX_TEST(test_planes_share_views_where_many_sequences_run)
{
    int n_together;
    assert_int_equal(mappings_of(64, &n_together), 160);
    assert_int_equal(n_together, 1);
    assert_int_equal(mappings_of(1000, &n_together), 5);
    assert_int_equal(n_together, 32);
}

// ---- several managers of a process --------------------------------------------------------------

FX_TEST(test_managers_share_the_mappings_of_a_process)
{
    fxi_kv_shape shape = {.layout = {1, {{.n_plane = 4, .row_bytes = 256}}},
                          .ctx_tok = 500,
                          .max_seq = 4,
                          .budget_bytes = 2 << 20};
    uint64_t max_mapping[3];
    for (int i = 0; i < 3; i++) {
        fxi_kv *kv;
        shape.run_share = 0.25 * i; // all, a quarter, half
        assert_int_equal(fxi_kv_open("vtensor", &shape, &kv, NULL), FX_OK);
        max_mapping[i] = kv->max_mapping;
        fxi_kv_close(kv);
    }
    assert_int_equal(max_mapping[1], max_mapping[0] / 4);
    assert_int_equal(max_mapping[2], max_mapping[0] / 2);
}

// A batch of vAttention needs a mapping for each sequence in each plane, whatever it does.
static fx_status open_batch_with(uint64_t max_runs, double run_share, int n_rank, fx_error *err)
{
    enum { N_PLANE = 4, N_SEQ = 8 };
    fxi_kv_shape shape = {.layout = {1, {{.n_plane = N_PLANE, .row_bytes = 256}}},
                          .ctx_tok = 500,
                          .max_seq = N_SEQ,
                          .run_share = run_share,
                          .budget_bytes = 2 << 20,
                          .n_rank = n_rank};
    fxi_kv *kv;
    for (int k = 0; k < (n_rank ? n_rank : 1); k++) {
        vt_vmm *vmm = vt_fake_open();
        vt_fake_set_max_runs(vmm, max_runs * N_PLANE * N_SEQ);
        *(n_rank ? &shape.rank_vmm[k] : &shape.vmm) = vmm;
    }
    const fx_status st = fxi_kv_open("vattention", &shape, &kv, err);
    fxi_kv_close(kv);
    for (int k = 0; !kv && k < n_rank; k++) shape.rank_vmm[k]->ops->close(shape.rank_vmm[k]);
    if (!kv && !n_rank) shape.vmm->ops->close(shape.vmm);
    return st;
}

FX_TEST(test_a_batch_has_its_share_of_the_mappings)
{
    static const struct {
        uint64_t max_runs; // of what one batch needs
        double run_share;
        int n_rank;
        bool fits;
    } rows[] = {{1, 0, 0, true},  {2, 0.5, 0, true}, {1, 0.5, 0, false}, {1, 0, 1, true},
                {1, 0, 2, false}, {2, 0, 2, true},   {2, 0.5, 2, false}, {4, 0.5, 2, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fx_error err = {0};
        const fx_status st =
            open_batch_with(rows[i].max_runs, rows[i].run_share, rows[i].n_rank, &err);
        assert_int_equal(st, rows[i].fits ? FX_OK : FX_ENOSPACE);
        if (st != FX_OK)
            assert_string_equal(err.text, "KV cache: too many sequences for the system's mappings");
    }
}

FX_RUN(test_kv_mappings)
