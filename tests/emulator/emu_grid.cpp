// emu_grid.cpp - a launch: the blocks of a grid, one after the other. EMU_ORDER says in which order
// the threads of a block take turns: up, down, or a number that seeds a random order, in which the
// blocks are shuffled, too.
#include "emu_kernel.h"
#include "emu_run.h"

#include <algorithm>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <mutex>
#include <numeric>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- static shared arrays: they are the library's thread-local variables but for the runtime's
// own, whose names begin with emu_. Offsets and sizes stand in the library's symbol table; where
// emu_now is says where the others of the calling thread are.

struct emu_tls_symbol {
    size_t offset, n_byte;
    const char *name;
};

static std::vector<emu_tls_symbol> symbols;
static size_t offset_of_now;
static std::once_flag once;

// "mean(float*)::sum" of _ZZ4meanPfE3sum.
static const char *readable(const char *name)
{
    int status;
    char *plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    return plain ? plain : strdup(name);
}

static void read_section(const char *file, const ElfW(Shdr) * s, const char *names)
{
    const ElfW(Sym) *sym = (const ElfW(Sym) *)(file + s->sh_offset);
    for (size_t i = 0; i < s->sh_size / sizeof *sym; i++) {
        const char *name = names + sym[i].st_name;
        if (ELF64_ST_TYPE(sym[i].st_info) != STT_TLS || sym[i].st_shndx == SHN_UNDEF) continue;
        if (strcmp(name, "emu_now") == 0) offset_of_now = (size_t)sym[i].st_value;
        if (sym[i].st_size == 0 || strncmp(name, "emu_", 4) == 0) continue;
        symbols.push_back({(size_t)sym[i].st_value, (size_t)sym[i].st_size, readable(name)});
    }
}

static void read_symbols(void)
{
    struct stat st;
    Dl_info me;
    int fd = dladdr((void *)read_symbols, &me) ? open(me.dli_fname, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) != 0) abort(); // the file that we run
    char *file = (char *)mmap(nullptr, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) abort();
    const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)file;
    const ElfW(Shdr) *s = (const ElfW(Shdr) *)(file + e->e_shoff);
    for (int i = 0; i < e->e_shnum; i++)
        if (s[i].sh_type == SHT_SYMTAB) read_section(file, &s[i], file + s[s[i].sh_link].sh_offset);
    munmap(file, (size_t)st.st_size);
    std::sort(symbols.begin(), symbols.end(),
              [](const emu_tls_symbol &a, const emu_tls_symbol &b) { return a.offset < b.offset; });
}

static void find_shared(std::vector<emu_range> *arrays)
{
    std::call_once(once, read_symbols);
    arrays->clear();
    for (const emu_tls_symbol &s : symbols)
        arrays->push_back({(uintptr_t)&emu_now - offset_of_now + s.offset, s.n_byte, s.name});
}

// ---- the blocks of a grid

enum { PAGE_BYTES = 4096, SHARED_PAGES = 57 }; // 228 KB

static std::mutex launching; // one launch after the other

static emu_order order_of_env(void)
{
    const char *e = getenv("EMU_ORDER");
    if (!e || strcmp(e, "up") == 0) return {0, 0};
    if (strcmp(e, "down") == 0) return {1, 0};
    return {2, strtoull(e, nullptr, 10) * 0x9E3779B97F4A7C15u + 1};
}

static emu_worker *make_worker(void)
{
    emu_worker *w = new emu_worker();
    size_t bytes = SHARED_PAGES * PAGE_BYTES;
    void *p = mmap(nullptr, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED) abort();
    mprotect((char *)p + bytes, PAGE_BYTES, PROT_NONE);
    w->dynamic_pages = (unsigned char *)p;
    return w;
}

unsigned char *emu_dynamic_shared(void)
{
    return emu_mine->dynamic;
}

struct emu_grid {
    const emu_launch *launch;
    emu_order order;
    std::vector<unsigned> blocks; // in the order in which they run
};

static void run_grid(const emu_grid *g)
{
    static emu_worker *w;
    if (!w) w = make_worker();
    const emu_launch *l = g->launch;
    w->launch = l;
    w->n = l->block[0] * l->block[1] * l->block[2];
    w->order = g->order;
    w->dynamic = w->dynamic_pages + SHARED_PAGES * PAGE_BYTES - (l->dynamic_bytes + 15) / 16 * 16;
    emu_mine = w;
    find_shared(&w->shared);
    emu_signal_stack(w, true);
    for (unsigned block : g->blocks) {
        if (emu_fault_is_full()) break;
        emu_block_run(w, block);
        if (w->abandoned) break;
    }
    emu_signal_stack(w, false);
    emu_mine = nullptr;
}

static const char *odd_config(const emu_launch *l)
{
    const unsigned *b = l->block, *g = l->grid;
    if (b[0] == 0 || b[1] == 0 || b[2] == 0 || g[0] == 0 || g[1] == 0 || g[2] == 0)
        return "a grid or block with a side of 0";
    if ((uint64_t)b[0] * b[1] * b[2] > EMU_MAX_THREAD || b[2] > 64)
        return "a block of more threads than 1024";
    if (g[0] > 0x7FFFFFFF || g[1] > 65535 || g[2] > 65535)
        return "a grid with a side that is too long";
    if (l->dynamic_bytes > EMU_MAX_SHARED) return "more shared memory than a block can have";
    return nullptr;
}

static void order_blocks(emu_grid *g)
{
    const unsigned *n = g->launch->grid;
    g->blocks.resize((size_t)n[0] * n[1] * n[2]);
    std::iota(g->blocks.begin(), g->blocks.end(), 0u);
    if (g->order.kind == 1) std::reverse(g->blocks.begin(), g->blocks.end());
    uint64_t r = g->order.random;
    for (size_t i = g->blocks.size(); g->order.kind == 2 && i > 1; i--) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        std::swap(g->blocks[i - 1], g->blocks[(r >> 33) % i]);
    }
}

static int launch_grid(const emu_launch *l)
{
    std::lock_guard<std::mutex> lock(launching);
    emu_fault_begin(l);
    if (const char *odd = odd_config(l)) {
        emu_fault_note(EMU_FAULT_CONFIG, "launch", 0, odd);
        return EMU_FAULT_CONFIG;
    }
    emu_grid g;
    g.launch = l;
    g.order = order_of_env();
    order_blocks(&g);
    emu_look_launch();
    emu_signal_begin();
    run_grid(&g);
    emu_signal_end();
    return emu_fault_kind();
}

// ---- the library's table

static emu_kernel *kernels;

void emu_kernel_add(emu_kernel *k)
{
    k->next = kernels;
    kernels = k;
}

static const emu_kernel *find_kernel(const char *name)
{
    const emu_kernel *k = kernels;
    while (k && strcmp(k->name, name) != 0) k = k->next;
    return k;
}

static void note_memory(uintptr_t at, size_t n_byte, int state)
{
    std::lock_guard<std::mutex> lock(launching);
    emu_look_memory(at, n_byte, state);
}

extern "C" __attribute__((visibility("default"))) const emu_library *emu_library_table(void)
{
    static emu_library table = {emu_look_checked(), find_kernel,     launch_grid,
                                emu_fault_text,     emu_fault_clear, note_memory};
    return &table;
}
