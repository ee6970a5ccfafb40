// text.c - text that may be shown; see text.h.
#include "engine/group/text.h"

#include <stdlib.h>
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

static bool begin_stops(fxi_text *t, size_t n_stop)
{
    if (t->matched) return true;
    t->matched = calloc(n_stop, sizeof *t->matched);
    t->n_stop = n_stop;
    return t->matched != NULL;
}

static void forget_stops(fxi_text *t)
{
    for (size_t i = 0; i < t->n_stop; i++) t->matched[i] = 0;
}

// Goes on over the bytes of `clean` from offset `from`. Offset in `clean` of the first stop string,
// and its index; SIZE_MAX if there is none.
static size_t find_stop(fxi_text *t, size_t from, const fxi_stops *stops, size_t *which)
{
    size_t first = SIZE_MAX, end;
    for (size_t i = 0; i < t->n_stop; i++) {
        const fxi_stop *s = &stops->stop[i];
        if (!fxi_stop_find(s, &t->matched[i], t->clean.p + from, t->clean.n - from, &end)) continue;
        const size_t at = from + end - s->n_bytes;
        if (at >= first) continue;
        first = at;
        *which = i;
    }
    return first;
}

// The answer ends before the stop string, or after it with include_stop.
static size_t cut_at_stop(fxi_text *t, size_t at, const fxi_stop *stop, size_t which)
{
    t->stopped = true;
    t->stop_string = (int)which;
    t->clean.n = at + (t->include_stop ? stop->n_bytes : 0);
    t->clean.p[t->clean.n] = 0;
    return t->clean.n;
}

// All but what may begin a stop string.
static size_t showable_bytes(const fxi_text *t)
{
    size_t held = 0;
    for (size_t i = 0; i < t->n_stop; i++)
        if (t->matched[i] > held) held = t->matched[i];
    return t->clean.n - held;
}

bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const fxi_stops *stops, size_t *show)
{
    const size_t from = t->clean.n;
    *show = 0;
    if (!add_clean(t, bytes, n)) return false;
    if (!stops || !stops->n) {
        forget_stops(t);
        *show = t->clean.n;
        return true;
    }
    if (!begin_stops(t, stops->n)) return false;
    size_t which = 0, at = find_stop(t, from, stops, &which);
    *show = at != SIZE_MAX ? cut_at_stop(t, at, &stops->stop[which], which) : showable_bytes(t);
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
    to->matched = NULL;
    if (!fxi_decoder_copy(&to->bytes, &from->bytes) ||
        !fxi_buf_add(&to->clean, from->clean.p, from->clean.n))
        return false;
    if (!from->matched) return true;
    if (!begin_stops(to, from->n_stop)) return false;
    memcpy(to->matched, from->matched, from->n_stop * sizeof *to->matched);
    return true;
}

void fxi_text_restart(fxi_text *t)
{
    fxi_buf_clear(&t->bytes.raw);
    fxi_buf_clear(&t->clean);
    forget_stops(t);
    t->stopped = false;
    t->n_char = t->token_at = 0;
}

void fxi_text_free(fxi_text *t)
{
    fxi_decoder_free(&t->bytes);
    fxi_buf_free(&t->clean);
    free(t->matched);
    t->matched = NULL;
    t->n_stop = 0;
}
