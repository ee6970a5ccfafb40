// test_server_life.c - before the model is loaded, while the server drains, and under TLS.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <pthread.h>

#include "base/net/http_client.h"
#include "base/system/clock.h"
#include "server/log/log.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

#define SAY "{\"prompt\":\"say a\"}"

// ---- loading ----------------------------------------------------------------------------------

FX_TEST(test_while_the_model_loads_probes_say_so)
{
    static const char *const get[] = {"/health", "/ready", "/v1/models", "/stats", "/metrics"};
    fixture f = {.eng = fake_engine_new()};
    fx_error err;
    const fxi_server_options opt = {.model_id = "m"};
    assert_int_equal(fxi_server_open(&opt, &f.srv, &err), FX_OK);
    f.port = fxi_server_port(f.srv);
    const int kept = http_open(f.port);
    for (size_t i = 0; i < sizeof get / sizeof get[0]; i++)
        expect_reply(http_call(f.port, "GET", get[i], NULL), 503, "\"code\":\"loading\"");
    expect_reply(http_call(f.port, "GET", "/version", NULL), 200, "version");
    expect_reply(http_call(f.port, "GET", "/", NULL), 200, "no model yet");
    http_post(kept, TEXT, SAY);
    http_reply r = http_read(kept);
    assert_non_null(strstr(r.head.p, "Retry-After:"));
    expect_reply(r, 503, "\"code\":\"loading\"");
    fxi_server_serve(f.srv, f.eng);
    for (size_t i = 0; i < sizeof get / sizeof get[0]; i++)
        expect_reply(http_call(f.port, "GET", get[i], NULL), 200, NULL);
    http_post(kept, TEXT, SAY); // on the connection of before
    expect_reply(http_read(kept), 200, "\"text\":\"a\"");
    close(kept);
    fixture_close(&f);
}

static void count_line(void *ud, const char *line)
{
    (void)line;
    atomic_fetch_add((atomic_int *)ud, 1);
}

// Who polls until the model is there asks for no attention; who sends a request does.
FX_TEST(test_probes_of_a_loading_server_are_no_errors)
{
    fixture f = {.eng = fake_engine_new()};
    fx_error err;
    atomic_int n_line = 0;
    const fxi_server_options opt = {
        .model_id = "m", .log = count_line, .log_ud = &n_line, .log_level = FXI_LEVEL_INFO};
    assert_int_equal(fxi_server_open(&opt, &f.srv, &err), FX_OK);
    f.port = fxi_server_port(f.srv);
    expect_reply(http_call(f.port, "GET", "/health", NULL), 503, "loading");
    expect_reply(http_call(f.port, "GET", "/ready", NULL), 503, "loading");
    expect_reply(http_call(f.port, "GET", "/metrics", NULL), 503, "loading");
    expect_reply(http_call(f.port, "POST", TEXT, SAY), 503, "loading");
    fxi_server_serve(f.srv, f.eng);
    fixture_close(&f); // all lines have been written
    assert_int_equal(atomic_load(&n_line), 1);
}

FX_TEST(test_a_server_may_end_before_it_has_a_model)
{
    fxi_server *srv;
    fx_error err;
    assert_int_equal(fxi_server_open(&(fxi_server_options){0}, &srv, &err), FX_OK);
    const int half = http_open(fxi_server_port(srv));
    http_send(half, "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\n");
    expect_reply(http_call(fxi_server_port(srv), "GET", "/health", NULL), 503, "loading");
    fxi_server_stop(srv);
    close(half);
}

// ---- a file's socket --------------------------------------------------------------------------

static int connect_file(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static void expect_file_serves(const char *path)
{
    const int fd = connect_file(path);
    assert_true(fd >= 0);
    http_send(fd, "GET /health HTTP/1.1\r\nHost: any.name\r\n\r\n");
    expect_reply(http_read(fd), 200, "ok");
    http_post(fd, TEXT, SAY);
    expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    close(fd);
}

static void expect_mode(const char *path, mode_t mode)
{
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISSOCK(s.st_mode));
    assert_int_equal(s.st_mode & 0777, mode);
}

