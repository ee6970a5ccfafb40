// test_vt_host.c - the host backend by itself, call by call, against what the system says.
#include "assert_vt.h"
#include "suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "maps.h"
#include "vtensor/vmm.h"

enum { N_SLICE = 3, N_INDEX = 64 };

static vt_vmm *vmm;
static size_t page, slice;
static uintptr_t addr; // a reservation of N_INDEX slices

VT_FIXTURE(setup)
{
    assert_ok(vt_vmm_host_open(&vmm));
    page = vmm->ops->granularity(vmm);
    slice = 4 * page;
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{N_SLICE, slice, N_INDEX}}};
    assert_ok(vmm->ops->configure(vmm, &geo));
    assert_ok(vmm->ops->reserve(vmm, N_INDEX * slice, &addr));
}

VT_FIXTURE(teardown)
{
    assert_ok(vmm->ops->unreserve(vmm, addr, N_INDEX * slice));
    vmm->ops->close(vmm);
}

static uint64_t resident(void)
{
    uint64_t size_bytes = 0;
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    return size_bytes;
}

FX_TEST(test_memory_comes_and_goes)
{
    assert_int_equal(resident(), 0);
    assert_ok(vmm->ops->create(vmm, 3, 5));
    assert_int_equal(resident(), 5 * N_SLICE * slice);
    assert_ok(vmm->ops->create(vmm, N_INDEX - 1, 1));
    assert_ok(vmm->ops->destroy(vmm, 4, 3));
    assert_int_equal(resident(), 3 * N_SLICE * slice);
    assert_ok(vmm->ops->destroy(vmm, 3, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 1));
    assert_ok(vmm->ops->destroy(vmm, N_INDEX - 1, 1));
    assert_int_equal(resident(), 0);
}

FX_TEST(test_bytes_belong_to_chunk_and_slice)
{
    assert_ok(vmm->ops->create(vmm, 8, 2));
    for (uint32_t s = 0; s < N_SLICE; s++) {
        assert_ok(vmm->ops->map(vmm, addr + 2 * s * slice, s, 8, 2, VT_VMM_WRITE));
        memset((void *)(addr + 2 * s * slice), 'a' + (int)s, slice);
        memset((void *)(addr + (2 * s + 1) * slice), 'A' + (int)s, slice);
    }
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * N_SLICE * slice));
    for (uint32_t s = 0; s < N_SLICE; s++) { // the other way round
        char *at = (char *)(addr + 4 * s * slice);
        assert_ok(vmm->ops->map(vmm, (uintptr_t)at, s, 9, 1, VT_VMM_WRITE));
        assert_ok(vmm->ops->map(vmm, (uintptr_t)at + slice, s, 8, 1, VT_VMM_WRITE));
        assert_true(at[0] == 'A' + (int)s && at[slice - 1] == 'A' + (int)s);
        assert_true(at[slice] == 'a' + (int)s && at[2 * slice - 1] == 'a' + (int)s);
        assert_ok(vmm->ops->unmap(vmm, (uintptr_t)at, 2 * slice));
    }
    assert_ok(vmm->ops->destroy(vmm, 8, 2));
}

FX_TEST(test_created_again_is_zero_again)
{
    static const char zero[64];
    assert_true(vmm->ops->creates_zeroed(vmm));
    for (int round = 0; round < 2; round++) {
        assert_ok(vmm->ops->create(vmm, 0, 1));
        assert_ok(vmm->ops->map(vmm, addr, 1, 0, 1, VT_VMM_WRITE));
        assert_memory_equal((void *)addr, zero, sizeof zero);
        assert_memory_equal((void *)(addr + slice - sizeof zero), zero, sizeof zero);
        memset((void *)addr, 0x5a, slice);
        assert_ok(vmm->ops->unmap(vmm, addr, slice));
        assert_ok(vmm->ops->destroy(vmm, 0, 1));
    }
}

