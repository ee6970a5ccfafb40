// figure_table.c - the figures. Most redraw one of the papers':
//
//   vllm-*        PagedAttention (arXiv 2309.06180)
//   vtensor-*     vTensor (arXiv 2407.15309)
//   vattention-*  vAttention (arXiv 2405.04437)
//
// The number is that of the paper's figure (t: table); docs/evaluation.md sets them side by side.
// bench/evaluation makes the data, with `flexinfer bench replay --csv`.
//
//   scale-*       what a call of libvtensor costs by what it does not touch: bench_vtensor --only
//                 scale; docs/performance.md shows them
#include "cli/figures/figures.h"

#define REQUESTS_PER_S .x = "rate_per_s", .x_label = "requests per second"
#define S_PER_TOKEN    .y = {{"s_per_token_mean", NULL}}, .y_label = "s per token"
#define TOKENS_PER_S   .y = {{"output_tokens_per_s", NULL}}, .y_label = "tokens per second"

// Normalised latency over the request rate: where a line turns up, the system is full.
#define LATENCY                                                                 \
    .kind = FXI_FIGURE_LINES, REQUESTS_PER_S, .series = "manager", S_PER_TOKEN, \
    .settings = "set yrange [0:1]\n"

// Bars for answers to a prompt, which share it.
#define CHOICES(way, rows) \
    .data = "vllm-14-choices", .kind = FXI_FIGURE_BARS, .x = way, .series = "manager", .only = rows

// What the budget holds: a bar for each manager.
#define WASTE                                                                 \
    .kind = FXI_FIGURE_STACKS, .x = "manager", .x_label = "",                 \
    .y = {{"used_percent", "tokens"},       {"reserved_percent", "reserved"}, \
          {"internal_percent", "internal"}, {"external_percent", "external"}, \
          {"cached_percent", "prefixes"},   {"spare_percent", "spare"}},      \
    .y_label = "% of the budget", .settings = "set yrange [0:100]\n"

#define SCALE_AXES                                                                             \
    .data = "vtensor-scale-xeon-2cores", .kind = FXI_FIGURE_LINES, .x = "n", .series = "what", \
    .y = {{"value", NULL}}, .y_label = "us",                                                   \
    .settings =                                                                                \
        "set logscale xy\nset autoscale xfix\nset format x '%.0s%c'\nset yrange [0.01:30000]\n"
#define BESIDE(who, what, chunk_kib) \
    SCALE_AXES, .only = "case=" who " beside " what ",slice_kib=" chunk_kib
#define GIB_AXES SCALE_AXES, .x_label = "GiB that go back to the system"

