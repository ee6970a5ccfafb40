// alloc.c - cuMemAlloc: memory that the host cannot touch. Each allocation ends at the end of a
// page (but for its alignment), between red zones wider than a token's stride, and is full of
// garbage.
#include "state.h"

#include "emulator/emu_library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RED_BYTES = 1 << 20, PAGE_BYTES = 4096, ALIGN = 256, GARBAGE = 0xFF };
static const size_t max_garbage = 8 << 20; // of one allocation; beyond it there are zeros

typedef struct allocation {
    struct allocation *next;
    char *pages; // what lies between the red zones
    size_t pages_bytes;
    vti_cu_ptr at;
    size_t size_bytes;
    int device;
} allocation;

enum { NO_DEVICE = -2 };

static allocation *allocs;
static uint64_t alloc_bytes, max_alloc = STANDIN_ALLOC_BYTES;
static int n_open, n_keep;          // nested opens, and those who let them last
static int open_device = NO_DEVICE; // whose memory is open; -1: every one's

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void protect_alloc(const allocation *a, bool open)
{
    mprotect(a->pages, a->pages_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void shut_device(void)
{
    if (open_device == NO_DEVICE) return;
    for (const allocation *a = allocs; a; a = a->next) protect_alloc(a, false);
    if (getenv("STANDIN_HIDE")) standin_protect_mappings(false);
    open_device = NO_DEVICE;
}

void standin_device_open(int device)
{
    if (n_open++ > 0 || open_device == device) return;
    shut_device();
    for (const allocation *a = allocs; a; a = a->next)
        if (device < 0 || a->device == device) protect_alloc(a, true);
    if (getenv("STANDIN_HIDE")) standin_protect_mappings(true);
    open_device = device;
}

void standin_device_close(void)
{
    if (--n_open == 0 && n_keep == 0) shut_device();
}

void standin_device_keep(void)
{
    n_keep++;
}

void standin_device_rest(void)
{
    if (--n_keep == 0 && n_open == 0) shut_device();
}

static void drop_alloc(allocation **link)
{
    allocation *a = *link;
    *link = a->next;
    alloc_bytes -= a->size_bytes;
    standin_kernel_memory(a->at, a->size_bytes, EMU_MEMORY_GONE);
    munmap(a->pages - RED_BYTES, a->pages_bytes + 2 * (size_t)RED_BYTES);
    free(a);
}

void standin_alloc_reset(void)
{
    pthread_mutex_lock(&standin_mu);
    while (allocs) drop_alloc(&allocs);
    max_alloc = STANDIN_ALLOC_BYTES;
    pthread_mutex_unlock(&standin_mu);
}

void standin_alloc_look(standin_report *r)
{
    for (const allocation *a = allocs; a; a = a->next) r->n_alloc++;
    r->alloc_bytes = alloc_bytes;
}

void standin_limit_allocs(uint64_t size_bytes)
{
    pthread_mutex_lock(&standin_mu);
    max_alloc = size_bytes;
    pthread_mutex_unlock(&standin_mu);
}

bool standin_alloc_holds(vti_cu_ptr addr, size_t size_bytes)
{
    for (const allocation *a = allocs; a; a = a->next)
        if (addr >= a->at && addr - a->at <= a->size_bytes &&
            size_bytes <= a->size_bytes - (addr - a->at))
            return true;
    return false;
}

int standin_alloc_device(vti_cu_ptr addr)
{
    for (const allocation *a = allocs; a; a = a->next)
        if (addr >= a->at && addr - a->at < a->size_bytes) return a->device;
    return -1;
}

void standin_each_alloc(void (*act)(vti_cu_ptr at, size_t size_bytes))
{
    for (const allocation *a = allocs; a; a = a->next) act(a->at, a->size_bytes);
}

static void fill_alloc(const allocation *a)
{
    protect_alloc(a, true);
    memset((void *)(uintptr_t)a->at, GARBAGE,
           a->size_bytes < max_garbage ? a->size_bytes : max_garbage);
    protect_alloc(a, n_open > 0);
}

static vti_cu_result allocate(vti_cu_ptr *at, size_t size_bytes)
{
    if (size_bytes > max_alloc || alloc_bytes > max_alloc - size_bytes) return VTI_CU_OUT_OF_MEMORY;
    allocation *a = calloc(1, sizeof *a);
    if (!a) return VTI_CU_OUT_OF_MEMORY;
    a->pages_bytes = round_up(size_bytes, PAGE_BYTES);
    char *all = mmap(NULL, a->pages_bytes + 2 * (size_t)RED_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        free(a);
        return VTI_CU_OUT_OF_MEMORY;
    }
    a->pages = all + RED_BYTES;
    a->size_bytes = size_bytes;
    a->device = standin_current_device();
    a->at = (uintptr_t)a->pages + a->pages_bytes - round_up(size_bytes, ALIGN);
    fill_alloc(a);
    a->next = allocs;
    allocs = a;
    alloc_bytes += size_bytes;
    standin_kernel_memory(a->at, size_bytes, EMU_MEMORY_NEW);
    *at = a->at;
    return VTI_CU_SUCCESS;
}

vti_cu_result cuMemAlloc_v2(vti_cu_ptr *at, size_t size_bytes)
{
    STANDIN_BEGIN(F_mem_alloc);
    if (size_bytes == 0) return standin_end(standin_breach("an allocation of nothing"));
    return standin_end(allocate(at, size_bytes));
}

// Waits for all work, as the driver does.
vti_cu_result cuMemFree_v2(vti_cu_ptr at)
{
    STANDIN_BEGIN(F_mem_free);
    standin_finish_all();
    for (allocation **link = &allocs; *link; link = &(*link)->next) {
        if ((*link)->at != at) continue;
        if (standin_works_at(at, (*link)->size_bytes))
            return standin_end(standin_breach("memory freed under work that is not done"));
        drop_alloc(link);
        return standin_end(VTI_CU_SUCCESS);
    }
    return standin_end(standin_breach("memory freed that is none"));
}