FX_TEST(test_fetch_and_zero_take_any_bytes)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 2, 1, 1, VT_VMM_WRITE));
    memcpy((char *)addr + 5, "tokens", 6);
    assert_ok(vmm->ops->unmap(vmm, addr, slice)); // nobody needs to map what is fetched
    assert_ok(vmm->ops->map(vmm, addr, 2, 0, 1, VT_VMM_WRITE));
    char *p = (char *)addr;
    assert_ok(vmm->ops->fetch(vmm, addr + page - 3, 2, 1, 5, 6, VT_VMM_NOW));
    assert_memory_equal(p + page - 4, "\0tokens", 8);
    assert_ok(vmm->ops->zero(vmm, addr + page - 2, 4, VT_VMM_NOW));
    assert_memory_equal(p + page - 3, "t\0\0\0\0s", 6);
    assert_ok(vmm->ops->fetch(vmm, addr, 2, 1, 0, slice, VT_VMM_NOW));
    assert_memory_equal(p + 4, "\0tokens", 8);
    assert_int_equal(p[slice - 1], 0);
    assert_ok(vmm->ops->unmap(vmm, addr, slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_copies_of_any_bytes_are_one_call)
{
    char *p = (char *)addr;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 2, 0, 2, VT_VMM_WRITE));
    memcpy(p + 5, "tokens", 6);
    memcpy(p + slice + 1, "key", 3);
    const vt_vmm_copy copy[] = {{addr + slice - 3, addr + 5, 6},
                                {addr + page + 1, addr + slice + 1, 0},
                                {addr + 2 * slice - 3, addr + 8, 3}};
    assert_ok(vmm->ops->copy_each(vmm, copy, 0, VT_VMM_NOW));
    assert_int_equal(p[slice - 3], 0);
    assert_ok(vmm->ops->copy_each(vmm, copy, 3, VT_VMM_NOW));
    assert_memory_equal(p + slice - 4, "\0tokens", 7); // across slices
    assert_int_equal(p[page + 1], 0);
    assert_memory_equal(p + 2 * slice - 4, "\0ens", 4);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_store_reaches_what_is_mapped_nowhere)
{
    char *p = (char *)addr;
    assert_ok(vmm->ops->create(vmm, 0, 3));
    assert_ok(vmm->ops->map(vmm, addr, 2, 0, 1, VT_VMM_WRITE));
    memset(p, 's', slice);
    assert_ok(vmm->ops->store(vmm, 1, 2, page - 3, addr + 5, 6)); // across pages, of another slice
    memset(p, 0, slice);
    assert_ok(vmm->ops->fetch(vmm, addr, 1, 2, page - 4, 8, VT_VMM_NOW));
    assert_memory_equal(p, "\0ssssss\0", 8);
    memset(p, 'w', slice);
    assert_ok(vmm->ops->store(vmm, 2, 1, 0, addr, slice));
    assert_ok(vmm->ops->map(vmm, addr + slice, 2, 1, 1, VT_VMM_ALIAS));
    assert_memory_equal(p, p + slice, slice);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

FX_TEST(test_a_slice_may_be_mapped_at_many_addresses)
{
    assert_ok(vmm->ops->create(vmm, 4, 2));
    assert_ok(vmm->ops->map(vmm, addr, 1, 4, 2, VT_VMM_WRITE));
    for (uint32_t i = 2; i < 20; i += 2)
        assert_ok(vmm->ops->map(vmm, addr + i * slice, 1, 4, 2, VT_VMM_ALIAS));
    memset((void *)(addr + slice), 'x', 9);
    for (uint32_t i = 3; i < 20; i += 2)
        assert_memory_equal((void *)(addr + i * slice), "xxxxxxxxx", 10);
    assert_int_equal(resident(), 2 * N_SLICE * slice);
    assert_ok(vmm->ops->unmap(vmm, addr, 20 * slice));
    assert_ok(vmm->ops->destroy(vmm, 4, 2));
}

static void assert_mapped(uint64_t size_bytes, uint64_t n_mapping)
{
    uint64_t bytes = 1, n = 1;
    assert_ok(vmm->ops->mapped(vmm, &bytes, &n));
    assert_int_equal(bytes, size_bytes);
    assert_int_equal(n, n_mapping);
}

// ---- classes

// Slices of one, three and two pages; their chunks have the indices 0 .. 9, 10 .. 16 and 17 .. 21.
static uintptr_t open_classes(vt_vmm **out)
{
    vt_vmm_geometry geo = {.n_class = 3,
                           .cls = {{2, page, 10}, {1, 3 * page, 7}, {3, 2 * page, 5}}};
    uintptr_t at;
    assert_ok(vt_vmm_host_open(out));
    assert_ok((*out)->ops->configure(*out, &geo));
    assert_ok((*out)->ops->reserve(*out, 64 * page, &at));
    return at;
}

static void close_classes(vt_vmm *v, uintptr_t at)
{
    assert_ok(v->ops->unreserve(v, at, 64 * page));
    v->ops->close(v);
}

FX_TEST(test_each_class_has_chunks_of_its_own_shape)
{
    static const struct {
        uint64_t index;
        uint32_t n_slice, n_page;
    } ends[] = {{0, 2, 1}, {9, 2, 1}, {10, 1, 3}, {16, 1, 3}, {17, 3, 2}, {21, 3, 2}};
    enum { N_END = sizeof ends / sizeof *ends };
    vt_vmm *v;
    uintptr_t at = open_classes(&v), p = at;
    uint64_t want = 0, bytes, n;
    for (int i = 0; i < N_END; i++) { // each slice has a letter
        assert_ok(v->ops->create(v, ends[i].index, 1));
        want += (uint64_t)ends[i].n_slice * ends[i].n_page * page;
        assert_ok(v->ops->resident(v, &bytes));
        assert_int_equal(bytes, want);
        for (uint32_t s = 0; s < ends[i].n_slice; s++, p += ends[i].n_page * page) {
            assert_ok(v->ops->map(v, p, s, ends[i].index, 1, VT_VMM_WRITE));
            memset((void *)p, 'a' + 3 * i + (int)s, ends[i].n_page * page);
        }
    }
    assert_ok(v->ops->mapped(v, &bytes, &n));
    assert_int_equal(bytes, want);
    for (int i = 0; i < N_END; i++) // and nobody wrote another's
        for (uint32_t s = 0; s < ends[i].n_slice; s++) {
            char *to = (char *)(i == 0 ? p - page : at);
            size_t size_bytes = ends[i].n_page * page;
            assert_ok(v->ops->fetch(v, (uintptr_t)to, s, ends[i].index, size_bytes - 9, 9,
                                    VT_VMM_QUEUED));
            for (int k = 0; k < 9; k++) assert_int_equal(to[k], 'a' + 3 * i + (int)s);
        }
    assert_ok(v->ops->unmap(v, at, p - at));
    for (int i = 0; i < N_END; i++) {
        assert_ok(v->ops->destroy(v, ends[i].index, 1));
        want -= (uint64_t)ends[i].n_slice * ends[i].n_page * page;
        assert_ok(v->ops->resident(v, &bytes));
        assert_int_equal(bytes, want);
    }
    close_classes(v, at);
}

FX_TEST(test_neighbours_of_any_class_merge)
{
    vt_vmm *v;
    uintptr_t at = open_classes(&v);
    uint64_t bytes, n;
    assert_ok(v->ops->create(v, 11, 4));
    assert_ok(v->ops->create(v, 18, 3));
    for (uint32_t i = 0; i < 4; i++)
        assert_ok(v->ops->map(v, at + 3 * i * page, 0, 11 + i, 1, VT_VMM_WRITE));
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(v->ops->map(v, at + (12 + 2 * i) * page, 2, 18 + i, 1, VT_VMM_WRITE));
    assert_ok(v->ops->mapped(v, &bytes, &n));
    assert_int_equal(bytes, 18 * page);
    assert_int_equal(n, 2);
    assert_ok(v->ops->unmap(v, at, 18 * page));
    assert_ok(v->ops->destroy(v, 11, 4));
    assert_ok(v->ops->destroy(v, 18, 3));
    close_classes(v, at);
}

// ---- access

static sigjmp_buf back_to;
static uintptr_t fault_at;
static int fault_code;

static void note_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    fault_at = (uintptr_t)info->si_addr;
    fault_code = info->si_code;
    siglongjmp(back_to, 1);
}

