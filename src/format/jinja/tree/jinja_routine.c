// jinja_routine.c - looking up names in the tables of a library.
#include "format/jinja/tree/jinja_routine.h"

#include <string.h>

const fxi_jroutine *fxi_jroutine_find(const fxi_jroutine *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && !memcmp(table->name, name, n)) return table;
    return NULL;
}

const fxi_jroutine *fxi_jfilter_find(const fxi_jlibrary *lib, const char *name, size_t n)
{
    const fxi_jroutine *row = NULL;
    for (int i = 0; !row && lib->filters[i]; i++) row = fxi_jroutine_find(lib->filters[i], name, n);
    return row;
}

static bool has_word(const char *words, const fxi_jstr *name)
{
    for (const char *at = words; name->n && (at = memmem(at, strlen(at), name->p, name->n)); at++)
        if (at > words && at[-1] == ' ' && at[name->n] == ' ') return true;
    return false;
}

const fxi_jroutine *fxi_jmethod_find(const fxi_jlibrary *lib, uint8_t type, const fxi_jstr *name,
                                     bool *exists)
{
    const fxi_jmethods *m = &lib->methods[type];
    *exists = false;
    if (!m->rows) return NULL;
    const fxi_jroutine *row = fxi_jroutine_find(m->rows, name->p, name->n);
    *exists = row || has_word(m->others, name);
    return row;
}
