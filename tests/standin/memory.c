// memory.c - the stand-in's memory; see standin.h.
//
//   reservation   mmap PROT_NONE
//   memory        a range of one memfd; offsets are never used twice
//   mapping       mmap of that range over the reservation, PROT_NONE until access is set
//   allocation    cuMemAlloc's, which the host cannot touch: it ends at the end of a page (but for
//                 its alignment), between red zones wider than a token's stride, and is full of
//                 garbage
#include "state.h"

#include "emulator/emu_library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct range {
    vti_cu_ptr addr;
    size_t size_bytes;
} range;

typedef struct memory {
    vti_cu_handle handle;
    size_t size_bytes;
    off_t offset;
    bool released;
    int n_mapping;
} memory;

typedef struct mapping {
    range at;
    vti_cu_handle handle;
    bool is_open; // access is set
} mapping;

#define MAX_ITEMS 65536

static memory memories[MAX_ITEMS];
static mapping mappings[MAX_ITEMS];
static range reservations[MAX_ITEMS];
static range pinned[MAX_ITEMS];
static int n_memory, n_mapping, n_reservation, n_pinned;
static uint64_t memory_bytes, address_bytes, pinned_bytes;
static uint64_t max_memory = STANDIN_FREE_BYTES;
static uint64_t max_addresses = UINT64_MAX, max_pinned = UINT64_MAX;
static int fd = -1;
static off_t file_bytes;
static vti_cu_handle last_handle;

// ---- allocations

enum { RED_BYTES = 1 << 20, PAGE_BYTES = 4096, ALIGN = 256, GARBAGE = 0xFF, NO_DEVICE = -2 };
static const size_t max_garbage = 8 << 20; // of one allocation; beyond it there are zeros

typedef struct allocation {
    struct allocation *next;
    char *pages; // what lies between the red zones
    size_t pages_bytes;
    vti_cu_ptr at;
    size_t size_bytes;
    int device;
} allocation;

static allocation *allocs;
static uint64_t alloc_bytes, max_alloc = STANDIN_ALLOC_BYTES;
static int n_open, n_keep;          // nested opens, and those that last
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
    open_device = NO_DEVICE;
}

