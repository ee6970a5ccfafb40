// server.c - starting and stopping the server.
//
// The order of a stop bounds the time it takes:
//   1. closing: from now on no job is listed (fxi_jobs_add), and no connection is accepted;
//   2. every listed job ends with an error, and its requests in the engine are cancelled;
//   3. clients get grace_s to take what is left;
//   4. the I/O thread closes all connections, each of which drops its job; the collector of spans
//      gets grace_s for the last ones; then the workers end, which find their jobs ended;
//   5. the engine drops its last references by itself.
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"       // defines: fxi_fail, FX_TRY
#include "base/keyed/hash.h" // defines: fxi_secret_make
#include "base/net/http_client.h"
#include "base/system/clock.h" // defines: fxi_clock_after
#include "base/text/str.h"     // defines: fxi_str_hash
#include "flexinfer/snapshot.h"
#include "server/http/http.h"
#include "server/log/log.h" // defines: fxi_level

#define MAX_CHOICE    1024
#define GRAMMAR_SHARE 4   // grammars may hold a quarter of the quota
#define OWN_FILES     112 // open files that are not connections in their places

// ---- options ----------------------------------------------------------------------------------

static void fill_in_defaults(fxi_server_options *o)
{
    struct rlimit r;
    int max_conn = 1000;
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < 1000 + OWN_FILES)
        max_conn = r.rlim_cur > 2 * OWN_FILES ? (int)r.rlim_cur - OWN_FILES : (int)r.rlim_cur / 2;
    if (!o->host) o->host = "127.0.0.1";
    if (!o->socket_mode) o->socket_mode = 0600;
    if (!o->n_worker) o->n_worker = 2;
    if (!o->max_queue_bytes) o->max_queue_bytes = fxi_quota_default_bytes("");
    if (!o->max_conn) o->max_conn = max_conn;
    if (!o->max_body_bytes) o->max_body_bytes = 8u << 20;
    if (!o->max_out_bytes) o->max_out_bytes = 4u << 20;
    if (!o->max_logprobs) o->max_logprobs = FX_MAX_TOP;
    if (!o->idle_timeout_s) o->idle_timeout_s = 60;
    if (o->header_timeout_s == 0) o->header_timeout_s = 10;
    if (o->body_timeout_s == 0) o->body_timeout_s = 60;
    if (o->read_timeout_s == 0) o->read_timeout_s = 120;
    if (o->ping_s == 0) o->ping_s = 15;
    if (o->grace_s == 0) o->grace_s = 1;
}