// Writes the byte, and says whether that raised SIGSEGV: fault_at and fault_code say how.
static bool write_faults(uintptr_t at)
{
    struct sigaction note = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO}, old;
    fault_at = 0;
    assert_int_equal(sigaction(SIGSEGV, &note, &old), 0);
    volatile bool faulted = sigsetjmp(back_to, 1) != 0;
    if (!faulted) *(volatile char *)at = 'w';
    assert_int_equal(sigaction(SIGSEGV, &old, NULL), 0);
    return faulted;
}

// Two spans share chunks 4 and 5, and one of them writes on in chunk 6.
FX_TEST(test_a_stray_write_into_shared_memory_faults_where_it_happens)
{
    uintptr_t other = addr + 8 * slice;
    assert_true(vmm->ops->can_protect(vmm));
    assert_ok(vmm->ops->create(vmm, 4, 3));
    assert_ok(vmm->ops->map(vmm, addr, 1, 4, 3, VT_VMM_WRITE));
    memset((void *)addr, 's', 3 * slice);
    assert_ok(vmm->ops->protect(vmm, addr, 2 * slice, VT_VMM_READ));
    assert_ok(vmm->ops->map(vmm, other, 1, 4, 2, VT_VMM_READ));
    const uintptr_t strays[] = {addr,  addr + slice + 777, addr + 2 * slice - 1,
                                other, other + page + 1,   other + 2 * slice - 1};
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        assert_true(write_faults(strays[i]));
        assert_int_equal(fault_at, strays[i]);
        assert_int_equal(fault_code, SEGV_ACCERR);
    }
    for (size_t i = 0; i < 2 * slice; i++) // reads do not fault, and no stray write has been done
        assert_true(((char *)addr)[i] == 's' && ((char *)other)[i] == 's');
    assert_false(write_faults(addr + 2 * slice)); // in front of its own tail's first byte is shared
    assert_true(write_faults(addr + 2 * slice - 1));
    assert_ok(vmm->ops->unmap(vmm, addr, 3 * slice));
    assert_ok(vmm->ops->protect(vmm, other, 2 * slice, VT_VMM_WRITE)); // the last owner
    assert_false(write_faults(other));
    assert_false(write_faults(other + 2 * slice - 1));
    assert_ok(vmm->ops->unmap(vmm, other, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 4, 3));
}

