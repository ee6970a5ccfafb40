// gguf_write.c - writes a GGUF file front to back; gguf_parse.c shows the layout.
//
// A writer goes KEYS -> TENSORS (declare_tensor) -> DATA (begin_data, write_data) -> freed
// (finish). What comes before the data is collected in memory, because it begins with its counts.
//
// A file appears whole or not at all: it is written under another name in the same folder, synced,
// and renamed. A path that is no regular file, such as a device, is written directly.
#include "format/gguf_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/grow.h"

enum { ALIGNMENT = 32, VERSION = 3, COUNTS_AT = 8 };

typedef enum gguf_stage { KEYS, TENSORS, DATA } gguf_stage;

struct fxi_gguf_writer {
    char *path;   // as the caller named it
    char *target; // the file that path is or links to; NULL: written directly
    char *temp;   // the file that is written and becomes target
    FILE *f;      // NULL: the head alone is wanted
    fxi_buf head; // all before the data
    gguf_stage stage;
    uint64_t pos; // bytes written
    uint64_t n_kv, n_tensor;
    uint64_t *size_bytes; // [n_tensor]
    size_t cap_tensor;
    uint64_t data_bytes; // the size of all tensors declared, each padded
    uint64_t i_tensor;   // the tensor that write_data fills
    uint64_t n_written;  // bytes of it
    fx_status st;        // FX_OK until something fails
    fx_error err;
};

// ---- bytes --------------------------------------------------------------------------------------

static void fail_io(fxi_gguf_writer *w)
{
    w->st = fxi_fail(&w->err, fxi_errno_status(errno), "%s: %s", w->path, strerror(errno));
}

static void fail_use(fxi_gguf_writer *w, const char *what, fxi_str name)
{
    w->st = fxi_fail(&w->err, FX_EINVAL, "%s: '%.*s': %s", w->path, (int)name.n, name.p, what);
}

static void put_raw(fxi_gguf_writer *w, const void *p, size_t n)
{
    if (w->st != FX_OK || !n) return;
    if (w->stage != DATA && !fxi_buf_add(&w->head, p, n))
        w->st = fxi_fail_memory(&w->err);
    else if (w->stage == DATA && fwrite(p, 1, n, w->f) != n)
        fail_io(w);
    w->pos += n;
}

static void put_u32(fxi_gguf_writer *w, uint32_t v)
{
    put_raw(w, &v, sizeof v);
}

static void put_u64(fxi_gguf_writer *w, uint64_t v)
{
    put_raw(w, &v, sizeof v);
}

void fxi_gguf_put_str(fxi_gguf_writer *w, fxi_str s)
{
    put_u64(w, s.n);
    put_raw(w, s.p, s.n);
}

static void put_padding(fxi_gguf_writer *w)
{
    static const char zero[ALIGNMENT];
    put_raw(w, zero, -w->pos & (ALIGNMENT - 1));
}

// ---- keys ---------------------------------------------------------------------------------------

static void put_key(fxi_gguf_writer *w, fxi_str key, fxi_gguf_type type)
{
    if (w->st == FX_OK && w->stage != KEYS) fail_use(w, "a key after the tensors", key);
    fxi_gguf_put_str(w, key);
    put_u32(w, type);
    w->n_kv++;
}

void fxi_gguf_write_kv(fxi_gguf_writer *w, const fxi_gguf_kv *kv)
{
    put_key(w, kv->key, kv->type);
    if (kv->type == FXI_GGUF_ARRAY) {
        put_u32(w, kv->elem_type);
        put_u64(w, kv->n_elem);
    }
    put_raw(w, kv->value, fxi_gguf_value_bytes(kv));
}

static void put_array_key(fxi_gguf_writer *w, const char *key, fxi_gguf_type elem_type, size_t n)
{
    put_key(w, fxi_str_of(key), FXI_GGUF_ARRAY);
    put_u32(w, elem_type);
    put_u64(w, n);
}

void fxi_gguf_write_array(fxi_gguf_writer *w, const char *key, fxi_gguf_type elem_type,
                          const void *v, size_t n)
{
    put_array_key(w, key, elem_type, n);
    put_raw(w, v, n * fxi_gguf_type_bytes(elem_type));
}

