// json_doc.c - blocks of pages that jansson's parser fills, and the way out of it by longjmp.
//
// Small pieces are cut from blocks and never freed one by one. A piece of LARGE_BYTES or more, such
// as the text of a long string while it grows, has a block to itself, which is given back when
// jansson frees it.
#include "base/json/json_doc.h"
#include "base/json/json_shape.h"
#include "base/system/regions.h" // defines: fxi_pages_map

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#define FIRST_BLOCK_BYTES ((size_t)16 << 10)
#define LAST_BLOCK_BYTES  ((size_t)1 << 20)
#define LARGE_BYTES       ((size_t)64 << 10)
#define PAGE_BYTES        ((size_t)4096)

typedef struct fxi_json_block {
    struct fxi_json_block *next;
    size_t n_bytes; // with this head
    bool large;     // holds one piece
} fxi_json_block;

#define HEAD_BYTES ((sizeof(fxi_json_block) + 15) & ~(size_t)15)

typedef struct json_parse { // one parse, on its thread
    fxi_json_doc *doc;
    const fxi_json_room *room;
    fxi_json_status why;
    jmp_buf out;
} json_parse;

static _Thread_local json_parse *parsing; // this thread's; NULL: none
static json_malloc_t usual_malloc;
static json_free_t usual_free;

// ---- memory -----------------------------------------------------------------------------------

static void leave_parse(json_parse *p, fxi_json_status why)
{
    p->why = why;
    longjmp(p->out, 1);
}

static char *add_block(json_parse *p, size_t n_bytes, bool large)
{
    fxi_json_doc *d = p->doc;
    if (p->room && !p->room->take(p->room->ud, n_bytes)) leave_parse(p, FXI_JSON_NO_ROOM);
    fxi_json_block *b = fxi_pages_map(n_bytes);
    if (!b) {
        if (p->room) p->room->give(p->room->ud, n_bytes);
        leave_parse(p, FXI_JSON_NO_MEMORY);
    }
    *b = (fxi_json_block){d->block, n_bytes, large};
    d->block = b;
    d->held_bytes += n_bytes;
    return (char *)b;
}

static void *take_large(json_parse *p, size_t n)
{
    if (n > SIZE_MAX / 2) leave_parse(p, FXI_JSON_NO_MEMORY);
    size_t n_bytes = (n + HEAD_BYTES + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    return add_block(p, n_bytes, true) + HEAD_BYTES;
}

// As large as all before: a tree of n bytes has about log(n) blocks, and at most half is unused.
static size_t next_block_bytes(const fxi_json_doc *d, size_t n)
{
    size_t size = d->held_bytes;
    if (size < FIRST_BLOCK_BYTES) size = FIRST_BLOCK_BYTES;
    if (size > LAST_BLOCK_BYTES) size = LAST_BLOCK_BYTES;
    return size < n + HEAD_BYTES ? 2 * LARGE_BYTES : size;
}

static void *take_small(json_parse *p, size_t n)
{
    fxi_json_doc *d = p->doc;
    n = (n + 15) & ~(size_t)15;
    if (n > (size_t)(d->end - d->at)) {
        size_t size = next_block_bytes(d, n);
        char *b = add_block(p, size, false);
        d->at = b + HEAD_BYTES;
        d->end = b + size;
    }
    void *at = d->at;
    d->at += n;
    return at;
}

static void *doc_malloc(size_t n)
{
    json_parse *p = parsing;
    if (!p) return usual_malloc(n);
    return n < LARGE_BYTES ? take_small(p, n) : take_large(p, n);
}

static void free_large(json_parse *p, const void *piece)
{
    fxi_json_block **at = &p->doc->block;
    while (*at && (char *)*at + HEAD_BYTES != piece) at = &(*at)->next;
    fxi_json_block *b = *at;
    if (!b || !b->large) return;
    size_t n_bytes = b->n_bytes;
    *at = b->next;
    p->doc->held_bytes -= n_bytes;
    fxi_pages_unmap(b, n_bytes);
    if (p->room) p->room->give(p->room->ud, n_bytes);
}

// Large pieces begin right after the head of their block, at the start of a page.
static void doc_free(void *piece)
{
    json_parse *p = parsing;
    if (!p)
        usual_free(piece);
    else if (((uintptr_t)piece & (PAGE_BYTES - 1)) == HEAD_BYTES)
        free_large(p, piece);
}

static void wrap_allocation(void)
{
    json_get_alloc_funcs(&usual_malloc, &usual_free);
    json_set_alloc_funcs(doc_malloc, doc_free);
}

// ---- parsing ----------------------------------------------------------------------------------

static void run_parse(json_parse *p, const char *text, size_t n, size_t flags, json_error_t *e)
{
    parsing = p;
    p->doc->root = json_loadb(n ? text : "", n, flags, e);
    p->why = p->doc->root ? FXI_JSON_OK : FXI_JSON_BROKEN;
}

fxi_json_status fxi_json_doc_parse(fxi_json_doc *d, const char *text, size_t n, size_t flags,
                                   const fxi_json_room *room, json_error_t *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_parse p = {.doc = d, .room = room};
    pthread_once(&once, wrap_allocation);
    if (!setjmp(p.out)) run_parse(&p, text, n, flags, e);
    parsing = NULL;
    return p.why;
}

void fxi_json_doc_free(fxi_json_doc *d)
{
    for (fxi_json_block *b = d->block, *next; b; b = next) {
        next = b->next;
        fxi_pages_unmap(b, b->n_bytes);
    }
    *d = (fxi_json_doc){0};
}

// ---- copies -----------------------------------------------------------------------------------

static bool copy_members(json_t *to, const json_t *from)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)from, key,
                        v) if (json_object_set_new_nocheck(to, key, fxi_json_copy(v))) return false;
    for (size_t i = 0; i < json_array_size(from); i++)
        if (json_array_append_new(to, fxi_json_copy(json_array_get(from, i)))) return false;
    return true;
}

static json_t *copy_list(json_t *empty, const json_t *from)
{
    if (empty && copy_members(empty, from)) return empty;
    json_decref(empty);
    return NULL;
}

json_t *fxi_json_copy(const json_t *v)
{
    if (!v) return NULL;
    switch (json_typeof(v)) {
    case JSON_OBJECT: return copy_list(json_object(), v);
    case JSON_ARRAY: return copy_list(json_array(), v);
    case JSON_STRING: return json_stringn_nocheck(json_string_value(v), json_string_length(v));
    case JSON_INTEGER: return json_integer(json_integer_value(v));
    case JSON_REAL: return json_real(json_real_value(v));
    case JSON_TRUE: return json_true();
    case JSON_FALSE: return json_false();
    case JSON_NULL: break;
    }
    return json_null();
}

// ---- the size of a tree, from one pass over its text -------------------------------------------

fxi_json_shape fxi_json_measure(const char *text, size_t n_bytes)
{
    fxi_json_shape shape = {0};
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n_bytes; i++) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"') quoted = true;
        if (c == ',') shape.n_value++;
        if (c == '[' || c == '{') shape.n_value++, depth++;
        if ((c == ']' || c == '}') && depth) depth--;
        if (depth > shape.max_depth) shape.max_depth = depth;
    }
    return shape;
}
