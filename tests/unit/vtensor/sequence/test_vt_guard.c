// test_vt_guard.c - what is shared cannot be written: a stray write faults at the instruction that
// makes it, through whatever sequence it goes. Whoever is alone may write again.
#include "assert_vt.h"
#include "suite.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

enum { CHUNK_TOK = 32, N_PLANE = 2 };

static family f;
static vt_layout layout; // of the run

static void open_on(backend b)
{
    family_setup s = {.backend = b,
                      .layout = layout,
                      .n_plane = N_PLANE,
                      .row_bytes = layout == VT_LAYOUT_SPLIT ? 128 : 64,
                      .slice_pages = 1,
                      .n_seq = 4,
                      .budget_chunks = 20,
                      .swap_chunks = 8,
                      .mapper = VT_MAPPER_OWNER};
    family_open(&f, &s, 17);
}

VT_FIXTURE(setup)
{
    open_on(ON_HOST);
}

VT_FIXTURE(teardown)
{
    family_verify(&f); // no stray write has changed a byte
    family_close(&f);
}

// ---- Writes, tried by a child process: the memory is the same, so it writes what is there.

enum { EXIT_WRITTEN = 40, EXIT_FAULT_THERE, EXIT_FAULT_ELSEWHERE };

static volatile char *target;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    _exit(info->si_addr == (void *)target ? EXIT_FAULT_THERE : EXIT_FAULT_ELSEWHERE);
}

static void write_in_child(void)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO};
    act.sa_sigaction = on_fault;
    sigaction(SIGSEGV, &act, NULL);
    char was = *target;
    *target = was;
    _exit(EXIT_WRITTEN);
}

static int outcome_of_write(void *at)
{
    int status = 0;
    target = at;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) write_in_child();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// A byte of a row: the first of the first plane, or the last of the last.
static char *byte_of(uint32_t i, uint32_t tok, bool is_last)
{
    const vt_seq *s = f.kin[i].s;
    char *row = (char *)vt_seq_plane(s, is_last ? N_PLANE - 1 : 0) + tok * vt_seq_stride(s);
    return row + (is_last ? f.setup.row_bytes - 1 : 0);
}

static void assert_row(uint32_t i, uint32_t tok, int outcome)
{
    assert_int_equal(outcome_of_write(byte_of(i, tok, false)), outcome);
    assert_int_equal(outcome_of_write(byte_of(i, tok, true)), outcome);
}

// Of rows [0, n_tok) the first and the last, and one between.
static void assert_guarded(uint32_t i, uint32_t n_tok)
{
    assert_row(i, 0, EXIT_FAULT_THERE);
    assert_row(i, n_tok / 2, EXIT_FAULT_THERE);
    assert_row(i, n_tok - 1, EXIT_FAULT_THERE);
}

// ---- Tests

FX_TEST(test_what_nobody_shares_can_be_written)
{
    family_grown(&f, 0, 2 * CHUNK_TOK + 5);
    assert_row(0, 0, EXIT_WRITTEN);
    assert_row(0, 2 * CHUNK_TOK + 4, EXIT_WRITTEN);
    assert_int_equal(family_stats(&f).protect_calls, 0);
}

FX_TEST(test_a_matched_prefix_is_guarded)
{
    uint32_t tok[FAMILY_MAX_TOK];
    family_grown(&f, 0, 3 * CHUNK_TOK + 5);
    memcpy(tok, f.kin[0].tok, sizeof tok);
    assert_ok(family_record(&f, 0, 3 * CHUNK_TOK + 5, NULL));
    family_release(&f, 0);
    assert_ok(family_match(&f, 2, tok, 3 * CHUNK_TOK + 5));
    assert_ok(family_grow(&f, 2, CHUNK_TOK));
    assert_guarded(2, 3 * CHUNK_TOK);
    assert_row(2, 4 * CHUNK_TOK, EXIT_WRITTEN); // its own
}

FX_TEST(test_parent_and_child_are_guarded)
{
    family_grown(&f, 0, 2 * CHUNK_TOK + 5);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK + 5));
    for (uint32_t i = 0; i < 2; i++) {
        assert_guarded(i, 2 * CHUNK_TOK);
        assert_row(i, 2 * CHUNK_TOK + 4, EXIT_WRITTEN); // each has a tail
        assert_ok(family_grow(&f, i, 40));
        assert_guarded(i, 2 * CHUNK_TOK);
    }
}