const fxi_figure fxi_figures[] = {
    {"vllm-02-waste", .title = "Where the KV memory is (ShareGPT, OPT-13B, full load)", WASTE},
    {"vllm-02-real", .title = "Where the KV memory is (Alpaca, a real model, full load)", WASTE},
    {"vllm-12-sharegpt-opt-13b", .title = "ShareGPT, OPT-13B on one A100 40 GB", LATENCY},
    {"vllm-12-sharegpt-opt-66b", .title = "ShareGPT, OPT-66B on four A100 40 GB", LATENCY},
    {"vllm-12-alpaca-opt-13b", .title = "Alpaca, OPT-13B on one A100 40 GB", LATENCY},
    {"vllm-12-alpaca-opt-66b", .title = "Alpaca, OPT-66B on four A100 40 GB", LATENCY},
    {"vllm-13-batch", .title = "Sequences in a step (OPT-13B, all requests at once)",
     .kind = FXI_FIGURE_BARS, .x = "trace", .x_label = "", .series = "manager",
     .y = {{"mean_batch", NULL}}, .y_label = "mean batch"},
    {"vllm-13-real", .data = "vllm-02-real", .title = "Sequences in a step (a real model)",
     .kind = FXI_FIGURE_BARS, .x = "trace", .x_label = "", .series = "manager",
     .y = {{"mean_batch", NULL}}, .y_label = "mean batch"},
    {"vllm-14-parallel", CHOICES("choices", "beams=0"),
     .title = "Parallel sampling (Alpaca, OPT-13B)", .x_label = "answers to each prompt",
     .y = {{"requests_per_s", NULL}}, .y_label = "requests per second"},
    {"vllm-14-beam", CHOICES("beams", "choices=1"), .title = "Beam search (Alpaca, OPT-13B)",
     .x_label = "beams", .y = {{"requests_per_s", NULL}}, .y_label = "requests per second"},
    {"vllm-15-parallel", CHOICES("choices", "beams=0"),
     .title = "Memory saved by sharing: parallel sampling", .x_label = "answers to each prompt",
     .y = {{"shared_percent", NULL}}, .y_label = "% of the tokens held"},
    {"vllm-15-beam", CHOICES("beams", "choices=1"), .title = "Memory saved by sharing: beam search",
     .x_label = "beams", .y = {{"shared_percent", NULL}}, .y_label = "% of the tokens held"},
    {"vllm-16-prefix-80", .data = "vllm-16-prefix",
     .title = "A shared prefix of 80 tokens (LLaMA-13B)", LATENCY, .only = "prefix_tokens=80"},
    {"vllm-16-prefix-341", .data = "vllm-16-prefix",
     .title = "A shared prefix of 341 tokens (LLaMA-13B)", LATENCY, .only = "prefix_tokens=341"},
    {"vllm-18-block-size", .title = "Block size of paged memory (OPT-13B)",
     .kind = FXI_FIGURE_LINES, .x = "block_tokens", .x_label = "tokens in a block",
     .series = "trace", S_PER_TOKEN, .settings = "set logscale x 2\n"},
    {"vllm-19-preempt", .title = "Preemption: swap or compute again (ShareGPT, OPT-13B)",
     .kind = FXI_FIGURE_LINES, REQUESTS_PER_S, .series = "preempt", S_PER_TOKEN},
    {"vtensor-02-memory", .title = "Memory against the batch (Yi-6B, A100 80 GB)",
     .kind = FXI_FIGURE_LINES, .x = "max_seq", .x_label = "sequences", .series = "manager",
     .y = {{"mapped_mean_gb", NULL}}, .y_label = "GB of KV memory taken"},
    {"vtensor-09-throughput", .title = "Throughput without sharing (A100 80 GB)",
     .kind = FXI_FIGURE_BARS, .x = "model", .x_label = "", .series = "manager", TOKENS_PER_S},
    {"vtensor-10-sharing", .title = "Throughput of conversations in turns and of shared prefixes",
     .kind = FXI_FIGURE_BARS, .x = "trace", .x_label = "", .series = "manager", TOKENS_PER_S},
    {"vtensor-11-timeline", .title = "Memory as load rises and falls (Yi-6B, A100 80 GB)",
     .kind = FXI_FIGURE_LINES, .x = "at_s", .x_label = "s", .series = "manager",
     .y = {{"mapped_gb", "taken"}, {"live_gb", "tokens"}}, .y_label = "GB of KV memory"},
    {"vattention-09-offline", .title = "Long documents, all at once (arXiv)",
     .kind = FXI_FIGURE_BARS, .x = "model", .x_label = "", .series = "manager",
     .y = {{"requests_per_s", NULL}}, .y_label = "requests per second"},
    {"vattention-10-online", .title = "Long documents arrive at random times (arXiv, Yi-6B)",
     .kind = FXI_FIGURE_LINES, REQUESTS_PER_S, .series = "manager",
     .y = {{"first_token_p50_s", NULL}}, .y_label = "s to the first token, median",
     .settings = "set yrange [0:30]\n"},
    {"vattention-12-ahead", .title = "Time in memory calls that a step waits for",
     .kind = FXI_FIGURE_BARS, .x = "model", .x_label = "", .series = "manager",
     .y = {{"driver_percent", NULL}}, .y_label = "% of the time"},
    {"vattention-t8-page", .title = "Page size against the batch", .kind = FXI_FIGURE_BARS,
     .x = "page_kib", .x_label = "KiB in a page", .series = "model", .y = {{"mean_batch", NULL}},
     .y_label = "mean batch"},
    {"scale-sequences-sequence-64k", BESIDE("a sequence", "sequences", "64"),
     .title = "Calls on a sequence, slices of 64 KiB", .x_label = "sequences alive"},
    {"scale-sequences-sequence-2m", BESIDE("a sequence", "sequences", "2048"),
     .title = "Calls on a sequence, slices of 2 MiB", .x_label = "sequences alive"},
    {"scale-sequences-manager-64k", BESIDE("the manager", "sequences", "64"),
     .title = "Calls on the manager, slices of 64 KiB", .x_label = "sequences alive"},
    {"scale-sequences-manager-2m", BESIDE("the manager", "sequences", "2048"),
     .title = "Calls on the manager, slices of 2 MiB", .x_label = "sequences alive"},
    {"scale-nodes-sequence-64k", BESIDE("a sequence", "nodes", "64"),
     .title = "Calls on a sequence, slices of 64 KiB", .x_label = "nodes of the prefix tree"},
    {"scale-nodes-sequence-2m", BESIDE("a sequence", "nodes", "2048"),
     .title = "Calls on a sequence, slices of 2 MiB", .x_label = "nodes of the prefix tree"},
    {"scale-nodes-manager-64k", BESIDE("the manager", "nodes", "64"),
     .title = "Calls on the manager, slices of 64 KiB", .x_label = "nodes of the prefix tree"},
    {"scale-nodes-manager-2m", BESIDE("the manager", "nodes", "2048"),
     .title = "Calls on the manager, slices of 2 MiB", .x_label = "nodes of the prefix tree"},
    {"scale-tokens-sequence-64k", BESIDE("a sequence", "tokens", "64"),
     .title = "Calls on a sequence, slices of 64 KiB", .x_label = "tokens of another sequence"},
    {"scale-tokens-sequence-2m", BESIDE("a sequence", "tokens", "2048"),
     .title = "Calls on a sequence, slices of 2 MiB", .x_label = "tokens of another sequence"},
    {"scale-tokens-manager-64k", BESIDE("the manager", "tokens", "64"),
     .title = "Calls on the manager, slices of 64 KiB", .x_label = "tokens of another sequence"},
    {"scale-tokens-manager-2m", BESIDE("the manager", "tokens", "2048"),
     .title = "Calls on the manager, slices of 2 MiB", .x_label = "tokens of another sequence"},
    {"scale-giving-64k", GIB_AXES, .only = "case=GiB go back,slice_kib=64,unit=us",
     .title = "The longest call while memory goes back, slices of 64 KiB"},
    {"scale-giving-2m", GIB_AXES, .only = "case=GiB go back,slice_kib=2048,unit=us",
     .title = "The longest call while memory goes back, slices of 2 MiB"},
};
const int fxi_n_figure = sizeof fxi_figures / sizeof *fxi_figures;