// Its own user alone may connect; what was left behind is replaced, a server that listens is not;
// the file goes with the server.
FX_TEST(test_a_server_listens_on_a_file)
{
    char top[] = "/tmp/flexinfer_file_XXXXXX", path[64], host[80];
    fx_error err;
    fxi_server *second;
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "%s/socket", top);
    snprintf(host, sizeof host, "unix:%s", path);
    fixture f = fixture_open((fxi_server_options){.host = host});
    assert_int_equal(fxi_server_port(f.srv), 0);
    expect_mode(path, 0600);
    expect_file_serves(path);
    char tenant[32]; // a user stands for the address
    snprintf(tenant, sizeof tenant, "uid:%u", (unsigned)getuid());
    assert_non_null(strstr(fake_engine_last(f.eng)->tenant, tenant));
    assert_int_equal(fxi_server_open(&(fxi_server_options){.host = host}, &second, &err), FX_EIO);
    assert_non_null(strstr(err.text, "Address already in use"));
    expect_file_serves(path);
    fixture_close(&f);
    assert_int_equal(access(path, F_OK), -1);
    const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(bind(left, (struct sockaddr *)&a, sizeof a), 0);
    close(left); // the file stays
    f = fixture_open((fxi_server_options){.host = host, .socket_mode = 0660});
    expect_mode(path, 0660);
    expect_file_serves(path);
    assert_int_equal(unlink(path), 0); // another file in its place is not the server's
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    fixture_close(&f);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(fxi_server_open(&(fxi_server_options){.host = host}, &second, &err), FX_EIO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(top), 0);
}

FX_TEST(test_a_path_that_is_no_socket_is_refused)
{
    fx_error err;
    char host[200] = "unix:";
    assert_int_equal(fxi_server_check(&(fxi_server_options){.host = host}, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "the path of a socket has 1 to 107 bytes"));
    memset(host + 5, 'a', 108);
    assert_int_equal(fxi_server_check(&(fxi_server_options){.host = host}, &err), FX_EINVAL);
    memset(host + 5, 'a', 150);
    assert_int_equal(fxi_server_check(&(fxi_server_options){.host = host}, &err), FX_EINVAL);
}

// ---- draining ---------------------------------------------------------------------------------

typedef struct drain {
    pthread_t thread;
    fxi_server *srv;
    double timeout_s;
    bool all_ended;
} drain;

static void *run_drain(void *ud)
{
    drain *d = ud;
    d->all_ended = fxi_server_drain(d->srv, d->timeout_s);
    return NULL;
}

// Running answers end as they would have; what comes meanwhile is refused, and probes tell.
FX_TEST(test_a_drain_lets_answers_end)
{
    fixture f = fixture_open((fxi_server_options){0});
    const int whole = http_open(f.port), stream = http_open(f.port), kept = http_open(f.port);
    http_post(whole, TEXT, "{\"prompt\":\"gate 2\"}");
    http_post(stream, TEXT, "{\"prompt\":\"gate 2\",\"stream\":true}");
    wait_running(&f, 2);
    drain d = {.srv = f.srv, .timeout_s = WAIT_S};
    pthread_create(&d.thread, NULL, run_drain, &d);
    WAIT_UNTIL(status_of(&f, "/ready") == 503);
    expect_reply(http_call(f.port, "GET", "/health", NULL), 200, "draining");
    expect_reply(http_call(f.port, "POST", TEXT, SAY), 503, "\"code\":\"draining\"");
    http_post(kept, TEXT, SAY);
    expect_reply(http_read(kept), 503, "\"code\":\"draining\"");
    expect_reply(http_call(f.port, "GET", "/metrics", NULL), 200, NULL);
    assert_int_equal(fake_engine_counts(f.eng).n_running, 2);
    fake_engine_open(f.eng, 2);
    expect_reply(http_read(whole), 200, "\"text\":\"1 2\"");
    expect_reply(http_read(stream), 200, "data: [DONE]\n\n");
    pthread_join(d.thread, NULL);
    assert_true(d.all_ended);
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 0);
    close(whole), close(stream), close(kept);
    fixture_close(&f);
}

