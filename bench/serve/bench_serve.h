// bench_serve.h - shared by the parts of bench_serve: options, the two sides that answer requests,
// and passes over them.
//
// One side is a server, reached over sockets; the other is the engine alone, in this process. A
// pass runs the same orders on either side in a closed loop: each of n_stream streams sends its
// next order once the last one is answered. An unexpected failure ends the program with a line on
// stderr and status 1.
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "bench_program.h"
#include "flexinfer/flexinfer.h"

#define BIG_PARAM  300000000ull // larger models are measured with fewer requests
#define MAX_STREAM 128
#define N_LEVEL    4

// How much is measured; bench_serve.c has the values.
typedef struct bench_sizes {
    int n_repeat, max_tok, n_word; // tokens of an answer, words of a prompt
    int n_level, n_each[N_LEVEL];  // levels of load; requests of each stream at a level
    int n_victim, n_abuse;         // requests of the victim in each case; cases
    double idle_s, slice_s;        // slice: of a load with onlookers or without
} bench_sizes;

// The figures that have goals; NaN: not measured.
typedef struct bench_findings {
    double more_time, more_cpu; // of the server, at the worst level, in %
    double idle;                // CPU of the idle server, in %
    double victim;              // worst p99 of a victim among abusers over its own
    double watch; // the most that more time with onlookers may be, at the worst level, in %
} bench_findings;

// The server that is measured.
typedef struct server {
    int pid, port; // pid 0: not ours
    int log_fd;
    pthread_t reader;
    FILE *log;
} server;

typedef struct bench {
    const char *model, *csv_path, *only, *program;
    int n_thread, n_repeat, port; // port 0: a server is started
    int n_stream;                 // of the only level of load; 0: all levels
    bool quick;
    bench_sizes size;
    uint64_t n_param;
    results out;
    bench_findings found;
    fx_engine *eng;      // the engine alone
    server srv;          // the other side
    unsigned next_order; // so that no two prompts begin alike
} bench;

// The parts.
void bench_floor(bench *b);  // server_costs.c
void bench_load(bench *b);   //
void bench_idle(bench *b);   //
void bench_victim(bench *b); // victim.c
void bench_watch(bench *b);  // onlookers.c

// ---- sides.c: requests as both sides need them

typedef struct order {
    fxi_buf prompt, http; // the text; the request with its head
} order;

typedef struct work {
    int n_stream, n_order, max_tok; // stream i sends orders i, i + n_stream, ...
    order *order;                   // [n_order]
} work;

void work_make(work *w, bench *b, int n_stream, int n_each);
void work_free(work *w);

// ---- sides.c: passes

typedef struct pass {
    double wall_ns, cpu_ns; // cpu: of the process that answers; NaN: not known
    double n_forward;       // forward passes of the model
    samples first_ms, gap_ms, whole_ms;
    int n_failed;
    fxi_buf *answer; // [n_order]
} pass;

void pass_init(pass *p, const work *w);
void pass_free(pass *p, const work *w);

void http_pass(bench *b, const work *w, pass *p);   // over sockets
void engine_pass(bench *b, const work *w, pass *p); // on the engine in this process

// ---- sides.c: a load that runs until it is stopped

typedef struct steady {
    bench *b;
    int n_stream;
    struct steady_stream *stream; // [n_stream]
    int epoll_fd, n_request, n_failed;
    atomic_bool stop;
    pthread_t thread;
} steady;

void steady_start(steady *s, bench *b, int n_stream);
void steady_stop(steady *s); // waits for no answer; sets n_request and n_failed

// ---- measured.c: a child that serves, or a server somewhere else

void server_start(server *s, const bench *b);
void server_stop(server *s);
double server_cpu_ns(const server *s);                      // NaN if it is not ours
int server_connect(const server *s);                        // a connected socket; -1: refused
int server_connect_from(const server *s, uint32_t address); // as a client with this address of ours

// ---- measured.c: what the server says about itself

typedef struct metrics {
    char page[256 << 10];
} metrics;

void metrics_ask(const server *s, metrics *m);             // its page /metrics
double metrics_figure(const metrics *m, const char *name); // of the page, without "flexinfer_"

#endif
