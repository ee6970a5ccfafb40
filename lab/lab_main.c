// lab_main.c - flexinfer-lab: its commands, and its options beyond those of flexinfer.
#include <limits.h>
#include <string.h>

#include "lab/lab.h"

#define AT(field) offsetof(fxi_lab_options, field)

enum { REPLAY = FXI_CMD_LAB << 1, HELP = FXI_CMD_LAB << 2, BOTH = REPLAY | FXI_CMD_LAB };

// clang-format off
static const fxi_opt lab_rows[] = {
    {"kv", 0, "LIST", FXI_OPT_STR, 0, 0, "vtensor", AT(managers), BOTH, "managers of KV memory, separated by commas, a row for each: those of flexinfer, and reserve-max, reserve-pow2, reserve-oracle"},
    {"geometry", 0, "NAME", FXI_OPT_STR, 0, 0, "opt-13b", AT(geometry), REPLAY, "the model: opt-13b, opt-66b, opt-175b, llama-13b, llama-3-8b, yi-6b, yi-9b, yi-34b"},
    {"device", 0, "NAME", FXI_OPT_STR, 0, 0, "a100-40g", AT(device), REPLAY, "a100-40g, 4xa100-40g, a100-80g, 2xa100-80g, 8xa100-80g, h100-80g"},
    {"calibration", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(calibration), REPLAY, "instead of both: a machine and a model as 'flexinfer bench --json' measured them"},
    {"rate", 0, "R", FXI_OPT_FLOAT, 0, 1e6, "0", AT(rate_per_s), BOTH, "requests per second, at random times (default: as the trace says, or all at once)"},
    {"requests", 0, "N", FXI_OPT_INT, 0, INT_MAX, "0", AT(max_row), BOTH, "only the first N requests (default: all)"},
    {"speed", 0, "X", FXI_OPT_FLOAT, 1e-6, 1e6, "1", AT(speed), BOTH, "the trace's own times run X times as fast"},
    {"shrink", 0, "X", FXI_OPT_FLOAT, 1, 1e6, "1", AT(shrink), BOTH, "prompts and answers are X times shorter"},
    {"choices", 0, "N", FXI_OPT_INT, 1, 64, "1", AT(n_choice), BOTH, "answers to each prompt"},
    {"beams", 0, "N", FXI_OPT_INT, 0, FX_MAX_BEAM, "0", AT(beam_width), BOTH, "width of a beam search (default: sampling)"},
    {"no-prefixes", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(no_prefixes), BOTH, "requests share no prefixes, and none is kept"},
    {"prefix", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(prefix_tok), BOTH, "tokens of a prefix that all prompts share"},
    {"ctx", 'c', "N", FXI_OPT_INT, 0, 1 << 24, "0", AT(cli.ctx_tok), REPLAY, "longest sequence in tokens (default: the model's)"},
    {"kv-memory", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(cli.kv_memory_bytes), REPLAY, "memory of the KV cache (default: what the model leaves of the device)"},
    {"swap", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(cli.swap_bytes), REPLAY, "host memory for preempted sequences; 0: none, recompute them"},
    {"page", 0, "SIZE", FXI_OPT_SIZE, 4096, 0x1p30, "2M", AT(page_bytes), REPLAY, "page size of the device's memory"},
    {"max-seq", 0, "N", FXI_OPT_INT, 1, 1 << 14, "256", AT(cli.max_seq), REPLAY, "most sequences to run together"},
    {"step-tokens", 0, "N", FXI_OPT_INT, 1, 1 << 16, "2048", AT(cli.step_tok), REPLAY, "most tokens to compute in one step"},
    {"seed", 0, "S", FXI_OPT_U64, 0, 0x1p64, "1", AT(cli.sampling.seed), BOTH, "seed of the random arrival times"},
    {"timeline", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(timeline), BOTH, "write memory and load over time to FILE, as CSV"},
    {"sample", 0, "S", FXI_OPT_FLOAT, 1e-3, 1e6, "1", AT(sample_s), BOTH, "seconds between the rows of --timeline"},
    {"csv", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(cli.csv), BOTH, "CSV instead of a table"},
    {"kv-block", 0, "N", FXI_OPT_INT, 0, 1 << 16, "0", AT(cli.kv_block_tok), REPLAY, "least tokens in a unit of that memory (default: chosen by the manager)"},
    {"prefix-pass", 0, "N", FXI_OPT_INT, -1, 1 << 20, "0", AT(cli.prefix_pass), REPLAY, "how often requests of the same client with more cached tokens may overtake a waiting one; -1: never (default: 16)"},
};
// clang-format on

static const fxi_opt_section lab_sections[] = {{"replay", REPLAY}, {"serve", FXI_CMD_LAB}};

enum { N_LAB_ROW = sizeof lab_rows / sizeof *lab_rows };

static const char replay_note[] =
    "TRACE: CSV with a line of column names, or JSONL. Columns: prompt_tokens, output_tokens;\n"
    "arrival_ms and hash_ids if it has them (a number for each 512 tokens of the prompt; equal\n"
    "numbers from the start on mean an equal prefix).\n\n"
    "The scheduler and the managers are those of 'flexinfer serve'. No model is computed and no\n"
    "memory is taken: passes and memory calls take the time that they would take on the device.\n";

static const char serve_note[] =
    "TRACE: as for 'replay'. Prompts are made of random tokens, and answers end at the length\n"
    "that the trace gives. What is too much for this machine is scaled by --shrink and --speed.\n";

static const fxi_cli_command lab_commands[] = {
    {"replay", REPLAY, 1, 1, false, "TRACE [options]",
     "run a trace of requests in virtual time, with managers of KV memory", replay_note,
     fxi_lab_replay},
    {"serve", FXI_CMD_LAB, 1, 1, true, "TRACE -m FILE [options]", "run it on a model in real time",
     serve_note, fxi_lab_serve},
    {"help", HELP, 0, 1, false, "[COMMAND]", "show the commands, or a command's options", NULL,
     NULL},
};

// The rows of flexinfer's table that its `bench` and `serve` share with commands that run a model
// here, and ours.
static fxi_opt_table gather_options(fxi_opt row[FXI_OPT_MAX_ROW])
{
    size_t n = 0;
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        if (!(fxi_cli_table.opt[i].commands & FXI_CMD_LAB)) continue;
        row[n] = fxi_cli_table.opt[i];
        row[n++].commands = FXI_CMD_LAB;
    }
    memcpy(row + n, lab_rows, sizeof lab_rows);
    return (fxi_opt_table){.opt = row,
                           .n_opt = n + N_LAB_ROW,
                           .env_prefix = fxi_cli_table.env_prefix,
                           .section = lab_sections,
                           .n_section = sizeof lab_sections / sizeof *lab_sections,
                           .renamed = fxi_cli_table.renamed,
                           .n_renamed = fxi_cli_table.n_renamed};
}

int main(int argc, char **argv)
{
    fxi_opt row[FXI_OPT_MAX_ROW];
    const fxi_opt_table table = gather_options(row);
    const fxi_cli_program program = {.name = "flexinfer-lab",
                                     .about = "traces of requests, for comparing KV managers",
                                     .command = lab_commands,
                                     .n_command = sizeof lab_commands / sizeof *lab_commands,
                                     .options = &table};
    fxi_lab_options o = {.cli = fxi_cli_options_start()};
    return fxi_cli_main(&program, argc, argv, &o.cli);
}
