// flexinfer.h - the engine: open a model, submit requests, receive tokens.
//
//     fx_options opt = fx_options_default();
//     opt.model_path = "models/storyteller.gguf";
//     fx_engine *eng;
//     fx_error err;
//     if (fx_engine_open(&opt, &eng, &err) != FX_OK) return fail(err.text);
//     fx_tokens prompt = {0};
//     fx_tokenize(eng, "Once upon a time", 16, FX_TOKENIZE_PROMPT, &prompt, &err);
//     fx_request req = fx_request_default();
//     req.prompt = prompt.id;
//     req.n_prompt = prompt.n;
//     req.on_event = print_piece; // events arrive on the engine's thread
//     uint64_t id;
//     fx_submit(eng, &req, &id, &err);
//     ...
//     fx_tokens_free(&prompt);
//     fx_engine_close(eng);
//
// Threads: one engine thread (made by fx_engine_open) owns the scheduler, the KV cache and every
// sequence. All functions here may be called from any thread, except that fx_engine_close must not
// be called from a callback and must be the last call. Callbacks run on the engine thread: they
// must be short and must not block.
#ifndef FLEXINFER_H
#define FLEXINFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flexinfer/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fx_engine fx_engine;

// ---- opening -----------------------------------------------------------------------------------

typedef struct fx_options {
    const char *model_path; // a GGUF file; read during fx_engine_open only
    // Where the vocabulary is, if not in the model: another GGUF file, a tokenizer.json, a
    // SentencePiece model, a rank file, or a folder with one; NULL: in the model. A rank file does
    // not name its pre-tokenizer: tokenizer_pre does, like "llama-bpe" or "qwen2"; NULL otherwise.
    const char *tokenizer_path, *tokenizer_pre;
    // How conversations become text: a built-in template's name ("chatml", "llama3", ..), the name
    // of one of the model's, or the path of a file with a Jinja template; NULL: the model's own,
    // else a built-in one by the vocabulary.
    const char *chat_template;
    int n_thread;             // compute threads, the engine's own included; 0: one per usable core
    int ctx_tok;              // longest sequence in tokens; 0: what the model was trained for
    uint64_t kv_memory_bytes; // budget of the KV cache; 0: half of what the machine, or the cgroup,
                              // has free once the model is loaded
    const char *kv_type;   // of the KV cache's numbers: "f16", "bf16", "f32", or "q8_0" where heads
                           // are a multiple of 32 numbers; NULL: f16
    int max_seq;           // sequences that run together; 0: 64
    int max_queue;         // sequences that may wait beyond those; 0: 1024
    int64_t max_queue_tok; // prompt tokens that may wait; 0: 1,048,576
    int step_tok; // token budget of one step (decodes first, then prompt chunks), at least max_seq;
                  // 0: 512
    int step_ms; // while sequences decode, a step reads no more of prompts than takes about so long,
                 // but 64 tokens; 0: 250
    const char *swap_dir; // directory of the file that preempted sequences may be written to; NULL:
                          // $TMPDIR or /tmp
    uint64_t swap_bytes;  // room in it; 0: no swap, preempted sequences are computed again
    // Called now and then by fx_engine_open, on the caller's thread, with 0 <= done <= total. May
    // be NULL.
    void (*on_progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ud;
} fx_options;

// All zero, which means the defaults named above.
fx_options fx_options_default(void);

// Maps and checks the file, packs its weights, makes the KV manager, starts the engine thread.
// Errors: FX_EIO (cannot be read), FX_EFORMAT (broken, or an architecture or type we do not run),
// FX_EINVAL (an option out of range), FX_ENOMEM, FX_ENOSPACE (the budget cannot hold even one short
// sequence). On error *out is NULL.
fx_status fx_engine_open(const fx_options *opt, fx_engine **out, fx_error *err);

// Ends every request with FX_FINISH_ABORT, joins the engine thread, frees everything. NULL is
// allowed.
void fx_engine_close(fx_engine *eng);

// ---- what was opened ---------------------------------------------------------------------------

typedef struct fx_model_info {
    char name[128];       // general.name, or the file's name without its ending
    char arch[32];        // general.architecture
    char type[16];        // type most of the weights are stored in, e.g. "Q8_0"
    char kernel_path[32]; // "avx512-vnni", "avx512", "avx2-vnni", "avx2", "ref"
    char kv_type[16];     // "F16"
    uint64_t file_bytes;
    uint64_t n_param;
    // What speed is measured against: multiply-adds of the linear layers for a prompt token and for
    // a row of logits, and the weights that one forward pass reads, whatever its batch.
    uint64_t mul_per_prompt_tok, mul_per_logit_row, weight_bytes_per_pass;
    int n_layer, dim, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    int train_ctx_tok;       // what the file says
    int ctx_tok;             // what this engine allows for prompt + answer
    size_t kv_bytes_per_tok; // over all layers
    int n_thread;
    bool has_chat_template;          // false: messages are rendered in a plain form
    const char *chat_template_error; // why the model's template cannot be used, one line: chats
                                     // fail with it; NULL: it can
} fx_model_info;

// Immutable after open; lives as long as the engine.
const fx_model_info *fx_engine_info(const fx_engine *eng);

// ---- tokens ------------------------------------------------------------------------------------

typedef struct fx_tokens {
    int32_t *id;
    size_t n, cap;
} fx_tokens;

void fx_tokens_free(fx_tokens *t);

enum {
    FX_TOKENIZE_BOS = 1, // put BOS first, where the vocabulary asks for it
    FX_TOKENIZE_CONTROL =
        2, // control tokens spelled out in the text become their ids (never for text of users)
    FX_TOKENIZE_PROMPT = FX_TOKENIZE_BOS,
};

// Appends the ids of text[0..n_bytes) (UTF-8) to *out, whose memory the caller frees with
// fx_tokens_free. Errors: FX_EINVAL (bad UTF-8, says at which byte), FX_ENOMEM; then *out is as
// before.
fx_status fx_tokenize(const fx_engine *eng, const char *text, size_t n_bytes, unsigned flags,
                      fx_tokens *out, fx_error *err);

typedef struct fx_message { // of plain text
    const char *role;       // "system", "user" or "assistant"
    const char *content;    // UTF-8
    size_t content_bytes;
} fx_message;

// Appends the prompt for a conversation, ready for the assistant's answer. The template's own marks
// become control tokens; the messages' text never does. Any thread. Errors: those of
// fx_chat_request_tokenize.
fx_status fx_chat_tokenize(const fx_engine *eng, const fx_message *msg, size_t n_msg,
                           fx_tokens *out, fx_error *err);

// A conversation with everything that a chat template can take, as values of the JSON library
// jansson (2.13 or later). They are borrowed for the call: they are not changed, and the caller
// still owns them. Reference counts of members are taken during the call; jansson counts atomically
// where the compiler can (JSON_HAVE_ATOMIC_BUILTINS), and only then may two threads pass the same
// values at once.
struct json_t;
typedef struct fx_chat_request {
    const struct json_t *messages; // array of objects {"role", "content", ..}. Content is text or a
                                   // list of parts {"type": "text", "text"}; other members are for
                                   // the template to read
    const struct json_t *tools;    // array of what the model may call; NULL: none
    const struct json_t *kwargs;   // object with further variables, like {"enable_thinking":
                                   // false}; NULL: none
    bool no_answer; // the text does not end with the opening of the assistant's answer
    int64_t now_s;  // seconds since 1970, for templates that write the date; 0: the clock's
} fx_chat_request;

// The same for such a conversation. Messages are fitted to the template: parts are joined by
// newlines and the role "developer" becomes "system" where the template does not know them, content
// that is null beside tool_calls becomes "", arguments of tool calls given as JSON text become the
// object. Nothing of the request becomes a control token. Any thread. Errors: FX_EINVAL (a value of
// another type, no messages, a role or content that the template does not take; the template's own
// error with its line), FX_EFORMAT (the model's template cannot be used), FX_ENOMEM; then *out is
// as before.
fx_status fx_chat_request_tokenize(const fx_engine *eng, const fx_chat_request *q, fx_tokens *out,
                                   fx_error *err);

// The same as text: *out has *n_bytes of UTF-8 and a NUL; the caller frees it with free().
fx_status fx_chat_request_text(const fx_engine *eng, const fx_chat_request *q, char **out,
                               size_t *n_bytes, fx_error *err);

// The bytes token `id` adds to a text (not always whole UTF-8 characters); "" and 0 for control
// tokens and for ids outside the vocabulary. The pointer lives as long as the engine.
const char *fx_token_bytes(const fx_engine *eng, int32_t id, size_t *n_bytes);

// ---- requests ----------------------------------------------------------------------------------

enum {
    FX_MAX_CHOICE = 64, // choices of a request, told or not
    FX_MAX_BEAM = 32,   // width of a beam search
    FX_MAX_TOP = 20,    // likeliest tokens that are told with a token
    FX_MAX_PRIORITY = 100,
};

typedef struct fx_bias {
    int32_t token;
    float bias; // added to the logit
} fx_bias;

// How a token is chosen, in this order: allow, ban, bias, min_tok, the three penalties,
// temperature, min_p, top_k, top_p, typical_p, draw. A banned token is never drawn. Lists may be
// NULL where their count is 0; fx_submit copies them.
typedef struct fx_sampling {
    float temperature;        // 0 (or < 1e-5): greedy, ties to the lowest id
    int top_k;                // 0: all
    float top_p;              // (0, 1]; 1: off
    float min_p;              // [0, 1]; 0: off
    float typical_p;          // (0, 1]; 0 or 1: off (arXiv 2202.00666)
    float repetition_penalty; // > 0, over prompt and answer: positive logits are divided by it,
                              // others multiplied; 0 or 1: off
    float presence_penalty;   // [-2, 2], subtracted once from what the answer has
    float frequency_penalty;  // [-2, 2], subtracted for each time that the answer has it
    uint64_t seed;            // the draw depends on (seed, choice, position) alone
    const fx_bias *bias;      // [n_bias]
    size_t n_bias;
    const int32_t *allow; // [n_allow] nothing but these; none: everything
    size_t n_allow;
    const int32_t *ban; // [n_ban]
    size_t n_ban;
    int min_tok; // before so many tokens of the answer nothing ends it: no end-of-text token, no
                 // stop token is drawn, no stop string is looked for
} fx_sampling;

typedef struct fx_logprob {
    int32_t token;
    float logprob;
} fx_logprob;

// Of one token: log-softmax of the model's logits, before every rule of fx_sampling.
typedef struct fx_token_prob {
    float logprob;
    int rank;              // 1: the likeliest
    const fx_logprob *top; // [n_top] the likeliest, descending, ties to the lower id
    int n_top;
} fx_token_prob;

typedef enum fx_finish {
    FX_FINISH_NONE = 0, // still running
    FX_FINISH_STOP,     // end-of-text token or stop string
    FX_FINISH_LENGTH,   // max_tok or the context
    FX_FINISH_CANCEL,   // fx_cancel
    FX_FINISH_ABORT,    // the engine closed
    FX_FINISH_ERROR,    // see event.error
    FX_N_FINISH
} fx_finish;

// One event of one choice. Pointers are valid during the callback only.
typedef struct fx_event {
    uint64_t request_id;
    int choice; // 0 .. n_choice-1
    const char *
        text; // text that has become safe to show: whole UTF-8 characters, no part of a stop string
    size_t text_bytes; // may be 0
    int32_t token;     // the token sampled, -1 if this event only flushes text or ends
    int position;      // of that token in the sequence; below n_prompt: of a token of the prompt,
                       // told because of prompt_logprobs, in order, before all others (choice 0)
    const fx_token_prob *prob; // of that token, if it was asked for; else NULL
    fx_finish finish;          // not FX_FINISH_NONE: the last event of this choice
    bool last;                 // the last event of the request: no callback comes after it
    int stop_token;            // with FX_FINISH_STOP: the token that ended it, -1: none
    int stop_string;           // with FX_FINISH_STOP: index of the stop string that did, -1: none
    double score;      // with the last event: of a beam, sum of logprobs / tokens^length_penalty;
                       // of a choice of n_best, mean logprob; else 0
    const char *error; // one line, with FX_FINISH_ERROR; else NULL
    int n_prompt, n_cached,
        n_generated; // tokens so far: prompt, of it from cache, generated by this choice
    int n_discarded; // with `last`: tokens of choices that n_best did not choose
} fx_event;

// When a beam search ends, once beam_width answers have ended:
typedef enum fx_early_stop {
    FX_STOP_HEURISTIC = 0, // when the best beam, ended now, would not beat the worst of them
    FX_STOP_EARLY,         // at once
    FX_STOP_NEVER,         // when no beam can beat the worst of them, however long it grows
} fx_early_stop;

typedef struct fx_request {
    const int32_t *prompt; // copied by fx_submit, like all that is pointed to here
    size_t n_prompt;
    int max_tok;  // tokens to generate at most per choice; < 0: as many as the context and the KV
                  // budget hold; 0: none
    int n_choice; // 1 .. FX_MAX_CHOICE; they share the prompt, which is computed once
    int n_best;   // compute so many choices, tell the n_choice with the best mean logprob once all
                  // have ended; 0: n_choice
    int beam_width; // 0: sample; else beam search, n_choice .. FX_MAX_BEAM beams: in each step the
                    // beam_width likeliest continuations go on, of temperature and what follows it
                    // nothing counts; the n_choice best are told at the end
    float length_penalty; // of a beam search: score = sum of logprobs / tokens^length_penalty
    fx_early_stop early_stop;
    fx_sampling sampling;
    const char *const *stop; // [n_stop] NUL-terminated strings, each not empty
    size_t n_stop;
    const int32_t *stop_token; // [n_stop_token]
    size_t n_stop_token;
    bool include_stop;    // the stop string, or the text of the stop token, is told too
    bool ignore_eos;      // go on after an end-of-text token
    bool logprobs;        // tell prob with each token, with
    int n_top;            // that many likeliest ones, up to FX_MAX_TOP
    bool prompt_logprobs; // the same for each token of the prompt but the first, with
    int n_prompt_top;     // that many; all of the prompt is computed then, cached or not
    int priority; // -FX_MAX_PRIORITY .. FX_MAX_PRIORITY, higher goes first; a step is worth 10 s of
                  // waiting, so that nobody waits for ever
    const char *tenant; // whose prefixes it shares: those of equal strings and no others; NULL: ""
    bool no_cache;      // shares nothing with other requests and leaves nothing behind
    int keep_priority;  // 0 .. 7, what its prompt is worth in the prefix cache,
    uint32_t keep_s;    // for so many seconds from its end; 0: until memory is short
    void (*on_event)(void *ud, const fx_event *ev);
    void *ud;
} fx_request;

// n_choice 1, max_tok -1, temperature 1, top_p 1, length_penalty 1, the rest zero.
fx_request fx_request_default(void);

// Checks and copies the request and puts it into the engine's inbox; its events may come before
// this returns. Errors: FX_EINVAL (no tokens, an id outside the vocabulary, a parameter out of
// range), FX_ECONTEXT (the prompt alone fills the context or the KV budget), FX_ENOSPACE (all its
// choices at their full length exceed the KV budget), FX_EQUEUE, FX_ECLOSED, FX_ENOMEM. On error
// there are no events. A max_tok that does not fit the context is clamped.
fx_status fx_submit(fx_engine *eng, const fx_request *req, uint64_t *id, fx_error *err);

// Asks for the end of a request; its remaining choices end with FX_FINISH_CANCEL at the next step.
// Unknown or finished ids are ignored.
void fx_cancel(fx_engine *eng, uint64_t id);

// Changes the budget of the KV cache from the next step on; the context stays as long as it was.
// Less than is in use: prefixes are evicted, then requests preempted; one that the budget cannot
// hold even alone ends with FX_FINISH_ERROR. Errors: FX_EINVAL (less than the shortest sequence
// takes).
fx_status fx_set_kv_memory(fx_engine *eng, uint64_t kv_memory_bytes, fx_error *err);

// ---- figures -----------------------------------------------------------------------------------

// X(name, help): every counter and gauge there is, in one list. The server shows them under these
// names.
#define FX_STATS(X)                                                                     \
    X(n_request, "requests submitted so far")                                           \
    X(n_prompt_tok, "prompt tokens computed so far")                                    \
    X(n_generated_tok, "tokens generated so far")                                       \
    X(n_step, "forward passes so far")                                                  \
    X(n_cached_tok, "prompt tokens taken from the prefix cache so far")                 \
    X(n_preempt_recompute, "requests preempted so far, to be computed again")           \
    X(n_preempt_swap, "requests preempted so far, swapped out")                         \
    X(n_running, "sequences running now")                                               \
    X(n_waiting, "sequences waiting now")                                               \
    X(n_waiting_tok, "prompt tokens of requests that wait now")                         \
    X(kv_budget_bytes, "physical memory the KV cache may take")                         \
    X(kv_mapped_bytes, "physical memory under the KV cache now, spare chunks included") \
    X(kv_live_bytes, "of it, bytes that hold tokens of running sequences")              \
    X(kv_cached_bytes, "of it, held by the prefix cache alone")                         \
    X(kv_swapped_bytes, "KV memory of preempted requests in the swap now")              \
    X(kv_peak_mapped_bytes, "largest kv_mapped_bytes so far")                           \
    X(kv_peak_live_bytes, "largest kv_live_bytes so far")

typedef struct fx_stats {
#define FX_STATS_FIELD(name, help) uint64_t name;
    FX_STATS(FX_STATS_FIELD)
#undef FX_STATS_FIELD
} fx_stats;

// A snapshot taken at the last step's end.
void fx_engine_stats(const fx_engine *eng, fx_stats *out);

// What this machine can do at most, measured now: the yardstick of every speed figure.
typedef struct fx_machine {
    int n_thread;
    double read_gb_s;   // memory read bandwidth, 10^9 bytes/s
    double fma_gflop_s; // f32 fused multiply-adds, 2 operations each
    double int8_gop_s;  // int8 dot products (VNNI), 2 operations each; 0 where the machine has none
} fx_machine;

// Takes about a second and uses n_thread threads (0: one per usable core) and 512 MiB for its time;
// not while the figures of an engine matter. Errors: FX_EINVAL, FX_ENOMEM, FX_EINTERNAL (a thread
// could not be started).
fx_status fx_measure_machine(int n_thread, fx_machine *out, fx_error *err);

const char *fx_version(void);

#ifdef __cplusplus
}
#endif
#endif
