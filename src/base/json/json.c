// json.c - yyjson's parser over memory of the document, and what it leaves to us.
//
// yyjson writes the values of a text in one array: a list is followed by what it holds, each key by
// its value, and knows its distance to what follows its last. So a member is found by a walk, and
// equal keys stay. One pass after the parse checks the rules; a second drops the keys that do not
// count, and gives large lists an index. Such a list has a pointer to the index where yyjson keeps
// the distance, which the index has instead: yyjson's own functions must not walk over it.
#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/fail.h"
#include "base/keyed/hash.h"
#include "base/system/regions.h" // defines: fxi_pages_map
#include "base/text/utf8.h"      // defines: FXI_UTF8_HEAD

// ---- memory -------------------------------------------------------------------------------------

#define LARGE_BYTES ((size_t)64 << 10) // such blocks are pages of their own
#define PAGE_BYTES  ((size_t)4096)

typedef struct fxi_json_block {
    struct fxi_json_block *next;
    size_t n_bytes; // with this head
} fxi_json_block;

typedef struct json_parse {
    fxi_json_doc *doc;
    const fxi_json_room *room;
} json_parse;

static void free_block(fxi_json_block *b)
{
    if (b->n_bytes < LARGE_BYTES)
        free(b);
    else
        fxi_pages_unmap(b, b->n_bytes);
}

