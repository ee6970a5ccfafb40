// test_constant_time.c - searching for an API key takes the same instructions, one by one, whatever
// a wrong key has in common with a right one.
//
// A child process searches while its parent steps it and hashes where each instruction lies: two
// equal paths have equal hashes, without a clock. keys.c is compiled here as for a release.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/guard/keys.h"
#include "unit/cmocka_all.h"

#if defined __x86_64__
#    define PROGRAM_COUNTER rip
#elif defined __aarch64__
#    define PROGRAM_COUNTER pc
#endif

typedef struct walk { // the instructions between two stops of a child
    uint64_t hash;
    int n_step;
} walk;

static fxi_keyring *ring;

static void search_ring(const char *key)
{
    (void)fxi_keyring_find(ring, key); // the child does not live to release it
}

// What a search must not be like.
static void search_naively(const char *key)
{
    static volatile int n_same;
    static const char right[] = "sk-aaaaaaaaaaaaaaaa";
    for (n_same = 0; right[n_same] && right[n_same] == key[n_same]; n_same++) continue;
}

#ifdef PROGRAM_COUNTER

__attribute__((noreturn)) static void run_child(void (*search)(const char *), const char *key)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(1);
    raise(SIGSTOP);
    search(key);
    raise(SIGSTOP);
    _exit(0);
}

static void note_place(walk *w, pid_t child)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    assert_int_equal(ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, &all), 0);
    w->hash = (w->hash ^ regs.PROGRAM_COUNTER) * 0x100000001b3u;
    w->n_step++;
}

// Whether the child is stopped; *sig: by what.
static bool wait_child(pid_t child, int *sig)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    *sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    return WIFSTOPPED(status);
}

static walk step_child(pid_t child)
{
    walk w = {.hash = 0xcbf29ce484222325u};
    int sig = 0;
    do {
        note_place(&w, child);
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_true(wait_child(child, &sig));
    } while (sig == SIGTRAP);
    assert_int_equal(sig, SIGSTOP);
    return w;
}

// The key is copied to the same place each time. A system may forbid tracing: then it is skipped.
static walk walk_search(void (*search)(const char *), const char *key)
{
    static char given[300];
    int sig;
    memset(given, 0, sizeof given);
    snprintf(given, sizeof given, "%s", key);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) run_child(search, given);
    if (!wait_child(child, &sig)) skip();
    const walk w = step_child(child);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return w;
}

#else

static walk walk_search(void (*search)(const char *), const char *key)
{
    (void)search, (void)key;
    skip();
    return (walk){0};
}

#endif

// By length. The ring has sk-aa.., sk-ab.. and a longer one that begins with sk-ac...
static const char *const wrong[] = {
    "sk-aaaaaaaaaaaaaaab",
    "xk-aaaaaaaaaaaaaaaa",
    "sk-aaaaaaaaxaaaaaaa",
    "zzzzzzzzzzzzzzzzzzz",
    "sk-abbbbbbbbbbbbbbc",
    "sk-accccccccccccccc",
    "sk-aaaaaaaaabbbbbbb",
    "sk-ax..............",
    "sk-a",
    "zzzz",
    "sk-ab...............",
    "zzzzzzzzzzzzzzzzzzzz",
};

enum { N_WRONG = sizeof wrong / sizeof wrong[0] };

static int open_ring(void **state)
{
    static char path[] = "/tmp/test_constant_time_XXXXXX";
    static const char text[] =
        "a sk-aaaaaaaaaaaaaaaa\nb sk-abbbbbbbbbbbbbbb\nc sk-acccccccccccccccd\n";
    fx_error err;
    const int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1) return -1;
    close(fd);
    const bool ok = fxi_keyring_open(path, NULL, &ring, &err) == FX_OK;
    unlink(path);
    return ok ? 0 : -1;
}

static int close_ring(void **state)
{
    fxi_keyring_close(ring);
    return 0;
}

FX_TEST(test_wrong_keys_take_the_same_instructions)
{
    walk before = walk_search(search_ring, wrong[0]);
    for (int i = 1; i < N_WRONG; i++) {
        const walk w = walk_search(search_ring, wrong[i]);
        if (strlen(wrong[i]) == strlen(wrong[i - 1]) &&
            (w.hash != before.hash || w.n_step != before.n_step))
            fail_msg("%s: %d instructions, %d for %s", wrong[i], w.n_step, before.n_step,
                     wrong[i - 1]);
        before = w;
    }
}

FX_TEST(test_the_walk_tells_an_early_end)
{
    const walk early = walk_search(search_naively, wrong[1]);
    const walk late = walk_search(search_naively, wrong[0]);
    assert_true(late.n_step > early.n_step);
    assert_true(walk_search(search_naively, wrong[3]).hash == early.hash);
}

FX_RUN_GROUP(test_constant_time, open_ring, close_ring)
