// test_core_dump.c - the size of a core dump that the system writes: the rows of a cache that many
// sequences share are in it once for each of them, unless fxi_core_dump_shrink was called.
#include "unit/cmocka_all.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/memory.h"
#include "vtensor/vtensor.h"

enum { N_ALIAS = 8, N_TOK = 1024, ROW_BYTES = 4096, CACHE_BYTES = N_TOK * ROW_BYTES };

static vt_status share_rows(void)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = 1, cfg.row_bytes = ROW_BYTES, cfg.max_tok = N_TOK, cfg.max_seq = N_ALIAS;
    cfg.budget_bytes = 4 * CACHE_BYTES;
    vt_manager *m;
    vt_seq *s, *fork;
    vt_status st = vt_manager_create(&cfg, &m);
    if (st == VT_OK) st = vt_seq_create(m, 0, &s);
    if (st == VT_OK) st = vt_seq_extend(s, N_TOK);
    if (st == VT_OK) memset(vt_seq_plane(s, 0), 0x5a, CACHE_BYTES);
    for (int i = 1; i < N_ALIAS && st == VT_OK; i++) {
        st = vt_seq_fork(s, N_TOK, &fork);
        if (st == VT_OK && ((unsigned char *)vt_seq_plane(fork, 0))[CACHE_BYTES - 1] != 0x5a)
            st = VT_EINVAL;
    }
    return st;
}

static void die_with_core(const char *folder, bool shrinks)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    if (chdir(folder) != 0 || share_rows() != VT_OK) _exit(1);
    if (shrinks) fxi_core_dump_shrink("");
    (void)setrlimit(RLIMIT_CORE, &all);
    (void)signal(SIGABRT, SIG_DFL);
    abort();
}

// The bytes of the dump that a child leaves, which is removed; -1: the system writes none here.
static int64_t core_bytes(bool shrinks)
{
    char folder[] = "/tmp/test_core_dump-XXXXXX";
    int status;
    assert_non_null(mkdtemp(folder));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) die_with_core(folder, shrinks);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char pattern[sizeof folder + 8];
    snprintf(pattern, sizeof pattern, "%s/core*", folder);
    glob_t found;
    struct stat st = {.st_size = -1};
    if (glob(pattern, 0, NULL, &found) == 0) {
        assert_int_equal(stat(found.gl_pathv[0], &st), 0);
        assert_int_equal(unlink(found.gl_pathv[0]), 0);
        globfree(&found);
    }
    assert_int_equal(rmdir(folder), 0);
    return st.st_size;
}

FX_TEST(test_a_core_has_no_rows)
{
    struct rlimit here;
    assert_int_equal(getrlimit(RLIMIT_CORE, &here), 0);
    const int64_t whole_bytes = here.rlim_max == RLIM_INFINITY ? core_bytes(false) : -1;
    if (whole_bytes < 0) skip(); // dumps go elsewhere, or nowhere
    const int64_t bytes = core_bytes(true);
    assert_in_range(whole_bytes - bytes, (N_ALIAS - 1) * CACHE_BYTES, INT64_MAX);
}

FX_RUN(test_core_dump)
