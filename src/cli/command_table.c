// command_table.c - the commands, as help and the manual page show them.
#include "cli/cli.h"

static const char bench_note[] =
    "Each batch runs with prompts of each length; rates are of all sequences together.\n"
    "Every prompt is new, so no cached prefix helps. The limit follows from:\n\n"
    "  prompt  the longer of: operations of the linear layers at the arithmetic peak (int8\n"
    "          where the kernels use it for most weights, else f32); weights read once\n"
    "  decode  the longer of, for a step: weights and KV cache read; operations at the peak\n\n"
    "Peaks and memory bandwidth are measured before and after the runs; the larger counts.\n";

static const char types_note[] =
    "Types: f32, f16, bf16; quantized: q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0.\n"
    "The _m types are mixtures: tensors whose errors cost most get more bits.\n";

static const char replay_note[] =
    "TRACE: CSV with a line of column names, or JSONL. Columns: prompt_tokens, output_tokens;\n"
    "arrival_ms and hash_ids if it has them (a number for each 512 tokens of the prompt; equal\n"
    "numbers from the start on mean an equal prefix).\n\n"
    "The scheduler and the managers are those of 'serve'. The model is not computed and memory is\n"
    "not taken: passes and memory calls take the time that they would take on the device.\n";

static const char serve_trace_note[] =
    "TRACE: as for 'bench replay'. Prompts are made of random tokens, and answers end at the "
    "length\n"
    "that the trace gives. What this machine is too slow for is scaled by --shrink and --speed.\n";

static const char top_note[] =
    "URL: of the server, http://127.0.0.1:8080 if none is given. Of another machine, forward a "
    "port:\n"
    "ssh -L 8080:127.0.0.1:8080 HOST. https needs a proxy that speaks http. A server with keys "
    "wants\n"
    "an admin's. The key ? shows what the letters mean. NO_COLOR turns colours off.\n";

static const char figures_note[] =
    "FROM holds what bench/evaluation wrote with 'bench replay --csv'. TO gets, for each figure\n"
    "whose data is there, NAME.svg, NAME.png and the script NAME.gp. This needs gnuplot.\n";

const fxi_cli_command fxi_cli_commands[FXI_N_COMMAND] = {
    {"serve", FXI_CMD_SERVE, 0, 0, true, "-m FILE [options]",
     "answer OpenAI-compatible requests over HTTP", NULL},
    {"run", FXI_CMD_RUN, 0, 0, true, "-m FILE [-p TEXT] [options]",
     "complete a text; without -p, chat in the terminal", NULL},
    {"tokenize", FXI_CMD_TOKENIZE, 0, 0, true, "-m FILE [--decode] < TEXT",
     "text on stdin to token ids on one line, or back", NULL},
    {"inspect", FXI_CMD_INSPECT, 1, 1, false, "MODEL",
     "show what a model is, whether it runs, and what its cache costs", NULL},
    {"convert", FXI_CMD_CONVERT, 1, 1, false, "MODEL -o FILE [--type TYPE]",
     "a Hugging Face folder to a GGUF file", types_note},
    {"quantize", FXI_CMD_QUANTIZE, 3, 3, false, "MODEL FILE TYPE",
     "a model to a GGUF file of smaller numbers", types_note},
    {"bench", FXI_CMD_BENCH, 0, 0, true, "-m FILE [options]",
     "measure prompt and decode speed beside the machine's limits", bench_note},
    {"bench replay", FXI_CMD_REPLAY, 1, 1, false, "TRACE [options]",
     "run a trace of requests in virtual time, over managers of KV memory", replay_note},
    {"bench serve", FXI_CMD_SERVE_TRACE, 1, 1, true, "TRACE -m FILE [options]",
     "the same against a model, in real time", serve_trace_note},
    {"bench figures", FXI_CMD_FIGURES, 2, 2, false, "FROM TO",
     "draw the CSV files in a folder as the papers' figures, in another", figures_note},
    {"top", FXI_CMD_TOP, 0, 1, false, "[URL] [options]",
     "watch a server's requests and memory on the terminal", top_note},
    {"help", FXI_CMD_HELP, 0, 2, false, "[COMMAND]", "show the commands, or a command's options",
     NULL},
};
