// test_server_admission.c - which clients and pages may use the server, under which names, and what
// one client can learn of another: hosts, origins, keys, tenants, priorities.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/server_fixture.h"
#include "unit/cmocka_all.h"

#define TEXT "/v1/completions"
#define SAY  "{\"prompt\":\"say a\"}"

// Sends one request on fd with these header lines, each with its CR LF; a body makes it a POST.
static http_reply ask_on(int fd, const char *target, const char *headers, const char *body)
{
    if (body)
        http_send(fd,
                  "POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\n"
                  "Content-Length: %zu\r\n\r\n%s",
                  target, headers, strlen(body), body);
    else
        http_send(fd, "%s HTTP/1.1\r\n%s\r\n", target, headers);
    return http_read(fd);
}

static http_reply ask(const fixture *f, const char *target, const char *headers, const char *body)
{
    const int fd = http_open(f->port);
    const http_reply r = ask_on(fd, target, headers, body);
    close(fd);
    return r;
}

static void expect(http_reply r, int status, const char *in_head, const char *in_body)
{
    if (r.status != status || (in_head && !strstr(r.head.p, in_head)) ||
        (in_body && !strstr(r.body.p, in_body)))
        fail_msg("want %d with '%s' and '%s', got %s%s", status, in_head ? in_head : "",
                 in_body ? in_body : "", r.head.p ? r.head.p : "nothing", r.body.p ? r.body.p : "");
    http_reply_free(&r);
}

static int submitted(const fixture *f)
{
    return fake_engine_counts(f->eng).n_submitted;
}

// ---- pages and names --------------------------------------------------------------------------

FX_TEST(test_pages_of_other_sites_are_refused)
{
    static const char *const evil[] = {"https://evil.example", "null", "http://localhost:1",
                                       "http://localhost.evil.example", "file://"};
    char headers[256];
    fixture f = fixture_open((fxi_server_options){0});
    for (size_t i = 0; i < sizeof evil / sizeof evil[0]; i++) {
        snprintf(headers, sizeof headers, "Host: localhost:%d\r\nOrigin: %s\r\n", f.port, evil[i]);
        expect(ask(&f, TEXT, headers, SAY), 403, "Connection: close", "origin_not_allowed");
        expect(ask(&f, "GET /v1/models", headers, NULL), 403, NULL, "origin_not_allowed");
        expect(ask(&f, "GET /health", headers, NULL), 403, NULL, "origin_not_allowed");
    }
    assert_int_equal(submitted(&f), 0);
    snprintf(headers, sizeof headers, "Host: localhost:%d\r\nOrigin: http://localhost:%d\r\n",
             f.port, f.port);
    expect(ask(&f, TEXT, headers, SAY), 200, "Access-Control-Allow-Origin: http://localhost", "a");
    fixture_close(&f);
}

FX_TEST(test_pages_that_are_named_may_use_the_server)
{
    static const char *const pages[] = {"https://chat.example,https://b.example:8443"};
    static const char from[] = "Host: localhost\r\nOrigin: https://chat.example\r\n";
    fixture f = fixture_open((fxi_server_options){.cors = {pages, 1}});
    http_reply r = ask(&f, TEXT, from, SAY);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head.p, "Access-Control-Allow-Origin: https://chat.example\r\n"));
    assert_non_null(strstr(r.head.p, "Vary: Origin\r\n"));
    http_reply_free(&r);
    expect(ask(&f, TEXT, from, "{"), 400, "Access-Control-Allow-Origin: https://chat.example",
           "error"); // errors can be read, too
    expect(ask(&f, TEXT, "Host: localhost\r\nOrigin: https://c.example\r\n", SAY), 403, NULL,
           "origin_not_allowed");
    r = ask(&f, TEXT, "Host: localhost\r\n", SAY); // programs have no origin
    assert_null(strstr(r.head.p, "Access-Control"));
    expect(r, 200, NULL, NULL);
    fixture_close(&f);
}

