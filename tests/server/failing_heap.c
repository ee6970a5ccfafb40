// failing_heap.c - malloc in the program itself, which the dynamic linker finds first for all
// libraries. Real memory comes from the C library or from the sanitizer in its place.
#include "server/failing_heap.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define REAL(name) __interceptor_##name
#    define SPARED_LIB "/libc.so" // where the sanitizer's threads begin, which bear no failure
#else
#    define REAL(name) __libc_##name
#    define SPARED_LIB "no library"
#endif

void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *p, size_t n);
void *__real_fxi_pages_map(size_t n_bytes);
void *__wrap_fxi_pages_map(size_t n_bytes);

#define EXPORT __attribute__((visibility("default")))

// ThreadSanitizer allocates before it can watch anything.
#define UNWATCHED __attribute__((no_sanitize("thread")))

extern char __executable_start, etext;

static failing_heap plan; // constant while armed
static atomic_bool armed;
static atomic_long n_seen, n_failed;
static atomic_bool first_is_ours;
static _Thread_local bool spared;
static uintptr_t lib_begin, lib_end; // of SPARED_LIB; 0: none

void failing_heap_spare(bool on)
{
    spared = on;
}

static int find_lib(struct dl_phdr_info *lib, size_t n_bytes, void *ud)
{
    (void)n_bytes, (void)ud;
    if (!strstr(lib->dlpi_name, SPARED_LIB)) return 0;
    lib_begin = lib->dlpi_addr;
    for (int i = 0; i < lib->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &lib->dlpi_phdr[i];
        const uintptr_t end = lib->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && end > lib_end) lib_end = end;
    }
    return 1;
}

void failing_heap_arm(const failing_heap *f)
{
    plan = *f;
    if (!lib_end) dl_iterate_phdr(find_lib, NULL);
    atomic_store(&n_seen, 0);
    atomic_store(&n_failed, 0);
    atomic_store(&armed, true);
}

long failing_heap_disarm(bool *ours)
{
    atomic_store(&armed, false);
    *ours = atomic_load(&first_is_ours);
    return atomic_load(&n_failed);
}

UNWATCHED static bool counts(uintptr_t caller)
{
    return !spared && atomic_load(&armed) && !(caller >= lib_begin && caller < lib_end) &&
           !(plan.spares && plan.spares());
}

UNWATCHED static bool is_ours(const void *caller)
{
    const char *at = caller;
    return at >= &__executable_start && at < &etext;
}

UNWATCHED static bool must_fail(const void *caller)
{
    if (!counts((uintptr_t)caller)) return false;
    const long i = atomic_fetch_add(&n_seen, 1);
    if (i != plan.at && (!plan.and_later || i < plan.at)) return false;
    if (!atomic_fetch_add(&n_failed, 1)) atomic_store(&first_is_ours, is_ours(caller));
    errno = ENOMEM;
    return true;
}

EXPORT UNWATCHED void *malloc(size_t n)
{
    return must_fail(__builtin_return_address(0)) ? NULL : REAL(malloc)(n);
}

EXPORT UNWATCHED void *calloc(size_t n, size_t size)
{
    return must_fail(__builtin_return_address(0)) ? NULL : REAL(calloc)(n, size);
}

EXPORT UNWATCHED void *realloc(void *p, size_t n)
{
    return must_fail(__builtin_return_address(0)) ? NULL : REAL(realloc)(p, n);
}

void *__wrap_fxi_pages_map(size_t n_bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : __real_fxi_pages_map(n_bytes);
}
