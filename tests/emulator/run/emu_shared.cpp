// emu_shared.cpp - where the static shared arrays of this library lie: they are its thread-local
// variables but for the runtime's own, whose names begin with emu_. Offsets and sizes stand in the
// library's symbol table, the address in what the dynamic linker says of the calling thread.
#include "emu_run.h"

#include <algorithm>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <mutex>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct emu_tls_symbol {
    size_t offset, n_byte;
    const char *name;
};

static std::vector<emu_tls_symbol> symbols;
static std::once_flag once;

struct emu_image {
    std::string path;
    uintptr_t tls;
};

static int find_image(dl_phdr_info *info, size_t, void *arg)
{
    const uintptr_t me = (uintptr_t)&find_image;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || me - (info->dlpi_addr + h->p_vaddr) >= h->p_memsz) continue;
        emu_image *image = (emu_image *)arg;
        image->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
        image->tls = (uintptr_t)info->dlpi_tls_data;
        return 1;
    }
    return 0;
}

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
        if (sym[i].st_size == 0 || strncmp(name, "emu_", 4) == 0) continue;
        symbols.push_back({(size_t)sym[i].st_value, (size_t)sym[i].st_size, readable(name)});
    }
}

static void read_symbols(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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

void emu_shared_find(std::vector<emu_range> *arrays)
{
    emu_image image;
    dl_iterate_phdr(find_image, &image);
    std::call_once(once, [&] { read_symbols(image.path.c_str()); });
    arrays->clear();
    for (const emu_tls_symbol &s : symbols)
        arrays->push_back({image.tls + s.offset, s.n_byte, s.name});
}
