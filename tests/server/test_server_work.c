// test_server_work.c - the parts of server/work by themselves: the ledger and its bills, bodies,
// and the order in which workers take what waits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include <math.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/work/body.h"
#include "server/work/wakes.h"
#include "server/work/workers.h"
#include "suite.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// ---- the ledger -------------------------------------------------------------------------------

static size_t used_bytes(const fxi_ledger *l)
{
    fxi_ledger_gauges g;
    size_t sum = 0;
    fxi_ledger_read(l, &g);
    for (int i = 0; i < FXI_N_BYTES_OF; i++) sum += g.of_bytes[i];
    assert_int_equal(sum, g.used_bytes);
    return g.used_bytes;
}

static void test_ledger_refuses_beyond_its_limit(void **state)
{
    (void)state;
    const size_t mib = 1 << 20;
    fxi_ledger *l = fxi_ledger_new(8 * mib);
    fxi_bill a, b, c;
    fxi_bill_open(&a, l), fxi_bill_open(&b, l), fxi_bill_open(&c, l);
    assert_int_equal(fxi_bill_take(&a, FXI_BYTES_BODY, 9 * mib), FXI_TAKE_NEVER);
    assert_int_equal(fxi_bill_take(&a, FXI_BYTES_BODY, 8 * mib), FXI_TAKE_NEVER); // 7 are for it
    assert_int_equal(fxi_bill_take(&a, FXI_BYTES_BODY, 4 * mib), FXI_TAKE_OK);
    assert_int_equal(fxi_bill_take(&a, FXI_BYTES_TREE, 4 * mib), FXI_TAKE_NEVER); // with its body
    assert_int_equal(fxi_bill_take(&b, FXI_BYTES_TREE, 3 * mib), FXI_TAKE_OK);
    assert_int_equal(fxi_bill_take(&c, FXI_BYTES_BODY, mib), FXI_TAKE_FULL);
    assert_int_equal(fxi_bill_take(&c, FXI_BYTES_BODY, FXI_SMALL_BILL_BYTES), FXI_TAKE_OK);
    assert_int_equal(fxi_bill_take(&c, FXI_BYTES_BODY, 1), FXI_TAKE_FULL); // not small any more
    assert_int_equal(used_bytes(l), 7 * mib + FXI_SMALL_BILL_BYTES);
    fxi_bill_give(&b, FXI_BYTES_TREE, 2 * mib);
    assert_int_equal(fxi_bill_take(&c, FXI_BYTES_BODY, mib), FXI_TAKE_OK);
    assert_false(fxi_bill_force(&b, FXI_BYTES_ANSWER, 8 * mib));
    fxi_ledger_gauges g;
    fxi_ledger_read(l, &g);
    assert_int_equal(g.n_refused, 5);
    assert_int_equal(g.of_bytes[FXI_BYTES_ANSWER], 8 * mib);
    assert_int_equal(g.peak_bytes, g.used_bytes);
    fxi_bill_close(&a), fxi_bill_close(&b);
    assert_int_equal(used_bytes(l), mib + FXI_SMALL_BILL_BYTES);
    fxi_ledger_unref(l); // lives on with its last bill
    fxi_bill_close(&c);
}

static void *hammer_ledger(void *ud)
{
    fxi_ledger *l = ud;
    for (int i = 0; i < 20000; i++) {
        fxi_bill b;
        fxi_bill_open(&b, l);
        size_t n = (size_t)(i * 7919 % 300000);
        if (fxi_bill_take(&b, FXI_BYTES_BODY, n) == FXI_TAKE_OK && i % 3)
            fxi_bill_give(&b, FXI_BYTES_BODY, n / 2);
        fxi_bill_close(&b);
    }
    return NULL;
}

