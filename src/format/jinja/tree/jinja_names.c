// jinja_names.c - a hash table of names, made in the memory of their template.
#include "format/jinja/tree/jinja_names.h"

#include <string.h>

enum { N_BUCKET = 512 };

typedef struct name_entry {
    fxi_jstr name;
    struct name_entry *next;
} name_entry;

struct fxi_jnames {
    name_entry *bucket[N_BUCKET];
    size_t n;
};

static size_t name_bucket(const char *p, size_t n)
{
    uint32_t h = 2166136261u; // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 16777619u;
    return (h ^ h >> 16) % N_BUCKET;
}

const fxi_jstr *fxi_jnames_find(const fxi_jnames *names, const char *p, size_t n)
{
    if (!names) return NULL;
    for (const name_entry *e = names->bucket[name_bucket(p, n)]; e; e = e->next)
        if (e->name.n == n && !memcmp(e->name.p, p, n)) return &e->name;
    return NULL;
}

bool fxi_jnames_is_full(const fxi_jnames *names)
{
    return names && names->n == FXI_JNAMES_MAX;
}

static fxi_jnames *make_names(fxi_jmem *mem)
{
    fxi_jnames *names = fxi_jmem_take(mem, sizeof *names);
    if (names) memset(names, 0, sizeof *names);
    return names;
}

// The name's characters count as the template's own.
static bool copy_name(fxi_jmem *mem, fxi_jstr *name, const char *p, size_t n)
{
    char *copy = fxi_jmem_take(mem, 2 * n);
    if (!copy) return false;
    memcpy(copy, p, n);
    memset(copy + n, 1, n);
    *name = (fxi_jstr){.p = copy, .own = copy + n, .n = n};
    return true;
}

const fxi_jstr *fxi_jnames_add(fxi_jmem *mem, fxi_jnames **names, const char *p, size_t n)
{
    const fxi_jstr *old = fxi_jnames_find(*names, p, n);
    if (old) return old;
    if (!*names) *names = make_names(mem);
    if (!*names || fxi_jnames_is_full(*names)) return NULL;
    name_entry *e = fxi_jmem_take(mem, sizeof *e);
    if (!e || !copy_name(mem, &e->name, p, n)) return NULL;
    name_entry **at = &(*names)->bucket[name_bucket(p, n)];
    e->next = *at;
    *at = e;
    (*names)->n++;
    return &e->name;
}