void standin_device_open(int device)
{
    if (n_open++ > 0 || open_device == device) return;
    shut_device();
    for (const allocation *a = allocs; a; a = a->next)
        if (device < 0 || a->device == device) protect_alloc(a, true);
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

static bool alloc_holds(vti_cu_ptr addr, size_t size_bytes)
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

// ---- virtual memory

enum { RESERVED_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static bool has_room(uint64_t limit, uint64_t used, uint64_t size_bytes)
{
    return used <= limit && size_bytes <= limit - used;
}

static bool is_whole(uint64_t size_bytes)
{
    return size_bytes % STANDIN_GRANULARITY == 0;
}

static bool contains(const range *outer, vti_cu_ptr addr, size_t size_bytes)
{
    return addr >= outer->addr && addr - outer->addr <= outer->size_bytes &&
           size_bytes <= outer->size_bytes - (addr - outer->addr);
}

static bool overlaps(const range *a, vti_cu_ptr addr, size_t size_bytes)
{
    return a->addr < addr + size_bytes && addr < a->addr + a->size_bytes;
}

static void unreserve_at(int i)
{
    munmap((void *)(uintptr_t)reservations[i].addr, reservations[i].size_bytes);
    address_bytes -= reservations[i].size_bytes;
    reservations[i] = reservations[--n_reservation];
}

static void unpin_at(int i)
{
    free((void *)(uintptr_t)pinned[i].addr);
    pinned_bytes -= pinned[i].size_bytes;
    memmove(pinned + i, pinned + i + 1, (size_t)(--n_pinned - i) * sizeof *pinned);
}

void standin_memory_reset(void)
{
    while (allocs) drop_alloc(&allocs);
    while (n_reservation > 0) unreserve_at(0);
    while (n_pinned > 0) unpin_at(0);
    n_memory = n_mapping = 0;
    memory_bytes = 0;
    max_memory = STANDIN_FREE_BYTES;
    max_addresses = max_pinned = UINT64_MAX;
    max_alloc = STANDIN_ALLOC_BYTES;
    if (fd >= 0) close(fd);
    fd = -1;
    file_bytes = 0;
}

void standin_memory_look(standin_report *r)
{
    r->n_memory = (uint64_t)n_memory;
    r->memory_bytes = memory_bytes;
    for (int i = 0; i < n_memory; i++) r->n_handle += !memories[i].released;
    r->n_mapping = (uint64_t)n_mapping;
    r->n_reservation = (uint64_t)n_reservation;
    r->n_pinned = (uint64_t)n_pinned;
    r->pinned_bytes = pinned_bytes;
    for (const allocation *a = allocs; a; a = a->next) r->n_alloc++;
    r->alloc_bytes = alloc_bytes;
}

static void set_limit(uint64_t *what, uint64_t to)
{
    pthread_mutex_lock(&standin_mu);
    *what = to;
    pthread_mutex_unlock(&standin_mu);
}

void standin_limit_memory(uint64_t size_bytes)
{
    set_limit(&max_memory, size_bytes);
}

void standin_limit_addresses(uint64_t size_bytes)
{
    set_limit(&max_addresses, size_bytes);
}

void standin_limit_pinned(uint64_t size_bytes)
{
    set_limit(&max_pinned, size_bytes);
}

void standin_limit_allocs(uint64_t size_bytes)
{
    set_limit(&max_alloc, size_bytes);
}

static const char *odd_prop(const vti_cu_prop *prop)
{
    static const vti_cu_prop zero;
    if (prop->type != VTI_CU_ALLOCATION_PINNED) return "a kind of memory that is not pinned";
    if (prop->location.type != VTI_CU_LOCATION_DEVICE) return "memory that is not of a device";
    if (prop->location.id < 0 || prop->location.id >= STANDIN_N_DEVICE) return "no such device";
    if (prop->export_types != 0 || prop->win32 ||
        memcmp(&prop->flags, &zero.flags, sizeof zero.flags) != 0)
        return "fields of the properties that are not zero";
    return NULL;
}

vti_cu_result cuMemGetAllocationGranularity(size_t *size_bytes, const vti_cu_prop *prop,
                                            vti_cu_granularity which)
{
    STANDIN_BEGIN(F_mem_get_granularity);
    if (odd_prop(prop)) return standin_end(standin_breach(odd_prop(prop)));
    if (which != VTI_CU_GRANULARITY_MINIMUM) return standin_end(standin_breach("granularity"));
    *size_bytes = STANDIN_GRANULARITY;
    return standin_end(VTI_CU_SUCCESS);
}

// mmap gives pages; an aligned piece is cut out of more than that.
static void *reserve_aligned(size_t size_bytes, size_t align)
{
    char *p = mmap(NULL, size_bytes + align, PROT_NONE, RESERVED_FLAGS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t front = (align - (uintptr_t)p % align) % align;
    if (front > 0) munmap(p, front);
    munmap(p + front + size_bytes, align - front);
    return p + front;
}

static vti_cu_result reserve(vti_cu_ptr *addr, size_t size_bytes)
{
    if (!has_room(max_addresses, address_bytes, size_bytes) || n_reservation == MAX_ITEMS)
        return VTI_CU_OUT_OF_MEMORY;
    void *p = reserve_aligned(size_bytes, STANDIN_GRANULARITY);
    if (!p) return VTI_CU_OUT_OF_MEMORY;
    *addr = (uintptr_t)p;
    address_bytes += size_bytes;
    reservations[n_reservation++] = (range){*addr, size_bytes};
    return VTI_CU_SUCCESS;
}

vti_cu_result cuMemAddressReserve(vti_cu_ptr *addr, size_t size_bytes, size_t align,
                                  vti_cu_ptr hint, unsigned long long flags)
{
    STANDIN_BEGIN(F_mem_address_reserve);
    if (size_bytes == 0 || !is_whole(size_bytes))
        return standin_end(standin_breach("addresses reserved against the granularity"));
    if ((align & (align - 1)) != 0 || align > STANDIN_GRANULARITY || hint != 0 || flags != 0)
        return standin_end(standin_breach("addresses reserved with odd wishes"));
    return standin_end(reserve(addr, size_bytes));
}

vti_cu_result cuMemAddressFree(vti_cu_ptr addr, size_t size_bytes)
{
    STANDIN_BEGIN(F_mem_address_free);
    for (int i = 0; i < n_mapping; i++)
        if (overlaps(&mappings[i].at, addr, size_bytes))
            return standin_end(standin_breach("addresses freed with something mapped there"));
    for (int i = 0; i < n_reservation; i++) {
        if (reservations[i].addr != addr || reservations[i].size_bytes != size_bytes) continue;
        unreserve_at(i);
        return standin_end(VTI_CU_SUCCESS);
    }
    return standin_end(standin_breach("addresses freed that were not reserved like this"));
}

static vti_cu_result fill_with_garbage(const memory *m)
{
    if (ftruncate(fd, m->offset + (off_t)m->size_bytes) != 0) return VTI_CU_OUT_OF_MEMORY;
    void *p = mmap(NULL, m->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m->offset);
    if (p == MAP_FAILED) return VTI_CU_OUT_OF_MEMORY;
    memset(p, 0xA0 + (int)(m->handle % 16), m->size_bytes);
    munmap(p, m->size_bytes);
    return VTI_CU_SUCCESS;
}

static vti_cu_result create(vti_cu_handle *handle, size_t size_bytes)
{
    if (!has_room(max_memory, memory_bytes, size_bytes) || n_memory == MAX_ITEMS)
        return VTI_CU_OUT_OF_MEMORY;
    if (fd < 0) fd = memfd_create("standin", MFD_CLOEXEC);
    memory m = {.handle = last_handle + 1, .size_bytes = size_bytes, .offset = file_bytes};
    vti_cu_result r = fd < 0 ? VTI_CU_OUT_OF_MEMORY : fill_with_garbage(&m);
    if (r != VTI_CU_SUCCESS) return r;
    file_bytes += (off_t)size_bytes;
    memory_bytes += size_bytes;
    memories[n_memory++] = m;
    *handle = last_handle = m.handle;
    return VTI_CU_SUCCESS;
}

vti_cu_result cuMemCreate(vti_cu_handle *handle, size_t size_bytes, const vti_cu_prop *prop,
                          unsigned long long flags)
{
    STANDIN_BEGIN(F_mem_create);
    if (odd_prop(prop)) return standin_end(standin_breach(odd_prop(prop)));
    if (size_bytes == 0 || !is_whole(size_bytes) || flags != 0)
        return standin_end(standin_breach("memory created against the granularity"));
    return standin_end(create(handle, size_bytes));
}

static memory *memory_of(vti_cu_handle handle)
{
    for (int i = n_memory - 1; i >= 0; i--)
        if (memories[i].handle == handle) return &memories[i];
    return NULL;
}

static void free_if_unused(memory *m)
{
    if (!m->released || m->n_mapping > 0) return;
    char *p = mmap(NULL, m->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m->offset);
    if (p != MAP_FAILED) {
        madvise(p, m->size_bytes, MADV_REMOVE);
        munmap(p, m->size_bytes);
    }
    memory_bytes -= m->size_bytes;
    *m = memories[--n_memory];
}

vti_cu_result cuMemRelease(vti_cu_handle handle)
{
    STANDIN_BEGIN(F_mem_release);
    memory *m = memory_of(handle);
    if (!m || m->released) return standin_end(standin_breach("a handle released that is none"));
    m->released = true;
    free_if_unused(m);
    return standin_end(VTI_CU_SUCCESS);
}

static const char *odd_map(vti_cu_ptr addr, size_t size_bytes, const memory *m)
{
    if (!m || m->released) return "mapping of a handle that is none";
    if (size_bytes != m->size_bytes) return "mapping of a part of a handle";
    if (addr % STANDIN_GRANULARITY != 0) return "mapping at an odd address";
    for (int i = 0; i < n_mapping; i++)
        if (overlaps(&mappings[i].at, addr, size_bytes)) return "mapping where something is mapped";
    for (int i = 0; i < n_reservation; i++)
        if (contains(&reservations[i], addr, size_bytes)) return NULL;
    return "mapping where nothing is reserved";
}

vti_cu_result cuMemMap(vti_cu_ptr addr, size_t size_bytes, size_t offset, vti_cu_handle handle,
                       unsigned long long flags)
{
    STANDIN_BEGIN(F_mem_map);
    memory *m = memory_of(handle);
    const char *odd = odd_map(addr, size_bytes, m);
    if (offset != 0 || flags != 0) odd = "mapping with an offset or flags";
    if (odd) return standin_end(standin_breach(odd));
    if (n_mapping == MAX_ITEMS || mmap((void *)(uintptr_t)addr, size_bytes, PROT_NONE,
                                       MAP_SHARED | MAP_FIXED, fd, m->offset) == MAP_FAILED)
        return standin_end(VTI_CU_OUT_OF_MEMORY);
    m->n_mapping++;
    mappings[n_mapping++] = (mapping){.at = {addr, size_bytes}, .handle = handle};
    return standin_end(VTI_CU_SUCCESS);
}

// Whether whole mappings cover the range; mappings do not overlap, so their sizes may be added.
static bool is_all_mapped(vti_cu_ptr addr, size_t size_bytes)
{
    size_t covered = 0;
    range all = {addr, size_bytes};
    for (int i = 0; i < n_mapping; i++) {
        if (!overlaps(&mappings[i].at, addr, size_bytes)) continue;
        if (!contains(&all, mappings[i].at.addr, mappings[i].at.size_bytes)) return false;
        covered += mappings[i].at.size_bytes;
    }
    return size_bytes > 0 && covered == size_bytes;
}

static void unmap_at(int i)
{
    memory *m = memory_of(mappings[i].handle);
    if (mappings[i].is_open)
        standin_kernel_memory(mappings[i].at.addr, mappings[i].at.size_bytes, EMU_MEMORY_GONE);
    mmap((void *)(uintptr_t)mappings[i].at.addr, mappings[i].at.size_bytes, PROT_NONE,
         RESERVED_FLAGS | MAP_FIXED, -1, 0);
    m->n_mapping--;
    free_if_unused(m);
    mappings[i] = mappings[--n_mapping];
}

vti_cu_result cuMemUnmap(vti_cu_ptr addr, size_t size_bytes)
{
    STANDIN_BEGIN(F_mem_unmap);
    if (!is_all_mapped(addr, size_bytes))
        return standin_end(standin_breach("unmapping of what is not mapped, or of a part of it"));
    if (standin_works_at(addr, size_bytes))
        return standin_end(standin_breach("unmapping under work that is not done"));
    for (int i = n_mapping - 1; i >= 0; i--)
        if (overlaps(&mappings[i].at, addr, size_bytes)) unmap_at(i);
    return standin_end(VTI_CU_SUCCESS);
}

// What others have written there, through another address, is not known; all counts as written.
static void open_access(mapping *m)
{
    if (!m->is_open) {
        standin_kernel_memory(m->at.addr, m->at.size_bytes, EMU_MEMORY_NEW);
        standin_kernel_memory(m->at.addr, m->at.size_bytes, EMU_MEMORY_WRITTEN);
    }
    m->is_open = true;
}

void standin_each_memory(void (*act)(vti_cu_ptr at, size_t size_bytes))
{
    for (const allocation *a = allocs; a; a = a->next) act(a->at, a->size_bytes);
    for (int i = 0; i < n_mapping; i++)
        if (mappings[i].is_open) act(mappings[i].at.addr, mappings[i].at.size_bytes);
}

static bool odd_access(const vti_cu_access *access, size_t n)
{
    return n != 1 || access->location.type != VTI_CU_LOCATION_DEVICE || access->location.id < 0 ||
           access->location.id >= STANDIN_N_DEVICE || access->flags != VTI_CU_ACCESS_READWRITE;
}

vti_cu_result cuMemSetAccess(vti_cu_ptr addr, size_t size_bytes, const vti_cu_access *access,
                             size_t n)
{
    STANDIN_BEGIN(F_mem_set_access);
    if (odd_access(access, n)) return standin_end(standin_breach("odd access"));
    if (!is_all_mapped(addr, size_bytes))
        return standin_end(standin_breach("access set where not all is mapped"));
    if (standin_works_at(addr, size_bytes))
        return standin_end(standin_breach("access set under work that is not done"));
    if (mprotect((void *)(uintptr_t)addr, size_bytes, PROT_READ | PROT_WRITE) != 0)
        return standin_end(VTI_CU_OUT_OF_MEMORY);
    for (int i = 0; i < n_mapping; i++)
        if (overlaps(&mappings[i].at, addr, size_bytes)) open_access(&mappings[i]);
    return standin_end(VTI_CU_SUCCESS);
}

bool standin_is_open(vti_cu_ptr addr, size_t size_bytes)
{
    if (alloc_holds(addr, size_bytes)) return true;
    size_t covered = 0;
    for (int i = 0; i < n_mapping; i++) {
        const range *m = &mappings[i].at;
        if (!mappings[i].is_open || !overlaps(m, addr, size_bytes)) continue;
        vti_cu_ptr begin = m->addr > addr ? m->addr : addr;
        vti_cu_ptr end = m->addr + m->size_bytes;
        if (end > addr + size_bytes) end = addr + size_bytes;
        covered += end - begin;
    }
    return covered == size_bytes;
}

bool standin_is_pinned(const void *bytes, size_t size_bytes)
{
    for (int i = 0; i < n_pinned; i++)
        if (contains(&pinned[i], (uintptr_t)bytes, size_bytes)) return true;
    return false;
}

vti_cu_result cuMemHostAlloc(void **bytes, size_t size_bytes, unsigned flags)
{
    STANDIN_BEGIN(F_mem_host_alloc);
    if (size_bytes == 0 || flags != 0) return standin_end(standin_breach("odd pinned memory"));
    if (!has_room(max_pinned, pinned_bytes, size_bytes) || n_pinned == MAX_ITEMS)
        return standin_end(VTI_CU_OUT_OF_MEMORY);
    *bytes = malloc(size_bytes);
    if (!*bytes) return standin_end(VTI_CU_OUT_OF_MEMORY);
    pinned_bytes += size_bytes;
    pinned[n_pinned++] = (range){(uintptr_t)*bytes, size_bytes};
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuMemFreeHost(void *bytes)
{
    STANDIN_BEGIN(F_mem_free_host);
    for (int i = 0; i < n_pinned; i++) {
        if (pinned[i].addr != (uintptr_t)bytes) continue;
        unpin_at(i);
        return standin_end(VTI_CU_SUCCESS);
    }
    return standin_end(standin_breach("pinned memory freed that is none"));
}

// Half of the device is somebody else's.
vti_cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    STANDIN_BEGIN(F_mem_get_info);
    *total_bytes = 2 * STANDIN_FREE_BYTES;
    *free_bytes = memory_bytes < max_memory ? max_memory - memory_bytes : 0;
    return standin_end(VTI_CU_SUCCESS);
}
