# Completion of flexinfer in fish: `flexinfer complete WORD...` prints what may take the place of the last word.
function __flexinfer_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $current
            case :folders
                __fish_complete_directories $current
            case '*'
                string replace --regex '=(\t|$)' '$1' -- $line
        end
    end
end
complete -c flexinfer -f -a '(__flexinfer_complete)'
complete -c flexinfer-lab -f -a '(__flexinfer_complete)'