// A browser asks first, without the key, what it may send.
FX_TEST(test_a_browser_is_told_what_it_may_send)
{
    static const char *const pages[] = {"https://chat.example"};
    static const char ask_first[] = "Host: localhost\r\nOrigin: https://chat.example\r\n"
                                    "Access-Control-Request-Method: POST\r\n"
                                    "Access-Control-Request-Headers: authorization, x-any\r\n"
                                    "Access-Control-Request-Private-Network: true\r\n";
    fixture f = fixture_open((fxi_server_options){.cors = {pages, 1}, .api_key = "sk-1"});
    http_reply r = ask(&f, "OPTIONS " TEXT, ask_first, NULL);
    assert_int_equal(r.status, 204);
    assert_non_null(strstr(r.head.p, "Access-Control-Allow-Origin: https://chat.example\r\n"));
    assert_non_null(strstr(r.head.p, "Access-Control-Allow-Headers: authorization, x-any\r\n"));
    assert_non_null(strstr(r.head.p, "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"));
    assert_non_null(strstr(r.head.p, "Access-Control-Allow-Private-Network: true\r\n"));
    http_reply_free(&r);
    expect(ask(&f, "OPTIONS " TEXT,
               "Host: localhost\r\nOrigin: https://evil.example\r\n"
               "Access-Control-Request-Method: POST\r\n",
               NULL),
           403, NULL, "origin_not_allowed");
    fixture_close(&f);
}

FX_TEST(test_names_that_were_rebound_are_refused)
{
    static const char *const names[] = {"llm.example"};
    fixture f = fixture_open((fxi_server_options){.hosts = {names, 1}});
    expect(ask(&f, TEXT, "Host: evil.example\r\n", SAY), 403, "Connection: close",
           "host_not_allowed");
    // The page's origin is the name that it rebound: it is no page of ours either.
    expect(
        ask(&f, "GET /stats", "Host: evil.example:80\r\nOrigin: http://evil.example:80\r\n", NULL),
        403, NULL, "host_not_allowed");
    expect(ask(&f, "GET /health", "Host: localhost.evil.example\r\n", NULL), 403, NULL,
           "host_not_allowed");
    assert_int_equal(submitted(&f), 0);
    expect(ask(&f, TEXT, "Host: LLM.example:443\r\n", SAY), 200, NULL, NULL);
    expect(ask(&f, TEXT, "Host: 127.0.0.1:8080\r\n", SAY), 200, NULL, NULL);
    expect(ask(&f, TEXT, "Host: [::1]:8080\r\n", SAY), 200, NULL, NULL);
    fixture_close(&f);
}

// ---- keys -------------------------------------------------------------------------------------

#define AS(key) "Host: localhost\r\nAuthorization: Bearer " key "\r\n"

static const char *write_key_file(const char *text)
{
    static char name[] = "/tmp/test_server_admission.XXXXXX";
    static bool made;
    if (!made) close(mkstemp(name));
    made = true;
    FILE *file = fopen(name, "w");
    fputs(text, file);
    fclose(file);
    return name;
}

