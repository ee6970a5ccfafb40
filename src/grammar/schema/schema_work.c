// schema_work.c - the memory and the work that reading a schema takes, both with an end.
#include <string.h>

#include "grammar/schema/schema_parts.h"

enum { SLAB_BYTES = 16 << 10 };

fx_status fxi_schema_no_memory(fxi_schema *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "out of memory");
}

void *fxi_schema_take(fxi_schema *r, size_t n, size_t elem_bytes)
{
    void *p = fxi_arena_take(&r->arena, n * elem_bytes, SLAB_BYTES);
    if (p) memset(p, 0, n * elem_bytes);
    return p;
}

fx_status fxi_schema_work(fxi_schema *r, size_t n)
{
    if ((r->n_work += n) <= FXI_SCHEMA_MAX_WORK) return FX_OK;
    return fxi_fail(r->err, FX_EINVAL, "schema: its alternatives are too many to be written down");
}

fx_status fxi_schema_met(fxi_schema *r, size_t n, size_t n_pair)
{
    enum { WORK_PER_MEET = 100, PAIRS_PER_WORK = 4 };
    return fxi_schema_work(r, n * WORK_PER_MEET + n_pair / PAIRS_PER_WORK);
}
