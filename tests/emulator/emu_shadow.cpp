// emu_shadow.cpp - what kernels may touch, and a cell for each byte of it: allocations of the device,
// the static shared arrays, and the dynamic shared memory of the launch. Cells are made of memory
// that the system gives when it is touched.
#include "emu_shadow.h"

#include <algorithm>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unordered_map>

static std::vector<emu_region> device; // by address
static std::vector<emu_region> arrays; // of shared memory, by address
static emu_region dynamic;
static bool has_device; // its memory was made known
static const size_t dynamic_room = EMU_MAX_SHARED + 4096;

static void *make_zeros(size_t n)
{
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

static emu_region make_region(uintptr_t at, size_t n_byte, bool on_device, const char *name)
{
    emu_region r = {at, n_byte, nullptr, nullptr, n_byte * sizeof(emu_cell), n_byte / 8 + 1, name};
    r.cells = (emu_cell *)make_zeros(r.cells_bytes);
    if (on_device) r.written = (unsigned char *)make_zeros(r.written_bytes);
    return r;
}

static void drop_region(emu_region *r)
{
    munmap(r->cells, r->cells_bytes);
    if (r->written) munmap(r->written, r->written_bytes);
}

static bool starts_after(uintptr_t at, const emu_region &r)
{
    return at < r.at;
}

static void set_bits(unsigned char *bits, size_t from, size_t to)
{
    for (; from < to && from % 8 != 0; from++) bits[from / 8] |= (unsigned char)(1u << from % 8);
    for (; to > from && to % 8 != 0; to--)
        bits[(to - 1) / 8] |= (unsigned char)(1u << (to - 1) % 8);
    if (from < to) memset(bits + from / 8, 0xFF, (to - from) / 8);
}

void emu_look_memory(uintptr_t at, size_t n_byte, int state)
{
    auto after = std::upper_bound(device.begin(), device.end(), at, starts_after);
    if (state == EMU_MEMORY_NEW) {
        has_device = true;
        device.insert(after, make_region(at, n_byte, true, nullptr));
        return;
    }
    for (auto r = after == device.begin() ? after : after - 1;
         r != device.end() && r->at < at + n_byte;) {
        const uintptr_t end = std::min(r->at + r->n_byte, at + n_byte);
        const size_t from = std::max(r->at, at) - r->at;
        if (end <= r->at + from) {
            r++;
        } else if (state == EMU_MEMORY_GONE) {
            drop_region(&*r);
            r = device.erase(r);
        } else {
            set_bits(r->written, from, end - r->at);
            r++;
        }
    }
}

void emu_shadow_block(const emu_worker *w)
{
    if (arrays.size() != w->shared.size() || (!arrays.empty() && arrays[0].at != w->shared[0].at)) {
        for (emu_region &r : arrays) drop_region(&r);
        arrays.clear();
        for (const emu_range &s : w->shared)
            arrays.push_back(make_region(s.at, s.n_byte, false, s.name));
    }
    if (!dynamic.cells) dynamic = make_region(0, dynamic_room, false, "dynamic shared memory");
    dynamic.at = (uintptr_t)w->dynamic;
    dynamic.n_byte = w->launch->dynamic_bytes;
}

static emu_region *find_in(std::vector<emu_region> &regions, uintptr_t at, unsigned n_byte,
                           const emu_region **near)
{
    auto after = std::upper_bound(regions.begin(), regions.end(), at, starts_after);
    if (after == regions.begin()) return nullptr;
    emu_region *r = &*(after - 1);
    if (at - r->at <= r->n_byte && n_byte <= r->n_byte - (at - r->at)) return r;
    if (!*near || r->at > (*near)->at) *near = r;
    return nullptr;
}

// ---- the host's memory, in pieces, when somebody touches them

enum { PIECE_BYTES = 1 << 16 };
static std::unordered_map<uintptr_t, emu_region> pieces;

extern "C" void *__asan_region_is_poisoned(void *at, size_t n_byte) __attribute__((weak));

static emu_region *find_piece(uintptr_t at, unsigned n_byte)
{
    static emu_region *last;
    if (__asan_region_is_poisoned && __asan_region_is_poisoned((void *)at, n_byte)) return nullptr;
    const uintptr_t from = at / PIECE_BYTES * PIECE_BYTES;
    if (last && last->at == from) return last;
    auto found = pieces.find(from);
    if (found == pieces.end()) {
        found = pieces.emplace(from, make_region(from, PIECE_BYTES, true, "host memory")).first;
        memset(found->second.written, 0xFF, found->second.written_bytes);
    }
    return last = &found->second;
}

emu_region *emu_shadow_find(uintptr_t at, unsigned n_byte, const emu_region **near)
{
    *near = nullptr;
    if (at - dynamic.at < dynamic.n_byte && n_byte <= dynamic.n_byte - (at - dynamic.at))
        return &dynamic;
    if (at - dynamic.at < dynamic_room) *near = &dynamic;
    emu_region *r = find_in(arrays, at, n_byte, near);
    if (!r) r = find_in(device, at, n_byte, near);
    return r || has_device ? r : find_piece(at, n_byte);
}

// ---- the library itself

struct emu_span {
    uintptr_t from, to;
};

static int find_span(dl_phdr_info *info, size_t, void *arg)
{
    const uintptr_t me = (uintptr_t)&find_span;
    emu_span s = {~(uintptr_t)0, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD) continue;
        s.from = std::min(s.from, (uintptr_t)(info->dlpi_addr + h->p_vaddr));
        s.to = std::max(s.to, (uintptr_t)(info->dlpi_addr + h->p_vaddr + h->p_memsz));
    }
    if (me < s.from || me >= s.to) return 0;
    *(emu_span *)arg = s;
    return 1;
}

bool emu_shadow_in_image(uintptr_t at)
{
    static emu_span image;
    if (image.to == 0) dl_iterate_phdr(find_span, &image);
    return at >= image.from && at < image.to;
}
