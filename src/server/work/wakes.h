// wakes.h - when the streams that have got something to send send it.
//
// To send a token costs SEND_S of CPU, nearly all of it in the kernel and however short the token
// is: in a small model about a tenth of what its computation costs. Several tokens of a stream that
// leave together cost as much as one. So once n streams have sent, the next to send are held until
// n * SEND_S is no more than a share of the time since then, but not for longer than
// FXI_WAKES_HOLD_S. Where steps take longer than that, each token leaves with its step.
//
//   SOON    with the step: first tokens, ends, answers that do not stream
//   HELD    with the first step that ends when the share allows it
//   LATER   the same, but no step may follow: a socket takes no more at the moment
//
// The engine's thread lists them. After each step, those whose turn it is are taken and sent by a
// thread of their own where the engine leaves a core free, otherwise by the engine's thread: a
// thread more would only take the core of one that computes, and others would wait for that one.
// Where no step ends in time, the thread that waits for the alarm takes them: the alarm, an
// eventfd, is written when it has to begin to look, which it does every FXI_WAKES_HOLD_S as long as
// something is held.
#ifndef FXI_SERVER_WAKES_H
#define FXI_SERVER_WAKES_H

#include <pthread.h>
#include <stdbool.h>

#include "flexinfer/error.h"

#define FXI_WAKES_HOLD_S 0.02

typedef enum fxi_wake_when { FXI_WAKE_SOON, FXI_WAKE_HELD, FXI_WAKE_LATER } fxi_wake_when;

typedef struct fxi_wake { // part of what is listed
    struct fxi_wake *next;
    bool is_listed;
} fxi_wake;

typedef struct fxi_wake_list {
    fxi_wake *first, **end;
    int n;
} fxi_wake_list;

typedef struct fxi_wakes {
    double each_s; // the time that one of them may send in; 0: nothing is held
    int alarm_fd;  // -1: none
    void (*send)(void *ud);
    void *send_ud;
    pthread_t sender;
    pthread_cond_t told;
    pthread_mutex_t mu; // a leaf; guards what follows
    bool has_sender, is_told, stop;
    fxi_wake_list soon, held;
    double held_since_s;
    double next_s;  // held ones are not taken before, unless they are late
    bool is_looked; // the alarm has been heard
} fxi_wakes;

// Nothing is held until a share is set, and nobody is alarmed until there is an alarm.
void fxi_wakes_open(fxi_wakes *ws);
void fxi_wakes_close(fxi_wakes *ws);
// share: of one core's time, above 0; 1: nothing is held. Before ws is used.
void fxi_wakes_set_share(fxi_wakes *ws, double share);
// Lists w, which must stay until it has been taken. False: it is listed already.
bool fxi_wakes_add(fxi_wakes *ws, fxi_wake *w, fxi_wake_when when, double now_s);
// Starts a thread that calls `send` when there is something to send after a step. Errors:
// FX_EINTERNAL; then there is none.
fx_status fxi_wakes_start_sender(fxi_wakes *ws, void (*send)(void *ud), void *ud, fx_error *err);
void fxi_wakes_stop_sender(fxi_wakes *ws); // if there is one
// After a step: has the sender do what there is to do. False: there is no sender.
bool fxi_wakes_tell(fxi_wakes *ws, double now_s);
// Takes those that may send, after a step.
fxi_wake_list fxi_wakes_after_step(fxi_wakes *ws, double now_s);
// Takes those that are late. On the thread of the alarm, which then asks when to look again;
// INFINITY: at the next alarm.
fxi_wake_list fxi_wakes_late(fxi_wakes *ws, double now_s);
double fxi_wakes_due_s(fxi_wakes *ws);
// Takes all.
fxi_wake_list fxi_wakes_take(fxi_wakes *ws);
// Takes the first one off a list that was taken; it may be listed again. NULL: there is none left.
fxi_wake *fxi_wakes_pop(fxi_wakes *ws, fxi_wake_list *l);

#endif