FX_TEST(test_access_parts_a_run_and_joins_it_again)
{
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 4, VT_VMM_WRITE));
    assert_ok(vmm->ops->map(vmm, addr + 4 * slice, 0, 4, 2, VT_VMM_ALIAS));
    assert_mapped(6 * slice, 1);
    assert_ok(vmm->ops->map(vmm, addr + 6 * slice, 0, 6, 2, VT_VMM_READ));
    assert_mapped(8 * slice, 2);
    assert_ok(vmm->ops->protect(vmm, addr + 2 * slice, slice, VT_VMM_READ));
    assert_mapped(8 * slice, 4);
    assert_ok(vmm->ops->protect(vmm, addr + 3 * slice, 3 * slice, VT_VMM_READ));
    assert_mapped(8 * slice, 2);
    assert_ok(vmm->ops->protect(vmm, addr, 2 * slice, VT_VMM_READ));
    assert_mapped(8 * slice, 1);
    assert_ok(vmm->ops->protect(vmm, addr, 8 * slice, VT_VMM_WRITE));
    assert_mapped(8 * slice, 1);
    memset((void *)addr, 'w', 8 * slice);
    assert_ok(vmm->ops->unmap(vmm, addr, 8 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

// Uses up the mappings of the process: pages of unlike access, one mapping each. Returns how many;
// the last n of them are given back by leave_free.
static size_t use_up_mappings(char *room, size_t n_page)
{
    size_t n = 0;
    while (n < n_page && mprotect(room + n * page, page, n % 2 ? PROT_READ : PROT_WRITE) == 0) n++;
    return n;
}

static void leave_free(char *room, size_t n_used, size_t n)
{
    (void)mprotect(room + (n_used - n) * page, n * page, PROT_NONE);
}

// Two runs that are not neighbours; protect has to split both.
FX_TEST(test_protect_without_a_mapping_left_is_no_space_and_changes_nothing)
{
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 4, VT_VMM_WRITE));
    assert_ok(vmm->ops->map(vmm, addr + 4 * slice, 1, 4, 4, VT_VMM_WRITE));
    size_t n_page = max_map_count() + 1;
    char *room =
        mmap(NULL, n_page * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    for (size_t n_free = 0; n_free < 3; n_free++) {
        size_t n_used = use_up_mappings(room, n_page);
        leave_free(room, n_used, n_free);
        vt_status st = vmm->ops->protect(vmm, addr + slice, 4 * slice, VT_VMM_READ);
        leave_free(room, n_used, n_used); // asserts may need some
        assert_true(n_used > 0 && n_used < n_page);
        assert_status(n_free < 2 ? VT_NOSPACE : VT_OK, st);
        assert_mapped(8 * slice, n_free < 2 ? 2 : 4);
        assert_int_equal(write_faults(addr + slice), n_free == 2);
        assert_int_equal(write_faults(addr + 5 * slice - 1), n_free == 2);
        assert_false(write_faults(addr + slice - 1) || write_faults(addr + 5 * slice));
    }
    assert_int_equal(munmap(room, n_page * page), 0);
    assert_ok(vmm->ops->unmap(vmm, addr, 8 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

FX_TEST(test_nothing_runs_beside_the_caller)
{
    uint64_t ticket = 1;
    bool is_passed = false;
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_int_equal(ticket, 0);
    assert_ok(vmm->ops->passed(vmm, ticket, false, &is_passed));
    assert_true(is_passed);
    assert_ok(vmm->ops->create(vmm, 0, 2)); // so what is queued is done when the call returns
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 2, VT_VMM_WRITE));
    memset((void *)addr, 'q', slice);
    assert_ok(vmm->ops->fetch(vmm, addr + slice, 0, 0, 0, slice, VT_VMM_QUEUED));
    assert_memory_equal((void *)addr, (void *)(addr + slice), slice);
    assert_ok(vmm->ops->zero(vmm, addr + 1, 2, VT_VMM_QUEUED));
    assert_memory_equal((void *)addr, "q\0\0q", 4);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_mapped_is_what_the_system_says)
{
    vt_vmm *other; // has the same name, and must not count
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, page, 9}}};
    uintptr_t at;
    assert_ok(vt_vmm_host_open(&other));
    assert_ok(other->ops->configure(other, &geo));
    assert_ok(other->ops->reserve(other, page, &at));
    assert_ok(other->ops->create(other, 0, 1));
    assert_ok(other->ops->map(other, at, 0, 0, 1, VT_VMM_WRITE));
    assert_mapped(0, 0);
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 8, VT_VMM_WRITE));
    assert_ok(vmm->ops->map(vmm, addr + 8 * slice, 0, 0, 8, VT_VMM_ALIAS));
    assert_mapped(16 * slice, 2);
    assert_ok(vmm->ops->unmap(vmm, addr + 2 * slice, slice));
    assert_mapped(15 * slice, 3);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->unmap(vmm, addr + 3 * slice, 13 * slice));
    assert_mapped(0, 0);
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
    assert_ok(other->ops->unmap(other, at, page));
    assert_ok(other->ops->destroy(other, 0, 1));
    assert_ok(other->ops->unreserve(other, at, page));
    other->ops->close(other);
}

