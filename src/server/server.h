// server.h - the HTTP server over one engine: OpenAI's completions and chat, streamed and whole.
//
//     fxi_server_options opt = {.port = 8080};      // zero means the default everywhere else
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
    const char *host;      // an IPv4 or IPv6 address, or "localhost"; NULL: "127.0.0.1"
    int port;              // 0: any free one, see fxi_server_port
    const char *model_id;  // the name clients ask for; NULL or "": the model's own name
    int n_io_thread;       // threads that read, parse, tokenize and write; 0: 2
    int max_conn;          // open connections; 0: 1000, or what the limit of open files leaves
    size_t max_body_bytes; // larger bodies get 413; 0: 8 MiB
    size_t max_out_bytes;  // unsent text of one stream; a reader that lags more is cut; 0: 4 MiB
    int idle_timeout_s;    // a connection that neither sends nor takes a byte is closed; 0: 60
    double ping_s;         // a stream silent for so long gets a comment line; 0: 15
    double grace_s;        // what fxi_server_stop waits for open replies to be taken; 0: 1
    // One line, without a newline, per finished request; never text of prompts or answers. May be
    // NULL. Called on the server's threads, one at a time; must not call back into the server.
    void (*log)(void *ud, const char *line);
    void *log_ud;
} fxi_server_options;

// Binds, listens and starts the threads. `eng` must live until fxi_server_stop has returned; `opt`
// is copied. Errors: FX_EINVAL (host, port or a limit), FX_EIO ("cannot listen on 127.0.0.1:8080:
// Address already in use"), FX_ENOMEM, FX_EINTERNAL. On error *out is NULL.
fx_status fxi_server_start(fx_engine *eng, const fxi_server_options *opt, fxi_server **out,
                           fx_error *err);

// The port that is listened on.
int fxi_server_port(const fxi_server *srv);

// Stops accepting, cancels what runs, ends open streams with an error event, waits at most grace_s
// for clients to take it, closes and frees everything. From any thread but a callback's. NULL is
// allowed.
void fxi_server_stop(fxi_server *srv);

#endif
