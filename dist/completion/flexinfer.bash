# Completion of flexinfer in bash: `flexinfer complete WORD...` prints what may take the place of the last word.
_flexinfer() {
    local cur=${COMP_WORDS[COMP_CWORD]} word
    [[ $cur == = ]] && cur= # bash takes --name=value for three words
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        case $word in
            :files | :folders)
                compopt -o filenames 2>/dev/null
                [[ $word == :files ]] && word=-f || word=-d
                mapfile -t COMPREPLY < <(compgen "$word" -- "$cur")
                ;;
            *) COMPREPLY+=("${word%=}") ;;
        esac
    done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _flexinfer flexinfer flexinfer-lab
