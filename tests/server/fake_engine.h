// fake_engine.h - an engine without a model, for tests of code above flexinfer.h.
//
// It has the real one's functions, events and thread. A token is a byte (id = value), BOS (256,
// spelled "<s>"), or a word: 257 "A", 258 " b", 259 " c", 260 " x", 261 and 262 the two bytes of
// U+00E9, 263 the control token "<eot>". Words are made from ids only, "<eot>" from text with
// FX_TOKENIZE_CONTROL, too. A prompt that ends with a word is answered by the words after it.
// The prompt's text (of a conversation: the last message) is an order that says what to answer:
//     "say a b c"        the words, one token each, then STOP
//     "count N"          "1 2 .. N", one token each, then STOP
//     "slow N MS"        the same with MS milliseconds before each token
//     "draw N"           N letters that depend on (seed, choice, position)
//     "fail N"           N tokens, then FX_FINISH_ERROR
//     "flood N"          N tokens of 64 KiB
//     "halt N"           N tokens, then STOP by the request's last stop string, or by its last stop
//                        token if it has no stop string
//     "gate N"           N tokens, each once fake_engine_open has let it pass, then STOP
//     "dam N"            the same with tokens of 64 KiB
//     "stuck"            nothing until it is cancelled
//     "full", "closed", "nospace", "invalid", "nomem", "broken"   fx_submit fails with that status
//     "grind ..."        the same, but tokenizing it blocks until fake_engine_release
// With FX_TASK_EMBED the prompt's text becomes a vector of 8 numbers: number i is the count of its
// bytes whose value modulo 8 is i, then cut to n_dim and divided by its length unless FX_NORM_NONE.
// "fail", "stuck", "slow 0 MS" and the orders that fx_submit refuses are carried out there, too;
// "gate" waits for the first fake_engine_open.
// With FX_TASK_SCORE the score is the number of tokens of the second text, times 0.25.
// Texts of more than 512 tokens are too long to embed; fake_engine_abilities switches tasks off.
// Logprobs: a token of an answer has -0.5 and is the likeliest, before the ids that follow it with
// one less each; a token of a prompt has -3.25 and is the second, after " x" with -1.5.
// Any other text is echoed as by "say". max_tok ends an answer with LENGTH; prompts of more than
// 4096 tokens are too long.
//
// A grammar is compiled to what describes it (fake_engine_form); a text, pattern or schema with the
// word "bad" in it is refused. Answers take no notice of it.
//
// The times in events are made up: each request queues for FAKE_QUEUED_US and so on.
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include "flexinfer/snapshot.h"

enum { FAKE_QUEUED_US = 2000, FAKE_PREFILL_US = 3000, FAKE_GAP_US = 1000 };

fx_engine *fake_engine_new(void);

typedef struct fake_counts {
    int n_running;            // requests
    int n_submitted;          // so far
    int n_cancelled;          // so far: those ended by fx_cancel
    int n_cleared;            // calls of fx_clear_cache
    uint64_t kv_memory_bytes; // of the last fx_set_kv_memory
} fake_counts;

fake_counts fake_engine_counts(fx_engine *eng);

// The request submitted last; at least one must have been. The lists are copies, valid until the
// next request.
typedef struct fake_seen {
    fx_request req; // except prompt, on_event, ud
    fx_bias bias[8];
    fx_id_run run[8];
    int32_t run_id[8][8];
    int32_t prompt[8];  // its first ids
    fx_thought thought; // n_close 0: none; its lists and texts are the server's
    int32_t allow[8], stop_token[8];
    char stop[8][32];
    const char *stop_list[8];
    char tenant[64];
    char form[256]; // of its grammar, see fake_engine_form; "": none
} fake_seen;

// What a grammar was compiled from: "regex a+", "alt(text a,text b)", "schema {..}", "json", ..
const char *fake_engine_form(const fx_grammar *g);

const fake_seen *fake_engine_last(fx_engine *eng);
// The text of the i-th prompt submitted, from 0: of the first FAKE_N_TEXT, their first bytes.
enum { FAKE_N_TEXT = 64, FAKE_TEXT_BYTES = 24 };
const char *fake_engine_text(fx_engine *eng, int i);
// What fx_model_info says, and fx_submit obeys: both are true at the start.
void fake_engine_abilities(fx_engine *eng, bool generates, bool embeds);
// It scores pairs of texts and does nothing else; before a server gets the engine.
void fake_engine_scores(fx_engine *eng);
// The text of its chat template, "" at the start; before a server gets the engine. It renders
// nothing. Static.
void fake_engine_presets(fx_engine *eng, fx_presets p);
void fake_engine_title(fx_engine *eng, const char *title);
void fake_engine_template(fx_engine *eng, const char *jinja);
// Lets every "gate" and "dam" request emit its first n_token tokens.
void fake_engine_open(fx_engine *eng, int n_token);
// Lets "grind" texts through, from now on; those that are being tokenized now.
void fake_engine_release(fx_engine *eng);
int fake_engine_grinding(fx_engine *eng);
// Whether the calling thread is the engine's, outside its callbacks: what it allocates is no part
// of what is tested.
bool fake_engine_is_own(void);
// Whether its statistics say that the device is lost.
void fake_engine_lose_device(fx_engine *eng, bool is_lost);
// Waits until no request runs; false after `s` seconds.
bool fake_engine_wait_idle(fx_engine *eng, double s);

#endif
