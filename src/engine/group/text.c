// text.c - text that may be shown; see text.h.
#include "engine/group/text.h"

#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count

const char *fxi_text_token(fxi_text *t, const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    if (t->show_control && fxi_vocab_control(v, id)) return fxi_vocab_piece(v, id, n_bytes);
    return fxi_decoder_bytes(&t->bytes, v, id, n_bytes);
}

// Adds to `clean`, which is valid UTF-8, and counts characters.
static bool add_clean(fxi_text *t, const char *bytes, size_t n)
{
    size_t from = t->clean.n;
    t->token_at = t->n_char;
    if (!fxi_decoder_add(&t->bytes, bytes, n, &t->clean)) return false;
    t->n_char += fxi_utf8_count(t->clean.p + from, t->clean.n - from);
    return true;
}

// Offset in `clean` of the first stop string, and its index; SIZE_MAX if there is none.
static size_t find_stop(const fxi_text *t, const char *const *stop, size_t n_stop, size_t *which)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < n_stop; i++) {
        const char *at =
            t->clean.n ? memmem(t->clean.p, t->clean.n, stop[i], strlen(stop[i])) : NULL;
        if (!at || (size_t)(at - t->clean.p) >= first) continue;
        first = (size_t)(at - t->clean.p);
        *which = i;
    }
    return first;
}

// The answer ends before the stop string, or after it with include_stop.
static size_t cut_at_stop(fxi_text *t, size_t at, const char *stop, size_t which)
{
    t->stopped = true;
    t->stop_string = (int)which;
    t->clean.n = at + (t->include_stop ? strlen(stop) : 0);
    t->clean.p[t->clean.n] = 0;
    return t->clean.n;
}

// Bytes at the end of `clean` that may begin this stop string.
static size_t held_by_stop(const fxi_buf *clean, const char *stop)
{
    size_t n = strlen(stop) - 1;
    if (n > clean->n) n = clean->n;
    while (n && memcmp(clean->p + clean->n - n, stop, n) != 0) n--;
    return n;
}

static size_t showable_bytes(const fxi_text *t, const char *const *stop, size_t n_stop)
{
    size_t held = 0;
    for (size_t i = 0; i < n_stop; i++) {
        size_t h = held_by_stop(&t->clean, stop[i]);
        if (h > held) held = h;
    }
    return t->clean.n - held;
}

bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const char *const *stop, size_t n_stop,
                  size_t *show)
{
    *show = 0;
    if (!add_clean(t, bytes, n)) return false;
    size_t which = 0, at = find_stop(t, stop, n_stop, &which);
    *show =
        at != SIZE_MAX ? cut_at_stop(t, at, stop[which], which) : showable_bytes(t, stop, n_stop);
    return true;
}

bool fxi_text_end(fxi_text *t, size_t *show)
{
    *show = 0;
    if (!t->stopped && !fxi_decoder_end(&t->bytes, &t->clean)) return false;
    *show = t->clean.n;
    return true;
}

bool fxi_text_copy(fxi_text *to, const fxi_text *from)
{
    *to = *from;
    to->clean = (fxi_buf){0};
    return fxi_decoder_copy(&to->bytes, &from->bytes) &&
           fxi_buf_add(&to->clean, from->clean.p, from->clean.n);
}

void fxi_text_free(fxi_text *t)
{
    fxi_decoder_free(&t->bytes);
    fxi_buf_free(&t->clean);
}