// Every other chunk, so that no two mappings merge, as many as the manager may ever make.
FX_TEST(test_tens_of_thousands_of_mappings_are_counted)
{
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, page, UINT64_C(1) << 40}}};
    vt_vmm *big;
    uintptr_t at;
    assert_ok(vt_vmm_host_open(&big));
    assert_ok(big->ops->configure(big, &geo));
    uint64_t n = big->ops->max_runs(big), bytes, n_mapping;
    assert_ok(big->ops->reserve(big, 2 * n * page, &at));
    assert_ok(big->ops->create(big, geo.cls[0].n_index - 1, 1));
    for (uint64_t i = 0; i < n; i++)
        assert_ok(
            big->ops->map(big, at + 2 * i * page, 0, geo.cls[0].n_index - 1, 1, VT_VMM_ALIAS));
    assert_ok(big->ops->mapped(big, &bytes, &n_mapping));
    assert_int_equal(n_mapping, n);
    assert_int_equal(bytes, n * page);
    for (uint64_t i = 0; i < n; i++) assert_ok(big->ops->unmap(big, at + 2 * i * page, page));
    assert_ok(big->ops->destroy(big, geo.cls[0].n_index - 1, 1));
    assert_ok(big->ops->unreserve(big, at, 2 * n * page));
    big->ops->close(big);
}

