// test_server_work.c - the parts of server/work by themselves: the quota and its charges, bodies,
// and the order in which workers take what waits.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pthread.h>

#include <sys/resource.h>

#include "server/work/quota.h"
#include "server/work/workers.h"
#include "unit/cmocka_all.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// ---- the quota -------------------------------------------------------------------------------

static size_t used_bytes(const fxi_quota *l)
{
    fxi_quota_gauges g;
    size_t sum = 0;
    fxi_quota_read(l, &g);
    for (int i = 0; i < FXI_N_BYTES_OF; i++) sum += g.of_bytes[i];
    assert_int_equal(sum, g.used_bytes);
    return g.used_bytes;
}

FX_TEST(test_quota_refuses_beyond_its_limit)
{
    const size_t mib = 1 << 20;
    fxi_quota *l = fxi_quota_new(8 * mib);
    fxi_charge a, b, c;
    fxi_charge_open(&a, l), fxi_charge_open(&b, l), fxi_charge_open(&c, l);
    assert_int_equal(fxi_charge_reserve(&a, FXI_BYTES_BODY, 9 * mib), FXI_QUOTA_EXCEEDS_LIMIT);
    assert_int_equal(fxi_charge_reserve(&a, FXI_BYTES_BODY, 8 * mib),
                     FXI_QUOTA_EXCEEDS_LIMIT); // 7 are for it
    assert_int_equal(fxi_charge_reserve(&a, FXI_BYTES_BODY, 4 * mib), FXI_QUOTA_OK);
    assert_int_equal(fxi_charge_reserve(&a, FXI_BYTES_TREE, 4 * mib),
                     FXI_QUOTA_EXCEEDS_LIMIT); // with its body
    assert_int_equal(fxi_charge_reserve(&b, FXI_BYTES_TREE, 3 * mib), FXI_QUOTA_OK);
    assert_int_equal(fxi_charge_reserve(&c, FXI_BYTES_BODY, mib), FXI_QUOTA_FULL);
    assert_int_equal(fxi_charge_reserve(&c, FXI_BYTES_BODY, FXI_SMALL_CHARGE_BYTES), FXI_QUOTA_OK);
    assert_int_equal(fxi_charge_reserve(&c, FXI_BYTES_BODY, 1),
                     FXI_QUOTA_FULL); // not small any more
    assert_int_equal(used_bytes(l), 7 * mib + FXI_SMALL_CHARGE_BYTES);
    fxi_charge_release(&b, FXI_BYTES_TREE, 2 * mib);
    assert_int_equal(fxi_charge_reserve(&c, FXI_BYTES_BODY, mib), FXI_QUOTA_OK);
    assert_false(fxi_charge_add(&b, FXI_BYTES_ANSWER, 8 * mib));
    fxi_quota_gauges g;
    fxi_quota_read(l, &g);
    assert_int_equal(g.n_refused, 5);
    assert_int_equal(g.of_bytes[FXI_BYTES_ANSWER], 8 * mib);
    assert_int_equal(g.peak_bytes, g.used_bytes);
    fxi_charge_close(&a), fxi_charge_close(&b);
    assert_int_equal(used_bytes(l), mib + FXI_SMALL_CHARGE_BYTES);
    fxi_quota_unref(l); // lives on with its last charge
    fxi_charge_close(&c);
}

static void *hammer_quota(void *ud)
{
    fxi_quota *l = ud;
    for (int i = 0; i < 20000; i++) {
        fxi_charge b;
        fxi_charge_open(&b, l);
        size_t n = (size_t)(i * 7919 % 300000);
        if (fxi_charge_reserve(&b, FXI_BYTES_BODY, n) == FXI_QUOTA_OK && i % 3)
            fxi_charge_release(&b, FXI_BYTES_BODY, n / 2);
        fxi_charge_close(&b);
    }
    return NULL;
}

// What belongs to no request takes its part of the limit, too.
FX_TEST(test_quota_counts_what_no_request_holds)
{
    const size_t mib = 1 << 20;
    fxi_quota *l = fxi_quota_new(64 * mib);
    fxi_quota_gauges now;
    fxi_charge b = {0};
    fxi_charge_open(&b, l);
    fxi_quota_note(l, FXI_BYTES_GRAMMAR, 40 * mib);
    assert_int_equal(fxi_charge_reserve(&b, FXI_BYTES_TREE, 30 * mib), FXI_QUOTA_FULL);
    fxi_quota_note(l, FXI_BYTES_GRAMMAR, 10 * mib);
    assert_int_equal(fxi_charge_reserve(&b, FXI_BYTES_TREE, 30 * mib), FXI_QUOTA_OK);
    fxi_quota_read(l, &now);
    assert_int_equal(now.of_bytes[FXI_BYTES_GRAMMAR], 10 * mib);
    assert_int_equal(now.used_bytes, 40 * mib);
    assert_int_equal(now.peak_bytes, 40 * mib);
    fxi_charge_close(&b);
    fxi_quota_read(l, &now);
    assert_int_equal(now.used_bytes, 10 * mib);
    fxi_quota_unref(l);
}

