// suite_main.c - the main of every test program:
//
//     PROGRAM             runs all suites, each in a process of its own
//     PROGRAM SUITE ..    runs these
//     PROGRAM --list      prints their names
//
// A single suite runs in this process, for debuggers. The exit status is 1 if a suite failed, 77 if
// all were skipped.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

int suite_is_long(void)
{
    return getenv("FX_TEST_LONG") != NULL;
}

int suite_takes(size_t i, size_t every)
{
    return suite_is_long() || i % every == 0;
}

static const suite *find_suite(const char *name)
{
    for (const suite *s = suite_list; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    return NULL;
}

static int run_suite(const suite *s)
{
    printf("[ SUITE    ] %s\n", s->name);
    fflush(stdout);
    const int status = s->run();
    return status && status != SUITE_SKIPPED ? 1 : status;
}

// In a child process, so that no suite sees what another left, and all run even if one crashes.
static int run_apart(const suite *s)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) exit(run_suite(s));
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        return 1;
    }
    if (WIFSIGNALED(status)) fprintf(stderr, "%s: ended by signal %d\n", s->name, WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_all(const suite *const *chosen, int n)
{
    int n_failed = 0, n_skipped = 0;
    for (int i = 0; i < n; i++) {
        const int status = n == 1 ? run_suite(chosen[i]) : run_apart(chosen[i]);
        if (status == SUITE_SKIPPED) n_skipped++;
        if (!status || status == SUITE_SKIPPED) continue;
        printf("[  FAILED  ] suite %s\n", chosen[i]->name);
        n_failed++;
    }
    if (n > 1) printf("[ SUITES   ] %d run, %d failed, %d skipped\n", n, n_failed, n_skipped);
    return n_failed ? 1 : n_skipped == n ? SUITE_SKIPPED : 0;
}

static int list_suites(void)
{
    for (const suite *s = suite_list; s->name; s++) puts(s->name);
    return 0;
}

int main(int argc, char **argv)
{
    enum { MAX_SUITE = 128 };
    const suite *chosen[MAX_SUITE];
    int n = 0;
    if (argc == 2 && !strcmp(argv[1], "--list")) return list_suites();
    for (const suite *s = suite_list; argc == 1 && s->name && n < MAX_SUITE; s++) chosen[n++] = s;
    for (int i = 1; i < argc && n < MAX_SUITE; i++) {
        chosen[n] = find_suite(argv[i]);
        if (!chosen[n++]) {
            fprintf(stderr, "%s: there is no suite %s; --list lists them\n", argv[0], argv[i]);
            return 2;
        }
    }
    return run_all(chosen, n);
}