void fxi_gguf_write_text(fxi_gguf_writer *w, const char *key, fxi_str v)
{
    put_key(w, fxi_str_of(key), FXI_GGUF_STR);
    fxi_gguf_put_str(w, v);
}

void fxi_gguf_write_u32(fxi_gguf_writer *w, const char *key, uint32_t v)
{
    put_key(w, fxi_str_of(key), FXI_GGUF_U32);
    put_u32(w, v);
}

void fxi_gguf_write_f32(fxi_gguf_writer *w, const char *key, float v)
{
    put_key(w, fxi_str_of(key), FXI_GGUF_F32);
    put_raw(w, &v, sizeof v);
}

void fxi_gguf_write_bool(fxi_gguf_writer *w, const char *key, bool v)
{
    put_key(w, fxi_str_of(key), FXI_GGUF_BOOL);
    put_raw(w, v ? "\1" : "\0", 1);
}

void fxi_gguf_begin_strs(fxi_gguf_writer *w, const char *key, size_t n)
{
    put_array_key(w, key, FXI_GGUF_STR, n);
}

// ---- tensors ------------------------------------------------------------------------------------

static bool shape_bytes(const fxi_dtype_info *type, uint32_t n_dim, const uint64_t *ne,
                        uint64_t *size)
{
    if (!type || !n_dim || n_dim > FXI_GGUF_MAX_DIM || !ne[0] || ne[0] % type->block_elems)
        return false;
    bool over = __builtin_mul_overflow(ne[0] / type->block_elems, type->block_bytes, size);
    for (uint32_t i = 1; i < n_dim; i++)
        over |= !ne[i] || __builtin_mul_overflow(*size, ne[i], size);
    return !over && *size <= INT64_MAX;
}

void fxi_gguf_declare_tensor(fxi_gguf_writer *w, const char *name, fxi_dtype type, uint32_t n_dim,
                             const uint64_t *ne)
{
    uint64_t size;
    if (w->st != FX_OK) return;
    if (w->stage == DATA)
        return fail_use(w, "a tensor declared after the data began", fxi_str_of(name));
    if (!shape_bytes(fxi_dtype_find(type), n_dim, ne, &size))
        return fail_use(w, "not a tensor's type and shape", fxi_str_of(name));
    w->stage = TENSORS;
    fxi_gguf_put_str(w, fxi_str_of(name));
    put_u32(w, n_dim);
    put_raw(w, ne, n_dim * sizeof *ne);
    put_u32(w, type);
    put_u64(w, w->data_bytes);
    w->data_bytes += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!fxi_grow(&w->size_bytes, sizeof size, w->n_tensor, &w->cap_tensor)) {
        w->st = fxi_fail_memory(&w->err);
        return;
    }
    w->size_bytes[w->n_tensor++] = size;
}

void fxi_gguf_begin_data(fxi_gguf_writer *w)
{
    if (w->st != FX_OK || w->stage == DATA) return;
    const uint64_t counts[2] = {w->n_tensor, w->n_kv};
    put_padding(w);
    if (w->st != FX_OK) return;
    w->stage = DATA;
    memcpy(w->head.p + COUNTS_AT, counts, sizeof counts);
    if (w->f && fwrite(w->head.p, 1, w->head.n, w->f) != w->head.n) fail_io(w);
}

void fxi_gguf_write_data(fxi_gguf_writer *w, const void *data, size_t n_bytes)
{
    if (w->st != FX_OK || !n_bytes) return;
    if (w->stage != DATA) return fail_use(w, "data before begin_data", fxi_str_of("tensors"));
    if (w->i_tensor == w->n_tensor || n_bytes > w->size_bytes[w->i_tensor] - w->n_written)
        return fail_use(w, "more data than was declared", fxi_str_of("tensors"));
    if (data) {
        put_raw(w, data, n_bytes);
    } else { // the last byte is written, so that the file is long enough wherever it ends
        if (fseeko(w->f, (off_t)(n_bytes - 1), SEEK_CUR)) return fail_io(w);
        w->pos += n_bytes - 1;
        put_raw(w, "", 1);
    }
    w->n_written += n_bytes;
    if (w->n_written < w->size_bytes[w->i_tensor]) return;
    put_padding(w);
    w->n_written = 0;
    w->i_tensor++;
}

