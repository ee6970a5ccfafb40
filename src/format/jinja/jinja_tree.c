// jinja_tree.c - what parser and run build on: memory, names, strings, the tables of routines.
#include "format/jinja/jinja_tree.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "base/text/utf8.h"

// ---- memory: blocks of growing size -------------------------------------------------------------

enum { ALIGN = 16, FIRST_BLOCK = 4096, MOST_BLOCK = 1 << 20 };

typedef struct fxi_jmem_block {
    struct fxi_jmem_block *older;
    size_t n, cap;
    _Alignas(ALIGN) char data[];
} fxi_jmem_block;

void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes)
{
    if (n_bytes > mem->limit_bytes || mem->n_used > mem->limit_bytes - n_bytes) {
        mem->n_used = mem->limit_bytes + 1;
        return NULL;
    }
    const size_t n = (n_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    fxi_jmem_block *b = mem->block;
    if (!b || b->cap - b->n < n) {
        size_t cap = b ? b->cap * 2 : FIRST_BLOCK;
        if (cap > MOST_BLOCK) cap = MOST_BLOCK;
        if (cap < n) cap = n;
        b = malloc(sizeof *b + cap);
        if (!b) return NULL;
        *b = (fxi_jmem_block){.older = mem->block, .cap = cap};
        mem->block = b;
    }
    void *p = b->data + b->n;
    b->n += n;
    mem->n_used += n;
    return p;
}

void fxi_jmem_free(fxi_jmem *mem)
{
    for (fxi_jmem_block *b = mem->block; b;) {
        fxi_jmem_block *older = b->older;
        free(b);
        b = older;
    }
    mem->block = NULL;
    mem->n_used = 0;
}

// ---- names: a hash table in the memory of its template ------------------------------------------

typedef struct fxi_jname {
    fxi_jstr name;
    struct fxi_jname *next;
} fxi_jname;

static size_t name_bucket(const char *p, size_t n)
{
    uint64_t h = fxi_str_hash((fxi_str){p, n});
    return (h ^ h >> 32) % FXI_JNAMES_BUCKETS;
}

const fxi_jstr *fxi_jnames_find(const fxi_jnames *names, const char *p, size_t n)
{
    for (const fxi_jname *e = names->bucket[name_bucket(p, n)]; e; e = e->next)
        if (e->name.n == n && !memcmp(e->name.p, p, n)) return &e->name;
    return NULL;
}

// The name's characters count as the template's own.
const fxi_jstr *fxi_jnames_add(fxi_jmem *mem, fxi_jnames *names, const char *p, size_t n)
{
    const fxi_jstr *old = fxi_jnames_find(names, p, n);
    if (old || names->n == FXI_JNAMES_MAX) return old;
    fxi_jname *e = fxi_jmem_take(mem, sizeof *e + 2 * n);
    if (!e) return NULL;
    char *copy = (char *)(e + 1);
    memcpy(copy, p, n);
    memset(copy + n, 1, n);
    fxi_jname **at = &names->bucket[name_bucket(p, n)];
    *e = (fxi_jname){.name = {.p = copy, .own = copy + n, .n = n}, .next = *at};
    *at = e;
    names->n++;
    return &e->name;
}

// ---- comparing and searching --------------------------------------------------------------------

int fxi_jstr_compare(const fxi_jstr *a, const fxi_jstr *b)
{
    return fxi_str_compare((fxi_str){a->p, a->n}, (fxi_str){b->p, b->n});
}

bool fxi_jstr_is(const fxi_jstr *s, const char *text)
{
    return s->n == strlen(text) && !memcmp(s->p, text, s->n);
}

size_t fxi_jstr_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    const char *p = what->n ? memmem(s->p + from, to - from, what->p, what->n) : s->p + from;
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

size_t fxi_jstr_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    if (!what->n) return to;
    for (size_t i = to - what->n + 1; i > from; i--)
        if (s->p[i - 1] == what->p[0] && !memcmp(s->p + i - 1, what->p, what->n)) return i - 1;
    return SIZE_MAX;
}

// ---- characters ---------------------------------------------------------------------------------

uint32_t fxi_jstr_char_at(const fxi_jstr *s, size_t at, size_t *n_bytes)
{
    return (uint32_t)fxi_utf8_at(s->p + at, s->n - at, n_bytes);
}

bool fxi_jstr_owns(const fxi_jstr *s, size_t at, size_t n)
{
    return s->own && !memchr(s->own + at, 0, n);
}

size_t fxi_jstr_byte_of(const fxi_jstr *s, size_t i_char)
{
    size_t at = 0;
    for (; i_char && at < s->n; i_char--) at += (size_t)fxi_utf8_len((unsigned char)s->p[at]);
    return at;
}

bool fxi_jchar_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// Whether the character at s[at] is one of `chars` (NULL: white space).
static bool is_stripped(const fxi_jstr *s, size_t at, const fxi_jstr *chars, size_t *n)
{
    uint32_t c = fxi_jstr_char_at(s, at, n);
    if (!chars) return fxi_jchar_is_space(c);
    fxi_jstr one = {.p = s->p + at, .n = *n};
    return fxi_jstr_find(chars, &one, 0, chars->n) != SIZE_MAX;
}

fxi_jstr fxi_jstr_strip(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->n, n;
    while (left && from < to && is_stripped(s, from, chars, &n)) from += n;
    while (right && to > from) {
        size_t at = to - 1;
        while ((s->p[at] & 0xC0) == 0x80) at--;
        if (!is_stripped(s, at, chars, &n)) break;
        to = at;
    }
    return (fxi_jstr){.p = s->p + from, .own = s->own ? s->own + from : NULL, .n = to - from};
}

// ---- routines -----------------------------------------------------------------------------------

const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && !memcmp(table->name, name, n)) return table;
    return NULL;
}

const fxi_jroutine *fxi_jlibrary_find(const fxi_jlibrary *lib, bool is_test, const char *name,
                                      size_t n)
{
    const fxi_jroutine *row = NULL;
    if (is_test) return fxi_jroutine_find(lib->tests, name, n);
    for (int i = 0; !row && i < 3; i++) row = fxi_jroutine_find(lib->filters[i], name, n);
    return row;
}

const fxi_jroutine *fxi_jmethod_find(const fxi_jlibrary *lib, uint8_t type, const fxi_jstr *name,
                                     bool *exists)
{
    const fxi_jmethods *m = &lib->methods[type];
    *exists = false;
    if (!m->rows) return NULL;
    const fxi_jroutine *row = fxi_jroutine_find(m->rows, name->p, name->n);
    *exists = row != NULL;
    for (const char *at = m->others;
         !*exists && name->n && (at = memmem(at, strlen(at), name->p, name->n)); at++)
        *exists = at > m->others && at[-1] == ' ' && at[name->n] == ' ';
    return row;
}
