// framing.c - whether a request's head says one thing only about where the request ends.
//
// Two programs in a row, a proxy and this server, that see different ends see different requests:
// what follows becomes a request that only one of them has checked. So whatever is doubtful is
// refused and the connection closed, since nothing that follows can be trusted.
//
// MHD parses the head before anyone is asked. What it changes or hides there cannot be seen here:
//   - a length that is not a number it answers itself: 400, a second head in place of the body, and
//     closes;
//   - a header line without a colon, a request line that is none: it answers 400 itself, not in
//     JSON, and closes;
//   - it takes a lone newline for the end of a line, and drops empty lines before a request;
//   - a line that continues the one before it is added to that one's NAME. Such names are found
//     here where they matter (begins_like);
//   - a value ends at a NUL.
#include "server/http/http.h"

#include <string.h>
#include <strings.h>

typedef struct head_facts {
    int n_length, n_coding, n_host;
    const char *length, *coding;
    bool is_bad; // a name is not one
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

// A name with something appended to it, as a continued line leaves it.
static bool begins_like(const char *name, const char *known)
{
    const size_t n = strlen(known);
    return !strncasecmp(name, known, n) && name[n] && name[n] != '-';
}

static enum MHD_Result look_at_header(void *ud, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    head_facts *f = ud;
    (void)kind;
    if (!strcasecmp(name, "Content-Length")) {
        f->n_length++;
        f->length = value;
    } else if (!strcasecmp(name, "Transfer-Encoding")) {
        f->n_coding++;
        f->coding = value;
    } else if (!strcasecmp(name, "Host")) {
        f->n_host++;
    } else if (!is_token(name) || begins_like(name, "Content-Length") ||
               begins_like(name, "Transfer-Encoding")) {
        f->is_bad = true;
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

// MHD ends the target at a NUL, but finds the version behind it.
static bool target_is_whole(const fxi_peer *p, const char *version)
{
    return !p->target_is_bad && version == p->target + p->n_target + 1;
}

bool fxi_framing_check(const fxi_http_job *job, const char *method, const char *version,
                       fxi_http_error *err)
{
    head_facts f = {0};
    MHD_get_connection_values(job->conn, MHD_HEADER_KIND, look_at_header, &f);
    if (!is_token(method)) return refuse_head(err, "the method is not a word");
    if (!target_is_whole(job->peer, version))
        return refuse_head(err, "the path has a space, a control character or a NUL in it");
    if (f.is_bad) return refuse_head(err, "a header's name is not a word");
    if (!check_length(&f, version, err)) return false;
    if (f.n_host > 1) return refuse_head(err, "there is more than one Host");
    if (!f.n_host && strcmp(version, "HTTP/1.0") != 0) return refuse_head(err, "there is no Host");
    return true;
}
