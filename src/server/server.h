// server.h - the HTTP server over one engine: OpenAI's completions and chat, streamed and whole.
//
//     fxi_server_options opt = {.port = 8080};      // zero selects a default
//     fxi_server *srv;
//     if (fxi_server_open(&opt, &srv, &err) != FX_OK) ...
//     fxi_server_serve(srv, eng);
//     printf("listening on http://127.0.0.1:%d\n", fxi_server_port(srv));
//     ... wait for a signal ...
//     fxi_server_drain(srv, 30);                    // running answers may end
//     fxi_server_stop(srv);
//     fx_engine_close(eng);                         // the engine outlives the server
#ifndef FXI_SERVER_H
#define FXI_SERVER_H

#include <sys/types.h>

#include "flexinfer/flexinfer.h" // defines: fx_engine, fx_status, fx_error
#include "server/guard/origin.h" // defines: fxi_name_list

typedef struct fxi_server fxi_server;

// Clients without keys that share cached prefixes, and see from cached_tokens and from the time to
// the first token what others have sent: those of one address; of one connection; all.
typedef enum fxi_isolation {
    FXI_ISOLATE_ADDRESS,
    FXI_ISOLATE_CONNECTION,
    FXI_ISOLATE_NONE,
} fxi_isolation;

// Texts and lists must live until fxi_server_stop.
typedef struct fxi_server_options {
    const char *host; // an IPv4 or IPv6 address, "localhost", or "unix:" and the path of a socket,
                      // which is removed at the end; NULL: "127.0.0.1"
    mode_t socket_mode;      // permissions of that socket; 0: 0600
    int port;                // 0: any free one, see fxi_server_port
    const char *model_id;    // the name that clients use; NULL or "": fx_model_info.name. What its
                             // makers call it, fx_model_info.title, is one of its names, too
    const char *alias;       // its further names, separated by commas, at most 16; NULL: none
    int n_worker;            // threads that parse, render and tokenize; 0: 2
    int max_conn;            // open connections; 0: 1000, less if the limit of open files is low
    int max_per_address;     // of them from one address; 0: half, but all from this machine
    size_t max_body_bytes;   // larger bodies get 413; 0: 8 MiB
    size_t max_queue_bytes;  // of all that waits or is held for requests; beyond it they get 503;
                             // 0: an eighth of the free memory, 64 MiB to 1 GiB
    size_t max_out_bytes;    // unsent text of a stream beyond which its reader is cut off; 0: 4 MiB
    int idle_timeout_s;      // a connection without traffic is closed after this time; 0: 60
    double header_timeout_s; // a request's head must be complete by then; 0: 10
    double body_timeout_s;   // and its body so long after the head; 0: 60
    double read_timeout_s;   // minimum read rate: 1 KiB/s of an answer, averaged over this window;
                             // slower clients are cut off; 0: 120
    double ping_s;           // a silent stream gets a comment line after this time; 0: 15
    double grace_s;          // how long fxi_server_stop waits for clients to take replies; 0: 1
    int max_logprobs;        // likeliest tokens that a request may ask for; 0: 20, the most
    bool refuse_excess;      // max_tokens beyond the context is an error; false: it is clamped
    bool cut_first;          // of fx_sampling
    const fx_presets *presets; // of requests that do not say, before the model's own; NULL: none
    bool processed_logprobs;   // of fx_request
    // How the model writes calls of tools and reasoning: the name of a format (output_parser.h),
    // "auto" (NULL): as its chat template says, "none": they stay in the text.
    const char *tool_parser, *reasoning_parser;
    // JSON without the marks of that format is text, even if it names a tool and fits its schema;
    // tool_parser "none" implies it.
    bool marked_calls_only;
    const char *key_file, *api_key; // keys.h; both NULL: no key is needed
    fxi_isolation isolate;
    bool allow_priority;            // requests without a key may raise their priority
    bool open_metrics;              // /metrics needs no key
    fxi_name_list hosts, cors;      // origin.h: more names of the server; pages that may use it
    const char *tls_cert, *tls_key; // PEM files; both NULL: no TLS
    bool log_json;                  // lines are JSON objects
    int log_level;                  // an fxi_level (log.h): what is below it is not written
    bool log_prompts;               // the bodies of requests are written, too, up to 16 KiB of each
    // Where a span of each finished request goes, http[s]://HOST:PORT/v1/traces; NULL: nowhere.
    // Then the name of this service, more attributes, headers of each POST, and whom an https
    // collector must be certified by, as fxi_spans_options has them (exporter.h); NULL: none.
    const char *otlp_endpoint, *service_name, *otlp_resource, *otlp_headers, *otlp_ca_file;
    // Gets one line, without a newline, per finished request; text of prompts only with
    // log_prompts, never text of answers. May be NULL. Called on the server's threads, one at a
    // time; must not call back into the server.
    void (*log)(void *ud, const char *line);
    void *log_ud;
    // Lines that `log` has lost so far, for /metrics. May be NULL.
    uint64_t (*log_dropped)(void *ud);
} fxi_server_options;

// Checks what can be checked of *opt without an engine: limits, address, keys, certificate. Errors:
// those of fxi_server_open.
fx_status fxi_server_check(const fxi_server_options *opt, fx_error *err);

// Binds, listens and starts the threads. Copies *opt. Errors: FX_EINVAL (host, port, a limit, keys,
// a certificate), FX_EIO ("cannot listen on 127.0.0.1:8080: Address already in use"), FX_ENOMEM,
// FX_EINTERNAL. On error *out is NULL.
fx_status fxi_server_open(const fxi_server_options *opt, fxi_server **out, fx_error *err);
// The engine, given once, must live until fxi_server_stop has returned. A model may take long to
// load: until then /health and /ready are answered with 503, everything else is refused with it.
void fxi_server_serve(fxi_server *srv, fx_engine *eng);

// Reads the key file again. After an error the old keys stay.
fx_status fxi_server_reload_keys(fxi_server *srv, fx_error *err);
// How many keys there are; *is_exposed (may be NULL): others than its owner can read or change the
// key file.
int fxi_server_count_keys(fxi_server *srv, bool *is_exposed);

// The port that the server listens on; 0: a socket of a file.
int fxi_server_port(const fxi_server *srv);

// Refuses new work with 503 from now on and waits for the answers that run, at most timeout_s.
// Connections are still accepted, so that probes of /ready learn of it. Returns whether all have
// ended.
bool fxi_server_drain(fxi_server *srv, double timeout_s);

// Stops accepting, cancels running requests, ends open streams with an error event, waits at most
// grace_s for clients to take it, closes and frees everything. Call it from any thread but a
// callback's. srv may be NULL.
void fxi_server_stop(fxi_server *srv);

#endif
