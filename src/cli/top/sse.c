// sse.c - lines up to an empty one are an event. Several lines of data are moved together in place.
#include "cli/top/sse.h"

#include <string.h>

// The value behind "name:", without one blank; NULL: the line is another field.
static const char *sse_value(fxi_str line, const char *name, size_t *n)
{
    const size_t n_name = strlen(name);
    if (line.n <= n_name || memcmp(line.p, name, n_name) != 0 || line.p[n_name] != ':') return NULL;
    const char *value = line.p + n_name + 1;
    *n = line.n - n_name - 1;
    if (*n && *value == ' ') value++, (*n)--;
    return value;
}

// A line more of data: it goes behind what there is, which lies before it in the buffer.
static void add_data(fxi_sse_event *ev, fxi_buf *in, const char *value, size_t n)
{
    if (!ev->data.p) {
        ev->data = (fxi_str){value, n};
        return;
    }
    char *end = in->p + (ev->data.p - in->p) + ev->data.n;
    *end = '\n';
    memmove(end + 1, value, n);
    ev->data.n += 1 + n;
}

// Reads the lines of one event, up to *from.
static void read_event(fxi_buf *in, fxi_str rest, fxi_sse_event *ev)
{
    fxi_str line;
    const char *value;
    size_t n;
    *ev = (fxi_sse_event){{"", 0}, {NULL, 0}};
    while (fxi_str_next_line(&rest, &line)) {
        if ((value = sse_value(line, "data", &n)))
            add_data(ev, in, value, n);
        else if ((value = sse_value(line, "event", &n)))
            ev->name = (fxi_str){value, n};
    }
}

// Where the event that begins at `at` ends, behind its empty line; 0: it is not whole.
static size_t event_end(const fxi_buf *in, size_t at)
{
    for (const char *nl; at < in->n && (nl = memchr(in->p + at, '\n', in->n - at));) {
        const size_t n_line = (size_t)(nl - (in->p + at));
        const bool is_empty = n_line == 0 || (n_line == 1 && in->p[at] == '\r');
        at += n_line + 1;
        if (is_empty) return at;
    }
    return 0;
}

bool fxi_sse_next(fxi_buf *in, size_t *from, fxi_sse_event *out)
{
    for (size_t end; (end = event_end(in, *from)) > 0;) {
        read_event(in, (fxi_str){in->p + *from, end - *from}, out);
        *from = end;
        if (out->data.p) return true;
    }
    return false;
}