static void *doc_malloc(void *ctx, size_t n)
{
    json_parse *p = ctx;
    if (n > SIZE_MAX / 2) return NULL;
    n += sizeof(fxi_json_block);
    if (n >= LARGE_BYTES) n = (n + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    if (p->room && !p->room->take(p->room->ud, n)) return NULL;
    fxi_json_block *b = n < LARGE_BYTES ? malloc(n) : fxi_pages_map(n);
    if (!b) {
        if (p->room) p->room->give(p->room->ud, n);
        return NULL;
    }
    *b = (fxi_json_block){p->doc->block, n};
    p->doc->block = b;
    p->doc->held_bytes += n;
    return b + 1;
}

static void doc_free(void *ctx, void *piece)
{
    json_parse *p = ctx;
    fxi_json_block **at = &p->doc->block, *b = (fxi_json_block *)piece - 1;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    p->doc->held_bytes -= b->n_bytes;
    if (p->room) p->room->give(p->room->ud, b->n_bytes);
    free_block(b);
}

static void *doc_realloc(void *ctx, void *piece, size_t old_bytes, size_t n)
{
    void *more = doc_malloc(ctx, n);
    if (!more) return NULL;
    memcpy(more, piece, old_bytes < n ? old_bytes : n);
    doc_free(ctx, piece);
    return more;
}

void fxi_json_doc_free(fxi_json_doc *d)
{
    for (fxi_json_block *b = d->block, *next; b; b = next) {
        next = b->next;
        free_block(b);
    }
    *d = (fxi_json_doc){0};
}

// ---- lists with an index ------------------------------------------------------------------------

enum { SMALL_LIST = 8 }; // lists of no more have no index

typedef struct list_index { // an array of objects or lists, or an object
    size_t distance;        // in bytes, from the list to what follows its last
    fxi_secret secret;      // of the hashes: clients choose keys
    size_t n_slot;          // of an object a power of two, at least twice its members
    // The distance in values from the list to element i, or to the key whose hash leads here; 0:
    // none.
    uint32_t slot[];
} list_index;

static bool has_index(const yyjson_val *list)
{
    return list->tag & YYJSON_SUBTYPE_MASK; // lists of yyjson's have no subtype
}

static const list_index *list_index_of(const yyjson_val *list)
{
    return list->uni.ptr;
}

static size_t list_distance(const yyjson_val *list)
{
    return has_index(list) ? list_index_of(list)->distance : list->uni.ofs;
}

static yyjson_val *value_after(const yyjson_val *v)
{
    const size_t n = unsafe_yyjson_is_ctn((void *)v) ? list_distance(v) : sizeof *v;
    return (yyjson_val *)((char *)v + n);
}

// All elements are scalars: element i is value 1 + i.
static bool is_flat(const yyjson_val *array)
{
    return list_distance(array) == (1 + unsafe_yyjson_get_len((void *)array)) * sizeof *array;
}

static bool is_key(const yyjson_val *v, const char *key, size_t n)
{
    return unsafe_yyjson_is_str((void *)v) && unsafe_yyjson_get_len((void *)v) == n &&
           !memcmp(v->uni.str, key, n);
}

// The slot of the key, or the free one where it may be put.
static uint32_t *key_slot(const yyjson_val *object, const char *key, size_t n)
{
    list_index *x = (list_index *)list_index_of(object);
    size_t at = (size_t)fxi_secret_hash(x->secret, key, n) & (x->n_slot - 1);
    while (x->slot[at] && !is_key(object + x->slot[at], key, n)) at = (at + 1) & (x->n_slot - 1);
    return &x->slot[at];
}

static size_t count_slots(const yyjson_val *list)
{
    const size_t n = unsafe_yyjson_get_len((void *)list);
    size_t n_slot = 32;
    if (n <= SMALL_LIST) return 0;
    if (unsafe_yyjson_is_arr((void *)list)) return is_flat(list) ? 0 : n;
    while (n_slot < 2 * n) n_slot *= 2;
    return n_slot;
}

static size_t index_bytes(size_t n_slot)
{
    return n_slot ? (sizeof(list_index) + n_slot * sizeof(uint32_t) + 7) & ~(size_t)7 : 0;
}

// ---- the rules ----------------------------------------------------------------------------------

typedef struct survey {
    fxi_json_rules rules;
    size_t n_value;     // so far
    size_t index_bytes; // of all that need one
    fx_error *err;
} survey;

static fx_status survey_value(survey *s, yyjson_val *v, size_t depth);

static fx_status survey_text(survey *s, const yyjson_val *v, bool may_have_nul)
{
    if (may_have_nul || !memchr(v->uni.str, 0, unsafe_yyjson_get_len((void *)v))) return FX_OK;
    return fxi_fail(s->err, FX_EINVAL, "has a string with the character U+0000");
}

static fx_status survey_number(survey *s, yyjson_val *v)
{
    if (s->rules.reals && !unsafe_yyjson_is_real(v)) {
        const double d = unsafe_yyjson_get_num(v);
        v->tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL;
        v->uni.f64 = d;
    }
    if (!unsafe_yyjson_is_uint(v) || v->uni.u64 <= INT64_MAX) return FX_OK;
    return fxi_fail(s->err, FX_EINVAL, "has a number beyond 64 bits");
}

static fx_status survey_list(survey *s, yyjson_val *list, size_t depth)
{
    const size_t n = unsafe_yyjson_get_len(list);
    const bool is_object = unsafe_yyjson_is_obj(list);
    if (depth > s->rules.max_depth)
        return fxi_fail(s->err, FX_EINVAL, "nests deeper than %zu", s->rules.max_depth);
    if ((s->n_value += n) > s->rules.max_value)
        return fxi_fail(s->err, FX_EINVAL, "has more than %zu values", s->rules.max_value);
    s->index_bytes += index_bytes(count_slots(list));
    yyjson_val *v = list + 1;
    for (size_t i = 0; i < n; i++, v = value_after(v)) {
        if (is_object) FX_TRY(survey_text(s, v++, s->rules.nul_keys));
        FX_TRY(survey_value(s, v, depth));
    }
    return FX_OK;
}

static fx_status survey_value(survey *s, yyjson_val *v, size_t depth)
{
    switch (unsafe_yyjson_get_type(v)) {
    case YYJSON_TYPE_ARR:
    case YYJSON_TYPE_OBJ: return survey_list(s, v, depth + 1);
    case YYJSON_TYPE_STR: return survey_text(s, v, s->rules.nul_texts);
    case YYJSON_TYPE_NUM: return survey_number(s, v);
    case YYJSON_TYPE_RAW: return fxi_fail(s->err, FX_EINVAL, "has a number beyond 64 bits");
    default: return FX_OK;
    }
}

// ---- equal keys, and indices --------------------------------------------------------------------

// A key that does not count becomes no value; its own value stays, where nothing leads to it.
static fx_status drop_key(survey *s, yyjson_val *object, yyjson_val *key)
{
    if (s->rules.unique)
        return fxi_fail(s->err, FX_EINVAL, "has the key '%.*s' twice in an object",
                        FXI_UTF8_HEAD(key->uni.str, 60));
    key->tag = YYJSON_TYPE_NONE;
    object->tag -= (uint64_t)1 << YYJSON_TAG_BIT;
    return FX_OK;
}

static fx_status drop_small_keys(survey *s, yyjson_val *object)
{
    const yyjson_val *const end = value_after(object);
    for (yyjson_val *key = object + 1; key < end; key = value_after(key + 1))
        for (yyjson_val *before = object + 1; before < key; before = value_after(before + 1))
            if (is_key(before, key->uni.str, unsafe_yyjson_get_len(key)))
                FX_TRY(drop_key(s, object, before));
    return FX_OK;
}

static fx_status fill_index(survey *s, yyjson_val *list, list_index *x)
{
    const bool is_object = unsafe_yyjson_is_obj(list);
    list->uni.ptr = x;
    list->tag |= (uint64_t)1 << YYJSON_TYPE_BIT; // a subtype: has_index
    const yyjson_val *const end = value_after(list);
    uint32_t *next = x->slot;
    for (yyjson_val *v = list + 1; v < end; v = value_after(is_object ? v + 1 : v)) {
        uint32_t *slot = is_object ? key_slot(list, v->uni.str, unsafe_yyjson_get_len(v)) : next++;
        if (is_object && *slot) FX_TRY(drop_key(s, list, list + *slot));
        *slot = (uint32_t)(v - list);
    }
    return FX_OK;
}

// The lists among values[0..n), and their indices at `room`.
static fx_status index_lists(survey *s, yyjson_val *values, size_t n, char *room)
{
    const fxi_secret secret = room ? fxi_secret_make() : (fxi_secret){{0}};
    for (yyjson_val *v = values; v < values + n; v++) {
        if (!unsafe_yyjson_is_ctn(v)) continue;
        const size_t n_slot = count_slots(v);
        if (!n_slot) {
            if (unsafe_yyjson_is_obj(v)) FX_TRY(drop_small_keys(s, v));
            continue;
        }
        list_index *x = (list_index *)(void *)room;
        room += index_bytes(n_slot);
        *x = (list_index){.distance = v->uni.ofs, .secret = secret, .n_slot = n_slot};
        memset(x->slot, 0, n_slot * sizeof *x->slot);
        FX_TRY(fill_index(s, v, x));
    }
    return FX_OK;
}

// ---- parsing ------------------------------------------------------------------------------------

static fx_status fail_parse(fxi_str text, const yyjson_read_err *e, fx_error *err)
{
    size_t line = 0, column = 0, at = 0;
    if (e->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return fxi_fail_memory(err);
    (void)yyjson_locate_pos(text.p, text.n, e->pos, &line, &column, &at);
    return fxi_fail(err, FX_EFORMAT, "line %zu, column %zu: %s", line, column, e->msg);
}

fx_status fxi_json_parse(fxi_json_doc *d, fxi_str text, const fxi_json_rules *rules, fx_error *err)
{
    enum { USUAL_DEPTH = 2048, USUAL_VALUES = 1 << 30 };
    survey s = {.rules = *rules, .err = err};
    json_parse p = {d, rules->room};
    const yyjson_alc memory = {doc_malloc, doc_realloc, doc_free, &p};
    const yyjson_read_flag flags = (rules->reals ? 0 : YYJSON_READ_BIGNUM_AS_RAW) |
                                   (rules->not_finite ? YYJSON_READ_ALLOW_INF_AND_NAN : 0);
    yyjson_read_err e = {0};
    if (!text.n) text.p = "";
    if (!s.rules.max_depth) s.rules.max_depth = USUAL_DEPTH;
    if (!s.rules.max_value) s.rules.max_value = USUAL_VALUES;
    yyjson_doc *doc = yyjson_read_opts((char *)text.p, text.n, flags, &memory, &e);
    if (!doc) return fail_parse(text, &e, err);
    FX_TRY(survey_value(&s, doc->root, 0));
    char *room = s.index_bytes ? doc_malloc(&p, s.index_bytes) : NULL;
    if (s.index_bytes && !room) return fxi_fail_memory(err);
    FX_TRY(index_lists(&s, doc->root, doc->val_read, room));
    d->root = doc->root;
    d->n_value = s.n_value;
    return FX_OK;
}

// ---- values -------------------------------------------------------------------------------------

fxi_json_type fxi_json_type_of(const fxi_json *v)
{
    static const fxi_json_type types[] = {
        [YYJSON_TYPE_NULL] = FXI_JSON_NULL, [YYJSON_TYPE_BOOL] = FXI_JSON_BOOL,
        [YYJSON_TYPE_NUM] = FXI_JSON_INT,   [YYJSON_TYPE_STR] = FXI_JSON_STRING,
        [YYJSON_TYPE_ARR] = FXI_JSON_ARRAY, [YYJSON_TYPE_OBJ] = FXI_JSON_OBJECT,
    };
    if (!v) return FXI_JSON_ABSENT;
    return yyjson_is_real((void *)v) ? FXI_JSON_REAL : types[unsafe_yyjson_get_type((void *)v)];
}

bool fxi_json_is_true(const fxi_json *v)
{
    return yyjson_is_true((void *)v);
}

bool fxi_json_is_false(const fxi_json *v)
{
    return yyjson_is_false((void *)v);
}

int64_t fxi_json_int(const fxi_json *v)
{
    return fxi_json_is_int(v) ? v->uni.i64 : 0;
}

double fxi_json_number(const fxi_json *v)
{
    return yyjson_get_num((void *)v);
}

const char *fxi_json_text(const fxi_json *v)
{
    return yyjson_get_str((void *)v);
}

fxi_str fxi_json_string(const fxi_json *v)
{
    return (fxi_str){yyjson_get_str((void *)v),
                     fxi_json_is_string(v) ? yyjson_get_len((void *)v) : 0};
}

const fxi_json *fxi_json_null(void)
{
    static const yyjson_val null = {.tag = YYJSON_TYPE_NULL};
    return &null;
}

const fxi_json *fxi_json_bool(bool b)
{
    static const yyjson_val values[] = {{.tag = YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_FALSE},
                                        {.tag = YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_TRUE}};
    return &values[b];
}

// ---- lists --------------------------------------------------------------------------------------

size_t fxi_json_array_size(const fxi_json *v)
{
    return fxi_json_is_array(v) ? unsafe_yyjson_get_len((void *)v) : 0;
}

size_t fxi_json_object_size(const fxi_json *v)
{
    return fxi_json_is_object(v) ? unsafe_yyjson_get_len((void *)v) : 0;
}

const fxi_json *fxi_json_at(const fxi_json *array, size_t i)
{
    if (i >= fxi_json_array_size(array)) return NULL;
    if (has_index(array)) return array + list_index_of(array)->slot[i];
    if (is_flat(array)) return array + 1 + i;
    const yyjson_val *v = array + 1;
    while (i--) v = value_after(v);
    return v;
}

const fxi_json *fxi_json_getn(const fxi_json *object, const char *key, size_t n)
{
    if (!fxi_json_is_object(object)) return NULL;
    if (has_index(object)) {
        const uint32_t at = *key_slot(object, key, n);
        return at ? object + at + 1 : NULL;
    }
    for (fxi_json_iter it = fxi_json_members(object); fxi_json_next(&it);)
        if (it.key_bytes == n && !memcmp(it.key, key, n)) return it.value;
    return NULL;
}

const fxi_json *fxi_json_get(const fxi_json *object, const char *key)
{
    return fxi_json_getn(object, key, strlen(key));
}

fxi_json_iter fxi_json_items(const fxi_json *v)
{
    if (!fxi_json_is_object(v) && !fxi_json_is_array(v)) return (fxi_json_iter){0};
    return (fxi_json_iter){
        .is_object = fxi_json_is_object(v), .i = SIZE_MAX, .next = v + 1, .end = value_after(v)};
}

fxi_json_iter fxi_json_members(const fxi_json *v)
{
    return fxi_json_items(fxi_json_is_object(v) ? v : NULL);
}

bool fxi_json_next(fxi_json_iter *it)
{
    const bool is_object = it->is_object;
    while (is_object && it->next < it->end && !unsafe_yyjson_is_str((void *)it->next))
        it->next = value_after(it->next + 1); // a key that was dropped
    if (it->next >= it->end) return false;
    if (is_object) {
        it->key = it->next->uni.str;
        it->key_bytes = unsafe_yyjson_get_len((void *)it->next);
        it->next++;
    }
    it->value = it->next;
    it->next = value_after(it->next);
    it->i++;
    return true;
}
