// stops.c - stop strings and their borders; see stops.h.
#include "engine/group/stops.h"

#include <stdlib.h>
#include <string.h>

// How much of the stop string the text ends with, once `byte` follows `matched` of it.
static uint32_t match_byte(const fxi_stop *s, uint32_t matched, char byte)
{
    while (matched && s->text[matched] != byte) matched = s->border[matched];
    return matched + (s->text[matched] == byte);
}

static bool make_stop(fxi_stop *s, const char *text)
{
    *s = (fxi_stop){.text = text, .n_bytes = strlen(text)};
    s->border = malloc((s->n_bytes + 1) * sizeof *s->border);
    if (!s->border) return false;
    s->border[0] = s->border[1] = 0;
    for (size_t k = 2; k <= s->n_bytes; k++)
        s->border[k] = match_byte(s, s->border[k - 1], text[k - 1]);
    return true;
}

bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n)
{
    *out = (fxi_stops){0};
    if (!n) return true;
    out->stop = calloc(n, sizeof *out->stop);
    if (!out->stop) return false;
    for (; out->n < n; out->n++)
        if (!make_stop(&out->stop[out->n], text[out->n])) return false;
    return true;
}

void fxi_stops_free(fxi_stops *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->stop[i].border);
    free(s->stop);
    *s = (fxi_stops){0};
}

bool fxi_stop_find(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n, size_t *end)
{
    for (size_t i = 0; i < n; i++) {
        *matched = match_byte(s, *matched, bytes[i]);
        if (*matched < s->n_bytes) continue;
        *end = i + 1;
        return true;
    }
    return false;
}