// Cuts the names apart. Empty ones are skipped.
static fx_status take_aliases(fxi_server *srv, fx_error *err)
{
    const char *all = srv->opt.alias ? srv->opt.alias : "";
    char *rest = srv->alias_text;
    if (strlen(all) >= sizeof srv->alias_text)
        return fxi_fail(err, FX_EINVAL, "the model's names have more than %zu characters",
                        sizeof srv->alias_text - 1);
    snprintf(rest, sizeof srv->alias_text, "%s", all);
    for (char *name = strtok_r(rest, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (srv->n_alias == FXI_MAX_ALIAS)
            return fxi_fail(err, FX_EINVAL, "the model has more than %d further names",
                            FXI_MAX_ALIAS);
        srv->alias[srv->n_alias++] = name;
    }
    return FX_OK;
}

static fx_status take_options(fxi_server *srv, const fxi_server_options *opt, fx_error *err)
{
    fxi_server_options *o = &srv->opt;
    fxi_places *ps = &srv->loop.places;
    *o = *opt;
    if (o->port < 0 || o->port > 65535)
        return fxi_fail(err, FX_EINVAL, "port %d is not between 0 and 65535", o->port);
    if (o->max_logprobs < 0 || o->max_logprobs > FX_MAX_TOP)
        return fxi_fail(err, FX_EINVAL, "max_logprobs: %d is not from 0 to %d", o->max_logprobs,
                        FX_MAX_TOP);
    FX_TRY(fxi_formats_check(o->tool_parser, o->reasoning_parser, err));
    if (o->n_worker < 0 || o->max_conn < 0 || o->max_per_address < 0 || o->idle_timeout_s < 0 ||
        o->header_timeout_s < 0 || o->body_timeout_s < 0 || o->read_timeout_s < 0 ||
        o->ping_s < 0 || o->grace_s < 0)
        return fxi_fail(err, FX_EINVAL, "a limit of the server is negative");
    fill_in_defaults(o);
    if (strlen(o->host) >= sizeof srv->host)
        return fxi_fail(err, FX_EINVAL, "'%s' is longer than an address", o->host);
    snprintf(srv->host, sizeof srv->host, "%s", o->host);
    o->host = srv->host;
    srv->origins = (fxi_origins){
        .listen_host = srv->host, .hosts = o->hosts, .cors = o->cors, .tls = o->tls_cert};
    // An address has at most half of the places, unless it is this machine or the option says so.
    ps->max_conn = o->max_conn;
    ps->max_per_address = o->max_per_address ? o->max_per_address : (o->max_conn + 1) / 2;
    ps->spare_loopback = !o->max_per_address;
    ps->addresses.secret = fxi_secret_make();
    ps->deadline_s[FXI_PHASE_FRESH] = ps->deadline_s[FXI_PHASE_HEAD] = o->header_timeout_s;
    ps->deadline_s[FXI_PHASE_BODY] = o->body_timeout_s;
    ps->deadline_s[FXI_PHASE_IDLE] = o->idle_timeout_s;
    return take_aliases(srv, err);
}

// What can be done without an engine, a port and threads.
static fx_status prepare_server(fxi_server *srv, const fxi_server_options *opt, fx_error *err)
{
    FX_TRY(take_options(srv, opt, err));
    FX_TRY(fxi_listen_check(srv->host, err));
    FX_TRY(fxi_keyring_open(opt->key_file, opt->api_key, &srv->keys, err));
    FX_TRY(fxi_identity_open(opt->tls_cert, opt->tls_key, &srv->loop.identity, err));
    return opt->otlp_endpoint ? fxi_http_url_check(opt->otlp_endpoint, err) : FX_OK;
}

fx_status fxi_server_check(const fxi_server_options *opt, fx_error *err)
{
    fxi_server *srv = calloc(1, sizeof *srv);
    if (!srv) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const fx_status st = prepare_server(srv, opt, err);
    fxi_identity_close(srv->loop.identity);
    fxi_keyring_close(srv->keys);
    free(srv);
    return st;
}

// ---- start ------------------------------------------------------------------------------------

static void say_of_spans(void *ud, bool fails, const char *line)
{
    fxi_log_event(ud, fails ? FXI_LEVEL_WARN : FXI_LEVEL_INFO, "spans", line);
}

static fx_status start_server(fxi_server *srv, const fxi_server_options *opt, fx_error *err)
{
    const char *route[FXI_MAX_ROUTE];
    FX_TRY(prepare_server(srv, opt, err));
    srv->quota = fxi_quota_new(srv->opt.max_queue_bytes);
    srv->metrics = fxi_metrics_new(route, fxi_route_paths(route, FXI_MAX_ROUTE));
    if (!srv->quota || !srv->metrics) return fxi_fail(err, FX_ENOMEM, "out of memory");
    FX_TRY(fxi_listen_open(srv->host, srv->opt.port, srv->opt.socket_mode, &srv->listener, err));
    srv->loop.listen_fd = srv->listener.fd;
    const fxi_spans_options spans = {.endpoint = opt->otlp_endpoint,
                                     .ca_file = opt->otlp_ca_file,
                                     .service_name = opt->service_name,
                                     .resource = opt->otlp_resource,
                                     .headers = opt->otlp_headers,
                                     .say = say_of_spans,
                                     .ud = srv};
    if (spans.endpoint) FX_TRY(fxi_spans_start(&spans, &srv->spans, err));
    FX_TRY(fxi_workers_start(srv->opt.n_worker, &srv->workers, err));
    return fxi_loop_start(srv, err);
}

// Jobs that are still listed leave while the loop stops.
static void free_server(fxi_server *srv)
{
    fxi_loop_stop(&srv->loop);
    fxi_spans_stop(srv->spans, srv->opt.grace_s);
    if (srv->eng) fx_engine_on_step(srv->eng, NULL, NULL);
    if (srv->eng) fx_engine_on_snapshot(srv->eng, NULL, NULL);
    fxi_workers_stop(srv->workers);
    fxi_loop_free(&srv->loop);
    fxi_listen_close(&srv->listener, srv->host);
    pthread_cond_destroy(&srv->empty);
    pthread_mutex_destroy(&srv->mu);
    pthread_mutex_destroy(&srv->publisher.mu);
    pthread_mutex_destroy(&srv->log_mu);
    fxi_keyring_close(srv->keys);
    fxi_metrics_unref(srv->metrics);
    fxi_quota_unref(srv->quota);
    free(srv);
}

fx_status fxi_server_open(const fxi_server_options *opt, fxi_server **out, fx_error *err)
{
    fxi_server *srv = calloc(1, sizeof *srv);
    *out = NULL;
    if (!srv) return fxi_fail(err, FX_ENOMEM, "out of memory");
    srv->created = time(NULL);
    srv->listener.fd = -1;
    fxi_loop_init(&srv->loop);
    pthread_mutex_init(&srv->mu, NULL);
    pthread_mutex_init(&srv->publisher.mu, NULL);
    pthread_mutex_init(&srv->log_mu, NULL);
    fxi_cond_init(&srv->empty);
    const fx_status st = start_server(srv, opt, err);
    if (st == FX_OK)
        *out = srv;
    else
        free_server(srv);
    return st;
}

// What its makers call the model is one more name, unless it is one already.
static void add_title(fxi_server *srv, const fx_model_info *m)
{
    bool is_new = m->title[0] && strcmp(m->title, srv->model_id) != 0;
    for (size_t i = 0; is_new && i < srv->n_alias; i++)
        is_new = strcmp(m->title, srv->alias[i]) != 0;
    if (is_new) srv->alias[srv->n_alias++] = m->title;
}

// What a step of the engine has brought to all streams leaves together.
static void send_after_step(void *ud)
{
    fxi_server *srv = ud;
    fxi_loop_wake(&srv->loop);
}

void fxi_server_serve(fxi_server *srv, fx_engine *eng)
{
    const fx_model_info *m = fx_engine_info(eng);
    const char *id = srv->opt.model_id;
    char text[512]; // what decides an answer: the program, the weights, the kernels
    snprintf(srv->model_id, sizeof srv->model_id, "%s", id && *id ? id : m->name);
    srv->opt.model_id = srv->model_id;
    add_title(srv, m);
    fx_sampling_preset(m, srv->opt.presets, &srv->preset);
    snprintf(text, sizeof text, "%s|%s|%s|%s|%llu|%llu|%s", fx_version(), m->title, m->arch,
             m->type, (unsigned long long)m->n_param, (unsigned long long)m->file_bytes,
             m->kernel_path);
    snprintf(srv->fingerprint, sizeof srv->fingerprint, "fp_%012llx",
             (unsigned long long)(fxi_str_hash(fxi_str_of(text)) & 0xffffffffffffu));
    const char *parser = srv->opt.tool_parser;
    fxi_formats_choose(&srv->formats, eng, srv->opt.tool_parser, srv->opt.reasoning_parser);
    srv->lim = (fxi_limits){.model_id = srv->model_id,
                            .alias = srv->alias,
                            .n_alias = srv->n_alias,
                            .n_vocab = m->n_vocab,
                            .max_choice = MAX_CHOICE,
                            .n_embd = m->n_embd,
                            .scores = m->scores,
                            .max_top = srv->opt.max_logprobs,
                            .cut_first = srv->opt.cut_first,
                            .processed_logprobs = srv->opt.processed_logprobs,
                            .formats = &srv->formats,
                            .infill = fxi_infill_find(eng),
                            .preset = &srv->preset,
                            .refuse_excess = srv->opt.refuse_excess,
                            .marked_calls_only =
                                srv->opt.marked_calls_only || (parser && !strcmp(parser, "none"))};
    fx_engine_on_step(eng, send_after_step, srv);
    fx_engine_on_snapshot(eng, fxi_kv_stream_on_snapshot, srv);
    fxi_spans_watch(srv->spans, eng);
    fx_set_grammar_memory(eng, srv->opt.max_queue_bytes / GRAMMAR_SHARE);
    srv->eng = eng; // publishes the rest
}

int fxi_server_port(const fxi_server *srv)
{
    return srv->listener.port;
}

fx_status fxi_server_reload_keys(fxi_server *srv, fx_error *err)
{
    return fxi_keyring_reload(srv->keys, err);
}

int fxi_server_count_keys(fxi_server *srv, bool *is_exposed)
{
    const fxi_keyring_facts f = fxi_keyring_look(srv->keys);
    if (is_exposed) *is_exposed = f.is_exposed;
    return f.n_key;
}

// ---- stop -------------------------------------------------------------------------------------

static void wait_for_jobs_locked(fxi_server *srv, double s)
{
    const struct timespec deadline = fxi_clock_after(s);
    int late = 0;
    while (srv->jobs && !late) late = pthread_cond_timedwait(&srv->empty, &srv->mu, &deadline);
}

bool fxi_server_drain(fxi_server *srv, double timeout_s)
{
    srv->draining = true;
    pthread_mutex_lock(&srv->mu);
    fxi_jobs_end_locked(srv, true);
    wait_for_jobs_locked(srv, timeout_s);
    const bool done = !srv->jobs;
    pthread_mutex_unlock(&srv->mu);
    return done;
}

void fxi_server_stop(fxi_server *srv)
{
    if (!srv) return;
    srv->draining = true;
    pthread_mutex_lock(&srv->mu);
    srv->closing = true;
    fxi_jobs_end_locked(srv, false);
    pthread_mutex_unlock(&srv->mu);
    fxi_loop_quiesce(&srv->loop);
    pthread_mutex_lock(&srv->mu);
    wait_for_jobs_locked(srv, srv->opt.grace_s);
    pthread_mutex_unlock(&srv->mu);
    free_server(srv);
}