FX_TEST(test_without_a_key_only_probes_are_answered)
{
    static const char *const open[] = {"GET /health", "GET /ready"};
    static const char *const shut[] = {"GET /", "GET /v1/models", "GET /stats", "GET /metrics"};
    static const char none[] = "Host: localhost\r\n";
    fixture f = fixture_open((fxi_server_options){.api_key = "sk-1"});
    for (size_t i = 0; i < sizeof shut / sizeof shut[0]; i++) {
        expect(ask(&f, shut[i], none, NULL), 401, "WWW-Authenticate: Bearer", "invalid_api_key");
        expect(ask(&f, shut[i], AS("sk-2"), NULL), 401, NULL, "invalid_api_key");
        expect(ask(&f, shut[i], AS("sk-1"), NULL), 200, NULL, NULL);
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        expect(ask(&f, open[i], none, NULL), 200, NULL, NULL);
    expect(ask(&f, TEXT, none, SAY), 401, NULL, "\"type\":\"authentication_error\"");
    expect(ask(&f, TEXT, AS("sk-11"), SAY), 401, NULL, "invalid_api_key");
    expect(ask(&f, TEXT, AS("sk-"), SAY), 401, NULL, "invalid_api_key");
    expect(ask(&f, TEXT, AS(""), SAY), 401, NULL, "invalid_api_key");
    assert_int_equal(submitted(&f), 0);
    expect(ask(&f, TEXT, AS("sk-1"), SAY), 200, NULL, NULL);
    expect(ask(&f, TEXT, "Host: localhost\r\nx-api-key: sk-1\r\n", SAY), 200, NULL, NULL);
    fixture_close(&f);
}

FX_TEST(test_metrics_are_open_by_option)
{
    fixture f = fixture_open((fxi_server_options){.api_key = "sk-1", .open_metrics = true});
    expect(ask(&f, "GET /metrics", "Host: localhost\r\n", NULL), 200, NULL, "flexinfer_");
    expect(ask(&f, "GET /stats", "Host: localhost\r\n", NULL), 401, NULL, NULL);
    fixture_close(&f);
}

FX_TEST(test_keys_are_replaced_while_the_server_runs)
{
    fx_error err;
    const char *file = write_key_file("ann sk-old\n");
    fixture f = fixture_open((fxi_server_options){.key_file = file});
    const int kept = http_open(f.port); // a connection of before has no rights of its own
    expect(ask_on(kept, TEXT, AS("sk-old"), SAY), 200, NULL, NULL);
    write_key_file("ann sk-new\nbob sk-bob\n");
    assert_int_equal(fxi_server_reload_keys(f.srv, &err), FX_OK);
    assert_int_equal(fxi_server_count_keys(f.srv, NULL), 2);
    expect(ask_on(kept, TEXT, AS("sk-old"), SAY), 401, NULL, NULL);
    expect(ask_on(kept, TEXT, AS("sk-new"), SAY), 200, NULL, NULL);
    write_key_file("ann\n");
    assert_int_equal(fxi_server_reload_keys(f.srv, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, ", line 1: a key must follow the name"));
    expect(ask_on(kept, TEXT, AS("sk-new"), SAY), 200, NULL, NULL);
    close(kept);
    fixture_close(&f);
    unlink(file);
}

// ---- what is known of others -------------------------------------------------------------------

// The cache domain of the request that these headers and this salt give.
static const char *domain_of(const fixture *f, int fd, const char *headers, const char *salt,
                             char text[64])
{
    char body[96];
    snprintf(body, sizeof body, "{\"prompt\":\"say a\"%s%s%s}", salt ? ",\"cache_salt\":\"" : "",
             salt ? salt : "", salt ? "\"" : "");
    expect(ask_on(fd, TEXT, headers, body), 200, NULL, NULL);
    snprintf(text, 64, "%s", fake_engine_last(f->eng)->req.tenant);
    return text;
}

FX_TEST(test_each_tenant_has_a_cache_of_its_own)
{
    char ann[64], bob[64], ann_2[64], salted[64];
    const char *file = write_key_file("ann sk-ann\nbob sk-bob\nann sk-ann-2\n");
    fixture f = fixture_open((fxi_server_options){.key_file = file});
    const int fd = http_open(f.port);
    domain_of(&f, fd, AS("sk-ann"), NULL, ann);
    domain_of(&f, fd, AS("sk-bob"), NULL, bob);
    domain_of(&f, fd, AS("sk-ann-2"), NULL, ann_2);
    domain_of(&f, fd, AS("sk-bob"), "ann", salted);
    assert_string_not_equal(ann, bob);
    assert_string_equal(ann, ann_2);
    assert_string_not_equal(salted, ann);
    assert_string_not_equal(salted, bob);
    close(fd);
    fixture_close(&f);
    unlink(file);
}

FX_TEST(test_without_keys_caches_are_shared_as_the_option_says)
{
    static const struct {
        fxi_isolation by;
        bool shared_by_two;
        const char *scope;
    } rows[] = {
        {FXI_ISOLATE_ADDRESS, true, "anonymous/127.0.0.1/"},
        {FXI_ISOLATE_CONNECTION, false, NULL},
        {FXI_ISOLATE_NONE, true, "anonymous//"},
    };
    char a[64], again[64], b[64];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f = fixture_open((fxi_server_options){.isolate = rows[i].by});
        const int one = http_open(f.port), two = http_open(f.port);
        domain_of(&f, one, "Host: localhost\r\n", NULL, a);
        domain_of(&f, two, "Host: localhost\r\n", NULL, b);
        domain_of(&f, one, "Host: localhost\r\n", NULL, again);
        assert_string_equal(a, again);
        assert_int_equal(!strcmp(a, b), rows[i].shared_by_two);
        if (rows[i].scope) assert_string_equal(a, rows[i].scope);
        close(one), close(two);
        fixture_close(&f);
    }
}

