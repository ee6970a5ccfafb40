// options.c - the options of all commands as one table.
#include "cli/cli.h"

#include <limits.h>
#include <sys/random.h>

#define AT(field) offsetof(fxi_cli_options, field)

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "FXI_OPT_SIZE fills size_t, too");

enum {
    ENGINE = FXI_CMD_SERVE | FXI_CMD_RUN | FXI_CMD_BENCH | FXI_CMD_LAB,
    ALL = ENGINE | FXI_CMD_TOKENIZE | FXI_CMD_CONVERT | FXI_CMD_QUANTIZE,
};

// clang-format off
static const fxi_opt rows[] = {
    {"model", 'm', "MODEL", FXI_OPT_STR, 0, 0, NULL, AT(engine.model_path), ENGINE, "the model: a GGUF file, a Hugging Face folder, or a name like hf:ORG/REPO, which is fetched"},
    {"model", 'm', "MODEL", FXI_OPT_STR, 0, 0, NULL, AT(engine.model_path), FXI_CMD_TOKENIZE, "the vocabulary: GGUF, tokenizer.json, rank file, or a folder"},
    {"tokenizer", 0, "MODEL", FXI_OPT_STR, 0, 0, NULL, AT(engine.tokenizer_path), ENGINE, "another vocabulary: GGUF, tokenizer.json, rank file, or a folder"},
    {"tokenizer-pre", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(engine.tokenizer_pre), ENGINE | FXI_CMD_TOKENIZE, "for a rank file: its pre-tokenizer, like llama-bpe or qwen2"},
    {"chat-template", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(engine.chat_template), FXI_CMD_SERVE | FXI_CMD_RUN, "chat template: chatml, llama2, llama3, mistral, gemma, phi3, zephyr, plain, or a Jinja file"},
    {"pooling", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(engine.pooling), FXI_CMD_SERVE, "how embeddings are pooled: mean, first or last; rank: a head scores pairs of texts (default: as the model's file says)"},

    {"config", 0, "FILE", FXI_OPT_CONFIG, 0, 0, NULL, AT(config), ALL, "file of options: 'key = value' lines, [COMMAND] sections"},

    {"host", 0, "HOST", FXI_OPT_STR, 0, 0, "127.0.0.1", AT(server.host), FXI_CMD_SERVE, "address to listen on, or unix:PATH for the socket of a file"},
    {"socket-access", 0, "owner|group|all", FXI_OPT_CHOICE, 0, 0, "owner", AT(socket_access), FXI_CMD_SERVE, "users of this machine that may connect to the socket of --host unix:PATH: the server's own, those of its group, or all"},
    {"port", 0, "PORT", FXI_OPT_INT, 0, 65535, "8080", AT(server.port), FXI_CMD_SERVE, "port to listen on; 0: any free one"},

    {"alias", 'a', "LIST", FXI_OPT_STR, 0, 0, NULL, AT(server.alias), FXI_CMD_SERVE, "more names under which clients can request the model, like gpt-4o,default"},
    {"max-logprobs", 0, "N", FXI_OPT_INT, 0, FX_MAX_TOP, "0", AT(server.max_logprobs), FXI_CMD_SERVE, "most logprobs that a request may ask for (default: 20)"},
    {"logprobs", 0, "raw|processed", FXI_OPT_CHOICE, 0, 0, "raw", AT(logprobs), FXI_CMD_SERVE, "logprobs of answers: the model's own, or after biases, penalties and temperature"},
    {"sampling-order", 0, "temperature|cuts", FXI_OPT_CHOICE, 0, 0, "temperature", AT(sampling_order), FXI_CMD_SERVE, "whether the temperature applies first, as in vLLM, or after top_k, top_p, min_p and typical_p, as in llama.cpp"},
    {"tool-parser", 0, "NAME", FXI_OPT_STR, 0, 0, "auto", AT(server.tool_parser), FXI_CMD_SERVE, "format of the model's tool calls, like hermes or mistral (docs/user/tools.md); auto: found in the chat template; none: calls stay text"},
    {"marked-calls-only", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(server.marked_calls_only), FXI_CMD_SERVE, "only calls in the format of --tool-parser count; by default a JSON object, bare or in a fence, that names a tool of the request and fits its schema is a call, too"},
    {"reasoning-parser", 0, "NAME", FXI_OPT_STR, 0, 0, "auto", AT(server.reasoning_parser), FXI_CMD_SERVE, "format of the model's reasoning, like think or granite (docs/user/tools.md); auto: found in the chat template; none: reasoning stays text"},
    {"refuse-excess", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(server.refuse_excess), FXI_CMD_SERVE, "refuse a max_tokens that exceeds the context instead of clamping it"},
    {"api-key-file", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(server.key_file), FXI_CMD_SERVE, "file of API keys, one per line: NAME KEY [admin] [priority=N]; read again on SIGHUP (default: no key is needed)"},
    {"cors", 0, "LIST", FXI_OPT_STR, 0, 0, NULL, AT(cors), FXI_CMD_SERVE, "origins of web pages that may use the server, like https://example.org; *: any (default: the server's own)"},
    {"allowed-host", 0, "LIST", FXI_OPT_STR, 0, 0, NULL, AT(allowed_hosts), FXI_CMD_SERVE, "host names by which clients may reach the server; *: any (default: localhost and its addresses)"},
    {"tls-cert", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(server.tls_cert), FXI_CMD_SERVE, "certificate chain, PEM, to serve https; needs --tls-key"},
    {"tls-key", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(server.tls_key), FXI_CMD_SERVE, "the certificate's private key, PEM"},
    {"isolate", 0, "address|connection|none", FXI_OPT_CHOICE, 0, 0, "address", AT(isolate), FXI_CMD_SERVE, "which clients without keys share cached prefixes: those of one address, those of one connection, or all (none)"},
    {"allow-priority", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(server.allow_priority), FXI_CMD_SERVE, "let every request raise its priority, whatever its key allows"},
    {"open-metrics", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(server.open_metrics), FXI_CMD_SERVE, "answer /metrics without a key"},
    {"max-connections", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(server.max_conn), FXI_CMD_SERVE, "most open connections (default: 1000, fewer if the limit of open files is low)"},
    {"max-per-address", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(server.max_per_address), FXI_CMD_SERVE, "most open connections from one address (default: half of all; no limit for this machine)"},
    {"header-timeout", 0, "S", FXI_OPT_DOUBLE, 0, 86400, "0", AT(server.header_timeout_s), FXI_CMD_SERVE, "seconds within which a request's head must arrive (default: 10)"},
    {"body-timeout", 0, "S", FXI_OPT_DOUBLE, 0, 86400, "0", AT(server.body_timeout_s), FXI_CMD_SERVE, "seconds within which a request's body must arrive (default: 60)"},
    {"read-timeout", 0, "S", FXI_OPT_DOUBLE, 0, 86400, "0", AT(server.read_timeout_s), FXI_CMD_SERVE, "seconds over which a client must read its answer at 1 KiB/s on average (default: 120)"},
    {"idle-timeout", 0, "S", FXI_OPT_INT, 0, 86400, "0", AT(server.idle_timeout_s), FXI_CMD_SERVE, "seconds after which an idle connection is closed (default: 60)"},
    {"drain-timeout", 0, "S", FXI_OPT_FLOAT, 0, 86400, "30", AT(drain_timeout_s), FXI_CMD_SERVE, "seconds that running answers may take after SIGTERM; a second signal ends them at once"},
    {"max-body", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p40, "0", AT(server.max_body_bytes), FXI_CMD_SERVE, "largest body of a request (default: 8M)"},

    {"log-format", 0, "text|json", FXI_OPT_CHOICE, 0, 0, "text", AT(log_format), FXI_CMD_SERVE, "format of log lines"},
    {"log-level", 0, "debug|info|warn|error", FXI_OPT_CHOICE, 0, 0, "info", AT(log_level), FXI_CMD_SERVE, "lowest level that is logged; debug includes probes"},
    {"log-prompts", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(server.log_prompts), FXI_CMD_SERVE, "log request bodies, up to 16 KiB of each"},
    {"otlp-endpoint", 0, "URL", FXI_OPT_STR, 0, 0, NULL, AT(server.otlp_endpoint), FXI_CMD_SERVE, "send a span of each request to an OpenTelemetry collector, like http://localhost:4318/v1/traces (default: OTEL_EXPORTER_OTLP_ENDPOINT)"},
    {"check-config", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(check_config), FXI_CMD_SERVE, "check options and files, print the options in effect, and exit"},

    {"prompt", 'p', "TEXT", FXI_OPT_STR, 0, 0, NULL, AT(prompt), FXI_CMD_RUN, "text to complete; without it, chat"},
    {"system", 0, "TEXT", FXI_OPT_STR, 0, 0, NULL, AT(system), FXI_CMD_RUN, "message of the system, before a chat or a message"},
    {"file", 'f', "FILE", FXI_OPT_STR, 0, 0, NULL, AT(prompt_file), FXI_CMD_RUN, "file of the text to complete; -: standard input"},
    {"max-tokens", 'n', "N", FXI_OPT_INT, -1, INT_MAX, "-1", AT(max_tok), FXI_CMD_RUN, "most tokens to generate (default: until the text or the context ends)"},
    {"temperature", 0, "T", FXI_OPT_FLOAT, -1, 100, "-1", AT(presets.temperature), FXI_CMD_RUN | FXI_CMD_SERVE, "of requests that do not say; 0: greedy, higher is more random (default: as the model's file says, else 0.8)"},
    {"top-k", 0, "K", FXI_OPT_INT, -1, INT_MAX, "-1", AT(presets.top_k), FXI_CMD_RUN | FXI_CMD_SERVE, "sample from the K likeliest tokens; 0: all (default: as the model's file says, else all)"},
    {"top-p", 0, "P", FXI_OPT_FLOAT, 0, 1, "0", AT(presets.top_p), FXI_CMD_RUN | FXI_CMD_SERVE, "sample from the likeliest tokens that make up probability P; 1: all (default: as the model's file says, else 0.95)"},
    {"min-p", 0, "P", FXI_OPT_FLOAT, -1, 1, "-1", AT(presets.min_p), FXI_CMD_RUN | FXI_CMD_SERVE, "drop tokens less likely than P times the likeliest (default: as the model's file says, else 0)"},
    {"repetition-penalty", 0, "R", FXI_OPT_FLOAT, 0, 1000, "0", AT(presets.repetition_penalty), FXI_CMD_RUN | FXI_CMD_SERVE, "above 1, tokens of prompt and answer become less likely; 1: off (default: as the model's file says, else 1)"},
    {"dry-multiplier", 0, "M", FXI_OPT_FLOAT, 0, 1e30, "0", AT(sampling.dry_multiplier), FXI_CMD_RUN, "a token that would go on with a repetition of N tokens loses M times B^(N - L); 0: off"},
    {"dry-base", 0, "B", FXI_OPT_FLOAT, 0, 1e30, "1.75", AT(sampling.dry_base), FXI_CMD_RUN, "base of --dry-multiplier; below 1: off"},
    {"dry-allowed-length", 0, "L", FXI_OPT_INT, 0, INT_MAX, "2", AT(sampling.dry_allowed_length), FXI_CMD_RUN, "the shortest repetition that --dry-multiplier counts"},
    {"dry-penalty-last-n", 0, "N", FXI_OPT_INT, -1, INT_MAX, "-1", AT(sampling.dry_last_tok), FXI_CMD_RUN, "tokens, the last, that --dry-multiplier looks at; -1: all; 0: off"},
    {"dry-sequence-breaker", 0, "TEXT", FXI_OPT_STR, 0, 0, NULL, AT(dry_breaker), FXI_CMD_RUN, "the one text that no repetition reaches over; none: there is none (default: newline, colon, quote and asterisk)"},
    {"xtc-probability", 0, "P", FXI_OPT_FLOAT, 0, 1, "0", AT(sampling.xtc_probability), FXI_CMD_RUN, "how often, of the tokens of at least --xtc-threshold, all but the least likely one are dropped"},
    {"xtc-threshold", 0, "P", FXI_OPT_FLOAT, 0, 1, "0.1", AT(sampling.xtc_threshold), FXI_CMD_RUN, "the probability from which on --xtc-probability concerns a token; above 0.5: off"},
    {"seed", 's', "S", FXI_OPT_U64, 0, 0x1p64, NULL, AT(sampling.seed), FXI_CMD_RUN, "the same seed gives the same text (default: a random one)"},
    {"ignore-eos", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(ignore_eos), FXI_CMD_RUN, "continue after the end-of-text token"},

    {"no-bos", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(no_bos), FXI_CMD_TOKENIZE, "leave out the beginning-of-text token"},
    {"decode", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(decode), FXI_CMD_TOKENIZE, "the reverse: ids on stdin to text"},

    {"output", 'o', "FILE", FXI_OPT_STR, 0, 0, NULL, AT(output), FXI_CMD_CONVERT, "the GGUF file to write"},
    {"type", 0, "TYPE", FXI_OPT_STR, 0, 0, NULL, AT(type), FXI_CMD_CONVERT, "type of the matrices (default: as stored)"},
    {"imatrix", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(imatrix), FXI_CMD_QUANTIZE, "importance matrix, as llama-imatrix writes it"},
    {"allow-requantize", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(allow_requantize), FXI_CMD_CONVERT | FXI_CMD_QUANTIZE, "quantize weights that are quantized already: what both roundings lose adds up"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 4096, "0", AT(engine.n_thread), FXI_CMD_CONVERT | FXI_CMD_QUANTIZE, "threads that convert (default: one per core)"},

    {"batch", 0, "LIST", FXI_OPT_INTS, 1, 1024, "1,8", AT(batch), FXI_CMD_BENCH, "batch sizes: sequences at once"},
    {"prompt", 'p', "LIST", FXI_OPT_INTS, 1, 1 << 24, NULL, AT(prompts), FXI_CMD_BENCH, "tokens of each prompt (default: 512, or half the context)"},
    {"context", 0, "LIST", FXI_OPT_INTS, 1, 1 << 24, NULL, AT(contexts), FXI_CMD_BENCH, "tokens in each cache when decoding starts (default: --prompt)"},
    {"gen", 'n', "N", FXI_OPT_INT, 1, 1 << 24, "32", AT(n_gen), FXI_CMD_BENCH, "tokens to generate after each prompt"},
    {"repeat", 'r', "N", FXI_OPT_INT, 1, 1000, "3", AT(n_repeat), FXI_CMD_BENCH, "runs of each batch and length; medians are shown"},
    {"trace", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(trace), FXI_CMD_BENCH | FXI_CMD_LAB, "write what the engine did last to FILE, as a Chrome trace for Perfetto"},
    {"csv", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(csv), FXI_CMD_BENCH, "CSV instead of a table"},
    {"json", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(json), FXI_CMD_BENCH, "one JSON object instead of a table"},

    {"api-key-file", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(client_key_file), FXI_CMD_TOP, "the server's file of keys, of which an admin's is sent, or a file with a single key (default: no key is sent)"},
    {"ca-file", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(ca_file), FXI_CMD_TOP, "certificates that an https server's certificate is checked against, PEM (default: the system's)"},
    {"once", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(once), FXI_CMD_TOP, "print one screen as plain text, and exit"},

    {"device", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(engine.device), ENGINE, "device that computes: cpu, a GPU like cuda:0, or several that share the model, like cuda:0,cuda:1 (default: cpu)"},
    {"gpu-math", 0, "batch-invariant|cpu-exact", FXI_OPT_CHOICE, 0, 0, "batch-invariant", AT(engine.gpu_math), ENGINE, "a GPU's order of sums: batch-invariant, on tensor cores, or cpu-exact, which gives the CPU's bits and is slower"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 4096, "0", AT(engine.n_thread), ENGINE, "threads that compute (default: one per core)"},
    {"ctx", 'c', "N", FXI_OPT_INT, 0, INT_MAX, "0", AT(engine.ctx_tok), ENGINE, "context length in tokens (default: the model's)"},
    {"kv-memory", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(engine.kv_memory_bytes), ENGINE, "memory budget of the KV cache, like 2G, of all devices together (default: half of the host's free memory, nine tenths of a GPU's)"},
    {"kv", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(engine.kv_manager), ENGINE & ~FXI_CMD_LAB, "manager of the KV cache's memory: vtensor, vattention or paged; a wrong name lists all (default: vtensor)"},
    {"kv-block", 0, "N", FXI_OPT_INT, 0, 1 << 16, "0", AT(engine.kv_block_tok), ENGINE, "least tokens in a block or chunk of the KV cache (default: chosen by the manager)"},
    {"kv-type", 0, "f16|bf16|f32|q8_0", FXI_OPT_CHOICE, 0, 0, "f16", AT(engine.kv_type), ENGINE, "number format of the KV cache"},
    {"cache-idle", 0, "S", FXI_OPT_INT, -1, 1 << 30, "0", AT(engine.cache_idle_s), FXI_CMD_SERVE, "seconds after which an idle server drops cached prefixes; -1: never (default: 600)"},
    {"prefix-pass", 0, "N", FXI_OPT_INT, -1, 1 << 20, "0", AT(engine.prefix_pass), FXI_CMD_SERVE | FXI_CMD_LAB, "how often requests of the same client with more cached tokens may overtake a waiting one; -1: never (default: 16)"},
    {"swap", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(engine.swap_bytes), FXI_CMD_SERVE | FXI_CMD_BENCH | FXI_CMD_LAB, "disk space for preempted sequences, like 4G; 0: none, recompute them"},
    {"swap-dir", 0, "DIR", FXI_OPT_STR, 0, 0, NULL, AT(engine.swap_dir), FXI_CMD_SERVE | FXI_CMD_BENCH | FXI_CMD_LAB, "folder of the swap file (default: $TMPDIR or /tmp)"},
    {"step-tokens", 0, "N", FXI_OPT_INT, 0, 1 << 16, "0", AT(engine.step_tok), ENGINE, "most tokens to compute in one forward pass (default: 512)"},
    {"max-seq", 0, "N", FXI_OPT_INT, 0, 1 << 14, "0", AT(engine.max_seq), FXI_CMD_SERVE | FXI_CMD_LAB, "most sequences that run together (default: 64)"},
    {"step-ms", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(engine.step_ms), FXI_CMD_SERVE | FXI_CMD_LAB, "most milliseconds of prompt work in a forward pass while others decode (default: 250)"},
    {"step-ms", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(engine.step_ms), FXI_CMD_BENCH, "most milliseconds of prompt work in a forward pass while others decode (default: no limit)"},
    {"speculate", 0, "off|prompt|prefix|auto", FXI_OPT_CHOICE, 0, 0, "auto", AT(engine.speculate), ENGINE, "draft from the text so far (prompt), from recorded prefixes (prefix) or from both (auto), and verify several tokens in one pass; answers do not change"},
    {"draft", 0, "MODEL", FXI_OPT_STR, 0, 0, NULL, AT(engine.draft_path), ENGINE, "small model with the same vocabulary that drafts where --speculate finds nothing: a GGUF file, a folder or a name"},
    {"draft-tokens", 0, "N", FXI_OPT_INT, 0, FX_MAX_DRAFT, "0", AT(engine.draft_tok), ENGINE, "most tokens drafted for a sequence in a pass (default: 8)"},
    {"max-queue", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(engine.max_queue), FXI_CMD_SERVE, "most sequences that wait (default: 1024)"},
    {"max-queue-tokens", 0, "N", FXI_OPT_U64, 0, 0x1p60, "0", AT(engine.max_queue_tok), FXI_CMD_SERVE, "most prompt tokens that wait (default: 1048576)"},
    {"max-queue-bytes", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(server.max_queue_bytes), FXI_CMD_SERVE, "most memory of requests and answers that wait (default: an eighth of the free memory, 64M to 1G)"},
    {"send-percent", 0, "P", FXI_OPT_FLOAT, 0, 100, "0", AT(send_percent), FXI_CMD_SERVE, "ignored, and removed in the next version: each token is sent when the pass that computed it ends"},
    {"record-events", 0, "N", FXI_OPT_INT, 0, 1 << 26, "65536", AT(engine.n_record), FXI_CMD_SERVE | FXI_CMD_BENCH | FXI_CMD_LAB, "events that the flight recorder keeps for traces, 32 bytes each; 0: none"},
    {"workers", 0, "N", FXI_OPT_INT, 0, 256, "0", AT(server.n_worker), FXI_CMD_SERVE, "threads that parse, render and tokenize requests (default: 2)"},
};
// clang-format on