// What belongs to no request takes its part of the limit, too.
static void test_ledger_counts_what_is_in_no_bill(void **state)
{
    (void)state;
    const size_t mib = 1 << 20;
    fxi_ledger *l = fxi_ledger_new(64 * mib);
    fxi_ledger_gauges now;
    fxi_bill b = {0};
    fxi_bill_open(&b, l);
    fxi_ledger_note(l, FXI_BYTES_GRAMMAR, 40 * mib);
    assert_int_equal(fxi_bill_take(&b, FXI_BYTES_TREE, 30 * mib), FXI_TAKE_FULL);
    fxi_ledger_note(l, FXI_BYTES_GRAMMAR, 10 * mib);
    assert_int_equal(fxi_bill_take(&b, FXI_BYTES_TREE, 30 * mib), FXI_TAKE_OK);
    fxi_ledger_read(l, &now);
    assert_int_equal(now.of_bytes[FXI_BYTES_GRAMMAR], 10 * mib);
    assert_int_equal(now.used_bytes, 40 * mib);
    assert_int_equal(now.peak_bytes, 40 * mib);
    fxi_bill_close(&b);
    fxi_ledger_read(l, &now);
    assert_int_equal(now.used_bytes, 10 * mib);
    fxi_ledger_unref(l);
}

static void test_ledger_balances_over_threads(void **state)
{
    (void)state;
    pthread_t t[4];
    fxi_ledger *l = fxi_ledger_new(600000);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, hammer_ledger, l);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    fxi_ledger_gauges g;
    fxi_ledger_read(l, &g);
    assert_int_equal(used_bytes(l), 0);
    assert_true(g.peak_bytes <= 600000);
    fxi_ledger_unref(l);
}

static void test_default_limit_has_bounds(void **state)
{
    (void)state;
    size_t n = fxi_ledger_default_bytes("");
    assert_true(n >= (64u << 20) && n <= (1u << 30));
    assert_true(fxi_ledger_default_bytes("/nonexistent") >= 64u << 20);
}

// ---- bodies -----------------------------------------------------------------------------------

static void test_body_is_billed_before_it_grows(void **state)
{
    (void)state;
    char piece[1000];
    fxi_ledger *l = fxi_ledger_new(1 << 20);
    fxi_bill bill;
    fxi_body b = {0};
    fxi_bill_open(&bill, l);
    memset(piece, 'x', sizeof piece);
    fxi_body_status st = FXI_BODY_OK;
    while (st == FXI_BODY_OK) {
        st = fxi_body_add(&b, &bill, piece, sizeof piece);
        assert_int_equal(used_bytes(l), b.cap);
    }
    assert_int_equal(st, FXI_BODY_NEVER);
    assert_int_equal(b.n, 524000); // half of the limit: the next doubling is too much
    for (size_t i = 0; i < b.n; i++) assert_int_equal(b.p[i], 'x');
    fxi_body_free(&b, &bill);
    assert_int_equal(used_bytes(l), 0);
    assert_int_equal(fxi_body_reserve(&b, &bill, 900000), FXI_BODY_OK);
    assert_int_equal(used_bytes(l), 900000);
    fxi_body_free(&b, &bill);
    fxi_bill_close(&bill);
    fxi_ledger_unref(l);
}

// ---- workers ----------------------------------------------------------------------------------

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool open;      // lets gates through
    int n_gated;    // gates that run
    char order[64]; // names of what has run
    int n_run, n_idle;
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
    assert_int_equal(fxi_workers_start(n_thread, 1, NULL, NULL, &ws, &err), FX_OK);
    return ws;
}

// "b3": a piece of lane 3, small; upper case: large.
static void post_items(fxi_workers *ws, item *it, const char *const *what, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool large = what[i][0] < 'a';
        it[i] = (item){{.run = run_item, .lane = (uint64_t)what[i][1], .large = large}, what[i][0]};
        fxi_workers_post(ws, &it[i].work);
    }
}

