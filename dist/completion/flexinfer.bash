# Completion of flexinfer in bash: `flexinfer complete WORD...` prints what may take the place of the last word.
_flexinfer() {
    local i word cur colons file
    local -a words=()
    for ((i = 1; i <= COMP_CWORD; i++)); do # bash cuts hf:ORG/REPO at its colons
        word=${COMP_WORDS[i]}
        if [[ ${#words[@]} -gt 0 && ($word == :* || ${words[-1]} == *:) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    cur=${words[-1]}
    [[ $cur == = ]] && cur= # and takes --name=value for three words
    colons=${cur%"${cur##*:}"} # of the word, which bash keeps
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        case $word in
            :files | :folders)
                ((${#COMPREPLY[@]})) || compopt -o filenames 2>/dev/null
                [[ $word == :files ]] && word=-f || word=-d
                while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen "$word" -- "$cur")
                ;;
            *) COMPREPLY+=("${word%=}") ;;
        esac
    done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$colons"}")
}
complete -F _flexinfer flexinfer flexinfer-lab