// ---- priorities -------------------------------------------------------------------------------

// Lower ones go first, as in other servers.
#define PRIORITY(n) "{\"prompt\":\"say a\",\"priority\":" n "}"

FX_TEST(test_a_priority_is_within_what_the_key_may)
{
    const char *file = write_key_file("low sk-low\nhigh sk-high priority=5\n");
    fixture f = fixture_open((fxi_server_options){.key_file = file});
    expect(ask(&f, TEXT, AS("sk-low"), PRIORITY("-1")), 403, NULL, "priority_not_allowed");
    expect(ask(&f, TEXT, AS("sk-high"), PRIORITY("-6")), 403, NULL, "\"param\":\"priority\"");
    assert_int_equal(submitted(&f), 0);
    expect(ask(&f, TEXT, AS("sk-low"), PRIORITY("0")), 200, NULL, NULL);
    expect(ask(&f, TEXT, AS("sk-low"), PRIORITY("100")), 200, NULL, NULL);
    expect(ask(&f, TEXT, AS("sk-high"), PRIORITY("-5")), 200, NULL, NULL);
    assert_int_equal(fake_engine_last(f.eng)->req.priority, 5);
    fixture_close(&f);
    unlink(file);
}

FX_TEST(test_without_keys_a_priority_is_raised_by_option_only)
{
    for (int allow = 0; allow < 2; allow++) {
        fixture f = fixture_open((fxi_server_options){.allow_priority = allow});
        expect(ask(&f, TEXT, "Host: localhost\r\n", PRIORITY("-1")), allow ? 200 : 403, NULL, NULL);
        expect(ask(&f, TEXT, "Host: localhost\r\n", PRIORITY("1")), 200, NULL, NULL);
        fixture_close(&f);
    }
}

// What stays longer in the cache goes by the same right; an admin's endpoint needs none.
#define KEEP(n) "{\"prompt\":\"say a\",\"keep_priority\":" n "}"

FX_TEST(test_a_prompt_is_kept_within_what_the_key_may)
{
    const char *file = write_key_file("low sk-low\nhigh sk-high priority=5\nops sk-ops admin\n");
    fixture f = fixture_open((fxi_server_options){.key_file = file});
    expect(ask(&f, TEXT, AS("sk-low"), KEEP("1")), 403, NULL, "\"param\":\"keep_priority\"");
    expect(ask(&f, TEXT, AS("sk-high"), KEEP("6")), 403, NULL, "priority_not_allowed");
    expect(ask(&f, TEXT, AS("sk-ops"), KEEP("1")), 403, NULL, "priority_not_allowed");
    assert_int_equal(submitted(&f), 0);
    expect(ask(&f, TEXT, AS("sk-low"), KEEP("0")), 200, NULL, NULL);
    expect(ask(&f, TEXT, AS("sk-high"), KEEP("5")), 200, NULL, NULL);
    assert_int_equal(fake_engine_last(f.eng)->req.keep_priority, 5);
    expect(ask(&f, "/admin/cache/retain", AS("sk-ops"), KEEP("7")), 200, NULL, NULL);
    fixture_close(&f);
    unlink(file);
    f = fixture_open((fxi_server_options){.allow_priority = true});
    expect(ask(&f, TEXT, "Host: localhost\r\n", KEEP("7")), 200, NULL, NULL);
    fixture_close(&f);
}

FX_RUN(test_server_admission)