FX_TEST(test_a_drain_has_a_deadline)
{
    fixture f = fixture_open((fxi_server_options){0});
    const int fd = http_begin(f.port, TEXT, "{\"prompt\":\"stuck\"}");
    wait_running(&f, 1);
    assert_false(fxi_server_drain(f.srv, 0.05));
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 0);
    fxi_server_stop(f.srv);
    f.srv = NULL;
    expect_reply(http_read(fd), 503, "draining");
    assert_true(fake_engine_wait_idle(f.eng, WAIT_S));
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_an_idle_server_drains_at_once)
{
    fixture f = fixture_open((fxi_server_options){0});
    const int idle = http_begin(f.port, TEXT, SAY);
    expect_reply(http_read(idle), 200, NULL);
    const double start_s = fxi_now_s();
    assert_true(fxi_server_drain(f.srv, 2 * WAIT_S));
    assert_true(fxi_now_s() - start_s < WAIT_S);
    close(idle);
    fixture_close(&f);
}

// ---- TLS --------------------------------------------------------------------------------------

// Certificates that sign themselves: the server's is for localhost alone.
#define TLS_FILE(name) FX_SOURCE_DIR "/tests/vectors/tls/" name

static const char cert_file[] = TLS_FILE("name-only-cert.pem");
static const char key_file[] = TLS_FILE("name-only-key.pem");
static const char other_file[] = TLS_FILE("localhost-cert.pem");

typedef struct tls_client {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
} tls_client;

// Connects and checks the certificate and its name. Returns the status of the handshake.
static int tls_open(tls_client *c, int port, const char *priorities)
{
    c->fd = http_open(port);
    gnutls_certificate_allocate_credentials(&c->trust);
    gnutls_certificate_set_x509_trust_file(c->trust, cert_file, GNUTLS_X509_FMT_PEM);
    gnutls_init(&c->session, GNUTLS_CLIENT);
    assert_int_equal(gnutls_priority_set_direct(c->session, priorities, NULL), 0);
    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->trust);
    gnutls_session_set_verify_cert(c->session, "localhost", 0);
    gnutls_transport_set_int(c->session, c->fd);
    int st;
    do st = gnutls_handshake(c->session);
    while (st < 0 && !gnutls_error_is_fatal(st));
    return st;
}

static void tls_close(tls_client *c)
{
    close(c->fd);
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->trust);
}

static ssize_t tls_read(tls_client *c, char *dst, size_t n)
{
    ssize_t k;
    do k = gnutls_record_recv(c->session, dst, n);
    while (k == GNUTLS_E_AGAIN || k == GNUTLS_E_INTERRUPTED);
    return k;
}