static const fxi_opt_section sections[] = {
    {"serve", FXI_CMD_SERVE},     {"run", FXI_CMD_RUN},           {"tokenize", FXI_CMD_TOKENIZE},
    {"convert", FXI_CMD_CONVERT}, {"quantize", FXI_CMD_QUANTIZE}, {"bench", FXI_CMD_BENCH},
};

// Accepted until the version after 0.1.
static const fxi_opt_renamed renamed[] = {
    {"gpu-math", "law", "batch-invariant"},
    {"gpu-math", "exact", "cpu-exact"},
};

// What users of llama.cpp and vLLM type.
// clang-format off
static const fxi_opt_alias aliases[] = {
    {"--temp", "temperature", NULL},
    {"-sys --system-prompt", "system", NULL},
    {"--n-predict --predict", "max-tokens", NULL},
    {"--ctx-size --max-model-len", "ctx", NULL},
    {"-np --parallel --max-num-seqs", "max-seq", NULL},
    {"-b --batch-size -ub --ubatch-size --max-num-batched-tokens", "step-tokens", NULL},
    {"-md --model-draft", "draft", NULL},
    {"--draft-max --draft-n", "draft-tokens", NULL},
    {"--chat-template-file", "chat-template", NULL},
    {"--tool-call-parser", "tool-parser", NULL},
    {"--served-model-name", "alias", NULL},
    {"--ssl-cert-file --ssl-certfile", "tls-cert", NULL},
    {"--ssl-key-file --ssl-keyfile", "tls-key", NULL},
    {"--threads-http", "workers", NULL},
    {"--n-prompt", "prompt", NULL},
    {"--n-gen", "gen", NULL},
    {"--repetitions", "repeat", NULL},
    {"-ngl --gpu-layers --n-gpu-layers", NULL, "--device cuda:0 runs all layers on a GPU"},
    {"-mg --main-gpu", NULL, "--device cuda:N names the GPU"},
    {"-sm --split-mode -ts --tensor-split -tp --tensor-parallel-size", NULL, "--device cuda:0,cuda:1 shares the model between GPUs"},
    {"-nkvo --no-kv-offload", NULL, "the KV cache lies where --device computes"},
    {"-fa --flash-attn", NULL, "attention never stores its matrix of scores, and needs no option"},
    {"--mlock", NULL, "a service's MemorySwapMax=0 keeps weights out of the swap space"},
    {"--mmap --no-mmap", NULL, "weights are always read into memory at the start"},
    {"-ctk --cache-type-k -ctv --cache-type-v --kv-cache-dtype", NULL, "--kv-type sets the type of keys and values together"},
    {"-tb --threads-batch", NULL, "--threads holds for prompts and for answers"},
    {"-cb --cont-batching -nocb --no-cont-batching", NULL, "requests always join those that run"},
    {"--enable-prefix-caching --no-enable-prefix-caching --enable-chunked-prefill", NULL, "prefixes are always cached, and prompts computed in parts (--step-tokens)"},
    {"--gpu-memory-utilization", NULL, "--kv-memory SIZE is the KV cache's budget"},
    {"--swap-space", NULL, "--swap SIZE is disk space for preempted sequences"},
    {"--dtype", NULL, "weights are used as stored; 'flexinfer quantize' writes other types"},
    {"--quantization", NULL, "a model's file says how it is quantized"},
    {"--trust-remote-code", NULL, "no model's code is ever run"},
    {"--jinja --no-jinja", NULL, "chat templates are always run as Jinja"},
    {"-cnv --conversation -i --interactive", NULL, "'run' without --prompt is a chat"},
    {"-no-cnv --no-conversation", NULL, "--prompt completes its text without a chat template"},
    {"-e --escape --no-escape", NULL, "texts are taken as they are; in a shell, $'one\\ntwo' holds a new line"},
    {"--repeat-penalty --repeat-last-n", NULL, "--repetition-penalty counts over prompt and answer"},
    {"--presence-penalty --frequency-penalty", NULL, "these penalties are fields of requests to 'serve'"},
    {"--grammar --grammar-file -j --json-schema", NULL, "forms of answers are fields of requests to 'serve'"},
    {"-hf -hfr --hf-repo -hff --hf-file", NULL, "hf:ORG/REPO or hf:ORG/REPO/FILE in place of the model is fetched"},
    {"-st --single-turn", NULL, "a message after the model is answered, and that is all"},
    {"--no-display-prompt", NULL, "standard output holds the answer alone"},
    {"--embedding --embeddings", NULL, "/v1/embeddings needs no option"},
    {"--metrics", NULL, "/metrics needs no option"},
    {"--enable-auto-tool-choice", NULL, "tool calls are always found (--tool-parser)"},
    {"--reasoning-format", NULL, "--reasoning-parser names the format"},
    {"--api-key", NULL, "--api-key-file FILE, so that no list of processes shows the key"},
    {"-v --verbose", NULL, "--log-level debug logs more"},
    {"--lora --enable-lora", NULL, "adapters are not loaded: merge them into the model first"},
};
// clang-format on

const fxi_opt_table fxi_cli_table = {.opt = rows,
                                     .n_opt = sizeof rows / sizeof rows[0],
                                     .env_prefix = "FLEXINFER_",
                                     .section = sections,
                                     .n_section = sizeof sections / sizeof sections[0],
                                     .renamed = renamed,
                                     .n_renamed = sizeof renamed / sizeof renamed[0],
                                     .alias = aliases,
                                     .n_alias = sizeof aliases / sizeof aliases[0]};

fxi_cli_options fxi_cli_options_start(void)
{
    fxi_cli_options o = {.engine = fx_options_default()};
    uint32_t seed = 0; // short enough to be typed again
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
    o.sampling.seed = seed;
    return o;
}