static void test_lanes_and_classes_take_turns(void **state)
{
    static const char *const what[] = {"a1", "b1", "c1", "d1", "e2", "f3", "g2", "A1", "B1", "C2"};
    (void)state;
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
static void test_small_work_passes_large_work(void **state)
{
    static const char *const what[] = {"a1", "b1", "c2"};
    (void)state;
    item gate[8], it[COUNT(what)];
    fxi_workers *ws = begin_workers(2);
    for (int i = 0; i < 8; i++) {
        gate[i] = (item){{.run = run_gate, .lane = (uint64_t)i, .large = true}, 0};
        fxi_workers_post(ws, &gate[i].work);
    }
    wait_for(&seen.n_gated, 1);
    post_items(ws, it, what, COUNT(what));
    wait_for(&seen.n_run, 3); // while the gates are shut
    fxi_workers_gauges g;
    fxi_workers_read(ws, &g);
    assert_int_equal(g.n_busy_large, 1);
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
// the patient thread helps.
static void test_large_work_has_a_low_priority(void **state)
{
    (void)state;
    const int own = getpriority(PRIO_PROCESS, 0), low = own + 10 < 19 ? own + 10 : 19;
    item gate = {{.run = run_gate, .lane = 1, .large = true}, 0};
    fxi_workers *ws = begin_workers(2);
    for (int i = 1; i <= 10; i++) assert_int_equal(nice_of(ws, true, i), low);
    fxi_workers_post(ws, &gate.work); // the patient thread is busy
    wait_for(&seen.n_gated, 1);
    for (int i = 11; i <= 20; i++) assert_int_equal(nice_of(ws, false, i), own);
    open_gates();
    fxi_workers_stop(ws);
}

// The patient thread helps while the prompt one is busy, and the other way round nothing waits.
static void test_small_work_on_both_threads(void **state)
{
    (void)state;
    item gate[2], it;
    fxi_workers *ws = begin_workers(2);
    for (int i = 0; i < 2; i++) {
        gate[i] = (item){{.run = run_gate, .lane = (uint64_t)i}, 0};
        fxi_workers_post(ws, &gate[i].work);
    }
    wait_for(&seen.n_gated, 2);
    it = (item){{.run = run_item, .lane = 7}, 'a'};
    fxi_workers_post(ws, &it.work);
    open_gates();
    wait_for(&seen.n_run, 1);
    fxi_workers_stop(ws);
}

// Wherever it stands in its lane; the order of the others stays.
static void test_dropped_work_never_runs(void **state)
{
    static const char *const what[] = {"a1", "b1", "c1", "d2", "e2", "f3", "A1", "B1"};
    static const int dropped[] = {0, 4, 5, 7};
    (void)state;
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
    fxi_workers_post(ws, &it[4].work); // once more: behind its lane's first
    open_gates();
    fxi_workers_stop(ws);
    assert_string_equal(seen.order, "bAdce");
}

static void note_idle(void *ud)
{
    (void)ud;
    pthread_mutex_lock(&seen.mu);
    seen.n_idle++;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.mu);
}

// Once after work, however long nothing comes.
static void test_idle_is_told_once(void **state)
{
    (void)state;
    fxi_workers *ws;
    item it = {{.run = run_item}, 'a'};
    seen.n_run = 0;
    assert_int_equal(fxi_workers_start(2, 0.01, note_idle, NULL, &ws, NULL), FX_OK);
    for (int i = 1; i <= 2; i++) {
        fxi_workers_post(ws, &it.work);
        wait_for(&seen.n_idle, i);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fxi_workers_stop(ws);
    assert_int_equal(seen.n_idle, 2);
}

// ---- wakes ------------------------------------------------------------------------------------

enum { N_STREAM = 8 };

typedef struct wake_trial {
    fxi_wakes ws;
    fxi_wake wake[N_STREAM];
    double now_s;
} wake_trial;

static void begin_wakes(wake_trial *t, double share)
{
    *t = (wake_trial){.now_s = 100};
    fxi_wakes_open(&t->ws);
    fxi_wakes_set_share(&t->ws, share);
    t->ws.alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void end_wakes(wake_trial *t)
{
    close(t->ws.alarm_fd);
    fxi_wakes_close(&t->ws);
}

static bool heard_alarm(wake_trial *t)
{
    uint64_t n;
    return read(t->ws.alarm_fd, &n, sizeof n) == sizeof n;
}

static int pop_all(wake_trial *t, fxi_wake_list l)
{
    int n = 0;
    while (fxi_wakes_pop(&t->ws, &l)) n++;
    return n;
}

// A step that takes step_s and brings each stream a token. Returns how many may send.
static int run_step(wake_trial *t, double step_s)
{
    t->now_s += step_s;
    for (int i = 0; i < N_STREAM; i++) fxi_wakes_add(&t->ws, &t->wake[i], FXI_WAKE_HELD, t->now_s);
    return pop_all(t, fxi_wakes_after_step(&t->ws, t->now_s));
}

static void test_wakes_of_slow_steps_are_never_held(void **state)
{
    (void)state;
    wake_trial t;
    begin_wakes(&t, 0.001);
    for (int k = 0; k < 50; k++) assert_int_equal(run_step(&t, 0.0201), N_STREAM);
    assert_false(heard_alarm(&t));
    end_wakes(&t);
    begin_wakes(&t, 1);
    for (int k = 0; k < 50; k++) assert_int_equal(run_step(&t, 1e-6), N_STREAM);
    end_wakes(&t);
}

// Fast steps send together: all streams at once, within the share of the time, and never later than
// FXI_WAKES_HOLD_S and a step.
static void test_wakes_of_fast_steps_keep_to_their_share(void **state)
{
    static const double shares[] = {0.5, 0.02, 0.001}, step_s = 1e-4;
    (void)state;
    for (size_t i = 0; i < COUNT(shares); i++) {
        wake_trial t;
        begin_wakes(&t, shares[i]);
        double last_s = t.now_s, worst_s = 0;
        int n_sent = 0, n;
        for (int k = 0; k < 10000; k++, n_sent += n) {
            n = run_step(&t, step_s);
            assert_true(n == 0 || n == N_STREAM);
            if (n) worst_s = fmax(worst_s, t.now_s - last_s), last_s = t.now_s;
        }
        const double most = fmax(shares[i] / 10e-6, N_STREAM / FXI_WAKES_HOLD_S); // in a second
        assert_true(n_sent <= most + N_STREAM && n_sent > most * 0.7);
        assert_true(worst_s < FXI_WAKES_HOLD_S + 1.5 * step_s);
        end_wakes(&t);
    }
}

static void test_wakes_that_cannot_wait(void **state)
{
    (void)state;
    wake_trial t;
    begin_wakes(&t, 0.001);
    assert_int_equal(run_step(&t, 1), N_STREAM);
    assert_int_equal(run_step(&t, 0.001), 0);
    fxi_wake first = {NULL, false};
    assert_true(fxi_wakes_add(&t.ws, &first, FXI_WAKE_SOON, t.now_s));
    assert_false(fxi_wakes_add(&t.ws, &first, FXI_WAKE_SOON, t.now_s)); // it is listed
    assert_false(fxi_wakes_add(&t.ws, &t.wake[0], FXI_WAKE_SOON, t.now_s));
    fxi_wake_list l = fxi_wakes_after_step(&t.ws, t.now_s);
    assert_ptr_equal(fxi_wakes_pop(&t.ws, &l), &first);
    assert_null(fxi_wakes_pop(&t.ws, &l));
    assert_int_equal(pop_all(&t, fxi_wakes_take(&t.ws)), N_STREAM);
    end_wakes(&t);
}

// What is held when no step follows is found by the thread that hears the alarm, which is not
// alarmed again while it looks anyway.
static void test_wakes_that_no_step_follows(void **state)
{
    (void)state;
    wake_trial t;
    begin_wakes(&t, 0.001);
    run_step(&t, 1);
    assert_false(heard_alarm(&t));
    run_step(&t, 0.001);
    run_step(&t, 0.001);
    assert_true(heard_alarm(&t));
    assert_true(fxi_wakes_due_s(&t.ws) == t.now_s - 0.001 + FXI_WAKES_HOLD_S);
    assert_int_equal(pop_all(&t, fxi_wakes_late(&t.ws, t.now_s)), 0);
    assert_int_equal(pop_all(&t, fxi_wakes_late(&t.ws, t.now_s + FXI_WAKES_HOLD_S)), N_STREAM);
    assert_true(isinf(fxi_wakes_due_s(&t.ws)));
    assert_false(heard_alarm(&t));
    assert_true(fxi_wakes_add(&t.ws, &t.wake[0], FXI_WAKE_LATER, t.now_s)); // without a step
    assert_true(heard_alarm(&t));
    fxi_wakes_add(&t.ws, &t.wake[1], FXI_WAKE_LATER, t.now_s);
    assert_false(heard_alarm(&t));
    assert_int_equal(pop_all(&t, fxi_wakes_take(&t.ws)), 2);
    end_wakes(&t);
}

static void count_told(void *ud)
{
    wake_trial *t = ud;
    const int n = pop_all(t, fxi_wakes_after_step(&t->ws, t->now_s));
    pthread_mutex_lock(&seen.mu);
    seen.n_run += n;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.mu);
}

// A sender is told of what may be sent, and of nothing else; without one, nobody is.
static void test_a_sender_is_told(void **state)
{
    (void)state;
    wake_trial t;
    begin_wakes(&t, 0.001);
    assert_false(fxi_wakes_tell(&t.ws, t.now_s));
    seen.n_run = 0;
    assert_int_equal(fxi_wakes_start_sender(&t.ws, count_told, &t, NULL), FX_OK);
    for (int i = 0; i < N_STREAM; i++) fxi_wakes_add(&t.ws, &t.wake[i], FXI_WAKE_HELD, t.now_s);
    assert_true(fxi_wakes_tell(&t.ws, t.now_s));
    wait_for(&seen.n_run, N_STREAM);
    fxi_wakes_add(&t.ws, &t.wake[0], FXI_WAKE_HELD, t.now_s);
    assert_true(fxi_wakes_tell(&t.ws, t.now_s)); // too early: the alarm is for that
    assert_true(heard_alarm(&t));
    fxi_wakes_add(&t.ws, &t.wake[1], FXI_WAKE_SOON, t.now_s);
    assert_true(fxi_wakes_tell(&t.ws, t.now_s));
    wait_for(&seen.n_run, N_STREAM + 1);
    fxi_wakes_stop_sender(&t.ws);
    assert_int_equal(pop_all(&t, fxi_wakes_take(&t.ws)), 1);
    end_wakes(&t);
}

FX_SUITE(test_server_work)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger_refuses_beyond_its_limit),
        cmocka_unit_test(test_ledger_counts_what_is_in_no_bill),
        cmocka_unit_test(test_ledger_balances_over_threads),
        cmocka_unit_test(test_default_limit_has_bounds),
        cmocka_unit_test(test_body_is_billed_before_it_grows),
        cmocka_unit_test(test_lanes_and_classes_take_turns),
        cmocka_unit_test(test_small_work_passes_large_work),
        cmocka_unit_test(test_large_work_has_a_low_priority),
        cmocka_unit_test(test_small_work_on_both_threads),
        cmocka_unit_test(test_dropped_work_never_runs),
        cmocka_unit_test(test_idle_is_told_once),
        cmocka_unit_test(test_wakes_of_slow_steps_are_never_held),
        cmocka_unit_test(test_wakes_of_fast_steps_keep_to_their_share),
        cmocka_unit_test(test_wakes_that_cannot_wait),
        cmocka_unit_test(test_wakes_that_no_step_follows),
        cmocka_unit_test(test_a_sender_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