FX_TEST(test_more_than_a_file_can_name_is_no_space)
{
    const uint64_t half = (UINT64_C(1) << 62) / page; // chunks of a page that are half of all
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{8, page, UINT64_C(1) << 50}}};
    vt_vmm_geometry sum = {.n_class = 2, .cls = {{1, page, half}, {1, page, half}}};
    vt_vmm *other;
    uint64_t size_bytes;
    assert_ok(vt_vmm_host_open(&other));
    assert_int_equal(other->ops->configure(other, &geo), VT_NOSPACE);
    assert_int_equal(other->ops->configure(other, &sum), VT_NOSPACE);
    sum.cls[1].n_index--;
    assert_ok(other->ops->configure(other, &sum));
    assert_ok(other->ops->create(other, 2 * half - 2, 1)); // the last of all
    assert_ok(other->ops->resident(other, &size_bytes));
    assert_int_equal(size_bytes, page);
    assert_ok(other->ops->destroy(other, 2 * half - 2, 1));
    other->ops->close(other);
}

FX_TEST(test_swap_gives_back_what_it_took)
{
    uint64_t sum, back;
    assert_ok(vmm->ops->swap_open(vmm, ".", 100 * slice));
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 2, VT_VMM_WRITE));
    for (size_t i = 0; i < 2 * slice; i++) ((char *)addr)[i] = (char)(i * i >> 7);
    assert_ok(vmm->ops->swap_write(vmm, 70 * slice, addr, slice, &sum));
    assert_int_equal(sum, vt_vmm_checksum(0, (void *)addr, slice));
    assert_ok(vmm->ops->swap_read(vmm, addr + slice, 70 * slice, slice, &back));
    assert_int_equal(sum, back);
    assert_memory_equal((void *)addr, (void *)(addr + slice), slice);
    vmm->ops->swap_drop(vmm, 70 * slice, slice);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_neighbours_merge_into_one_mapping)
{
    uint64_t before = maps_of_memfd();
    assert_ok(vmm->ops->create(vmm, 10, 8));
    for (uint32_t i = 0; i < 8; i++)
        assert_ok(vmm->ops->map(vmm, addr + i * slice, 2, 10 + i, 1, VT_VMM_WRITE));
    assert_int_equal(maps_of_memfd(), before + 1);
    assert_ok(vmm->ops->unmap(vmm, addr + 6 * slice, 2 * slice));
    assert_int_equal(maps_of_memfd(), before + 1);
    assert_ok(vmm->ops->unmap(vmm, addr, 6 * slice));
    assert_int_equal(maps_of_memfd(), before);
    assert_ok(vmm->ops->destroy(vmm, 10, 8));
}

// Pages that this process could touch without a fault.
static size_t n_present(uintptr_t at, size_t size_bytes)
{
    uint64_t told[64] = {0};
    size_t n_page = size_bytes / page, n = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) skip();
    assert_true(n_page <= 64);
    ssize_t got = pread(fd, told, n_page * sizeof *told, (off_t)(at / page * sizeof *told));
    close(fd);
    assert_int_equal(got, n_page * sizeof *told);
    for (size_t k = 0; k < n_page; k++) n += told[k] >> 63;
    return n;
}

FX_TEST(test_what_will_be_written_is_present)
{
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 8, VT_VMM_WRITE));
    assert_ok(vmm->ops->map(vmm, addr + 8 * slice, 0, 0, 8, VT_VMM_ALIAS));
    assert_ok(vmm->ops->map(vmm, addr + 16 * slice, 0, 0, 8, VT_VMM_READ));
    assert_int_equal(n_present(addr, 8 * slice), 8 * slice / page);
    assert_int_equal(n_present(addr + 8 * slice, 8 * slice), 0);
    assert_int_equal(n_present(addr + 16 * slice, 8 * slice), 0);
    assert_ok(vmm->ops->unmap(vmm, addr, 24 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

FX_TEST(test_what_is_only_reserved_faults)
{
    assert_true(read_faults((const void *)addr));
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 1, VT_VMM_WRITE));
    assert_false(read_faults((const void *)(addr + slice - 1)));
    assert_true(read_faults((const void *)(addr + slice)));
    assert_ok(vmm->ops->unmap(vmm, addr, slice));
    assert_true(read_faults((const void *)addr));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

FX_TEST(test_more_than_the_address_space_is_no_space)
{
    uintptr_t at;
    assert_int_equal(vmm->ops->reserve(vmm, (size_t)1 << 60, &at), VT_NOSPACE);
}

FX_TEST(test_the_limit_of_runs_leaves_room)
{
    uint64_t n = vmm->ops->max_runs(vmm);
    assert_true(n > 0 && 2 * n < max_map_count());
}

// RLIMIT_FSIZE would make ftruncate raise SIGXFSZ.
FX_TEST(test_a_limit_on_files_is_no_space)
{
    struct rlimit old, low;
    vt_vmm *other;
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, page, 100}}};
    assert_ok(vt_vmm_host_open(&other));
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 10 * page;
    setrlimit(RLIMIT_FSIZE, &low);
    assert_int_equal(other->ops->configure(other, &geo), VT_NOSPACE);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_ok(other->ops->configure(other, &geo));
    other->ops->close(other);
}

