// framing.c - whether a request's head says one thing only about where the request ends.
//
// Two programs in a row, a proxy and this server, that see different ends see different requests:
// what follows becomes a request that only one of them has checked. So whatever is doubtful is
// refused and the connection closed, since nothing that follows can be trusted.
//
// MHD parses the head before anyone is asked, and hides a lot: it takes a lone newline for the end
// of a line, ends a value at a NUL, and adds a line that continues the one before it to that one's
// NAME. But it leaves the head where it arrived, with zeros for the ends of lines. So each line
// must begin right behind the CR LF of the one before it; where one does not, something is hidden.
//
// What cannot be seen here MHD refuses itself, with a text that is not JSON, and closes: a header
// line without a colon, a request line that is none, a length that is not a number (there, 0.9.75
// sends a second head in place of the body), chunks that are none. What cannot be seen at all: a
// lone newline between chunks, a NUL in place of a CR, and a line of nothing but a colon that a
// lone newline ends, which MHD takes for the end of the head.
#include "server/http/http.h"

#include <string.h>
#include <strings.h>

typedef struct head_facts {
    int n_length, n_coding, n_host;
    const char *length, *coding;
    const char *next; // where the next line must begin; NULL: something is hidden
    bool is_bad;      // a name or a value is not one
} head_facts;

static bool is_token(const char *s)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    if (!*s) return false;
    for (; *s; s++) {
        const bool alnum =
            (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
        if (!alnum && !strchr(marks, *s)) return false;
    }
    return true;
}

static bool is_header_value(const char *s)
{
    for (; *s; s++)
        if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f) return false;
    return true;
}

// Whether only blanks are between the colon, which is a zero now, and the value.
static bool is_beside(const char *name, const char *value)
{
    const char *p = name + strlen(name) + 1;
    if (value < p) return false;
    return p + strspn(p, " \t") == value;
}

static void follow_line(head_facts *f, const char *name, const char *value)
{
    if (f->next != name || !is_beside(name, value)) {
        f->next = NULL;
        return;
    }
    const char *end = value + strlen(value);
    f->next = end[0] || end[1] ? NULL : end + 2;
}

static enum MHD_Result look_at_header(void *ud, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    head_facts *f = ud;
    (void)kind;
    if (!value) value = "";
    follow_line(f, name, value);
    f->is_bad |= !is_token(name) || !is_header_value(value);
    f->n_host += !strcasecmp(name, "Host");
    if (!strcasecmp(name, "Content-Length")) {
        f->n_length++;
        f->length = value;
    } else if (!strcasecmp(name, "Transfer-Encoding")) {
        f->n_coding++;
        f->coding = value;
    }
    return MHD_YES;
}

static bool is_length(const char *s)
{
    const size_t n = s ? strlen(s) : 0;
    return n && n <= 19 && strspn(s, "0123456789") == n;
}

static bool refuse_head(fxi_http_error *err, const char *why)
{
    return fxi_http_fail(err, 400, "invalid_request", NULL, "%s", why);
}

static bool check_length(const head_facts *f, const char *version, fxi_http_error *err)
{
    if (f->n_length > 1) return refuse_head(err, "there is more than one Content-Length");
    if (f->n_coding > 1) return refuse_head(err, "there is more than one Transfer-Encoding");
    if (f->n_length && f->n_coding)
        return refuse_head(err, "there are both Content-Length and Transfer-Encoding");
    if (f->n_length && !is_length(f->length))
        return refuse_head(err, "Content-Length is not a number");
    if (f->n_coding && strcmp(version, "HTTP/1.0") == 0)
        return refuse_head(err, "HTTP/1.0 has no Transfer-Encoding");
    if (f->n_coding && (!f->coding || strcasecmp(f->coding, "chunked") != 0))
        return fxi_http_fail(err, 501, "unsupported_encoding", NULL,
                             "the only Transfer-Encoding that is understood is chunked");
    return true;
}

// MHD ends the target at a NUL, but finds the version behind it; it skips blanks before the target.
static bool target_is_whole(const fxi_peer *p, const char *method, const char *version)
{
    return !p->target_is_bad && p->target == method + strlen(method) + 1 &&
           version == p->target + p->n_target + 1;
}

// The empty line that ends the head is where the next header would be, and nothing is behind it.
static bool head_is_whole(const fxi_http_job *job, const head_facts *f, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(job->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && f->next && f->next + 2 == method + info->header_size;
}

bool fxi_framing_check(const fxi_http_job *job, const char *method, const char *version,
                       fxi_http_error *err)
{
    if (!is_token(method)) return refuse_head(err, "the method is not a word");
    if (!target_is_whole(job->peer, method, version))
        return refuse_head(err, "the path has a space, a control character or a NUL in it");
    head_facts f = {.next = version + strlen(version) + 2};
    MHD_get_connection_values(job->conn, MHD_HEADER_KIND, look_at_header, &f);
    if (f.is_bad) return refuse_head(err, "a header has a name or a value that is not one");
    if (!head_is_whole(job, &f, method))
        return refuse_head(err, "each line of the head must end with CR LF, be whole and have no "
                                "NUL in it");
    if (!check_length(&f, version, err)) return false;
    if (f.n_host > 1) return refuse_head(err, "there is more than one Host");
    if (!f.n_host && strcmp(version, "HTTP/1.0") != 0) return refuse_head(err, "there is no Host");
    return true;
}
