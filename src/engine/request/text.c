// text.c - text that may be shown; see text.h.
#include "engine/request/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count

// ---- stop strings ------------------------------------------------------------------------------

// How much of the stop string the text ends with, once `byte` follows `matched` of it.
static uint32_t match_byte(const fxi_stop *s, uint32_t matched, char byte)
{
    while (matched && s->text[matched] != byte) matched = s->border[matched];
    return matched + (s->text[matched] == byte);
}

bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n)
{
    *out = (fxi_stops){0};
    if (!n) return true;
    out->stop = calloc(n, sizeof *out->stop);
    if (!out->stop) return false;
    for (; out->n < n; out->n++) {
        fxi_stop *s = &out->stop[out->n];
        *s = (fxi_stop){.text = text[out->n], .n_bytes = strlen(text[out->n])};
        s->border = malloc((s->n_bytes + 1) * sizeof *s->border);
        if (!s->border) return false;
        s->border[0] = s->border[1] = 0;
        for (size_t k = 2; k <= s->n_bytes; k++)
            s->border[k] = match_byte(s, s->border[k - 1], s->text[k - 1]);
    }
    return true;
}

void fxi_stops_free(fxi_stops *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->stop[i].border);
    free(s->stop);
    *s = (fxi_stops){0};
}

// Advances *matched over bytes[0..n). True: the stop string ends after the first *end of them.
static bool match_bytes(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n,
                        size_t *end)
{
    for (size_t i = 0; i < n; i++) {
        *matched = match_byte(s, *matched, bytes[i]);
        if (*matched < s->n_bytes) continue;
        *end = i + 1;
        return true;
    }
    return false;
}

// Searches the bytes of `clean` from offset `from`. Offset in `clean` of the first stop string, and
// its index; SIZE_MAX if there is none.
static size_t find_stop(fxi_text *t, size_t from, const fxi_stops *stops, size_t *which)
{
    size_t first = SIZE_MAX, end;
    for (size_t i = 0; i < t->n_stop; i++) {
        const fxi_stop *s = &stops->stop[i];
        if (!match_bytes(s, &t->matched[i], t->clean.p + from, t->clean.n - from, &end)) continue;
        const size_t at = from + end - s->n_bytes;
        if (at >= first) continue;
        first = at;
        *which = i;
    }
    return first;
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

// ---- text --------------------------------------------------------------------------------------

const char *fxi_text_token(fxi_text *t, const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    if (t->show_control && fxi_vocab_control(v, id)) return fxi_vocab_piece(v, id, n_bytes);
    return fxi_decoder_bytes(&t->bytes, v, id, n_bytes);
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

bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const fxi_stops *stops, size_t *show)
{
    const size_t from = t->clean.n;
    *show = 0;
    t->token_at = t->n_char;
    if (!fxi_decoder_add(&t->bytes, bytes, n, &t->clean)) return false;
    t->n_char += fxi_utf8_count(t->clean.p + from, t->clean.n - from);
    if (!stops || !stops->n) {
        forget_stops(t);
        *show = t->clean.n;
        return true;
    }
    if (!begin_stops(t, stops->n)) return false;
    size_t which = 0, held = 0;
    const size_t at = find_stop(t, from, stops, &which);
    for (size_t i = 0; i < t->n_stop; i++) // what may begin a stop string
        if (t->matched[i] > held) held = t->matched[i];
    *show = at != SIZE_MAX ? cut_at_stop(t, at, &stops->stop[which], which) : t->clean.n - held;
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