FX_TEST(test_quota_balances_over_threads)
{
    pthread_t t[4];
    fxi_quota *l = fxi_quota_new(600000);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, hammer_quota, l);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    fxi_quota_gauges g;
    fxi_quota_read(l, &g);
    assert_int_equal(used_bytes(l), 0);
    assert_true(g.peak_bytes <= 600000);
    fxi_quota_unref(l);
}

FX_TEST(test_default_limit_has_bounds)
{
    size_t n = fxi_quota_default_bytes("");
    assert_true(n >= (64u << 20) && n <= (1u << 30));
    assert_true(fxi_quota_default_bytes("/nonexistent") >= 64u << 20);
}

// ---- bodies -----------------------------------------------------------------------------------

FX_TEST(test_body_is_charged_before_it_grows)
{
    char piece[1000];
    fxi_quota *l = fxi_quota_new(1 << 20);
    fxi_charge charge;
    fxi_body b = {0};
    fxi_charge_open(&charge, l);
    memset(piece, 'x', sizeof piece);
    fxi_quota_result st = FXI_QUOTA_OK;
    while (st == FXI_QUOTA_OK) {
        st = fxi_body_add(&b, &charge, piece, sizeof piece);
        assert_int_equal(used_bytes(l), b.cap);
    }
    assert_int_equal(st, FXI_QUOTA_EXCEEDS_LIMIT);
    assert_int_equal(b.n, 524000); // half of the limit: the next doubling is too much
    for (size_t i = 0; i < b.n; i++) assert_int_equal(b.p[i], 'x');
    fxi_body_free(&b, &charge);
    assert_int_equal(used_bytes(l), 0);
    assert_int_equal(fxi_body_reserve(&b, &charge, 900000), FXI_QUOTA_OK);
    assert_int_equal(used_bytes(l), 900000);
    fxi_body_free(&b, &charge);
    fxi_charge_close(&charge);
    fxi_quota_unref(l);
}

// ---- workers ----------------------------------------------------------------------------------

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool open;      // lets gates through
    int n_gated;    // gates that run
    char order[64]; // names of what has run
    int n_run;
} seen = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef struct item {
    fxi_work work;
    char name;
} item;

static void run_item(fxi_work *w)
{
    pthread_mutex_lock(&seen.mu);
    seen.order[seen.n_run++] = ((item *)w)->name;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.mu);
}

static void run_gate(fxi_work *w)
{
    (void)w;
    pthread_mutex_lock(&seen.mu);
    seen.n_gated++;
    pthread_cond_broadcast(&seen.changed);
    while (!seen.open) pthread_cond_wait(&seen.changed, &seen.mu);
    seen.n_gated--;
    pthread_mutex_unlock(&seen.mu);
}

static void wait_for(const int *what, int n)
{
    pthread_mutex_lock(&seen.mu);
    while (*what != n) pthread_cond_wait(&seen.changed, &seen.mu);
    pthread_mutex_unlock(&seen.mu);
}

static void open_gates(void)
{
    pthread_mutex_lock(&seen.mu);
    seen.open = true;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.mu);
}

static fxi_workers *begin_workers(int n_thread)
{
    fxi_workers *ws;
    fx_error err;
    seen.open = false;
    seen.n_run = 0;
    memset(seen.order, 0, sizeof seen.order);
    assert_int_equal(fxi_workers_start(n_thread, &ws, &err), FX_OK);
    return ws;
}

// "b3": a piece of client 3, small; upper case: large.
static void post_items(fxi_workers *ws, item *it, const char *const *what, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool large = what[i][0] < 'a';
        it[i] =
            (item){{.run = run_item, .client = (uint64_t)what[i][1], .large = large}, what[i][0]};
        fxi_workers_post(ws, &it[i].work);
    }
}

FX_TEST(test_clients_and_classes_take_turns)
{
    static const char *const what[] = {"a1", "b1", "c1", "d1", "e2", "f3", "g2", "A1", "B1", "C2"};
    item gate = {{.run = run_gate}, 0}, it[COUNT(what)];
    fxi_workers *ws = begin_workers(1);
    fxi_workers_post(ws, &gate.work);
    wait_for(&seen.n_gated, 1);
    post_items(ws, it, what, COUNT(what));
    fxi_workers_gauges g;
    fxi_workers_read(ws, &g);
    assert_int_equal(g.n_small, 7);
    assert_int_equal(g.n_large, 3);
    assert_int_equal(g.n_busy, 1);
    open_gates();
    fxi_workers_stop(ws); // runs what waits
    assert_string_equal(seen.order, "aAeCfBbgcd");
}