// Sends a request and reads until `until` has come.
static void tls_ask(tls_client *c, const char *body, const char *until)
{
    char text[8192];
    size_t n = 0;
    const int len =
        snprintf(text, sizeof text, POST_TEXT "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    assert_int_equal(gnutls_record_send(c->session, text, (size_t)len), len);
    text[0] = 0;
    while (!strstr(text, until)) {
        const ssize_t k = tls_read(c, text + n, sizeof text - 1 - n);
        if (k <= 0) fail_msg("no '%s' in: %s", until, text);
        n += (size_t)k;
        text[n] = 0;
    }
}

static fxi_server_options tls_options(void)
{
    return (fxi_server_options){.tls_cert = cert_file, .tls_key = key_file};
}

FX_TEST(test_tls_serves_answers_and_streams)
{
    fixture f = fixture_open(tls_options());
    tls_client c;
    const int st = tls_open(&c, f.port, "NORMAL");
    if (st < 0) fail_msg("%s", gnutls_strerror(st));
    tls_ask(&c, SAY, "\"text\":\"a\"");
    tls_ask(&c, "{\"prompt\":\"say b\",\"stream\":true}", "data: [DONE]\n\n");
    tls_close(&c);
    fixture_close(&f);
}

// ---- our own client (base/net) -----------------------------------------------------------------

static fx_status ask_over_tls(int port, const char *host, const char *ca_file, fxi_http_answer *a,
                              fx_error *err)
{
    char url[128];
    fxi_http_client *c;
    snprintf(url, sizeof url, "https://%s:%d/health", host, port);
    assert_int_equal(fxi_http_client_open(ca_file, -1, &c, err), FX_OK);
    const fxi_http_call call = {.url = url, .timeout_s = WAIT_S, .max_bytes = 1000};
    const fx_status st = fxi_http_client_call(c, &call, a, err);
    fxi_http_client_close(c);
    return st;
}

FX_TEST(test_our_own_client_speaks_tls)
{
    fixture f = fixture_open(tls_options());
    fxi_http_answer a;
    fx_error err;
    if (ask_over_tls(f.port, "localhost", cert_file, &a, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body.p, "ok"));
    fxi_buf_free(&a.body);
    fixture_close(&f);
}

static void expect_refusal(int port, const char *host, const char *ca_file, const char *why)
{
    fxi_http_answer a;
    fx_error err;
    assert_int_equal(ask_over_tls(port, host, ca_file, &a, &err), FX_EIO);
    if (!strstr(err.text, why)) fail_msg("%s", err.text);
    assert_null(strchr(err.text, '\n'));
}

// Another name than the certificate's, another authority, no TLS at all, and a file without one.
FX_TEST(test_our_own_client_trusts_only_its_authorities)
{
    fixture f = fixture_open(tls_options()), plain = fixture_open((fxi_server_options){0});
    expect_refusal(f.port, "127.0.0.1", cert_file, "is not trusted: ");
    expect_refusal(f.port, "localhost", other_file, "is not trusted: ");
    expect_refusal(plain.port, "localhost", cert_file, "");
    expect_refusal(f.port, "localhost", key_file, "");
    fixture_close(&f);
    fixture_close(&plain);
}

// A client that leaves is seen through TLS, too, while its connection is suspended.
FX_TEST(test_a_hang_up_is_seen_through_tls)
{
    fixture f = fixture_open(tls_options());
    tls_client c;
    assert_true(tls_open(&c, f.port, "NORMAL") >= 0);
    static const char head[] = POST_TEXT "Content-Length: 18\r\n\r\n"
                                         "{\"prompt\":\"stuck\"}";
    assert_int_equal(gnutls_record_send(c.session, head, sizeof head - 1), sizeof head - 1);
    wait_running(&f, 1);
    tls_close(&c);
    wait_running(&f, 0);
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 1);
    fixture_close(&f);
}

FX_TEST(test_old_versions_of_tls_and_plain_text_are_refused)
{
    fixture f = fixture_open(tls_options());
    tls_client c;
    assert_true(tls_open(&c, f.port, "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0") < 0);
    tls_close(&c);
    http_reply r = http_call(f.port, "GET", "/health", NULL);
    assert_int_equal(r.status, 0);
    http_reply_free(&r);
    assert_true(tls_open(&c, f.port, "NORMAL:-VERS-ALL:+VERS-TLS1.2") >= 0);
    tls_ask(&c, SAY, "\"text\":\"a\"");
    tls_close(&c);
    fixture_close(&f);
}

// A client that connects and never shakes hands holds a place no longer than any other.
FX_TEST(test_a_handshake_has_a_deadline)
{
    fxi_server_options opt = tls_options();
    opt.header_timeout_s = 0.1;
    fixture f = fixture_open(opt);
    const int fd = http_open(f.port);
    char byte;
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_files_that_are_no_certificate_are_refused)
{
    const struct {
        const char *cert, *key;
        fx_status st;
        const char *text;
    } rows[] = {
        {cert_file, NULL, FX_EINVAL, "TLS needs both a certificate and its key"},
        {NULL, key_file, FX_EINVAL, "TLS needs both a certificate and its key"},
        {"/nonexistent/c", key_file, FX_EIO, "/nonexistent/c: No such file or directory"},
        {"/dev/null", key_file, FX_EINVAL, "/dev/null: it holds nothing in PEM format"},
        {key_file, key_file, FX_EINVAL, "TLS cannot be used with"},
        {"/dev/zero", key_file, FX_EINVAL, "/dev/zero: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const fxi_server_options opt = {.tls_cert = rows[i].cert, .tls_key = rows[i].key};
        fxi_server *srv;
        fx_error err;
        const fx_status st = fxi_server_open(&opt, &srv, &err);
        if (st != rows[i].st || !strstr(err.text, rows[i].text))
            fail_msg("row %zu: %d %s", i, st, st == FX_OK ? "" : err.text);
        assert_null(srv);
    }
}

FX_RUN(test_server_life)