FX_TEST(test_own_recorded_rows_are_guarded)
{
    family_grown(&f, 0, 2 * CHUNK_TOK + 5);
    assert_ok(family_record(&f, 0, 2 * CHUNK_TOK + 5, NULL));
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1)); // from the next step on
    assert_guarded(0, 2 * CHUNK_TOK);
    assert_row(0, 2 * CHUNK_TOK + 4, EXIT_WRITTEN); // the tree has it at the release
}

// Rejected speculation, say: the rows that are cut off were shared, but are no longer.
FX_TEST(test_the_last_holder_writes_in_place)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    assert_guarded(0, 3 * CHUNK_TOK);
    family_release(&f, 1);
    vt_stats before = family_stats(&f);
    assert_ok(family_cut(&f, 0, 2 * CHUNK_TOK + 3));
    assert_ok(family_grow(&f, 0, CHUNK_TOK));
    vt_stats after = family_stats(&f);
    assert_int_equal(after.copied_chunks, before.copied_chunks);
    assert_true(after.protect_calls > before.protect_calls);
    assert_row(0, 2 * CHUNK_TOK + 3, EXIT_WRITTEN);
    assert_row(0, 3 * CHUNK_TOK, EXIT_WRITTEN);
}

// While others hold it, who truncates into it gets a copy.
FX_TEST(test_a_cut_into_what_is_shared_is_copied)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    uint64_t n_copied = family_stats(&f).copied_chunks;
    assert_ok(family_cut(&f, 0, 2 * CHUNK_TOK + 3));
    assert_ok(family_grow(&f, 0, 9));
    assert_int_equal(family_stats(&f).copied_chunks, n_copied + 1);
    assert_row(0, 2 * CHUNK_TOK + 3, EXIT_WRITTEN);
    assert_guarded(0, 2 * CHUNK_TOK);
    assert_guarded(1, 3 * CHUNK_TOK);
}

// What comes back from the swap among guarded chunks is guarded again.
FX_TEST(test_a_swap_does_not_open_what_is_shared_later)
{
    family_grown(&f, 0, 3 * CHUNK_TOK);
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    family_release(&f, 1);
    assert_ok(swap_out_now(f.kin[0].s));
    assert_ok(swap_in_now(f.kin[0].s));
    assert_ok(family_fork(&f, 0, 1, 3 * CHUNK_TOK));
    assert_guarded(0, 3 * CHUNK_TOK);
    assert_guarded(1, 3 * CHUNK_TOK);
}

// The parent's guard waits until kernels that write have ended, and nobody waits for it.
FX_TEST(test_a_guard_waits_for_the_kernels)
{
    uint64_t ticket;
    family_close(&f);
    layout = VT_LAYOUT_SPLIT;
    open_on(ON_FAKE);
    vt_fake_set_async(f.inner, true);
    family_grown(&f, 0, 2 * CHUNK_TOK);
    vt_fake_run_writing(f.inner, (uintptr_t)vt_seq_plane(f.kin[0].s, 0), 2 * 4096);
    assert_ok(family_fork(&f, 0, 1, 2 * CHUNK_TOK));
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1));
    assert_int_equal(family_stats(&f).protect_calls, 0);
    assert_ok(f.inner->ops->fence(f.inner, &ticket));
    vt_fake_finish(f.inner, ticket);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 2));
    assert_int_equal(family_stats(&f).protect_calls, N_PLANE);
    assert_int_equal(vt_fake_look(f.inner).n_wait, 0);
}

FX_TEST(test_no_guard_turns_it_off)
{
    vt_config cfg = vt_config_default();
    vt_manager *m;
    vt_seq *a, *b;
    vt_stats st;
    cfg.n_plane = N_PLANE, cfg.row_bytes = 128, cfg.max_tok = 320, cfg.max_seq = 2;
    cfg.budget_bytes = 1 << 20;
    cfg.no_guard = true;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_seq_create(m, 0, &a));
    assert_ok(vt_seq_extend(a, 64));
    assert_ok(vt_seq_fork(a, 64, &b));
    assert_int_equal(outcome_of_write(vt_seq_plane(a, 0)), EXIT_WRITTEN);
    assert_int_equal(outcome_of_write(vt_seq_plane(b, 0)), EXIT_WRITTEN);
    assert_ok(vt_check(m, NULL));
    vt_get_stats(m, &st);
    assert_int_equal(st.chunks_shared, 2);
    assert_int_equal(st.protect_calls, 0);
    vt_manager_destroy(m);
}

FX_SUITE(test_vt_guard)
{
    return run_in_both_layouts("test_vt_guard", &layout, setup, teardown);
}