// However much large work there is, one of two threads serves small work.
FX_TEST(test_small_work_passes_large_work)
{
    static const char *const what[] = {"a1", "b1", "c2"};
    item gate[8], it[COUNT(what)];
    fxi_workers *ws = begin_workers(2);
    for (int i = 0; i < 8; i++) {
        gate[i] = (item){{.run = run_gate, .client = (uint64_t)i, .large = true}, 0};
        fxi_workers_post(ws, &gate[i].work);
    }
    wait_for(&seen.n_gated, 1);
    post_items(ws, it, what, COUNT(what));
    wait_for(&seen.n_run, 3); // while the gates are shut
    fxi_workers_gauges g;
    fxi_workers_read(ws, &g);
    assert_int_equal(seen.n_gated, 1);
    assert_int_equal(g.n_large, 7);
    open_gates();
    fxi_workers_stop(ws);
    assert_int_equal(strspn(seen.order, "abc"), 3);
}

// The priority of the thread that ran a piece.
typedef struct nice_item {
    fxi_work work;
    int nice;
} nice_item;

static void note_nice(fxi_work *w)
{
    pthread_mutex_lock(&seen.mu);
    ((nice_item *)w)->nice = getpriority(PRIO_PROCESS, 0);
    seen.n_run++;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.mu);
}

static int nice_of(fxi_workers *ws, bool large, int n_run)
{
    nice_item it = {{.run = note_nice, .large = large}, -99};
    fxi_workers_post(ws, &it.work);
    wait_for(&seen.n_run, n_run);
    return it.nice;
}

// Large work yields to everything else; small work is as urgent as the rest of the program, unless
// the low-priority worker helps.
FX_TEST(test_large_work_has_a_low_priority)
{
    const int own = getpriority(PRIO_PROCESS, 0), low = own + 10 < 19 ? own + 10 : 19;
    item gate = {{.run = run_gate, .client = 1, .large = true}, 0};
    fxi_workers *ws = begin_workers(2);
    for (int i = 1; i <= 10; i++) assert_int_equal(nice_of(ws, true, i), low);
    fxi_workers_post(ws, &gate.work); // the low-priority worker is busy
    wait_for(&seen.n_gated, 1);
    for (int i = 11; i <= 20; i++) assert_int_equal(nice_of(ws, false, i), own);
    open_gates();
    fxi_workers_stop(ws);
}

// The low-priority worker helps while the normal one is busy, and nothing waits for large work.
FX_TEST(test_small_work_on_both_threads)
{
    item gate[2], it;
    fxi_workers *ws = begin_workers(2);
    for (int i = 0; i < 2; i++) {
        gate[i] = (item){{.run = run_gate, .client = (uint64_t)i}, 0};
        fxi_workers_post(ws, &gate[i].work);
    }
    wait_for(&seen.n_gated, 2);
    it = (item){{.run = run_item, .client = 7}, 'a'};
    fxi_workers_post(ws, &it.work);
    open_gates();
    wait_for(&seen.n_run, 1);
    fxi_workers_stop(ws);
}

// Wherever it stands in its client's queue; the order of the others stays.
FX_TEST(test_dropped_work_never_runs)
{
    static const char *const what[] = {"a1", "b1", "c1", "d2", "e2", "f3", "A1", "B1"};
    static const int dropped[] = {0, 4, 5, 7};
    item gate = {{.run = run_gate}, 0}, it[COUNT(what)], never = {{.run = run_item}, 'x'};
    fxi_workers *ws = begin_workers(1);
    assert_false(fxi_workers_drop(ws, &never.work));
    fxi_workers_post(ws, &gate.work);
    wait_for(&seen.n_gated, 1);
    assert_false(fxi_workers_drop(ws, &gate.work)); // a worker has it
    post_items(ws, it, what, COUNT(what));
    for (size_t i = 0; i < COUNT(dropped); i++) {
        assert_true(fxi_workers_drop(ws, &it[dropped[i]].work));
        assert_false(fxi_workers_drop(ws, &it[dropped[i]].work));
    }
    fxi_workers_gauges g;
    fxi_workers_read(ws, &g);
    assert_int_equal(g.n_small, 3);
    assert_int_equal(g.n_large, 1);
    fxi_workers_post(ws, &it[4].work); // once more: after its client's first
    open_gates();
    fxi_workers_stop(ws);
    assert_string_equal(seen.order, "bAdce");
}

FX_RUN(test_server_work)
