// commands.c - the commands of flexinfer, as help and the manual page show them.
#include "cli/cli.h"

static const char bench_note[] =
    "Each batch runs with prompts of each length; rates are of all sequences together.\n"
    "Every prompt is new, so no cached prefix helps. The limit follows from:\n\n"
    "  prompt  the longer of: operations of the linear layers at the arithmetic peak (int8\n"
    "          where the kernels use it for most weights, else f32); weights read once\n"
    "  decode  the longer of, for a step: weights and KV cache read; operations at the peak\n\n"
    "Peaks and memory bandwidth are measured before and after the runs; the larger counts. Rows\n"
    "come as they are measured; CSV and JSON come at the end.\n";

static const char types_note[] =
    "Types: f32, f16, bf16; quantized: q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s,\n"
    "q4_1, q4_0, q3_k_l, q3_k_m, q3_k_s. Those that end in _s, _m and _l are mixtures: tensors\n"
    "whose errors cost most get more bits, in _l the most.\n";

static const char top_note[] =
    "URL: the server's, http://127.0.0.1:8080 if none is given; http:// can be left out.\n"
    "unix:FILE is a server at a Unix socket. For another machine, forward a port:\n"
    "ssh -L 8080:127.0.0.1:8080 HOST. A server with keys wants an admin's. The key ? explains\n"
    "the letters. NO_COLOR turns colours off.\n";

static const char names_note[] =
    "Names:\n\n"
    "  hf:ORG/REPO            of the Hugging Face hub: its GGUF file, Q4_K_M if there is one,\n"
    "                         or its folder with safetensors\n"
    "  hf:ORG/REPO:Q8_0       the GGUF file of this type\n"
    "  hf:ORG/REPO/FILE       this file\n"
    "  hf:ORG/REPO@REV        of a branch, tag or commit; :TYPE or /FILE may follow\n"
    "  https://HOST/PATH      a file from elsewhere\n\n"
    "They stand for a model wherever one is named: flexinfer serve -m hf:ORG/REPO fetches it "
    "first.\n"
    "HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they do to the "
    "hub's\n"
    "own programs, which share the files.\n";

static const char rm_note[] =
    "NAME: as 'flexinfer list' shows it. hf:ORG/REPO removes all of a repository, with @REV one\n"
    "revision of it. Files that other names need stay.\n";

static const fxi_cli_command commands[] = {
    {"serve", FXI_CMD_SERVE, 0, 0, true, "MODEL [options]",
     "answer OpenAI-compatible requests over HTTP", NULL, fxi_cmd_serve},
    {"run", FXI_CMD_RUN, 0, 1, true, "MODEL [MESSAGE] [options]",
     "answer a message, complete a text (-p), or chat in the terminal", NULL, fxi_cmd_run},
    {"tokenize", FXI_CMD_TOKENIZE, 0, 0, true, "MODEL [--decode] < TEXT",
     "text on stdin to token ids on one line, or back", NULL, fxi_cmd_tokenize},
    {"inspect", FXI_CMD_INSPECT, 1, 1, false, "MODEL",
     "show what a model is, whether it runs, and what its cache costs", NULL, fxi_cmd_inspect},
    {"convert", FXI_CMD_CONVERT, 1, 1, false, "MODEL -o FILE [--type TYPE]",
     "a Hugging Face folder to a GGUF file", types_note, fxi_cmd_convert},
    {"quantize", FXI_CMD_QUANTIZE, 3, 3, false, "MODEL FILE TYPE",
     "a model to a GGUF file of smaller numbers", types_note, fxi_cmd_quantize},
    {"bench", FXI_CMD_BENCH, 0, 0, true, "MODEL [options]",
     "measure prompt and decode speed against the machine's limits", bench_note, fxi_cmd_bench},
    {"pull", FXI_CMD_PULL, 1, 1, false, "NAME", "fetch a model by its name", names_note,
     fxi_cmd_pull},
    {"list", FXI_CMD_LIST, 0, 0, false, "", "show the models that were fetched", NULL,
     fxi_cmd_list},
    {"rm", FXI_CMD_RM, 1, 1, false, "NAME", "remove a model that was fetched", rm_note, fxi_cmd_rm},
    {"top", FXI_CMD_TOP, 0, 1, false, "[URL] [options]",
     "watch a server's requests and memory on the terminal", top_note, fxi_cmd_top},
    {"help", FXI_CMD_HELP, 0, 1, false, "[COMMAND]", "show the commands, or a command's options",
     NULL, NULL},
};

static const fxi_cli_moved moved[] = {
    {"bench", "replay", "'bench replay' is now 'flexinfer-lab replay'"},
    {"bench", "serve", "'bench serve' is now 'flexinfer-lab serve'"},
    {"bench", "figures", "'bench figures' is now 'bench/figures.py', next to flexinfer-lab"},
};

const fxi_cli_program fxi_cli_flexinfer = {
    .name = "flexinfer",
    .about = "serves language models from a KV cache in virtual memory",
    .command = commands,
    .n_command = sizeof commands / sizeof *commands,
    .options = &fxi_cli_table,
    .moved = moved,
    .n_moved = sizeof moved / sizeof *moved,
};