enum { HUGE = 2 << 20 };

static uint64_t number_in(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%llu", &n) != 1) n = 0;
    if (f) fclose(f);
    return n;
}

FX_TEST(test_pages_set_aside_are_of_a_size_there_is)
{
    vt_vmm *huge = vmm;
    static const size_t none[] = {0, 12345, 3 << 20, 4096, (size_t)1 << 62};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(vt_vmm_host_open_huge(none[i], &huge), VT_EINVAL);
        assert_null(huge);
    }
}

FX_TEST(test_pages_set_aside_serve)
{
    vt_vmm *huge;
    uint64_t n = number_in("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"), bytes, maps;
    if (n < 4) skip();
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{2, HUGE, UINT64_C(1) << 30}}};
    uintptr_t at;
    assert_ok(vt_vmm_host_open_huge(HUGE, &huge));
    assert_int_equal(huge->ops->granularity(huge), HUGE);
    assert_ok(huge->ops->configure(huge, &geo));
    assert_ok(huge->ops->reserve(huge, 16 * (size_t)HUGE, &at));
    assert_int_equal(at % HUGE, 0);
    assert_ok(huge->ops->create(huge, 5, 2));
    assert_ok(huge->ops->resident(huge, &bytes));
    assert_int_equal(bytes, 4 * (uint64_t)HUGE);
    assert_int_equal(huge->ops->create(huge, 100, n), VT_NOSPACE); // never SIGBUS
    assert_ok(huge->ops->resident(huge, &bytes));
    assert_int_equal(bytes, 4 * (uint64_t)HUGE);
    assert_ok(huge->ops->map(huge, at, 1, 5, 2, VT_VMM_WRITE));
    assert_ok(huge->ops->map(huge, at + 4 * (size_t)HUGE, 1, 5, 2, VT_VMM_READ));
    memset((void *)(at + HUGE), 'h', HUGE);
    assert_true(write_faults(at + 5 * (size_t)HUGE));
    assert_int_equal(fault_at, at + 5 * (size_t)HUGE);
    assert_int_equal(*(char *)(at + 5 * (size_t)HUGE), 'h');
    assert_ok(huge->ops->mapped(huge, &bytes, &maps));
    assert_true(bytes == 4 * (uint64_t)HUGE && maps == 2);
    assert_ok(huge->ops->fetch(huge, at + 7, 1, 6, 100, 4, VT_VMM_NOW));
    assert_memory_equal((void *)(at + 6), "\0hhhh", 6);
    assert_ok(huge->ops->store(huge, 0, 6, HUGE - 3, at + 8, 3)); // by way of a mapping
    assert_ok(huge->ops->fetch(huge, at, 0, 6, HUGE - 4, 4, VT_VMM_NOW));
    assert_memory_equal((void *)at, "\0hhh", 4);
    assert_ok(huge->ops->unmap(huge, at, 2 * (size_t)HUGE));
    assert_ok(huge->ops->unmap(huge, at + 4 * (size_t)HUGE, 2 * (size_t)HUGE));
    assert_ok(huge->ops->destroy(huge, 5, 2));
    assert_ok(huge->ops->resident(huge, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(huge->ops->unreserve(huge, at, 16 * (size_t)HUGE));
    huge->ops->close(huge);
}

FX_RUN_EACH(test_vt_host, setup, teardown)
