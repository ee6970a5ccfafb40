// fake_server.c - the server over a fake engine as a program, for tests with clients in Python: its
// model writes what the last message orders (fake_engine.h). It prints its port and serves until
// its input ends.
//
//     fake_server [TOOL-PARSER [REASONING-PARSER]]
#include <stdio.h>
#include <stdlib.h>

#include "server/fake_engine.h"
#include "server/open_and_serve.h"

int main(int argc, char **argv)
{
    fx_error err;
    fxi_server *srv;
    fx_engine *eng = fake_engine_new();
    const fxi_server_options opt = {.model_id = "m",
                                    .tool_parser = argc > 1 ? argv[1] : "none",
                                    .reasoning_parser = argc > 2 ? argv[2] : "none"};
    if (open_and_serve(eng, &opt, &srv, &err) != FX_OK) {
        fprintf(stderr, "%s\n", err.text);
        fx_engine_close(eng);
        return 1;
    }
    printf("%d\n", fxi_server_port(srv));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    fxi_server_stop(srv);
    fx_engine_close(eng);
    return 0;
}