// ---- opening and closing ------------------------------------------------------------------------

static void free_writer(fxi_gguf_writer *w)
{
    free(w->size_bytes);
    free(w->temp);
    free(w->target);
    free(w->path);
    fxi_buf_free(&w->head);
    free(w);
}

// Opens w->f: a new file in the target's folder, with the permissions of a new file; or path itself
// if it is no regular file.
static fx_status open_output(fxi_gguf_writer *w, fx_error *err)
{
    struct stat st;
    if (stat(w->path, &st) || S_ISREG(st.st_mode)) {
        w->target = realpath(w->path, NULL); // follows a link; NULL: there is no such file yet
        if (!w->target && errno != ENOMEM) w->target = strdup(w->path);
        if (!w->target || asprintf(&w->temp, "%s.part-%ld", w->target, (long)getpid()) < 0) {
            w->temp = NULL;
            return fxi_fail_memory(err);
        }
    }
    w->f = fopen(w->temp ? w->temp : w->path, "wbe");
    return w->f ? FX_OK
                : fxi_fail(err, fxi_errno_status(errno), "%s: %s", w->path, strerror(errno));
}

fx_status fxi_gguf_writer_open_memory(const char *name, fxi_gguf_writer **out, fx_error *err)
{
    fxi_gguf_writer *w = calloc(1, sizeof *w);
    if (w) w->path = strdup(name);
    if (!w || !w->path) {
        free(w);
        return fxi_fail_memory(err);
    }
    put_raw(w, "GGUF", 4);
    put_u32(w, VERSION);
    put_u64(w, 0); // n_tensor and
    put_u64(w, 0); // n_kv: set by begin_data
    *out = w;
    return FX_OK;
}

fx_status fxi_gguf_writer_open(const char *path, fxi_gguf_writer **out, fx_error *err)
{
    FX_TRY(fxi_gguf_writer_open_memory(path, out, err));
    const fx_status st = open_output(*out, err);
    if (st != FX_OK) free_writer(*out);
    return st;
}

fx_status fxi_gguf_writer_status(const fxi_gguf_writer *w)
{
    return w->st;
}

// Closes the file and frees w; the status is that of the first failure. Bytes are on the disk
// before the name: a crash leaves the old file or the new one.
static fx_status end_writer(fxi_gguf_writer *w, fx_error *err)
{
    if (w->st == FX_OK && w->temp && (fflush(w->f) || fsync(fileno(w->f)))) fail_io(w);
    if (w->f && fclose(w->f) && w->st == FX_OK) fail_io(w);
    if (w->st == FX_OK && w->temp && rename(w->temp, w->target)) fail_io(w);
    if (w->st != FX_OK && w->temp) remove(w->temp);
    const fx_status st = w->st;
    if (st != FX_OK && err) *err = w->err;
    free_writer(w);
    return st;
}

fx_status fxi_gguf_writer_finish(fxi_gguf_writer *w, fx_error *err)
{
    fxi_gguf_begin_data(w);
    if (w->st == FX_OK && w->i_tensor < w->n_tensor)
        w->st =
            fxi_fail(&w->err, FX_EINVAL, "%s: the data ends inside tensor %" PRIu64 " of %" PRIu64,
                     w->path, w->i_tensor, w->n_tensor);
    return end_writer(w, err);
}

void fxi_gguf_writer_abandon(fxi_gguf_writer *w, fx_error *err)
{
    const bool failed = w->st != FX_OK;
    if (!failed) w->st = FX_EINVAL; // nothing is kept
    end_writer(w, failed ? err : NULL);
}

fx_status fxi_gguf_writer_take_head(fxi_gguf_writer *w, fxi_buf *out, fx_error *err)
{
    fxi_gguf_begin_data(w);
    if (w->st == FX_OK) {
        *out = w->head;
        w->head = (fxi_buf){0};
    }
    return end_writer(w, err);
}
