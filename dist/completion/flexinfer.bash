# Made by make_completion from the tables in src/cli: change those.
_flexinfer() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words= kind=
    local command=${COMP_WORDS[1]}
    COMPREPLY=()
    # --name=value is three words here
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD == 1)); then
        words="serve run tokenize inspect convert quantize bench top help --help --version"
    else
        case ${COMP_WORDS[*]:1:2} in
        'bench replay' | 'bench serve' | 'bench figures')
            ((COMP_CWORD > 2)) && command=${COMP_WORDS[*]:1:2}
            ;;
        esac
        case $command:$prev in
        'serve':--model | 'serve':-m) kind=-f ;;
        'serve':--tokenizer) kind=-f ;;
        'serve':--tokenizer-pre) return ;;
        'serve':--chat-template) return ;;
        'serve':--pooling) return ;;
        'serve':--config) kind=-f ;;
        'serve':--host) return ;;
        'serve':--port) return ;;
        'serve':--alias) return ;;
        'serve':--max-logprobs) return ;;
        'serve':--logprobs) words="raw processed" ;;
        'serve':--sampling-order) words="temperature cuts" ;;
        'serve':--tool-parser) return ;;
        'serve':--reasoning-parser) return ;;
        'serve':--api-key-file) kind=-f ;;
        'serve':--cors) return ;;
        'serve':--allowed-host) return ;;
        'serve':--tls-cert) kind=-f ;;
        'serve':--tls-key) kind=-f ;;
        'serve':--isolate) words="address connection none" ;;
        'serve':--max-connections) return ;;
        'serve':--max-per-address) return ;;
        'serve':--header-timeout) return ;;
        'serve':--body-timeout) return ;;
        'serve':--read-timeout) return ;;
        'serve':--idle-timeout) return ;;
        'serve':--drain-timeout) return ;;
        'serve':--max-body) return ;;
        'serve':--log-format) words="text json" ;;
        'serve':--log-level) words="debug info warn error" ;;
        'serve':--otlp-endpoint) return ;;
        'serve':--device) return ;;
        'serve':--gpu-math) words="batch-invariant cpu-exact" ;;
        'serve':--threads | 'serve':-t) return ;;
        'serve':--ctx | 'serve':-c) return ;;
        'serve':--kv-memory) return ;;
        'serve':--kv) return ;;
        'serve':--kv-block) return ;;
        'serve':--kv-type) words="f16 bf16 f32 q8_0" ;;
        'serve':--cache-idle) return ;;
        'serve':--prefix-pass) return ;;
        'serve':--swap) return ;;
        'serve':--swap-dir) kind=-d ;;
        'serve':--step-tokens) return ;;
        'serve':--max-seq) return ;;
        'serve':--step-ms) return ;;
        'serve':--speculate) words="off prompt prefix auto" ;;
        'serve':--draft) kind=-f ;;
        'serve':--draft-tokens) return ;;
        'serve':--max-queue) return ;;
        'serve':--max-queue-tokens) return ;;
        'serve':--max-queue-bytes) return ;;
        'serve':--send-percent) return ;;
        'serve':--record-events) return ;;
        'serve':--workers) return ;;
        'run':--model | 'run':-m) kind=-f ;;
        'run':--tokenizer) kind=-f ;;
        'run':--tokenizer-pre) return ;;
        'run':--chat-template) return ;;
        'run':--config) kind=-f ;;
        'run':--prompt | 'run':-p) return ;;
        'run':--max-tokens | 'run':-n) return ;;
        'run':--temperature) return ;;
        'run':--top-k) return ;;
        'run':--top-p) return ;;
        'run':--min-p) return ;;
        'run':--seed) return ;;
        'run':--device) return ;;
        'run':--gpu-math) words="batch-invariant cpu-exact" ;;
        'run':--threads | 'run':-t) return ;;
        'run':--ctx | 'run':-c) return ;;
        'run':--kv-memory) return ;;
        'run':--kv) return ;;
        'run':--kv-block) return ;;
        'run':--kv-type) words="f16 bf16 f32 q8_0" ;;
        'run':--step-tokens) return ;;
        'run':--speculate) words="off prompt prefix auto" ;;
        'run':--draft) kind=-f ;;
        'run':--draft-tokens) return ;;
        'tokenize':--model | 'tokenize':-m) kind=-f ;;
        'tokenize':--tokenizer-pre) return ;;
        'tokenize':--config) kind=-f ;;
        'convert':--config) kind=-f ;;
        'convert':--output | 'convert':-o) kind=-f ;;
        'convert':--type) return ;;
        'convert':--threads | 'convert':-t) return ;;
        'quantize':--config) kind=-f ;;
        'quantize':--imatrix) kind=-f ;;
        'quantize':--threads | 'quantize':-t) return ;;
        'bench':--model | 'bench':-m) kind=-f ;;
        'bench':--tokenizer) kind=-f ;;
        'bench':--tokenizer-pre) return ;;
        'bench':--config) kind=-f ;;
        'bench':--batch) return ;;
        'bench':--prompt) return ;;
        'bench':--context) return ;;
        'bench':--gen) return ;;
        'bench':--repeat) return ;;
        'bench':--trace) kind=-f ;;
        'bench':--device) return ;;
        'bench':--gpu-math) words="batch-invariant cpu-exact" ;;
        'bench':--threads | 'bench':-t) return ;;
        'bench':--ctx | 'bench':-c) return ;;
        'bench':--kv-memory) return ;;
        'bench':--kv) return ;;
        'bench':--kv-block) return ;;
        'bench':--kv-type) words="f16 bf16 f32 q8_0" ;;
        'bench':--swap) return ;;
        'bench':--swap-dir) kind=-d ;;
        'bench':--step-tokens) return ;;
        'bench':--step-ms) return ;;
        'bench':--speculate) words="off prompt prefix auto" ;;
        'bench':--draft) kind=-f ;;
        'bench':--draft-tokens) return ;;
        'bench':--record-events) return ;;
        'bench replay':--kv) return ;;
        'bench replay':--geometry) return ;;
        'bench replay':--device) return ;;
        'bench replay':--calibration) kind=-f ;;
        'bench replay':--rate) return ;;
        'bench replay':--requests) return ;;
        'bench replay':--speed) return ;;
        'bench replay':--shrink) return ;;
        'bench replay':--choices) return ;;
        'bench replay':--beams) return ;;
        'bench replay':--prefix) return ;;
        'bench replay':--ctx | 'bench replay':-c) return ;;
        'bench replay':--kv-memory) return ;;
        'bench replay':--swap) return ;;
        'bench replay':--page) return ;;
        'bench replay':--max-seq) return ;;
        'bench replay':--step-tokens) return ;;
        'bench replay':--seed) return ;;
        'bench replay':--timeline) kind=-f ;;
        'bench replay':--sample) return ;;
        'bench replay':--kv-block) return ;;
        'bench replay':--prefix-pass) return ;;
        'bench serve':--model | 'bench serve':-m) kind=-f ;;
        'bench serve':--tokenizer) kind=-f ;;
        'bench serve':--tokenizer-pre) return ;;
        'bench serve':--config) kind=-f ;;
        'bench serve':--trace) kind=-f ;;
        'bench serve':--kv) return ;;
        'bench serve':--rate) return ;;
        'bench serve':--requests) return ;;
        'bench serve':--speed) return ;;
        'bench serve':--shrink) return ;;
        'bench serve':--choices) return ;;
        'bench serve':--beams) return ;;
        'bench serve':--prefix) return ;;
        'bench serve':--seed) return ;;
        'bench serve':--timeline) kind=-f ;;
        'bench serve':--sample) return ;;
        'bench serve':--device) return ;;
        'bench serve':--gpu-math) words="batch-invariant cpu-exact" ;;
        'bench serve':--threads | 'bench serve':-t) return ;;
        'bench serve':--ctx | 'bench serve':-c) return ;;
        'bench serve':--kv-memory) return ;;
        'bench serve':--kv-block) return ;;
        'bench serve':--kv-type) words="f16 bf16 f32 q8_0" ;;
        'bench serve':--prefix-pass) return ;;
        'bench serve':--swap) return ;;
        'bench serve':--swap-dir) kind=-d ;;
        'bench serve':--step-tokens) return ;;
        'bench serve':--max-seq) return ;;
        'bench serve':--step-ms) return ;;
        'bench serve':--speculate) words="off prompt prefix auto" ;;
        'bench serve':--draft) kind=-f ;;
        'bench serve':--draft-tokens) return ;;
        'bench serve':--record-events) return ;;
        'top':--api-key-file) kind=-f ;;
        'top':--ca-file) kind=-f ;;
        'serve':*)
            words="
                --model
                --tokenizer
                --tokenizer-pre
                --chat-template
                --pooling
                --config
                --host
                --port
                --alias
                --max-logprobs
                --logprobs
                --sampling-order
                --tool-parser
                --reasoning-parser
                --refuse-excess
                --api-key-file
                --cors
                --allowed-host
                --tls-cert
                --tls-key
                --isolate
                --allow-priority
                --open-metrics
                --max-connections
                --max-per-address
                --header-timeout
                --body-timeout
                --read-timeout
                --idle-timeout
                --drain-timeout
                --max-body
                --log-format
                --log-level
                --log-prompts
                --otlp-endpoint
                --check-config
                --device
                --gpu-math
                --threads
                --ctx
                --kv-memory
                --kv
                --kv-block
                --kv-type
                --cache-idle
                --prefix-pass
                --swap
                --swap-dir
                --step-tokens
                --max-seq
                --step-ms
                --speculate
                --draft
                --draft-tokens
                --max-queue
                --max-queue-tokens
                --max-queue-bytes
                --send-percent
                --record-events
                --workers
                --help"
            ;;
        'run':*)
            words="
                --model
                --tokenizer
                --tokenizer-pre
                --chat-template
                --config
                --prompt
                --max-tokens
                --temperature
                --top-k
                --top-p
                --min-p
                --seed
                --ignore-eos
                --device
                --gpu-math
                --threads
                --ctx
                --kv-memory
                --kv
                --kv-block
                --kv-type
                --step-tokens
                --speculate
                --draft
                --draft-tokens
                --help"
            ;;
        'tokenize':*)
            words="
                --model
                --tokenizer-pre
                --config
                --no-bos
                --decode
                --help"
            ;;
        'inspect':*)
            words="
                --help"
            kind=-f
            ;;
        'convert':*)
            words="
                --config
                --output
                --type
                --threads
                --help"
            kind=-f
            ;;
        'quantize':*)
            words="
                --config
                --imatrix
                --threads
                --help"
            kind=-f
            ;;
        'bench':*)
            words=" replay serve figures
                --model
                --tokenizer
                --tokenizer-pre
                --config
                --batch
                --prompt
                --context
                --gen
                --repeat
                --trace
                --csv
                --json
                --device
                --gpu-math
                --threads
                --ctx
                --kv-memory
                --kv
                --kv-block
                --kv-type
                --swap
                --swap-dir
                --step-tokens
                --step-ms
                --speculate
                --draft
                --draft-tokens
                --record-events
                --help"
            ;;
        'bench replay':*)
            words="
                --kv
                --geometry
                --device
                --calibration
                --rate
                --requests
                --speed
                --shrink
                --choices
                --beams
                --no-prefixes
                --prefix
                --ctx
                --kv-memory
                --swap
                --page
                --max-seq
                --step-tokens
                --seed
                --timeline
                --sample
                --csv
                --kv-block
                --prefix-pass
                --help"
            kind=-f
            ;;
        'bench serve':*)
            words="
                --model
                --tokenizer
                --tokenizer-pre
                --config
                --trace
                --kv
                --rate
                --requests
                --speed
                --shrink
                --choices
                --beams
                --no-prefixes
                --prefix
                --seed
                --timeline
                --sample
                --csv
                --device
                --gpu-math
                --threads
                --ctx
                --kv-memory
                --kv-block
                --kv-type
                --prefix-pass
                --swap
                --swap-dir
                --step-tokens
                --max-seq
                --step-ms
                --speculate
                --draft
                --draft-tokens
                --record-events
                --help"
            kind=-f
            ;;
        'bench figures':*)
            words="
                --help"
            kind=-f
            ;;
        'top':*)
            words="
                --api-key-file
                --ca-file
                --once
                --help"
            kind=-f
            ;;
        'help':*)
            words="serve run tokenize inspect convert quantize bench top help
                --help"
            ;;
        esac
    fi
    if [[ $kind && $cur != -* ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen $kind -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _flexinfer flexinfer
