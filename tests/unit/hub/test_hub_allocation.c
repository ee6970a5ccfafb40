// test_hub_allocation.c - every allocation of a look into the cache fails once: the error is
// FX_ENOMEM, nothing leaks (with LeakSanitizer), and what is there stays.
#include "unit/cmocka_all.h"
#include "unit/wrapped_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hub/hub_parts.h"

#define SHA1  "0123456789abcdef0123456789abcdef01234567"
#define OTHER "1123456789abcdef0123456789abcdef01234567"

static long n_left = -1; // allocations that still succeed; < 0: all do

static bool fails_now(size_t n_bytes)
{
    return n_left >= 0 && n_left-- == 0; // this one alone
}

// ---- what the C library allocates for us --------------------------------------------------------

char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **out, const char *fmt, va_list ap);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **out, const char *fmt, va_list ap);
int __wrap_asprintf(char **out, const char *fmt, ...);

char *__wrap_strdup(const char *s)
{
    return fails_now(0) ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails_now(0) ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **out, const char *fmt, va_list ap)
{
    return fails_now(0) ? -1 : __real_vasprintf(out, fmt, ap);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = __wrap_vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

// ---- a cache ------------------------------------------------------------------------------------

static char cache[] = "/tmp/fx-hub-XXXXXX";
static const fxi_hub_watch nobody = {.stop_fd = -1};

// A file of two commits, of which one is main, and a file of a URL.
static int make_cache(void **state)
{
    char root[64];
    fx_error err;
    assert_non_null(mkdtemp(cache));
    snprintf(root, sizeof root, "%s/hub", cache);
    setenv("HF_HOME", cache, 1);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HF_HUB_OFFLINE", "1", 1);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_ENDPOINT");
    static const char *const commits[] = {SHA1, OTHER}, *const names[] = {"m.gguf", "n.gguf"};
    for (int i = 0; i < 2; i++) {
        const fxi_hub_place p = {root, (char *)"models--a--b"};
        char *blob = fxi_hub_place_path(&p, "blobs/%s", commits[i]);
        assert_int_equal(fxi_hub_write_text(blob, "GGUF", &err), FX_OK);
        assert_int_equal(fxi_hub_place_link(&p, commits[i], names[i], commits[i], &err), FX_OK);
        free(blob);
    }
    const fxi_hub_place repo = {root, (char *)"models--a--b"};
    char *ref = fxi_hub_place_path(&repo, "refs/main");
    assert_int_equal(fxi_hub_write_text(ref, SHA1, &err), FX_OK);
    free(ref);
    return 0;
}

static void count_model(void *ud, const fxi_hub_model *m)
{
    assert_int_equal(m->n_bytes, 4);
    ++*(int *)ud;
}

// Finds by three kinds of names, and lists.
static fx_status look_around(fx_error *err)
{
    static const char *const names[] = {"hf:a/b", "hf:a/b@" OTHER "/n.gguf", "/a/path"};
    fxi_hub *h;
    char *path;
    int n = 0;
    fx_status st = fxi_hub_open(&nobody, &h, err);
    for (size_t i = 0; st == FX_OK && i < sizeof names / sizeof *names; i++) {
        st = fxi_hub_find(h, names[i], FXI_HUB_ASK, FXI_HUB_MODEL, &path, err);
        free(path);
    }
    if (st == FX_OK) st = fxi_hub_list(h, count_model, &n, err);
    if (st == FX_OK) assert_int_equal(n, 2);
    fxi_hub_close(h);
    return st;
}

static fx_status remove_model(const char *name, fx_error *err)
{
    fxi_hub *h;
    uint64_t freed;
    fx_status st = fxi_hub_open(&nobody, &h, err);
    if (st == FX_OK) st = fxi_hub_remove(h, name, &freed, err);
    fxi_hub_close(h);
    return st;
}

// ---- the sweeps ---------------------------------------------------------------------------------

enum { MAX_ALLOCATION = 2000 };

FX_TEST(test_looking_without_memory)
{
    fx_error err;
    assert_int_equal(look_around(&err), FX_OK);
    for (long n = 0; n < MAX_ALLOCATION; n++) {
        n_left = n;
        const fx_status st = look_around(&err);
        const bool has_failed = n_left < 0;
        n_left = -1;
        if (!has_failed) {
            assert_in_range(n, 30, MAX_ALLOCATION);
            return;
        }
        if (st != FX_ENOMEM) fail_msg("allocation %ld: status %d: %s", n, st, err.text);
    }
    fail_msg("it never ends");
}

// Last: what was there goes. A removal that fails has not removed what it does not say.
FX_TEST(test_removing_without_memory)
{
    fx_error err;
    fx_status st = FX_ENOMEM;
    for (long n = 0; st == FX_ENOMEM && n < MAX_ALLOCATION; n++) {
        n_left = n;
        st = remove_model("hf:a/b@" OTHER "/n.gguf", &err);
        n_left = -1;
    }
    if (st != FX_OK)
        assert_string_equal(err.text, "hf:a/b@" OTHER "/n.gguf: it is not here as a whole");
    for (st = FX_ENOMEM; st == FX_ENOMEM; n_left = -1) st = remove_model("hf:a/b", &err);
    assert_int_equal(st, FX_OK);
    assert_int_equal(remove_model("hf:a/b", &err), FX_EINVAL);
}

// The removal has left the folders of the cache itself.
static int remove_cache(void **state)
{
    char root[64];
    snprintf(root, sizeof root, "%s/hub", cache);
    return rmdir(root) || rmdir(cache);
}

FX_RUN_GROUP(test_hub_allocation, make_cache, remove_cache)
