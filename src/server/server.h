// server.h - the HTTP server over one engine: OpenAI's completions and chat, streamed and whole.
//
//     fxi_server_options opt = {.port = 8080};      // zero selects a default
//     fxi_server *srv;
//     if (fxi_server_start(eng, &opt, &srv, &err) != FX_OK) ...
//     printf("listening on http://127.0.0.1:%d\n", fxi_server_port(srv));
//     ... wait for a signal ...
//     fxi_server_stop(srv);
//     fx_engine_close(eng);                         // the engine outlives the server
#ifndef FXI_SERVER_H
#define FXI_SERVER_H

#include "flexinfer/flexinfer.h" // defines: fx_engine, fx_status, fx_error

typedef struct fxi_server fxi_server;

typedef struct fxi_server_options {
    const char *host;         // an IPv4 or IPv6 address, or "localhost"; NULL: "127.0.0.1"
    int port;                 // 0: any free one, see fxi_server_port
    const char *model_id;     // the name that clients use; NULL or "": the model's own name
    const char *const *alias; // [n_alias] further names; they must live until fxi_server_stop
    size_t n_alias;
    int n_io_thread;        // threads that read and write; 0: 2
    int n_worker;           // threads that parse, render and tokenize; 0: 2
    int max_conn;           // open connections; 0: 1000, less if the limit of open files is low
    size_t max_body_bytes;  // larger bodies get 413; 0: 8 MiB
    size_t max_queue_bytes; // of all that waits or is held for requests; beyond it they get 503;
                            // 0: an eighth of the free memory, 64 MiB to 1 GiB
    size_t max_out_bytes;   // unsent text of a stream beyond which its reader is cut off; 0: 4 MiB
    int idle_timeout_s;     // a connection without traffic is closed after this time; 0: 60
    double ping_s;          // a silent stream gets a comment line after this time; 0: 15
    double grace_s;         // how long fxi_server_stop waits for clients to take replies; 0: 1
    bool log_json;          // lines are JSON objects
    int log_level;          // an fxi_level (log_line.h): what is below it is not written
    bool log_prompts;       // the bodies of requests are written, too, up to 16 KiB of each
    // Gets one line, without a newline, per finished request; text of prompts only with
    // log_prompts, never text of answers. May be NULL. Called on the server's threads, one at a
    // time; must not call back into the server.
    void (*log)(void *ud, const char *line);
    void *log_ud;
} fxi_server_options;

// Checks what can be checked of *opt without an engine: limits, address. Errors: those of
// fxi_server_start.
fx_status fxi_server_check(const fxi_server_options *opt, fx_error *err);

// Binds, listens and starts the threads. `eng` must live until fxi_server_stop has returned. Copies
// *opt. Errors: FX_EINVAL (host, port or a limit), FX_EIO ("cannot listen on 127.0.0.1:8080:
// Address already in use"), FX_ENOMEM, FX_EINTERNAL. On error *out is NULL.
fx_status fxi_server_start(fx_engine *eng, const fxi_server_options *opt, fxi_server **out,
                           fx_error *err);

// The port that the server listens on.
int fxi_server_port(const fxi_server *srv);

// Stops accepting, cancels running requests, ends open streams with an error event, waits at most
// grace_s for clients to take it, closes and frees everything. Call it from any thread but a
// callback's. srv may be NULL.
void fxi_server_stop(fxi_server *srv);

#endif
