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
// An embedding model turns a text into a vector instead: req.task = FX_TASK_EMBED, the prompt from
// fx_tokenize with FX_TOKENIZE_EMBED, and the one event of the request carries the vector.
//
// Threads: fx_engine_open starts one engine thread, which owns the scheduler, the KV cache and
// every sequence. All functions here may be called from any thread; fx_engine_close must be the
// last call and must not come from a callback. Callbacks run on the engine thread: they must be
// short and must not block.
//
// Errors: functions that can fail return fx_status and take an fx_error * that may be NULL
// (error.h).
#ifndef FLEXINFER_H
#define FLEXINFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flexinfer/counters.h" // defines: fx_histogram, fx_op_stats, FX_KV_*, FX_DRIVER_*
#include "flexinfer/error.h"
#include "flexinfer/sampling.h" // defines: fx_sampling, fx_bias, fx_id_run

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fx_engine fx_engine;

// ---- opening -----------------------------------------------------------------------------------

enum { FX_MAX_DRAFT = 32 }; // tokens drafted for a sequence in a step

typedef struct fx_options {
    const char *model_path; // a GGUF file
    // The vocabulary, if it is not in the model: another GGUF file, a tokenizer.json, a folder with
    // one, or a rank file; NULL: in the model.
    // tokenizer_pre names the pre-tokenizer of a rank file, which does not name it itself
    // ("llama-bpe", "qwen2", ..); NULL otherwise.
    const char *tokenizer_path, *tokenizer_pre;
    // How conversations become text: the name of a built-in template ("chatml", "llama3", ..), the
    // name of one of the model's templates, or the path of a Jinja template; NULL: the model's own,
    // or else a built-in one chosen by the vocabulary.
    const char *chat_template;
    // How the rows of a text's tokens become its embedding: "mean", "first" (also "cls") or "last";
    // "rank": a head scores pairs of texts. NULL: as the model's file says, and where it says
    // nothing the model embeds no texts.
    const char *pooling;
    // Where the model is computed and its cache lies: "cpu" (NULL), or an NVIDIA GPU, "cuda:0"
    // (also "cuda"), where the build has kernels for it. The driver's libcuda.so.1 is loaded for
    // that. "cuda:0,cuda:1": GPUs that share the model out, each with a part of every layer and of
    // the cache; they need NCCL, KV heads that their number divides, and a manager of the cache
    // that can do it (the first one). Up to 8.
    const char *device;
    // A GPU's order of sums: "batch-invariant" (NULL), 16-bit weights and attention on tensor
    // cores, in a fixed order that batch, chunking, paging and preemption do not change;
    // "cpu-exact", the CPU's order, which gives the CPU's bits. "law", "exact": their old names.
    const char *gpu_math;
    int n_thread; // compute threads, the engine thread included; 0: one per usable core
    int ctx_tok;  // longest sequence, in tokens; 0: what the model was trained for
    // Budget of the KV cache, of all devices together; 0: half of the memory that the machine, or
    // its cgroup, has free once the model is loaded; of GPUs nine tenths.
    uint64_t kv_memory_bytes;
    const char *kv_manager; // of the KV cache's memory, see fx_kv_manager_name; NULL: the first
    const struct fxi_kv_ops *kv_ops; // one of the caller's own instead (src/kv/kv.h); NULL: none
    int kv_block_tok;      // tokens in a unit of its memory, at least; 0: the manager's choice
    const char *kv_type;   // element type of the KV cache: "f16", "bf16", "f32", or "q8_0" (head
                           // size a multiple of 32); NULL: f16
    int max_seq;           // sequences that run together; 0: 64
    int max_queue;         // sequences that may wait beyond those; 0: 1024
    int64_t max_queue_tok; // prompt tokens that may wait; 0: 1,048,576
    int step_tok; // token budget of one step (decodes first, then prompts), raised to max_seq if it
                  // is less; 0: 512
    int step_ms;  // time cap on prompt work per step while others decode (at least 64 tokens);
                  // 0: 250
    const char *swap_dir; // folder of the swap file for preempted sequences; NULL: $TMPDIR or /tmp
    uint64_t swap_bytes;  // size of that file; 0: no swap, preempted sequences are computed again
    // Speculative decoding: a sequence computes tokens that it may go on with in the same pass as
    // its last one, and keeps those that come true. No answer changes, not a bit of it. "off"
    // (NULL); "prompt": what followed its last tokens where they occurred before, in prompt or
    // answer; "prefix": what is recorded after the same tokens for the same tenant; "auto": both.
    const char *speculate;
    // A small model of the same vocabulary that drafts where the sources above have nothing, on the
    // host's cores; a GGUF file or a folder; NULL: none. Its cache gets a share of kv_memory_bytes
    // that holds as many tokens.
    const char *draft_path;
    int draft_tok;    // most tokens drafted for a sequence in a step, up to FX_MAX_DRAFT; 0: 8
    int cache_idle_s; // an engine that has been idle for so long forgets its prefixes; 0: 600;
                      // < 0: it keeps them
    int prefix_pass;  // times that others with more cached may pass a request; 0: 16; < 0: never
    int n_record;     // events that the flight recorder keeps, 32 bytes each; 0: 65,536; < 0: none
    // Called from time to time by fx_engine_open, on the caller's thread, with 0 <= done <= total.
    // May be NULL.
    void (*on_progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ud;
} fx_options;

// All zero: the defaults named above.
fx_options fx_options_default(void);

// Maps and checks the model, packs its weights, opens the KV cache and starts the engine thread.
// The strings of *opt are not needed afterwards. The caller closes *out. Errors: FX_EIO (a file
// cannot be read), FX_EFORMAT (a broken file, or an unsupported architecture or type), FX_EINVAL
// (an option out of range, a draft model of another vocabulary, a device that is not there or
// cannot run the model), FX_ENOMEM (of the host or the device), FX_ENOSPACE (the budget does not
// hold one short sequence), FX_EINTERNAL (a thread cannot be started, or the device failed). On
// error *out is NULL.
fx_status fx_engine_open(const fx_options *opt, fx_engine **out, fx_error *err);

// Ends every request with FX_FINISH_ABORT, joins the engine thread and frees everything. NULL is
// allowed. In a child of fork(2) it does nothing: none of the engine's threads is there.
void fx_engine_close(fx_engine *eng);

// ---- the opened model --------------------------------------------------------------------------

// How a token is chosen where a request does not say: members of fx_sampling. Negative: not given.
typedef struct fx_presets {
    float temperature, top_p, min_p, repetition_penalty;
    int top_k;
} fx_presets;

// Nothing is given.
fx_presets fx_presets_none(void);

typedef struct fx_model_info {
    char name[128];       // the file's name without .gguf and the number of its part, the folder's
                          // name; of a snapshot in the hub's cache, OWNER/NAME
    char title[128];      // general.name: what its makers call it; "": they do not
    char arch[32];        // general.architecture
    char type[16];        // type that most weights are stored in, e.g. "Q8_0"
    char file_type[16];   // what the file calls its mixture of types, e.g. "Q4_K_M"; else type
    char device[72];      // "cpu", "cuda:0", "cuda:0,cuda:1"; "" of a model that was only inspected
    char kernel_path[32]; // "avx512-vnni", "avx512", "avx2-vnni", "avx2", "ref"; of a GPU its
                          // architecture and the kind of arithmetic: "sm_90 exact"
    char kv_type[16];     // "F16"
    uint64_t file_bytes;
    uint64_t n_param;
    // The work that speed is measured against: multiply-adds of the linear layers per prompt token
    // and per row of logits, and bytes of weights that one forward pass reads, whatever its batch.
    uint64_t mul_per_prompt_tok, mul_per_logit_row, weight_bytes_per_pass;
    int n_layer, dim, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    int32_t bos_id, eos_id; // tokens that begin and end a text; -1: the vocabulary has none, or the
                            // model was only inspected
    int train_ctx_tok;      // trained context, from the file
    int ctx_tok;            // prompt + answer in this engine
    size_t kv_bytes_per_tok; // over all layers of attention
    size_t kv_state_bytes;   // of a sequence's recurrent layers, whatever its length; 0: none
    int max_seq, mapped_seq; // that run together; for whom the system has mappings of memory
    int n_thread;
    bool generates;         // takes requests with FX_TASK_GENERATE; false: it reads texts in both
                            // directions, or has no output matrix
    bool embeds;            // takes requests with FX_TASK_EMBED
    bool scores;            // takes requests with FX_TASK_SCORE
    int n_embd;             // length of an embedding; 0: it does not embed
    int embd_tok;           // longest text that it embeds, or pair of texts that it scores, in
                            // tokens; 0: it does neither
    char pooling[8];        // "mean", "first", "last"; "rank" where it scores; "" for neither
    bool has_chat_template; // false: messages are rendered in a plain form
    fx_presets presets; // what its makers recommend: generation_config.json of a folder, the keys
                        // general.sampling.* of a GGUF file; values out of bounds are not given
    const char *chat_template_error; // one line: why every chat call fails; NULL: none does
    const char *warning; // one line about the files that their user should see; NULL: none
} fx_model_info;

// Constant; lives as long as the engine.
const fx_model_info *fx_engine_info(const fx_engine *eng);

// Checks a model as fx_engine_open does, without loading its weights: an error is the reason why it
// does not run. kv_type: as in fx_options. Of *out, ctx_tok is the trained context, n_thread is 0,
// and chat_template_error is NULL. Errors: FX_EIO, FX_EFORMAT, FX_EINVAL (kv_type), FX_ENOMEM.
fx_status fx_model_inspect(const char *model_path, const char *kv_type, fx_model_info *out,
                           fx_error *err);

// Checks everything that fx_engine_open would, except what takes the weights or memory for them:
// options, model header, vocabulary, chat template, and that swap_dir can be written to. *out is as
// from fx_model_inspect. Errors: those of fx_engine_open.
fx_status fx_options_check(const fx_options *opt, fx_model_info *out, fx_error *err);

// ---- tokens ------------------------------------------------------------------------------------

typedef struct fx_tokens {
    int32_t *id;
    size_t n, cap;
} fx_tokens;

// Frees the list and empties it; an empty one is allowed.
void fx_tokens_free(fx_tokens *t);

enum {
    FX_TOKENIZE_BOS = 1,     // put BOS first, where the vocabulary wants it
    FX_TOKENIZE_CONTROL = 2, // control tokens spelled out in the text become their ids: never for
                             // text from users
    FX_TOKENIZE_EOS = 4,     // put EOS last, where the vocabulary wants it after a text
    FX_TOKENIZE_INNER = 8,   // the text goes on from another one: it gets no space in front, where
                             // the vocabulary puts one in front of a text
    FX_TOKENIZE_PROMPT = FX_TOKENIZE_BOS,
    FX_TOKENIZE_EMBED = FX_TOKENIZE_BOS | FX_TOKENIZE_EOS, // a text to be embedded
};

// Appends the ids of text[0..n_bytes) (UTF-8) to *out, which the caller frees with fx_tokens_free.
// Errors: FX_EINVAL (invalid UTF-8, with the offset of the byte), FX_ENOMEM; then *out is
// unchanged.
fx_status fx_tokenize(const fx_engine *eng, const char *text, size_t n_bytes, unsigned flags,
                      fx_tokens *out, fx_error *err);

// The same for a text that is of no use with more than max_tok tokens, BOS included (0: no limit):
// FX_ECONTEXT as soon as that is certain, for most vocabularies by the length of the text alone.
fx_status fx_tokenize_max(const fx_engine *eng, const char *text, size_t n_bytes, unsigned flags,
                          size_t max_tok, fx_tokens *out, fx_error *err);

// Appends the ids of a pair of texts for FX_TASK_SCORE: the first one as with FX_TOKENIZE_EMBED,
// then the second one and EOS. Between them the vocabularies of BERT have one EOS, others two. The
// second text begins at id[*n_first]. A model with a template for pairs has both texts in it, which
// never become control tokens, and *n_first is the number of all. Errors: those of fx_tokenize_max.
fx_status fx_tokenize_pair(const fx_engine *eng, const char *const text[2], const size_t n_bytes[2],
                           size_t max_tok, fx_tokens *out, size_t *n_first, fx_error *err);

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

// A conversation with everything that a chat template can take, as JSON texts in UTF-8, which are
// borrowed for the call. Strings may have the character U+0000, names of members may not. Of equal
// names in an object the last counts; numbers are integers of 64 bits, or doubles.
typedef struct fx_chat_request {
    const char *messages; // [messages_bytes] array of objects {"role", "content", ..}. Content is
                          // text or a list of parts {"type": "text", "text"}; other members are
                          // for the template to read
    size_t messages_bytes;
    const char *tools; // [tools_bytes] array of tools that the model may call; NULL: none
    size_t tools_bytes;
    const char *kwargs; // [kwargs_bytes] object with further variables, like {"enable_thinking":
                        // false}; NULL: none
    size_t kwargs_bytes;
    bool no_answer;      // the text does not end with the header of the assistant's answer
    bool continue_final; // the text ends where the last message's does, for the model to go on with
    int64_t now_s;       // seconds since 1970, for templates that write the date; 0: the clock's
    size_t max_tok;      // FX_ECONTEXT as soon as there are certainly more tokens; 0: no limit
} fx_chat_request;

// Like fx_chat_tokenize, for an fx_chat_request. Messages are fitted to the template: parts are
// joined by newlines and the role "developer" becomes "system" where the template does not know
// them, content that is null beside tool_calls becomes "", arguments of tool calls given as JSON
// text become the object. Nothing of the request becomes a control token. Any thread. Errors:
// FX_EINVAL (text that is not JSON, a value of the wrong type, no messages, a role or content that
// the template does not take; a last message to continue that has no text, or that the template
// changes; the template's own error with its line), FX_EFORMAT (the model's template cannot be
// used), FX_ECONTEXT (more than max_tok tokens), FX_ENOMEM; then *out is unchanged.
fx_status fx_chat_request_tokenize(const fx_engine *eng, const fx_chat_request *q, fx_tokens *out,
                                   fx_error *err);

// The same prompt as text: *out has *n_bytes of UTF-8 and a NUL; the caller frees it with free().
// After an error *out is NULL.
fx_status fx_chat_request_text(const fx_engine *eng, const fx_chat_request *q, char **out,
                               size_t *n_bytes, fx_error *err);

// The Jinja text of the chat template, of the one for requests with tools if the model has one of
// its own for them: not NUL-terminated, *n_bytes long; lives as long as the engine.
const char *fx_chat_template(const fx_engine *eng, bool with_tools, size_t *n_bytes);

// The bytes that token `id` adds to a text, not always whole UTF-8 characters; "" and 0 for control
// tokens and ids outside the vocabulary. The pointer lives as long as the engine.
const char *fx_token_bytes(const fx_engine *eng, int32_t id, size_t *n_bytes);

// The same, but a control token is what it is spelled like ("</s>").
const char *fx_token_text(const fx_engine *eng, int32_t id, size_t *n_bytes);

// The text of id[0..n): *out has *n_bytes of UTF-8 and a NUL; the caller frees it with free().
// Invalid bytes become U+FFFD; ids outside the vocabulary add nothing, nor do control tokens unless
// show_control. at: NULL, or [n] for the number of characters that come before the text of each
// token. Any thread. Errors: FX_ENOMEM; then *out is NULL.
fx_status fx_detokenize(const fx_engine *eng, const int32_t *id, size_t n, bool show_control,
                        size_t *at, char **out, size_t *n_bytes, fx_error *err);

// ---- grammars ----------------------------------------------------------------------------------

// A part of what an answer may look like. Parts are made of parts: the arguments of a call, for
// example, are a sequence of a text, a schema and a text. Everything is borrowed for the call.
typedef enum fx_part_kind {
    FX_PART_TEXT = 0, // text[0..n_bytes), UTF-8
    FX_PART_CONTROL,  // the control token that is spelled text[0..n_bytes)
    FX_PART_SEQ,      // part[0..n_part), one after the other
    FX_PART_ALT,      // one of part[0..n_part), of which there is at least one
    FX_PART_REPEAT,   // part[0], min to max times; max FX_PART_NO_MAX: any number
    FX_PART_FREE,     // any UTF-8 text, also none, in which none of the texts part[0..n_part)
                      // (FX_PART_TEXT, not empty) occurs
    FX_PART_REGEX,    // a text that all of the regular expression text[0..n_bytes) matches, in the
                      // common dialect of docs/user/structured-output.md
    FX_PART_JSON,     // a JSON object (RFC 8259)
    FX_PART_SCHEMA,   // a JSON value that `schema` validates, any value where it is NULL: JSON
                      // Schema 2020-12, the subset of docs/user/structured-output.md.
                      // text[0..n_bytes): a JSON pointer (RFC 6901) to the part of it that counts;
                      // none: all of it
    FX_PART_OBJECT,   // the same, of objects alone
    FX_PART_STRING,   // the same, of strings alone, as they are: neither quoted nor escaped. Of
                      // part[0..n_part), up to 16, no FX_PART_TEXT occurs in it, and no
                      // FX_PART_REGEX matches anywhere in it. schema NULL: any string
    FX_PART_RULES,    // a text of the grammar text[0..n_bytes), in GBNF or in Lark's notation
    FX_N_PART
} fx_part_kind;

#define FX_PART_NO_MAX 4294967295u
enum { FX_PART_MAX_DEPTH = 32 }; // parts within parts

typedef struct fx_part {
    fx_part_kind kind;
    const char *text; // NULL is allowed where n_bytes is 0
    size_t n_bytes;
    const struct fx_part *part; // [n_part]
    size_t n_part;
    uint32_t min, max;  // FX_PART_REPEAT
    const char *schema; // [schema_bytes] FX_PART_SCHEMA, .. : JSON text. Parts of one schema are
                        // best given the same pointer: it is parsed once for those in a row
    size_t schema_bytes;
} fx_part;

// What an answer may look like, compiled for the vocabulary of an engine. Any number of requests of
// that engine may use one at the same time; what they learn of it (which tokens may come next, and
// where) is kept in it, so that requests of one form are best given one grammar.
typedef struct fx_grammar fx_grammar;

// Compiles a grammar. It takes from microseconds to about a second: not on a thread that others
// wait for. *out is the caller's first reference. Any thread. Errors: FX_EINVAL (one line that
// names the construct and where it is: what is not supported, contradicts itself so that no text
// matches, or exceeds a limit of size, depth or ambiguity), FX_EQUEUE (the grammars of requests
// hold all the memory that grammars may), FX_ENOMEM; *out is NULL then.
fx_status fx_grammar_compile(const fx_engine *eng, const fx_part *root, fx_grammar **out,
                             fx_error *err);

// One more reference. Any thread.
void fx_grammar_retain(fx_grammar *g);
// Gives a reference back; the last one frees it. NULL is allowed. Any thread, at the latest before
// fx_engine_close; a request has a reference of its own from fx_submit to its last event.
void fx_grammar_release(fx_grammar *g);

// What the grammars of an engine hold, the latest that were asked for included, and what they may
// hold; 128 MiB at first. Beyond that those that nobody uses go, and those in use begin to learn
// again. Any thread.
size_t fx_grammar_memory(const fx_engine *eng);
void fx_set_grammar_memory(fx_engine *eng, size_t bytes);

// ---- requests ----------------------------------------------------------------------------------

enum {
    FX_MAX_CHOICE = 64, // choices of a request, emitted or not
    FX_MAX_BEAM = 32,   // width of a beam search
    FX_MAX_TOP = 20,    // likeliest tokens emitted with a token
    FX_MAX_PRIORITY = 100,
};

// Sets temperature, top_p, min_p, repetition_penalty and top_k: as *own gives them (NULL: nothing),
// else as the model's makers do, else temperature 0.8, top_p 0.95 and the others off.
void fx_sampling_preset(const fx_model_info *m, const fx_presets *own, fx_sampling *s);

typedef struct fx_logprob {
    int32_t token;
    float logprob;
} fx_logprob;

// Probability of one token: log-softmax of the model's logits, before any stage of fx_sampling, or
// with `processed_logprobs` after its masks, biases, penalties and temperature.
typedef struct fx_token_prob {
    float logprob;
    int rank;              // 1: the likeliest
    const fx_logprob *top; // [n_top] the likeliest, descending, ties to the lower id
    int n_top;
} fx_token_prob;

typedef enum fx_finish {
    FX_FINISH_NONE = 0, // still running
    FX_FINISH_STOP,     // end-of-text token, stop string, or the end of the grammar
    FX_FINISH_LENGTH,   // max_tok or the context
    FX_FINISH_CANCEL,   // fx_cancel
    FX_FINISH_ABORT,    // the engine closed
    FX_FINISH_ERROR,    // see fx_event.error
    FX_N_FINISH
} fx_finish;

// One event of one choice. Pointers are valid during the callback only.
typedef struct fx_event {
    uint64_t request_id;
    int choice;        // 0 .. n_choice-1
    const char *text;  // text that has become safe to show: whole UTF-8 characters, no part of a
                       // stop string
    size_t text_bytes; // may be 0
    int text_at;       // with a token of the answer: characters of the choice's text before its own
    int32_t token;     // the token drawn; -1: this event only flushes text or ends the choice
    int position;      // of that token in the sequence. Below n_prompt: a token of the prompt, with
                       // prompt_logprobs; these come first, in order, as choice 0
    const fx_token_prob *prob; // of that token, if requested; else NULL
    fx_finish finish;          // not FX_FINISH_NONE: the last event of this choice
    bool last;                 // the last event of the request: no callback comes after it
    int stop_token;            // with FX_FINISH_STOP: the token that ended it; -1: none
    int stop_string;           // with FX_FINISH_STOP: index of the stop string that did; -1: none
    double score;              // with the last event of a choice: of a beam, sum of logprobs /
                               // tokens^length_penalty; with n_best, mean logprob; else 0
    const char *error;         // one line, with FX_FINISH_ERROR; else NULL
    fx_status error_status;    // with it: FX_EINVAL, the request itself is at fault, as its rules
                               // leave no token to continue with; FX_ENOSPACE, the KV budget has
                               // become too small for it; FX_EINTERNAL
    int n_prompt;              // tokens of the prompt
    int n_cached;              // part of them taken from the prefix cache
    int n_generated;           // tokens that this choice has generated so far
    int n_discarded;           // with `last`: tokens of choices that n_best did not choose
    const float *embedding;    // [n_embd] of FX_TASK_EMBED with FX_FINISH_STOP, and of
                               // FX_TASK_SCORE, where it is the score; else NULL
    int n_embd;
    // Where the request's time went, in microseconds; they add up to the time since fx_submit.
    uint64_t queued_us;  // until it was admitted for the first time
    uint64_t prefill_us; // from then on until its first token was drawn
    uint64_t decode_us;  // since then
    uint64_t gap_us;     // with a token of an answer: since the choice's token before; 0 with its
                         // first one, and where answers are emitted at their end (n_best, beams)
} fx_event;

// When a beam search ends, once it has beam_width finished answers:
typedef enum fx_early_stop {
    FX_STOP_HEURISTIC = 0, // when the best beam, ended now, would not beat the worst of them
    FX_STOP_EARLY,         // at once
    FX_STOP_NEVER,         // when no beam can beat the worst of them, however long it grows
} fx_early_stop;

typedef enum fx_task {
    FX_TASK_GENERATE = 0,
    // The prompt becomes one vector. Of fx_request only prompt, n_dim, norm, priority, client,
    // tenant, no_cache, keep_priority, keep_s, on_event and ud are read. There is one event: its
    // finish is FX_FINISH_STOP with the vector, or says why there is none. The vector's bits do not
    // depend on other requests, nor on what the cache held.
    FX_TASK_EMBED,
    // The prompt is a pair of texts (fx_tokenize_pair), of which the model computes a score,
    // higher where they belong together: from 0 to 1, unless its file says that it is any number.
    // The rest is as with FX_TASK_EMBED, but n_first is read in place of n_dim and norm.
    FX_TASK_SCORE,
} fx_task;

// Whether an embedding is divided by its Euclidean length.
typedef enum fx_embd_norm {
    FX_NORM_MODEL = 0, // as the model's file says; where it says nothing, as FX_NORM_UNIT
    FX_NORM_UNIT,      // it is
    FX_NORM_NONE,      // it is not
} fx_embd_norm;

// Reasoning that ends in time. It begins with the answer, or after a text of `open` among its first
// tokens. Once it has max_tok tokens without a text of `close`, the tokens close_tok come next,
// whatever else might be drawn, and the answer goes on after them; they count as its tokens. A
// grammar must allow them there. Not for beam searches.
typedef struct fx_thought {
    const char *open[2], *close[2]; // NUL-terminated, not empty; the second: another one, or NULL
    bool opened;                    // the prompt ends with `open`: reasoning begins with the answer
    int max_tok;                    // 0: it is closed as soon as it has begun
    const int32_t *close_tok;       // [n_close] at least one
    size_t n_close;
} fx_thought;

typedef struct fx_request {
    fx_task task;
    int n_dim; // of an embedding: its first so many numbers (for models trained so, "Matryoshka",
               // arXiv 2205.13147), cut before they are divided by their length; 0: all
    fx_embd_norm norm;     // of an embedding
    int n_first;           // of a pair: tokens of the prompt up to the second text
    const int32_t *prompt; // fx_submit copies it, like everything that fx_request points to
    size_t n_prompt;
    int max_tok;    // most tokens to generate per choice; < 0: as many as the context and the KV
                    // budget hold; 0: none, and the prompt is computed only to be kept
                    // (keep_priority) or for its logprobs
    int expect_tok; // tokens that each choice will probably get; 0: unknown. A hint for KV managers
                    // that reserve memory ahead
    int n_choice;   // 1 .. FX_MAX_CHOICE; they share the prompt, which is computed once
    int n_best; // number of choices to compute; the n_choice with the best mean logprob are emitted
                // once all have ended; 0: n_choice
    int beam_width; // 0: sample. Else beam search with n_choice .. FX_MAX_BEAM beams: in each step
                    // the beam_width likeliest continuations go on; temperature and later sampling
                    // stages are ignored; the n_choice best are emitted at the end
    float length_penalty; // beam search: score = sum of logprobs / tokens^length_penalty
    fx_early_stop early_stop;
    fx_sampling sampling;
    // Every answer is a text of this grammar, or the beginning of one where something else ends it
    // (max_tok, a stop string, a stop token): only tokens that it can go on with are drawn, and an
    // end-of-text token only where it may end. Where nothing can follow, the answer ends at once,
    // whatever min_tok and ignore_eos say. NULL: any text. Of this engine; fx_submit takes a
    // reference.
    fx_grammar *grammar;
    const fx_thought *thought; // NULL: reasoning takes as long as it takes
    const char *const *stop;   // [n_stop] NUL-terminated strings, each not empty
    size_t n_stop;
    const int32_t *stop_token; // [n_stop_token]
    size_t n_stop_token;
    bool include_stop;         // emit the stop string, or the text of the stop token, as well
    bool ignore_eos;           // go on after an end-of-text token
    bool show_control;         // control tokens are part of the text, as they are spelled
    const int32_t *show_token; // [n_show_token] these control tokens are, even without show_control
    size_t n_show_token;
    bool logprobs;           // emit `prob` with each token, and
    int n_top;               // this many likeliest tokens in it, up to FX_MAX_TOP
    bool processed_logprobs; // of the answer's tokens, see fx_token_prob; not of beams
    bool prompt_logprobs;    // the same for each token of the prompt but the first, and
    int n_prompt_top;        // this many; then the whole prompt is computed, cached or not
    int priority;       // -FX_MAX_PRIORITY .. FX_MAX_PRIORITY, higher goes first; one unit is worth
                        // 10 s of waiting, so that no request waits for ever
    uint64_t client;    // whose it is: clients that wait with the same priority take turns, those
                        // that have been served least first (tokens computed and generated, arXiv
                        // 2401.00588); and one that has less than an eighth of the queue finds
                        // room when others have filled it. 0: all requests without one, together,
                        // are one client, and there is no such room
    const char *tenant; // shares prefixes only with requests of an equal string; NULL: ""
    bool no_speculate;  // nothing is drafted for it
    bool no_cache;      // shares no prefix with other requests and records none
    int keep_priority;  // 0 .. 7: retention of its prompt in the prefix cache, higher stays longer
    uint32_t keep_s;    // seconds from its end for which that holds; 0: no limit
    void (*on_event)(void *ud, const fx_event *ev);
    void *ud;
} fx_request;

// FX_TASK_GENERATE, n_choice 1, max_tok -1, temperature 1, top_p 1, length_penalty 1; dry_base
// 1.75, dry_allowed_length 2, dry_last_tok -1, four dry_breaker and xtc_threshold 0.1, which are
// llama.cpp's and do nothing by themselves; the rest zero.
fx_request fx_request_default(void);

// Checks and copies the request and queues it; its events may come before this returns. A max_tok
// that does not fit the context is clamped. Errors: FX_EINVAL (no prompt, an id outside the
// vocabulary, a parameter out of range, a task that the model does not do), FX_ECONTEXT (the prompt
// alone fills the context or the KV budget, or a text to be embedded is longer than embd_tok),
// FX_ENOSPACE (all its choices at full length exceed the KV budget, or the system's mappings),
// FX_EQUEUE (max_queue or max_queue_tok is reached), FX_ECLOSED, FX_ENOMEM. On error there are no
// events. An idle engine waits 1 % of its first pass for more requests first, 2 ms at most.
fx_status fx_submit(fx_engine *eng, const fx_request *req, uint64_t *id, fx_error *err);

// Cancels a request: its remaining choices end with FX_FINISH_CANCEL at the next step. Unknown and
// finished ids are ignored.
void fx_cancel(fx_engine *eng, uint64_t id);

// Ends one choice of a request with FX_FINISH_STOP: from the callback of one of its tokens, with
// that token; otherwise with its next one, whatever min_tok says. The other choices go on. Unknown
// and finished ids are ignored, and so are choices that are emitted only at their end (n_best,
// beams). Any thread.
void fx_stop_choice(fx_engine *eng, uint64_t id, int choice);

// Has `fn` called on the engine's thread after each step, once the events of all requests in it
// have come: what they cause, such as waking other threads, can be done once for all of them. It
// must not block. One at a time; fn NULL: none. When this returns, the function set before is not
// running and will not be called again. Not from a callback.
void fx_engine_on_step(fx_engine *eng, void (*fn)(void *ud), void *ud);

// Forgets every recorded prefix that no sequence uses, kept ones too, and returns their memory:
// from the next step on, bit by bit. What is left may still be found. kv_mapped_bytes shows it.
void fx_clear_cache(fx_engine *eng);

// Changes the budget of the KV cache from the next step on; ctx_tok stays the same. If more is in
// use, requests are preempted, prefixes evicted and memory returned, bit by bit; a request that the
// budget cannot hold even alone ends with FX_FINISH_ERROR. While requests are on their way to the
// swap, the former budget holds. Errors: FX_EINVAL (too small for the shortest sequence, or the KV
// manager cannot change it).
fx_status fx_set_kv_memory(fx_engine *eng, uint64_t kv_memory_bytes, fx_error *err);

// The i-th KV manager's name, for fx_options; NULL: there are no more. From any thread. Static.
const char *fx_kv_manager_name(int i);

// ---- statistics --------------------------------------------------------------------------------

// X(name, help): every counter and gauge, in one list. The server exports them under these names.
#define FX_STATS(X)                                                                        \
    X(n_request, "requests submitted so far")                                              \
    X(n_prompt_tok, "prompt tokens computed so far")                                       \
    X(n_generated_tok, "tokens generated so far")                                          \
    X(n_draft, "drafts that sequences computed so far")                                    \
    X(n_draft_tok, "tokens of these drafts")                                               \
    X(n_accepted_tok, "tokens of these drafts that were accepted")                         \
    X(draft_saved_us, "microseconds that drafts saved so far, by estimate")                \
    X(draft_lost_us, "microseconds that drafts cost beyond what they saved, by estimate")  \
    X(n_step, "forward passes so far")                                                     \
    X(n_failed_step, "forward passes that the device failed, so far")                      \
    X(device_is_lost, "1: the device failed for good, and requests end with an error")     \
    X(n_lookup_tok, "prompt tokens looked up in the prefix cache so far")                  \
    X(n_cached_tok, "prompt tokens taken from the prefix cache so far")                    \
    X(n_preempt_recompute, "times that a request lost its cache, which is computed again") \
    X(n_preempt_swap, "times that a request began to be swapped out")                      \
    X(n_running, "sequences running now")                                                  \
    X(n_waiting, "sequences waiting now")                                                  \
    X(n_waiting_tok, "prompt tokens of requests waiting now")                              \
    X(kv_budget_bytes, "physical memory the KV cache may take")                            \
    X(kv_mapped_bytes, "physical memory mapped for the KV cache now, with spare chunks")   \
    X(kv_live_bytes, "bytes that hold tokens of running sequences, counted per sequence")  \
    X(kv_cached_bytes, "part of kv_mapped_bytes held by the prefix cache alone")           \
    X(kv_shared_bytes, "part of kv_mapped_bytes that several holders share")               \
    X(kv_used_bytes, "part that holds tokens of sequences, shared ones once")              \
    X(kv_reserved_bytes, "part kept for tokens that sequences are expected to get")        \
    X(kv_internal_bytes, "part that running sequences hold and are not expected to use")   \
    X(kv_external_bytes, "part lost to the allocator's rounding")                          \
    X(kv_spare_bytes, "part kept for the next sequence")                                   \
    X(kv_retired_bytes, "part of kv_mapped_bytes out of use since the device failed")      \
    X(kv_mappings, "runs of neighbouring chunks mapped now")                               \
    X(kv_max_mappings, "most mappings that the system allows; 2^64 - 1: no limit")         \
    X(kv_swapped_bytes, "KV memory of preempted requests in the swap now")                 \
    X(kv_peak_mapped_bytes, "largest kv_mapped_bytes so far")                              \
    X(kv_peak_live_bytes, "largest kv_live_bytes so far")                                  \
    X(n_snapshot, "snapshots of the KV memory taken for subscribers so far")               \
    X(snapshot_us, "microseconds that the engine thread spent on snapshots so far")        \
    X(n_picture, "n_snapshot by its old name, for one version")                            \
    X(picture_us, "snapshot_us by its old name, for one version")

typedef struct fx_stats {
#define FX_STATS_FIELD(name, help) uint64_t name;
    FX_STATS(FX_STATS_FIELD)
#undef FX_STATS_FIELD
} fx_stats;

// A snapshot, taken at the end of the last step.
void fx_engine_stats(const fx_engine *eng, fx_stats *out);

typedef struct fx_details {
    fx_histogram step_tok;              // tokens of each forward pass
    uint64_t accepted_at[FX_MAX_DRAFT]; // drafts whose tokens were accepted up to this one
    fx_histogram block_life_ms;         // of cached prefixes: from recording to eviction,
    fx_histogram block_idle_ms;         // from their last use to eviction,
    fx_histogram block_reuse_ms;        // and between one use and the next
    fx_op_stats driver[FX_N_DRIVER_OP]; // by FX_DRIVER_*
    fx_op_stats kv[FX_N_KV_OP];         // by FX_KV_*
} fx_details;

// A snapshot, taken at the end of the last step.
void fx_engine_details(const fx_engine *eng, fx_details *out);

// ---- the flight recorder -----------------------------------------------------------------------

// X(name): what the scheduler and the KV cache do, in the order of a request's life. No event has
// a text or a token id.
//
//   step_begin  a forward pass begins: n sequences compute n_tok tokens
//   draft       of n_tok tokens that were drafted in it, n were accepted
//   step_end    its results are applied: n_tok tokens were generated. status: of the pass
//
// A request has n sequences and a prompt of n_tok tokens. From `arrive` to `finish` its states
// follow each other:
//   arrive      it waits for the first time
//   admit       it runs; its memory is promised
//   wait        it waits again, without its caches: it was preempted, or found no room after all
//   leave       its caches are on their way to the swap
//   away        they are in the swap
//   come        they are on their way back
//   finish      its last sequence has ended. finish: of its first one
//
//   preempt     the scheduler takes it out of memory, n_tok tokens in the caches of n sequences.
//               is_swap: to the swap; otherwise they will be computed again
//
// A call of the KV cache, for one sequence: took_ns is its time, status its result.
//   create      an empty cache
//   match       a cache that begins with n_tok tokens of a recorded prefix
//   fork        a cache that shares n_tok tokens with another one of the request; of beams, choice
//               is the one that it goes on from
//   extend      memory for n_tok tokens in all; with request 0: for one more token of each of n
//               sequences, of any requests, or for drafted tokens of n sequences
//   record      the first n_tok tokens were recorded as a prefix
//   release     a cache with n_tok tokens is given back
//
// Of the whole cache, with request 0:
//   evict       n recorded blocks have made room since the turn before
//   trim        spare memory went back to the system. took_ns, status
//   budget      a new budget of n MiB is in effect
//   memory      mapped_kib, live_kib and shared_kib at the end of a turn that changed one of them:
//               fx_stats.kv_mapped_bytes and so on, in KiB
#define FX_RECORDS(X) \
    X(step_begin)     \
    X(draft)          \
    X(step_end)       \
    X(arrive)         \
    X(admit)          \
    X(wait)           \
    X(leave)          \
    X(away)           \
    X(come)           \
    X(finish)         \
    X(preempt)        \
    X(create)         \
    X(match)          \
    X(fork)           \
    X(extend)         \
    X(record)         \
    X(release)        \
    X(evict)          \
    X(trim)           \
    X(budget)         \
    X(memory)

#define FX_NAME_RECORD(name) FX_RECORD_##name,
enum { FX_RECORDS(FX_NAME_RECORD) FX_N_RECORD };
#undef FX_NAME_RECORD

// One event. What is not named for its kind is 0.
typedef struct fx_record {
    uint64_t at_us;   // by the engine's clock; of a call, its end
    uint64_t request; // its id; 0: of no request in particular
    union {
        uint32_t took_ns; // of a call, the first of those made together; 2^32 - 1: that or longer
        uint32_t mapped_kib;
    };
    union {
        uint32_t n_tok, live_kib;
    };
    union {
        uint32_t n, shared_kib;
    };
    uint16_t choice;
    uint8_t kind; // FX_RECORD_*
    union {
        uint8_t status;  // an fx_status
        uint8_t finish;  // an fx_finish
        uint8_t is_swap; // 0 or 1
    };
} fx_record;

// Copies up to max_n events to out, oldest first, from event number `from` on; all events are
// numbered from 0. Returns how many; *first is the number of out[0], or of the event to come if
// there is none. The next call goes on at *first + the number returned. *first > from: the events
// between have been overwritten (fx_options.n_record). *first < from: the engine has not had that
// many. Any thread; it holds up neither the engine nor other readers.
size_t fx_record_copy(const fx_engine *eng, uint64_t from, fx_record *out, size_t max_n,
                      uint64_t *first);

// "step_begin", ..; "?" for other values. Static.
const char *fx_record_name(int kind);

// The limits of this machine, as measured: what speeds are compared with.
typedef struct fx_machine {
    int n_thread;
    double read_gb_s;         // memory read bandwidth, 10^9 bytes/s
    double fma_gflop_s;       // f32 fused multiply-adds, 2 operations each
    double int8_gop_s;        // int8 dot products (VNNI), 2 operations each; 0 without VNNI
    double int8_scaled_gop_s; // the same where each sum of 32 is scaled, as in block types
} fx_machine;

// Takes about a second, n_thread threads (0: one per usable core) and 512 MiB; an engine beside it
// is slower meanwhile. Errors: FX_EINVAL (n_thread < 0), FX_ENOMEM, FX_EINTERNAL (no thread).
fx_status fx_measure_machine(int n_thread, fx_machine *out, fx_error *err);

// "0.1.0"; static.
const char *fx_version(void);

#ifdef __cplusplus
}
#endif
#endif
