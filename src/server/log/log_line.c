// log_line.c - building a line, key by key.
#include "server/log/log_line.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/json/json_write.h" // defines: fxi_json_str, fxi_json_cstr

static const char *const level_names[FXI_N_LEVEL] = {"debug", "info", "warn", "error"};

int fxi_level_named(const char *name)
{
    for (int i = 0; i < FXI_N_LEVEL; i++)
        if (strcasecmp(name, level_names[i]) == 0) return i;
    return -1;
}

// RFC 3339, in UTC, to the millisecond.
static void add_time(fxi_buf *b, bool *ok)
{
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    *ok = *ok && fxi_buf_fmt(b, "%s.%03dZ", text, (int)(now.tv_nsec / 1000000));
}

fxi_line fxi_line_begin(bool is_json, fxi_level level, const char *event)
{
    fxi_line l = {.is_json = is_json, .ok = true};
    if (is_json) l.ok = fxi_buf_str(&l.b, "{\"time\":\"");
    add_time(&l.b, &l.ok);
    if (is_json)
        l.ok = l.ok &&
               fxi_buf_fmt(&l.b, "\",\"level\":\"%s\",\"event\":\"%s\"", level_names[level], event);
    else
        l.ok = l.ok && fxi_buf_fmt(&l.b, " %s", level_names[level]);
    return l;
}

static void add_key(fxi_line *l, const char *key)
{
    l->ok = l->ok && fxi_buf_fmt(&l->b, l->is_json ? ",\"%s\":" : " %s=", key);
}

static bool is_bare_word(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\') return false;
    return n > 0;
}

static void add_value(fxi_line *l, const char *s, size_t n)
{
    const bool bare = !l->is_json && is_bare_word(s, n);
    l->ok = l->ok && (bare ? fxi_buf_add(&l->b, s, n) : fxi_json_str(&l->b, s, n));
}

void fxi_line_word(fxi_line *l, const char *key, const char *value)
{
    if (l->is_json)
        add_key(l, key);
    else
        l->ok = l->ok && fxi_buf_str(&l->b, " ");
    add_value(l, value, strlen(value));
}

void fxi_line_text(fxi_line *l, const char *key, const char *value, size_t n_bytes)
{
    add_key(l, key);
    add_value(l, value, n_bytes);
}

void fxi_line_str(fxi_line *l, const char *key, const char *value)
{
    fxi_line_text(l, key, value, strlen(value));
}

void fxi_line_int(fxi_line *l, const char *key, long long value)
{
    add_key(l, key);
    l->ok = l->ok && fxi_buf_fmt(&l->b, "%lld", value);
}

void fxi_line_seconds(fxi_line *l, const char *key, double value)
{
    add_key(l, key);
    l->ok = l->ok && fxi_buf_fmt(&l->b, "%.3f", value);
}

const char *fxi_line_end(fxi_line *l)
{
    if (l->is_json) l->ok = l->ok && fxi_buf_str(&l->b, "}");
    return l->ok ? l->b.p : NULL;
}

void fxi_line_free(fxi_line *l)
{
    fxi_buf_free(&l->b);
}
